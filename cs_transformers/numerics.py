"""Two yardsticks: how far two results are apart, and whether a gradient is right."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from .errors import check_count, explain

Gradients = Callable[..., Sequence[Tensor]]


def relative_error(x: Any, y: Any) -> float:
    """Largest difference, each measured by the size of the two numbers: max |x - y| / max(1e-8, |x| + |y|).

    Without a factor 2, so it is half the usual symmetric error; this is the measure of Stanford's sheet.

    Args:
        x: Numbers of any shape: tensor, array, list or number.
        y: Numbers of the same shape.

    Returns:
        The error; 0 for equal inputs, at most 1, NaN where a number is NaN.

    Raises:
        TypeError: If one of them holds no real numbers.
        ValueError: If the shapes differ or there is nothing to compare.

    Example:
        >>> round(relative_error([1.0, 2.0], [1.0, 2.2]), 4)
        0.0476
    """
    first, second = _as_double("x", x), _as_double("y", y)
    if first.shape != second.shape:
        expected, got = f"of the shape of x, {tuple(first.shape)}", tuple(second.shape)
        raise ValueError(explain("relative_error", "y", expected, got, "compare results of the same shape"))
    if first.numel() == 0:
        raise ValueError(explain("relative_error", "x", "not empty", tuple(first.shape), "compare at least one number"))
    error = (first - second).abs() / (first.abs() + second.abs()).clamp(min=1e-8)
    return error.masked_fill(first == second, 0.0).max().item()  # two infinities too are equal


def gradient_check(
    function: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    *,
    gradients: Gradients | None = None,
    step: float = 1e-5,
    max_entries: int = 256,
) -> float:
    """Move each number a little both ways and compare the slope of the output with the claimed gradient.

    (f(x + h) - f(x - h)) / 2h against autograd, or against ``gradients``. All is computed in float64 on copies,
    whatever the dtype of the inputs: in float32 the difference would drown in rounding. A module is copied,
    converted and put into eval mode, its parameters are checked too, and the original stays as it is.

    Args:
        function: A module or function of the inputs that returns a tensor, or a tuple whose tensors all count.
        inputs: One tensor or several arguments; those that are not floating tensors pass through unchanged.
        gradients: Computes ``(grad_output, *inputs) -> gradients of the floating inputs`` by other means than
            autograd, ``attention_backward`` say.
        step: The distance h.
        max_entries: Numbers tried per tensor; beyond that a fixed random choice.

    Returns:
        The largest error over all entries, divided by the largest gradient (so a gradient that is exactly zero,
        as that of a key bias, does no harm). A right gradient stays below 1e-6.

    Raises:
        TypeError: If no input is a floating tensor, or the function returns no floating tensor.
        ValueError: If ``step`` is not positive, the function answers the same inputs differently, as with active
            dropout, or ``gradients`` returns the wrong shapes.

    Example:
        >>> gradient_check(lambda x: x.sin(), torch.tensor([0.3, 1.2])) < 1e-6
        True
    """
    check_count("gradient_check", "max_entries", max_entries)
    if not step > 0:
        raise ValueError(explain("gradient_check", "step", "above 0", step, "leave out step, or pass 1e-5"))
    if not isinstance(inputs, (Tensor, list, tuple)):
        fix = "wrap a number with torch.tensor"
        raise TypeError(explain("gradient_check", "inputs", "a tensor or a list", type(inputs).__name__, fix))
    with torch.inference_mode(False), torch.enable_grad():  # whatever block the caller stands in
        return _largest_error(function, inputs, gradients, step, max_entries)


def _largest_error(
    function: Callable[..., Any],
    inputs: Tensor | Sequence[Any],
    gradients: Gradients | None,
    step: float,
    max_entries: int,
) -> float:
    arguments = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    arguments = [_leaf(argument) if _is_floating(argument) else argument for argument in arguments]
    if isinstance(function, nn.Module):
        function = copy.deepcopy(function).double().eval()
    watched = [argument for argument in arguments if _is_floating(argument)]
    if sum(argument.numel() for argument in watched) == 0:
        got = [type(argument).__name__ for argument in arguments]
        fix = "pass at least one float tensor that is not empty"
        raise TypeError(explain("gradient_check", "inputs", "tensors of a floating dtype", got, fix))
    outputs = _repeatable_outputs(function, arguments)
    weights = [_fixed_noise(output, seed) for seed, output in enumerate(outputs)]
    if gradients is not None:
        claimed = _claimed(gradients, weights, arguments, watched)
    else:
        if isinstance(function, nn.Module):
            watched += [parameter for parameter in function.parameters() if parameter.requires_grad]
        total = _weighted_sum(outputs, weights)
        connected = total.requires_grad  # a detached result has no gradient at all
        claimed = list(torch.autograd.grad(total, watched, allow_unused=True)) if connected else [None] * len(watched)

    @torch.no_grad()
    def loss() -> Tensor:
        return _weighted_sum(_tensors(function(*arguments)), weights)

    pairs = [
        _slopes(loss, tensor, gradient, step, max_entries) for tensor, gradient in zip(watched, claimed, strict=True)
    ]
    numeric, analytic = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    scale = max(numeric.abs().max().item(), analytic.abs().max().item(), 1e-30)
    return (numeric - analytic).abs().max().item() / scale


def _slopes(
    loss: Callable[[], Tensor], tensor: Tensor, gradient: Tensor | None, step: float, max_entries: int
) -> tuple[Tensor, Tensor]:
    entries = torch.arange(tensor.numel(), device="cpu")  # whatever torch's default device is
    if tensor.numel() > max_entries:
        entries = torch.randperm(tensor.numel(), generator=torch.Generator().manual_seed(0), device="cpu")
        entries = entries[:max_entries]
    numbers = tensor.detach()[None]  # shares its memory with the tensor the function sees; a scalar has no index
    numeric = torch.zeros(len(entries), dtype=torch.float64, device="cpu")
    for row, place in enumerate(zip(*torch.unravel_index(entries, numbers.shape), strict=True)):
        before = numbers[place].item()
        numbers[place] = before + step
        above = loss()
        numbers[place] = before - step
        below = loss()
        numbers[place] = before
        numeric[row] = (above - below) / (2 * step)
    gradient = torch.zeros_like(numbers) if gradient is None else gradient.detach()
    return numeric, gradient.to("cpu", torch.float64).reshape(-1)[entries]


def _repeatable_outputs(function: Callable[..., Any], arguments: list[Any]) -> list[Tensor]:
    devices = sorted(
        {argument.device.index or 0 for argument in arguments if isinstance(argument, Tensor) and argument.is_cuda}
    )
    with torch.random.fork_rng(devices=devices):
        outputs, again = _tensors(function(*arguments)), _tensors(function(*arguments))
    if not all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(outputs, again, strict=True)):
        expected, got = "a function of its inputs alone", "two different answers for the same inputs"
        fix = "switch dropout off with .eval() before you check"
        raise ValueError(explain("gradient_check", "function", expected, got, fix))
    return outputs


def _claimed(gradients: Gradients, weights: list[Tensor], arguments: list[Any], watched: list[Tensor]) -> list[Tensor]:
    result = gradients(*weights, *arguments)
    claimed = [result] if isinstance(result, Tensor) else list(result)
    shapes, wanted = [tuple(g.shape) for g in claimed], [tuple(x.shape) for x in watched]
    if shapes != wanted:
        fix = "return one gradient per floating input, in order"
        raise ValueError(
            explain("gradient_check", "gradients", f"a function that returns shapes {wanted}", shapes, fix)
        )
    return claimed


def _tensors(output: Any) -> list[Tensor]:
    items = output if isinstance(output, (tuple, list)) else [output]
    tensors = [item for item in items if _is_floating(item)]
    if not tensors:
        got = type(output).__name__
        fix = "return the tensor whose gradient you want"
        raise TypeError(explain("gradient_check", "function", "one that returns a floating tensor", got, fix))
    return tensors


def _weighted_sum(outputs: list[Tensor], weights: list[Tensor]) -> Tensor:
    return sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))


def _fixed_noise(like: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(like.shape, generator=generator, dtype=torch.float64, device="cpu")
    return noise.to(like.device)


def _is_floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().to(torch.float64, copy=True).contiguous().requires_grad_()


def _as_double(name: str, value: Any) -> Tensor:
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(value, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        tensor = None
    if tensor is None or tensor.is_complex():
        got = type(value).__name__ if tensor is None else tensor.dtype
        fix = "compare real and imaginary parts by themselves" if tensor is not None else "pass tensors or arrays"
        raise TypeError(explain("relative_error", name, "real numbers of one shape", got, fix))
    return tensor.detach().to("cpu", torch.float64)
