"""Error messages in four parts: who speaks, what was expected, what came, what to do about it.

Every function here runs before any computation and leaves its arguments as they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

FARTHEST_PIXEL = 4.0  # pixels from 0 to 1 with the strongest noise, and normalised ones, stay within


def explain(who: str, name: str, expected: str, got: object, fix: str) -> str:
    """Compose one message from its four parts.

    Args:
        who: The class or function the caller used.
        name: The argument that is wrong.
        expected: What the argument must be, to follow the words "must be".
        got: What came instead.
        fix: What the caller can do, as an imperative without a full stop.

    Returns:
        The message.

    Example:
        >>> explain("PositionalEncoding", "embed_dim", "a positive even number", 5, "use 4 or 6")
        'PositionalEncoding: embed_dim must be a positive even number, got 5; use 4 or 6.'
    """
    return f"{who}: {name} must be {expected}, got {got}; {fix}."


def check_count(who: str, name: str, value: Any, *, minimum: int = 1) -> None:
    """Require a whole number that is large enough.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        value: What the caller gave.
        minimum: Smallest value allowed.

    Raises:
        TypeError: If ``value`` is not a whole number (True and False are not).
        ValueError: If ``value`` is below ``minimum``.

    Example:
        >>> check_count("MultiHeadAttention", "num_heads", 2)
    """
    kind = "a positive whole number" if minimum == 1 else f"a whole number of at least {minimum}"
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(explain(who, name, kind, f"{value!r} ({type(value).__name__})", "pass an int"))
    if value < minimum:
        raise ValueError(explain(who, name, kind, int(value), f"pass {minimum} or more"))


def check_probability(who: str, name: str, value: Any) -> None:
    """Require a number from 0 to 1.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        value: What the caller gave.

    Raises:
        TypeError: If ``value`` is not a number (an ``nn.Dropout`` module is not one).
        ValueError: If ``value`` is outside [0, 1].

    Example:
        >>> check_probability("MultiHeadAttention", "dropout", 0.1)
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        got = f"{value!r} ({type(value).__name__})"
        raise TypeError(explain(who, name, "a probability from 0 to 1", got, "pass a float, 0.0 for no dropout"))
    if not 0.0 <= value <= 1.0:
        raise ValueError(explain(who, name, "a probability from 0 to 1", value, "pass 0.0 for no dropout"))


def check_choice(who: str, name: str, value: Any, choices: Sequence[Any]) -> None:
    """Require one of a few named choices.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        value: What the caller gave.
        choices: The values allowed.

    Raises:
        ValueError: If ``value`` is none of ``choices``.

    Example:
        >>> check_choice("FeedForwardNetwork", "activation", "gelu", ("gelu", "relu"))
    """
    if not any(value is choice or (type(value) is type(choice) and value == choice) for choice in choices):
        expected = "one of " + ", ".join(repr(choice) for choice in choices)
        raise ValueError(explain(who, name, expected, repr(value), "choose one of these"))


def check_tensor(who: str, name: str, value: Any, *, floating: bool = True) -> None:
    """Require a torch tensor, of a floating dtype unless told otherwise.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        value: What the caller gave.
        floating: Whether the dtype must be a floating one.

    Raises:
        TypeError: If ``value`` is no tensor, or not of a floating dtype.

    Example:
        >>> check_tensor("attention_scores", "query", torch.zeros(2, 3))
    """
    if not isinstance(value, Tensor):
        fix = "convert it with torch.as_tensor"
        raise TypeError(explain(who, name, "a torch.Tensor", type(value).__name__, fix))
    if floating and not value.is_floating_point():
        fix = "convert it with .float(); token ids go through an embedding first"
        raise TypeError(explain(who, name, "a tensor of a floating dtype", value.dtype, fix))


def check_shape(
    who: str, name: str, tensor: Tensor, fix: str = "check the order of the axes", **sizes: int | None
) -> None:
    """Require a shape, written with the letters of the course.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        tensor: The tensor whose shape counts.
        fix: What the caller can do.
        **sizes: One ``letter=size`` per axis, in order; None for any size.

    Raises:
        ValueError: If the number of axes or one of the sizes differs.

    Example:
        >>> check_shape("demo", "key", torch.zeros(3, 5, 12), N=3, S=None, D=12)
        >>> check_shape("demo", "key", torch.zeros(3, 5, 10), N=3, S=None, D=12)
        Traceback (most recent call last):
        ...
        ValueError: demo: key must be of shape (N, S, D) = (3, any, 12), got (3, 5, 10); check the order of the axes.
    """
    same_rank = tensor.dim() == len(sizes)
    if same_rank and all(size in (None, actual) for size, actual in zip(sizes.values(), tensor.shape, strict=True)):
        return
    letters = ", ".join(sizes)
    wanted = ", ".join("any" if size is None else str(size) for size in sizes.values())
    raise ValueError(explain(who, name, f"of shape ({letters}) = ({wanted})", tuple(tensor.shape), fix))


