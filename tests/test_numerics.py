"""The yardsticks themselves: right gradients pass, wrong ones do not, and nothing is left changed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cs_transformers.attention import MultiHeadAttention
from cs_transformers.numerics import gradient_check, relative_error


def noise(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


class Faulty(torch.autograd.Function):
    """A square whose gradient is wrong by a factor."""

    factor = 2.0

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return Faulty.factor * 2 * x * grad


# ---------------------------------------------------------------- relative error


def test_the_relative_error_is_stanfords() -> None:
    x, y = np.array([[1.0, -2.0], [0.0, 3e-9]]), np.array([[1.5, 2.0], [0.0, 0.0]])
    expected = np.max(np.abs(x - y) / np.maximum(1e-8, np.abs(x) + np.abs(y)))
    assert relative_error(x, y) == expected == 1.0
    assert relative_error(x[0, :1], y[0, :1]) == pytest.approx(0.2)
    assert relative_error(x[1], y[1]) == pytest.approx(0.3)


def test_tensors_arrays_lists_and_numbers_are_compared_alike() -> None:
    x = torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True)
    for y in (np.array([1.0, 3.0]), [1, 3], torch.tensor([1, 3])):
        assert relative_error(x, y) == pytest.approx(0.2)
    assert relative_error(1, 1.0) == 0.0


def test_a_nan_is_not_taken_for_agreement() -> None:
    assert np.isnan(relative_error([1.0, float("nan")], [1.0, 1.0]))


def test_equal_infinities_are_equal_and_others_are_not() -> None:
    assert relative_error([math.inf, -math.inf, 1.0], [math.inf, -math.inf, 1.0]) == 0.0
    assert not relative_error([math.inf], [-math.inf]) < 1e-6
    assert not relative_error([math.inf], [1.0]) < 1e-6


@pytest.mark.parametrize("block", [torch.no_grad, torch.inference_mode])
def test_a_right_gradient_passes_wherever_it_is_checked(block: type) -> None:
    with block():
        x = torch.linspace(-1, 1, 5)
        assert gradient_check(torch.sin, x) < 1e-6
        assert gradient_check(lambda x: x.detach() * x, x) > 0.1  # and a wrong one does not


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(ValueError, match=r"relative_error: y must be of the shape of x, \(2,\), got \(1, 2\)"):
        relative_error([1, 2], [[1, 2]])
    with pytest.raises(ValueError, match="relative_error: x must be not empty"):
        relative_error([], [])


def test_torchs_default_device_makes_no_difference() -> None:
    x, layer = noise(3, 40), nn.Linear(40, 2)
    with torch.device("meta"):  # nothing that lands there has numbers
        assert relative_error([1.0, 2.0], [1.0, 2.2]) == pytest.approx(0.2 / 4.2)
        assert relative_error(x, x) == 0.0
        assert gradient_check(layer, x, max_entries=10) < 1e-6


# ---------------------------------------------------------------- gradient check


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
def test_a_right_gradient_passes_whatever_the_inputs_dtype(dtype: torch.dtype) -> None:
    x = noise(3, 64, dtype=dtype)
    assert gradient_check(lambda x: (x.exp() @ x.T).tanh(), x) < 1e-6


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.001, -1.0])
def test_a_wrong_gradient_is_caught(factor: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Faulty, "factor", 1.0)
    assert gradient_check(Faulty.apply, noise(4, 5)) < 1e-6
    monkeypatch.setattr(Faulty, "factor", factor)
    assert gradient_check(Faulty.apply, noise(4, 5)) > 1e-4


@pytest.mark.parametrize("wrong", [lambda g, x: 2 * g * x, lambda g, _: g, lambda g, _: 0 * g])
def test_a_wrong_gradient_by_hand_is_caught(wrong: Callable[[Tensor, Tensor], Tensor]) -> None:
    assert gradient_check(lambda x: x.square() / 2, noise(4, 5), gradients=lambda g, x: g * x) < 1e-6
    assert gradient_check(lambda x: x.square() / 2, noise(4, 5), gradients=wrong) > 0.1


def test_a_result_cut_off_from_its_input_is_caught() -> None:
    assert gradient_check(lambda x: x.detach() * 2, noise(3)) == 1.0
    assert gradient_check(lambda x, y: x + y.detach(), [noise(3), noise(3)]) == pytest.approx(1.0)


def test_a_gradient_of_exactly_zero_passes() -> None:
    assert gradient_check(lambda x, y: x * 3 + 0 * y, [noise(3), noise(3)]) < 1e-9
    assert gradient_check(lambda x: x * 0, noise(3)) == 0.0


def test_a_single_number_is_moved_too() -> None:
    scale = torch.tensor(0.3)
    assert gradient_check(lambda s, x: s.sin() * x, [scale, noise(3)]) < 1e-6
    assert gradient_check(Faulty.apply, scale) > 0.1

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(0.7))

        def forward(self, x: Tensor) -> Tensor:
            return self.scale.exp() * x

    assert gradient_check(Scaled(), noise(4)) < 1e-6


def test_parameters_of_a_module_are_checked_too() -> None:
    class Wrong(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(noise(5))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight.detach()

    assert gradient_check(Wrong(), noise(4, 5)) > 0.1
    assert gradient_check(nn.Linear(5, 3), noise(4, 5)) < 1e-6


def test_every_tensor_of_the_output_counts() -> None:
    assert gradient_check(lambda x: (x * 2, x.detach() * 3), noise(3)) > 0.1
    assert gradient_check(lambda x: (x * 2, x.sin(), "text"), noise(3)) < 1e-6


def test_other_inputs_pass_through_unchanged() -> None:
    mask, index = torch.tensor([True, False, True]), torch.tensor([2, 0])
    assert gradient_check(lambda x, m, i, s: x.masked_fill(~m, 0.0)[i] * s, [noise(3), mask, index, 2]) < 1e-6


def test_one_tensor_given_twice_counts_as_two_inputs() -> None:
    x = noise(3, dtype=torch.float64)
    assert gradient_check(lambda a, b: a * b.sin(), [x, x]) < 1e-6


def test_large_inputs_are_sampled_and_the_sample_is_always_the_same() -> None:
    calls = []

    def counted(x: Tensor) -> Tensor:
        calls.append(1)
        return x.sin()

    first = gradient_check(counted, noise(50, 50), max_entries=10)
    assert len(calls) == 2 + 2 * 10
    assert gradient_check(counted, noise(50, 50), max_entries=10) == first
    columns = torch.arange(50) % 5 != 0  # a wrong column in five is found although few entries are tried
    assert gradient_check(lambda x: x * 1.0, torch.zeros(40, 50), gradients=lambda g, _: g * columns) > 0.1


def test_a_module_is_copied_checked_in_eval_mode_and_left_as_it_was() -> None:
    attend = MultiHeadAttention(6, 2, dropout=0.5).train()
    before = {name: value.clone() for name, value in attend.state_dict().items()}
    x = noise(2, 3, 6)
    kept, rng = x.clone(), torch.random.get_rng_state()
    assert gradient_check(attend, [x, x, x]) < 1e-6
    assert attend.training
    assert attend.attn_drop.training
    assert all(torch.equal(value, before[name]) for name, value in attend.state_dict().items())
    assert attend.query.weight.dtype == torch.float32
    assert torch.equal(x, kept)
    assert (x.grad, attend.query.weight.grad) == (None, None)
    assert torch.equal(torch.random.get_rng_state(), rng)


def test_active_dropout_is_refused_and_the_generator_restored() -> None:
    attend = MultiHeadAttention(6, 2, dropout=0.5).double().train()
    rng = torch.random.get_rng_state()
    with pytest.raises(ValueError, match=r"two different answers .*; switch dropout off with \.eval\(\)"):
        gradient_check(lambda x: attend(x, x, x), noise(2, 3, 6))
    assert torch.equal(torch.random.get_rng_state(), rng)
    assert attend.training
    attend.eval()
    assert gradient_check(lambda x: attend(x, x, x), noise(2, 3, 6)) < 1e-6


def test_a_nan_does_not_pass() -> None:
    assert not gradient_check(lambda x: x.sqrt(), -torch.ones(3)) < 1e-6


def wrong_calls() -> Iterator[tuple[str, Callable[[], object], type[Exception], str]]:
    x = noise(3)
    yield (
        "ints",
        lambda: gradient_check(torch.sin, x.long()),
        TypeError,
        r"inputs must be tensors of a floating dtype, got",
    )
    yield (
        "empty",
        lambda: gradient_check(torch.sin, x[:0]),
        TypeError,
        "pass at least one float tensor that is not empty",
    )
    yield "text", lambda: gradient_check(lambda _: "text", x), TypeError, "one that returns a floating tensor, got str"
    shapes = r"a function that returns shapes \[\(3,\)\], got \[\(2,\)\]; return one gradient per floating input"
    yield "shapes", lambda: gradient_check(torch.sin, x, gradients=lambda g, _: g[:2]), ValueError, shapes
    yield (
        "entries",
        lambda: gradient_check(torch.sin, x, max_entries=0),
        ValueError,
        "max_entries must be a positive whole",
    )
    yield "no step", lambda: gradient_check(torch.sin, x, step=0.0), ValueError, "step must be above 0, got 0.0"
    yield "a number", lambda: gradient_check(torch.sin, 0.5), TypeError, "inputs must be a tensor or a list, got float"
    yield "nothing", lambda: relative_error(None, x), TypeError, "x must be real numbers of one shape, got NoneType"
    yield "complex", lambda: relative_error(x, x * 1j), TypeError, "y must be real numbers of one shape, got torch.comp"
    yield (
        "float32",
        lambda: gradient_check(MultiHeadAttention(6, 2).eval().forward, [noise(2, 3, 6)] * 3),
        TypeError,
        "the module with .to",
    )


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_call_is_refused_with_what_was_expected_and_what_came(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()
