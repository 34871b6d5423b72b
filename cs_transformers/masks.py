"""Masks in one form: a bool tensor, True where a query may look at a key.

Letters: N batch, T target (query) length, S source (key) length, H heads.
Callers may hand in bool, int or float 0/1, as (T, S), (N, T, S), (N, 1, T, S), (N, H, T, S) or (N, 1, 1, S).
torch's own modules differ: ``nn.MultiheadAttention`` blocks where its mask is True and adds a float mask to the
scores, while ``F.scaled_dot_product_attention`` reads bool as this course does.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .errors import check_tensor, explain

_CONVENTION = "nonzero or True where a query may attend, 0 or False where it is blocked"


def to_bool(mask: Tensor, *, who: str, name: str = "mask") -> Tensor:
    """Turn a 0/1 mask of any dtype into a bool one; refuse a mask that is meant to be added to the scores.

    Values are not looked at on the meta device, which has none.

    Args:
        mask: Any shape; nonzero or True = may attend.
        who: The class or function the caller used, for the message.
        name: The argument's name, for the message.

    Returns:
        A bool tensor of the same shape.

    Raises:
        TypeError: If ``mask`` is no tensor or complex.
        ValueError: If an entry is negative, infinite or NaN, or a float other than 0 and 1.

    Example:
        >>> to_bool(torch.tensor([1, 0]), who="demo")
        tensor([ True, False])
    """
    check_tensor(who, name, mask, floating=False)
    if mask.dtype == torch.bool:
        return mask
    if mask.is_complex():
        raise TypeError(explain(who, name, "bool, int or float 0/1", mask.dtype, f"use {_CONVENTION}"))
    if mask.device.type != "meta" and mask.numel() > 0:
        wrong = (mask != 0) & (mask != 1) if mask.is_floating_point() else mask < 0
        if bool(wrong.any()):
            got = f"an entry {mask[wrong].flatten()[0].item()}"
            fix = "this looks like an additive mask: pass `additive == 0` instead"
            raise ValueError(explain(who, name, f"0/1 ({_CONVENTION})", got, fix))
    return mask != 0


def check_attention_mask(mask: Tensor, shape: tuple[int, ...], *, who: str, name: str = "mask") -> Tensor:
    """Bring an attention mask into the form in which it meets the scores.

    Args:
        mask: 0/1 of shape (T, S); or, where the scores have them, (N, T, S), (N, 1, T, S), (N, H, T, S) or
            (N, 1, 1, S). A batch or query axis of 1 stands for all. (N, T, S) is never one mask per head.
        shape: Shape of the scores, (T, S), (N, T, S) or (N, H, T, S).
        who: The class or function the caller used, for the message.
        name: The argument's name, for the message.

    Returns:
        A bool tensor with as many axes as the scores, broadcastable to them.

    Raises:
        TypeError: If ``mask`` is no tensor.
        ValueError: If the shape fits none of the forms, or the mask is additive.

    Example:
        >>> check_attention_mask(torch.ones(3, 5), (2, 4, 3, 5), who="demo").shape
        torch.Size([1, 1, 3, 5])
    """
    check_tensor(who, name, mask, floating=False)
    *leading, targets, sources = shape
    fits = mask.shape[-1:] == (sources,) and 2 <= mask.dim() <= len(shape)
    if fits and mask.dim() == 2:
        fits = mask.shape[0] == targets
    elif fits:
        wanted = (*leading, targets) if mask.dim() == 4 else (leading[0], targets)
        fits = all(size in (1, full) for size, full in zip(mask.shape[:-1], wanted, strict=True))
    if not fits:
        raise ValueError(_shape_message(mask, shape, who, name))
    mask = to_bool(mask, who=who, name=name)
    if mask.dim() == 2:
        return mask.view(*[1] * len(leading), *mask.shape)  # (1, 1, T, S)
    return mask.unsqueeze(1) if mask.dim() == 3 and len(shape) == 4 else mask  # (N, H or 1, T or 1, S)


def check_key_mask(key_mask: Tensor, batch: int, sources: int, *, who: str, name: str = "key_mask") -> Tensor:
    """Bring a padding mask into bool form.

    Args:
        key_mask: (N, S), nonzero or True = a real token. torch's ``key_padding_mask`` means the opposite.
        batch: Batch size N.
        sources: Number of keys S, those of a cache included.
        who: The class or function the caller used, for the message.
        name: The argument's name, for the message.

    Returns:
        A bool tensor (N, S).

    Raises:
        TypeError: If ``key_mask`` is no tensor.
        ValueError: If the shape differs, or the mask is additive.

    Example:
        >>> check_key_mask(torch.tensor([[1, 1, 0]]), 1, 3, who="demo")
        tensor([[ True,  True, False]])
    """
    check_tensor(who, name, key_mask, floating=False)
    if key_mask.shape != (batch, sources):
        expected = f"of shape (N, S) = ({batch}, {sources})"
        fix = "give one row per sequence, True for a real token and False for padding"
        raise ValueError(explain(who, name, expected, tuple(key_mask.shape), fix))
    return to_bool(key_mask, who=who, name=name)


def check_masks(who: str, shape: tuple[int, int, int, int], **masks: Tensor | None) -> None:
    """Look at all masks of a call before anything is computed.

    Args:
        who: The class or function the caller used, for the message.
        shape: Shape of the scores (N, H, T, S).
        **masks: By name; one whose name ends in ``key_mask`` is (N, S), the others have the forms of
            ``check_attention_mask``. None is skipped.

    Raises:
        TypeError: If a mask is no tensor.
        ValueError: If a mask does not fit, or is additive.

    Example:
        >>> check_masks("demo", (1, 2, 4, 3), src_mask=torch.ones(4, 3), src_key_mask=torch.ones(1, 3))
    """
    for name, mask in masks.items():
        if mask is None:
            continue
        if name.endswith("key_mask"):
            check_key_mask(mask, shape[0], shape[3], who=who, name=name)
        else:
            check_attention_mask(mask, shape, who=who, name=name)


def combine_masks(
    attn_mask: Tensor | None,
    key_mask: Tensor | None,
    shape: tuple[int, int, int, int],
    *,
    device: torch.device,
    who: str,
) -> Tensor | None:
    """Join an attention mask and a padding mask: a key is seen only where both allow it.

    Args:
        attn_mask: 0/1 in any of the forms of ``check_attention_mask``, or None.
        key_mask: 0/1 of shape (N, S), True = a real token, or None.
        shape: Shape of the scores (N, H, T, S).
        device: Where the scores are.
        who: The class or function the caller used, for the message.

    Returns:
        A bool tensor broadcastable to (N, H, T, S), or None where everything may be attended.

    Raises:
        TypeError: If a mask is no tensor.
        ValueError: If a mask does not fit, or is additive.

    Example:
        >>> padding = torch.tensor([[1, 1, 0]])
        >>> combine_masks(None, padding, (1, 2, 4, 3), device=padding.device, who="demo").shape
        torch.Size([1, 1, 1, 3])
    """
    batch, _, _, sources = shape
    mask = None
    if attn_mask is not None:
        mask = check_attention_mask(attn_mask, shape, who=who, name="attn_mask").to(device)
    if key_mask is not None:
        real = check_key_mask(key_mask, batch, sources, who=who).to(device)[:, None, None, :]  # (N, 1, 1, S)
        mask = real if mask is None else mask & real
    return mask


def _shape_message(mask: Tensor, shape: tuple[int, ...], who: str, name: str) -> str:
    targets, sources = shape[-2:]
    forms = [f"(T, S) = ({targets}, {sources})"]
    if len(shape) > 2:
        forms.append(f"(N, T, S) = ({shape[0]}, {targets}, {sources})")
    if len(shape) > 3:
        forms += [f"(N, 1, T, S), (N, H, T, S) = {tuple(shape)}", "(N, 1, 1, S)"]
    fix = "rows are queries and columns are keys"
    if tuple(mask.shape) == (sources, targets):
        fix = "it looks transposed: rows are queries and columns are keys"
    elif len(shape) == 4 and mask.dim() == 3 and mask.shape[0] in (shape[1], shape[0] * shape[1]):
        fix = "three axes never mean one mask per head: pass (N, H, T, S) for that"
    return explain(who, name, "of shape " + " or ".join(forms), tuple(mask.shape), fix)