def check_ids(who: str, name: str, ids: Any, vocab_size: int) -> Tensor:
    """Require word ids that a vocabulary has.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        ids: Whole numbers of any shape; their values are not looked at on the meta device, which has none.
        vocab_size: Number of words V.

    Returns:
        The ids as int64.

    Raises:
        TypeError: If they are no integer tensor.
        ValueError: If one is below 0 or not below V.

    Example:
        >>> check_ids("CaptioningTransformer", "captions", torch.tensor([0, 3]), vocab_size=4)
        tensor([0, 3])
    """
    check_tensor(who, name, ids, floating=False)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        fix = "pass word ids, int64 as they come from the vocabulary"
        raise TypeError(explain(who, name, "whole numbers", ids.dtype, fix))
    ids = ids.long()
    if ids.device.type != "meta":
        outside = (ids < 0) | (ids >= vocab_size)
        if bool(outside.any()):
            fix = "use the vocabulary that the model was built with"
            expected = f"ids of the vocabulary of {vocab_size} words, 0 to {vocab_size - 1}"
            raise ValueError(explain(who, name, expected, f"the id {ids[outside][0].item()}", fix))
    return ids


def check_same_kind(who: str, like: str, **tensors: Tensor) -> None:
    """Require tensors of one dtype on one device.

    Args:
        who: The class or function the caller used.
        like: Name of the tensor that sets dtype and device.
        **tensors: The tensors to compare, by name, that one among them.

    Raises:
        TypeError: If a dtype differs (torch.autocast may mix them).
        ValueError: If a device differs.

    Example:
        >>> check_same_kind("attention_scores", "query", query=torch.zeros(2), key=torch.ones(3))
    """
    reference = tensors[like]
    for name, other in tensors.items():
        if other.dtype != reference.dtype and not autocast_is_on(reference):
            fix = f"convert one of them: {name}.to({reference.dtype})"
            raise TypeError(explain(who, name, f"{reference.dtype} like {like}", other.dtype, fix))
        if other.device != reference.device:
            fix = f"move it: {name}.to({str(reference.device)!r})"
            raise ValueError(explain(who, name, f"on {reference.device} like {like}", other.device, fix))


def check_pixels(who: str, name: str, images: Tensor) -> None:
    """Refuse grey levels of 0 to 255 that come as floats: a model would take them for blinding light and say nothing.

    Noise, normalisation and interpolation carry pixels a few units beyond 0 and 1; that passes.

    Args:
        who: The class or function the caller used.
        name: The argument's name.
        images: Floating images of any shape; their values are not looked at on the meta device, which has none.

    Raises:
        ValueError: If a value lies further from 0 than ``FARTHEST_PIXEL``.

    Example:
        >>> check_pixels("demo", "images", torch.tensor([-2.1, 2.6]))
    """
    if images.device.type == "meta" or not bool((images.detach().abs() > FARTHEST_PIXEL).any()):
        return
    got = f"values from {images.min().item():.4g} to {images.max().item():.4g}"
    raise ValueError(explain(who, name, "of pixels from 0 to 1", got, "divide grey levels by 255"))


def check_like_weights(who: str, layer: nn.Module, **tensors: Tensor) -> None:
    """Require inputs of the dtype and on the device of a layer's weights.

    Args:
        who: The class or function the caller used.
        layer: The layer that will read them; one without weights, put in its place, takes anything.
        **tensors: The inputs, by name.

    Raises:
        TypeError: If a dtype differs. Under autocast, torch picks the dtypes itself: nothing is raised.
        ValueError: If a device differs.

    Example:
        >>> check_like_weights("FeedForwardNetwork", nn.Linear(2, 2), x=torch.zeros(1, 2))
    """
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor):
        return
    for name, tensor in tensors.items():
        if tensor.dtype != weight.dtype and not autocast_is_on(weight):
            fix = f"convert the input with .to({weight.dtype}) or the module with .to({tensor.dtype})"
            raise TypeError(explain(who, name, f"{weight.dtype} like weights", tensor.dtype, fix))
    check_same_kind(who, "weights", weights=weight, **tensors)


def autocast_is_on(tensor: Tensor) -> bool:
    """Say whether torch picks dtypes itself on this tensor's device.

    Args:
        tensor: Any tensor.

    Returns:
        True inside ``torch.autocast`` of the tensor's device type.

    Example:
        >>> autocast_is_on(torch.zeros(1))
        False
    """
    kind = tensor.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
