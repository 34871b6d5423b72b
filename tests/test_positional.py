"""Positions against formulas written in plain numpy, loops and complex numbers."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from cs_transformers.numerics import gradient_check
from cs_transformers.positional import (
    LearnedPositionalEncoding,
    PositionalEncoding,
    PositionalEncoding2D,
    apply_rotary,
    sinusoidal_table,
)

N, T, H, K, D = 3, 4, 2, 6, 12


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def formula(length: int, width: int) -> np.ndarray:
    """The paper's table in float64."""
    table = np.zeros((length, width))
    position = np.arange(length, dtype=np.float64)
    for k in range(width // 2):
        table[:, 2 * k] = np.sin(position / 10000.0 ** (2 * k / width))
        table[:, 2 * k + 1] = np.cos(position / 10000.0 ** (2 * k / width))
    return table


# ---------------------------------------------------------------- the table


@pytest.mark.parametrize(("length", "width"), [(1, 2), (7, 6), (5000, 512)])
def test_the_table_is_the_papers_formula(length: int, width: int) -> None:
    table = sinusoidal_table(length, width)
    assert (table.dtype, table.shape) == (torch.float64, (length, width))
    np.testing.assert_allclose(table.numpy(), formula(length, width), rtol=0, atol=1e-12)


def test_some_entries_are_as_computed_by_hand() -> None:
    table = sinusoidal_table(3, 4)
    assert table[0].tolist() == [0.0, 1.0, 0.0, 1.0]
    expected = [math.sin(2), math.cos(2), math.sin(0.02), math.cos(0.02)]
    assert table[2].tolist() == pytest.approx(expected, abs=1e-15)


def test_the_dot_product_of_two_positions_depends_on_their_distance_alone() -> None:
    table = sinusoidal_table(300, 64)
    for distance in (0, 1, 17):
        products = (table[: 300 - distance] * table[distance:]).sum(-1)
        torch.testing.assert_close(products, products[:1].expand_as(products), rtol=0, atol=1e-10)


# ---------------------------------------------------------------- adding it


def test_positions_are_right_to_1e_6_and_after_double_to_1e_12() -> None:
    encode, expected = PositionalEncoding(512, 0.0), formula(5000, 512)
    assert np.abs(encode(torch.zeros(1, 5000, 512))[0].numpy() - expected).max() < 1e-6
    encode.double()
    assert np.abs(encode(torch.zeros(1, 5000, 512, dtype=torch.float64))[0].numpy() - expected).max() < 1e-12
    assert np.abs(encode.pe[0].numpy() - expected).max() < 1e-12
    back = encode.half().double()
    assert np.abs(back.pe[0].numpy() - expected).max() < 1e-12


def test_tokens_more_precise_than_the_module_get_precise_positions() -> None:
    encode = PositionalEncoding(D, 0.0)
    for _ in range(2):
        out = encode(torch.zeros(1, 4999, D, dtype=torch.float64))
        assert np.abs(out[0].numpy() - formula(4999, D)).max() < 1e-12
    assert encode.pe.dtype == torch.float32


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("converted", [False, True])
@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_output_has_the_inputs_dtype(dtype: torch.dtype, converted: bool, kind: type[nn.Module]) -> None:
    encode = kind(D).eval()
    encode = encode.to(dtype) if converted else encode
    x = noise(N, T, D).to(dtype)
    out = encode(x)
    assert out.dtype == dtype
    assert not torch.equal(out, x)
    assert nn.Linear(D, 5).to(dtype)(out).dtype == dtype


def test_the_sum_goes_through_dropout() -> None:
    class Factor(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * noise(*x.shape, seed=5)

    encode, x = PositionalEncoding(D).double(), noise(N, T, D)
    assert encode.dropout.p == 0.1
    encode.dropout = Factor()
    expected = (x + torch.from_numpy(formula(T, D))) * noise(N, T, D, seed=5)
    torch.testing.assert_close(encode(x), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_a_later_start_continues_where_the_earlier_tokens_ended(kind: type[nn.Module]) -> None:
    encode, x = kind(D, 0.0, max_len=T).double(), noise(N, T, D)
    parts = [encode(x[:, :1]), encode(x[:, 1:3], start=1), encode(x[:, 3:], start=3)]
    assert torch.equal(torch.cat(parts, 1), encode(x))
    assert encode(x[:, :0], start=T).shape == (N, 0, D)


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_every_sequence_of_the_batch_gets_the_same_positions(kind: type[nn.Module]) -> None:
    added = kind(D, 0.0)(torch.zeros(N, T, D))
    assert torch.equal(added, added[:1].expand(N, T, D))
    assert not torch.equal(added[0, 0], added[0, 1])


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_memory_layout_makes_no_difference(kind: type[nn.Module]) -> None:
    encode = kind(D, 0.0).double()
    for x in (noise(D, T, N).permute(2, 1, 0), noise(1, T, D).expand(N, T, D), noise(N, 2 * T, D)[:, ::2]):
        assert torch.equal(encode(x), encode(x.contiguous()))


def test_no_state_dict_holds_the_table_and_making_it_draws_nothing() -> None:
    before = torch.random.get_rng_state()
    encode = PositionalEncoding(D)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert encode.state_dict() == {}
    assert (encode.pe.shape, list(encode.parameters())) == ((1, 5000, D), [])


def test_the_table_survives_copying_pickling_and_an_empty_start() -> None:
    encode = PositionalEncoding(D, max_len=9).double().eval()
    expected = encode(torch.zeros(1, 9, D, dtype=torch.float64))
    with torch.device("meta"):
        hollow = PositionalEncoding(D, max_len=9)
    assert hollow.pe.device.type == "meta"
    filled = hollow.to_empty(device="cpu").double().eval()
    for other in (copy.deepcopy(encode), pickle.loads(pickle.dumps(encode)), filled):
        assert torch.equal(other(torch.zeros(1, 9, D, dtype=torch.float64)), expected)


def test_nothing_is_made_on_a_device_other_than_the_inputs() -> None:
    x = torch.zeros(N, T, D, device="meta")
    assert PositionalEncoding(D)(x).device.type == "meta"
    assert PositionalEncoding(D).to("meta")(x).device.type == "meta"
    assert LearnedPositionalEncoding(D).to("meta")(x).device.type == "meta"
    assert apply_rotary(x).device.type == "meta"
    grid = torch.zeros(N, 5, 2, 3, device="meta")
    assert PositionalEncoding2D(D)(grid, key_mask=torch.ones(N, 2, 3, device="meta")).device.type == "meta"
    encode = PositionalEncoding(D)
    encode(x)
    assert encode(torch.zeros(N, T, D)).device.type == "cpu"


@pytest.mark.parametrize("kind", [PositionalEncoding, LearnedPositionalEncoding])
def test_eval_repeats_itself_and_draws_nothing_train_does_not(kind: type[nn.Module]) -> None:
    encode, x = kind(D, 0.5).double().eval(), noise(N, T, D)
    before = torch.random.get_rng_state()
    assert torch.equal(encode(x), encode(x))
    assert torch.equal(torch.random.get_rng_state(), before)
    encode.train()
    assert not torch.equal(encode(x), encode(x))


def test_learned_positions_are_parameters_that_start_small_and_learn() -> None:
    encode = LearnedPositionalEncoding(64, max_len=500)
    assert {name: tuple(value.shape) for name, value in encode.state_dict().items()} == {"pe": (1, 500, 64)}
    assert encode.pe.std().item() == pytest.approx(0.02, rel=0.05)
    assert gradient_check(LearnedPositionalEncoding(D, max_len=9), noise(N, T, D)) < 1e-6
    encode.eval()(torch.zeros(1, 3, 64)).sum().backward()
    assert (encode.pe.grad[:, :3] != 0).all()
    assert (encode.pe.grad[:, 3:] == 0).all()


# ---------------------------------------------------------------- rotary


@pytest.mark.parametrize("start", [0, 11])
def test_rotating_pairs_is_multiplying_complex_numbers(start: int) -> None:
    x = noise(N, H, T, K).numpy()
    expected = np.empty_like(x)
    for t in range(T):
        for k in range(K // 2):
            turn = np.exp(1j * (start + t) / 10000.0 ** (2 * k / K))
            turned = (x[..., t, 2 * k] + 1j * x[..., t, 2 * k + 1]) * turn
            expected[..., t, 2 * k], expected[..., t, 2 * k + 1] = turned.real, turned.imag
    got = apply_rotary(torch.from_numpy(x), start=start)
    np.testing.assert_allclose(got.numpy(), expected, rtol=0, atol=1e-12)


def test_rotated_queries_and_keys_know_their_distance_and_nothing_else() -> None:
    query, key = noise(1, K).expand(9, K), noise(1, K, seed=1).expand(9, K)
    products = apply_rotary(query) @ apply_rotary(key).T
    for distance in range(-8, 9):
        diagonal = products.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal), rtol=0, atol=1e-12)
    assert products[0].std() > 0.1


def test_rotating_keeps_lengths_dtype_and_the_first_token() -> None:
    x = noise(N, H, T, K)
    torch.testing.assert_close(apply_rotary(x).norm(dim=-1), x.norm(dim=-1), rtol=1e-12, atol=1e-12)
    assert torch.equal(apply_rotary(x)[:, :, 0], x[:, :, 0])
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        assert apply_rotary(x.to(dtype)).dtype == dtype
    assert apply_rotary(x[:, :, :0]).shape == (N, H, 0, K)
    assert torch.equal(apply_rotary(x.transpose(0, 1)), apply_rotary(x).transpose(0, 1))


def test_rotating_passes_central_differences() -> None:
    assert gradient_check(lambda x: apply_rotary(x, start=3), noise(2, T, K)) < 1e-6


# ---------------------------------------------------------------- two dimensions


def detr(
    real: np.ndarray, width: int, normalize: bool, scale: float = 2 * math.pi, base: float = 10000.0
) -> np.ndarray:
    """DETR's sine positions, one number at a time."""
    batch, height, breadth = real.shape
    out = np.zeros((batch, width, height, breadth))
    half = width // 2
    for n in range(batch):
        for i in range(height):
            for j in range(breadth):
                down, right = real[n, : i + 1, j].sum(), real[n, i, : j + 1].sum()
                if normalize:
                    down = down / (real[n, :, j].sum() + 1e-6) * scale
                    right = right / (real[n, i, :].sum() + 1e-6) * scale
                for c in range(half):
                    angle = base ** (2 * (c // 2) / half)
                    wave = math.sin if c % 2 == 0 else math.cos
                    out[n, c, i, j], out[n, half + c, i, j] = wave(down / angle), wave(right / angle)
    return out


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_two_dimensional_positions_are_detrs(normalize: bool, padded: bool) -> None:
    real = np.ones((N, 2, 5))
    if padded:
        real[0, 1:] = 0
        real[1, :, 3:] = 0
    encode = PositionalEncoding2D(8, normalize=normalize)
    x = noise(N, 7, 2, 5)
    mask = torch.from_numpy(real) if padded else None
    np.testing.assert_allclose(encode(x, key_mask=mask).numpy(), detr(real, 8, normalize), rtol=0, atol=1e-12)
    if padded:
        assert torch.equal(encode(x, key_mask=mask.bool()), encode(x, key_mask=mask))


def test_temperature_and_scale_are_used() -> None:
    x, real = noise(1, 7, 3, 2), np.ones((1, 3, 2))
    got = PositionalEncoding2D(12, 20.0, scale=3.0)(x)
    np.testing.assert_allclose(got.numpy(), detr(real, 12, True, 3.0, 20.0), rtol=0, atol=1e-12)


def test_two_dimensional_positions_follow_the_input_in_dtype_alone() -> None:
    encode = PositionalEncoding2D(8)
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        out = encode(noise(N, 7, 2, 5).to(dtype))
        assert (out.dtype, out.shape) == (dtype, (N, 8, 2, 5))
    assert torch.equal(encode(noise(1, 7, 2, 5)), encode(noise(1, 3, 2, 5, seed=1)))
    assert encode.state_dict() == {}
    dead = encode(noise(1, 7, 2, 5), key_mask=torch.zeros(1, 2, 5))
    assert dead.isfinite().all()


# ---------------------------------------------------------------- errors


def wrong_calls() -> Iterator[tuple[str, Callable[[], object], type[Exception], str]]:
    encode, learned, grid = (
        PositionalEncoding(8, max_len=10),
        LearnedPositionalEncoding(8, max_len=10),
        torch.zeros(1, 7, 2, 5),
    )
    for width in (5, 1, 0, -2):
        message = rf"PositionalEncoding: embed_dim must be a positive even number, got {width}; sine and cosine"
        yield f"width {width}", lambda width=width: PositionalEncoding(width), ValueError, message
    yield "width float", lambda: PositionalEncoding(8.0), TypeError, r"got 8.0 \(float\)"
    yield (
        "length",
        lambda: PositionalEncoding(8, max_len=0),
        ValueError,
        "max_len must be a positive whole number, got 0",
    )
    yield (
        "dropout",
        lambda: PositionalEncoding(8, 1.1),
        ValueError,
        "dropout must be a probability from 0 to 1, got 1.1",
    )
    yield (
        "table width",
        lambda: sinusoidal_table(3, 5),
        ValueError,
        "sinusoidal_table: embed_dim must be a positive even",
    )
    yield "table length", lambda: sinusoidal_table(-1, 4), ValueError, "max_len must be a positive whole number, got -1"
    for name, module in (("sinusoidal", encode), ("learned", learned)):
        who = type(module).__name__
        too_long = rf"{who}: the last position must be at most max_len = 10, got 11 \(start 0 \+ 11 tokens\)"
        yield f"{name} long", lambda module=module: module(torch.zeros(1, 11, 8)), ValueError, too_long
        meta = torch.zeros(1, 11, 8, device="meta")
        yield f"{name} meta", lambda module=module, meta=meta: module(meta), ValueError, too_long
        late = (
            r"at most max_len = 10, got 12 \(start 9 \+ 3 tokens\); shorten the input, or make the module with a larger"
        )
        yield f"{name} late", lambda module=module: module(torch.zeros(1, 3, 8), start=9), ValueError, late
        early = "start must be a whole number of at least 0, got -1"
        yield f"{name} early", lambda module=module: module(torch.zeros(1, 3, 8), start=-1), ValueError, early
        narrow = r"x must be of shape \(N, T, D\) = \(any, any, 8\), got \(1, 3, 6\)"
        yield f"{name} width", lambda module=module: module(torch.zeros(1, 3, 6)), ValueError, narrow
        yield f"{name} axes", lambda module=module: module(torch.zeros(3, 8)), ValueError, r"got \(3, 8\)"
        ints = torch.zeros(1, 3, 8, dtype=torch.int64)
        yield (
            f"{name} ints",
            lambda module=module, ints=ints: module(ints),
            TypeError,
            "floating dtype, got torch.int64",
        )
    yield "learned zero", lambda: LearnedPositionalEncoding(0), ValueError, "embed_dim must be a positive whole number"
    yield "learned length", lambda: LearnedPositionalEncoding(8, max_len=0), ValueError, "max_len must be a positive"
    yield "learned drop", lambda: LearnedPositionalEncoding(8, "a"), TypeError, r"dropout must be .* got 'a' \(str\)"
    yield "rotary odd", lambda: apply_rotary(torch.zeros(2, 3)), ValueError, "K must be a positive even number, got 3"
    yield (
        "rotary axes",
        lambda: apply_rotary(torch.zeros(4)),
        ValueError,
        r"x must be of shape \(\.\.\., T, K\), got \(4,\)",
    )
    yield "rotary list", lambda: apply_rotary([1.0]), TypeError, "apply_rotary: x must be a torch.Tensor, got list"
    yield (
        "rotary start",
        lambda: apply_rotary(torch.zeros(2, 4), start=-3),
        ValueError,
        "start must be a whole number of",
    )
    yield "grid width", lambda: PositionalEncoding2D(6), ValueError, "embed_dim must be a multiple of 4, got 6"
    yield "grid float", lambda: PositionalEncoding2D(8.0), TypeError, r"embed_dim must be .* got 8.0 \(float\)"
    yield "grid base", lambda: PositionalEncoding2D(8, 0), ValueError, "temperature must be positive, got 0"
    yield "grid text", lambda: PositionalEncoding2D(8, "a"), TypeError, r"temperature must be .* got 'a' \(str\)"
    yield (
        "grid full",
        lambda: PositionalEncoding2D(8, scale=0),
        ValueError,
        "scale must be positive, got 0; DETR uses 2",
    )
    yield "grid all", lambda: PositionalEncoding2D(8, scale=True), TypeError, r"scale must be .* got True \(bool\)"
    scaled = {"normalize": False, "scale": 1.0}
    yield "grid scale", lambda: PositionalEncoding2D(8, **scaled), ValueError, "scale must be None without normalize"
    yield "grid axes", lambda: PositionalEncoding2D(8)(grid[0]), ValueError, r"\(N, C, h, w\) = .* got \(7, 2, 5\)"
    yield (
        "grid list",
        lambda: PositionalEncoding2D(8)([[1]]),
        TypeError,
        "PositionalEncoding2D: x must be a torch.Tensor",
    )
    wrong = torch.ones(1, 5, 2)
    yield (
        "grid mask",
        lambda: PositionalEncoding2D(8)(grid, key_mask=wrong),
        ValueError,
        r"\(1, 2, 5\), got \(1, 5, 2\)",
    )
    added = torch.full((1, 2, 5), -1e9)
    yield "grid add", lambda: PositionalEncoding2D(8)(grid, key_mask=added), ValueError, "key_mask must be 0/1"
    yield (
        "grid kind",
        lambda: PositionalEncoding2D(8)(grid, key_mask=True),
        TypeError,
        "key_mask must be a torch.Tensor",
    )


CALLS = list(wrong_calls())


@pytest.mark.parametrize(("call", "kind", "message"), [call[1:] for call in CALLS], ids=[call[0] for call in CALLS])
def test_a_wrong_call_is_refused_with_what_was_expected_and_what_came(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()
