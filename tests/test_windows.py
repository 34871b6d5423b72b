"""Windows along a sequence and on a grid against dense masks and torchvision's shifted_window_attention."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.models.swin_transformer import shifted_window_attention as published

from cs_transformers.attention import causal_mask
from cs_transformers.windows import (
    relative_positions,
    shift_mask,
    shifted_window_attention,
    sliding_window_attention,
    window_partition,
    window_reverse,
)

N, H, T, K = 2, 3, 11, 4
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def heads(length: int = T) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(length)
    drawn = torch.randn(3, N, H, length, K, generator=generator, dtype=torch.float64)
    return tuple(x.clone().requires_grad_() for x in drawn)


def same(left: Tensor, right: Tensor, inputs: tuple[Tensor, ...]) -> None:
    torch.testing.assert_close(left, right, **CLOSE)
    weights = torch.cos(torch.arange(left.numel(), dtype=left.dtype)).view_as(left)
    ours, theirs = (torch.autograd.grad((x * weights).sum(), inputs, retain_graph=True) for x in (left, right))
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, **CLOSE)


def band(length: int, window: int, *, causal: bool = False) -> Tensor:
    places = torch.arange(length)
    near = (places[:, None] - places).abs() <= window
    return near & causal_mask(length) if causal else near


# --- along a sequence


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("window", [0, 1, 2, 3, 5, 10, 50])
def test_a_sliding_window_equals_a_dense_band(window: int, causal: bool) -> None:
    q, k, v = heads()
    ours = sliding_window_attention(q, k, v, window, causal=causal)
    same(ours, F.scaled_dot_product_attention(q, k, v, attn_mask=band(T, window, causal=causal)), (q, k, v))


@pytest.mark.parametrize("length", [1, 2, 5, 12])
def test_any_length_takes_any_window(length: int) -> None:
    q, k, v = heads(length)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=band(length, 3))
    same(sliding_window_attention(q, k, v, 3), expected, (q, k, v))


def test_a_window_as_long_as_the_sequence_is_full_attention() -> None:
    q, k, v = heads()
    same(sliding_window_attention(q, k, v, T - 1), F.scaled_dot_product_attention(q, k, v), (q, k, v))


@pytest.mark.parametrize("causal", [False, True])
def test_padding_is_not_seen_and_dead_tokens_get_zero(causal: bool) -> None:
    q, k, v = heads()
    real = torch.ones(N, T, dtype=torch.bool)
    real[0, 7:] = real[1, 3:9] = False
    allowed = band(T, 2, causal=causal) & real[:, None, None]
    dead = ~allowed.any(-1, keepdim=True)
    assert dead.any()
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed | dead).masked_fill(dead, 0.0)
    same(sliding_window_attention(q, k, v, 2, key_mask=real, causal=causal), expected, (q, k, v))


def test_a_token_outside_the_window_changes_nothing() -> None:
    q, k, v = (x.detach() for x in heads())
    before = sliding_window_attention(q, k, v, 2)
    for x in (k, v):
        x[:, :, 6] += 5
    changed = (sliding_window_attention(q, k, v, 2) - before).abs().sum((0, 1, 3)) > 0
    assert changed.nonzero().flatten().tolist() == [4, 5, 6, 7, 8]


def test_an_empty_sequence_comes_back_empty() -> None:
    assert sliding_window_attention(*heads(0), 2).shape == (N, H, 0, K)


# --- on a grid


def loops(x: Tensor, window: int) -> Tensor:
    count, rows, columns, channels = x.shape
    found = [
        torch.stack([x[:, top + i, left + j] for i in range(window) for j in range(window)], dim=1)
        for top in range(0, rows, window)
        for left in range(0, columns, window)
    ]
    return torch.stack(found, dim=1).view(count, -1, window * window, channels)


@pytest.mark.parametrize(("rows", "columns", "window"), [(4, 6, 2), (6, 3, 3), (5, 5, 5), (3, 4, 1)])
def test_windows_equal_loops_and_can_be_put_together_again(rows: int, columns: int, window: int) -> None:
    x = torch.randn(2, rows, columns, 7)
    windows = window_partition(x, window)
    assert torch.equal(windows, loops(x, window))
    assert torch.equal(window_reverse(windows, (rows, columns)), x)


def neighbours(grid: tuple[int, int], window: int, shift: tuple[int, int]) -> Tensor:
    """The definition: tokens are together if their places fall into one window whose borders are shifted."""
    rows, columns = torch.arange(grid[0]), torch.arange(grid[1])
    block = (
        (rows - shift[0]).div(window, rounding_mode="floor")[:, None] * 1000
        + (columns - shift[1]).div(window, rounding_mode="floor")
    ).flatten()
    return block[:, None] == block


@pytest.mark.parametrize("shift", [(0, 0), (1, 1), (2, 1), (0, 2)])
def test_the_shift_mask_says_who_is_a_neighbour_in_the_image(shift: tuple[int, int]) -> None:
    grid, window = (6, 9), 3
    number = torch.arange(54).view(1, *grid, 1).roll((-shift[0], -shift[1]), dims=(1, 2))
    tokens = window_partition(number, window)[0, :, :, 0]  # which token stands at each place of each window
    together = neighbours(grid, window, shift)
    expected = torch.stack([together[row][:, row] for row in tokens])
    assert torch.equal(shift_mask(grid, window, shift), expected)


def test_without_a_shift_all_of_a_window_see_each_other() -> None:
    assert shift_mask((4, 6), 2, (0, 0)).all()


@pytest.mark.parametrize(("grid", "window", "shift"), [((4, 6), 2, 1), ((6, 6), 3, 1), ((8, 4), 4, 2), ((5, 7), 3, 2)])
def test_shifted_windows_equal_a_dense_mask(grid: tuple[int, int], window: int, shift: int) -> None:
    q, k, v = heads(grid[0] * grid[1])
    padded = tuple(-(-side // window) * window for side in grid)
    shifts = tuple(0 if side <= window else shift for side in padded)
    mask = neighbours(padded, window, shifts).view(*padded, *padded)
    mask = mask[: grid[0], : grid[1], : grid[0], : grid[1]].flatten(2).flatten(0, 1)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    same(shifted_window_attention(q, k, v, grid, window, shift), expected, (q, k, v))


@pytest.mark.parametrize("shift", [0, 1, 2])
@pytest.mark.parametrize("grid", [(6, 9), (3, 6)])
def test_shifted_windows_equal_torchvision_with_its_relative_bias(grid: tuple[int, int], shift: int) -> None:
    window, width = 3, H * K
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(N, *grid, width, generator=generator, dtype=torch.float64, requires_grad=True)
    qkv, table = (
        (0.3 * torch.randn(*shape, generator=generator, dtype=torch.float64)).requires_grad_()  # their mask is -100
        for shape in ((3 * width, width), ((2 * window - 1) ** 2, H))
    )
    bias = table[relative_positions(window)].permute(2, 0, 1)
    eye = torch.eye(width, dtype=torch.float64)
    options = {"window_size": [window] * 2, "num_heads": H, "shift_size": [shift] * 2, "training": False}
    expected = published(x, qkv, eye, bias.unsqueeze(0), **options).flatten(1, 2)
    q, k, v = (x.flatten(1, 2) @ qkv.T).view(N, -1, 3, H, K).permute(2, 0, 3, 1, 4)
    ours = shifted_window_attention(q, k, v, grid, window, shift, bias=bias).transpose(1, 2).flatten(2)
    same(ours, expected, (x, qkv, table))


def test_relative_positions_are_torchvisions() -> None:
    from torchvision.models.swin_transformer import ShiftedWindowAttention

    theirs = ShiftedWindowAttention(4, [3, 3], [0, 0], 1).relative_position_index
    assert torch.equal(relative_positions(3).flatten(), theirs)


def test_far_ends_of_the_image_do_not_meet() -> None:
    q, k, v = (x.detach() for x in heads(36))
    before = shifted_window_attention(q, k, v, (6, 6), 3, 1)
    for x in (k, v):
        x[:, :, 0] += 5  # the token in the upper left corner
    changed = (shifted_window_attention(q, k, v, (6, 6), 3, 1) - before).abs().sum((0, 1, 3)) > 0
    assert changed.nonzero().flatten().tolist() == [0]  # the border of the first window runs right behind it


def test_a_shift_lets_tokens_meet_that_a_border_kept_apart() -> None:
    q, k, v = (x.detach() for x in heads(36))
    for shift, expected in ((0, False), (1, True)):
        before = shifted_window_attention(q, k, v, (6, 6), 3, shift)
        moved = v.clone()
        moved[:, :, 3] += 5  # row 0, column 3
        seen = shifted_window_attention(q, k, moved, (6, 6), 3, shift) - before
        assert bool(seen[:, :, 2].abs().sum() > 0) == expected


def test_dropout_acts_on_the_weights() -> None:
    q, k, v = torch.zeros(1, 1, 4096, 1), torch.zeros(1, 1, 4096, 1), torch.ones(1, 1, 4096, 1)
    torch.manual_seed(0)
    for out in (
        shifted_window_attention(q, k, v, (64, 64), 4, 1, dropout_p=0.5),
        sliding_window_attention(q, k, v, 7, dropout_p=0.5),
    ):
        assert out.std() > 0.1
        assert out.mean().item() == pytest.approx(1.0, abs=0.05)


def tokens(rows: int = 4, columns: int = 6) -> Tensor:
    return torch.zeros(1, 2, rows * columns, 3)


ERRORS = [
    (lambda: sliding_window_attention(*heads(), -1), ValueError, "window must be a whole number of at least 0, got -1"),
    (
        lambda: sliding_window_attention(heads()[0], *heads(5)[1:], 2),
        ValueError,
        "key must be as long as query, 11 tokens, got 5; a window needs one sequence",
    ),
    (lambda: sliding_window_attention(*heads(), 2, dropout_p=3), ValueError, "dropout_p must be a probability"),
    (lambda: sliding_window_attention(*heads(), 2, key_mask=torch.ones(N, 5)), ValueError, "key_mask must be of shape"),
    (
        lambda: window_partition(torch.zeros(1, 5, 6, 2), 3),
        ValueError,
        r"the grid must be a multiple of window = 3 on each side, got \(5, 6\); fill it up to 6",
    ),
    (lambda: window_partition(torch.zeros(5, 6, 2), 3), ValueError, "bring the channels to the back"),
    (lambda: window_partition(torch.zeros(1, 6, 6, 2), 0), ValueError, "window must be a positive whole number"),
    (
        lambda: window_reverse(torch.zeros(1, 5, 4, 2), (4, 6)),
        ValueError,
        r"grid must be filled by 5 windows of 4 tokens, got \(4, 6\)",
    ),
    (
        lambda: shift_mask((4, 4), 2, (0, 2)),
        ValueError,
        "shift must be below window = 2, got 2; use window // 2",
    ),
    (lambda: shift_mask((4, 5), 2, (0, 1)), ValueError, "the grid must be a multiple of window = 2"),
    (lambda: shift_mask((4, 4), 2, (0, -1)), ValueError, "shift must be a whole number of at least 0"),
    (
        lambda: shifted_window_attention(*[tokens()] * 3, (4, 5), 2),
        ValueError,
        "query must be of 4 x 5 = 20 tokens, got 24; pass one token for each place of the grid",
    ),
    (
        lambda: shifted_window_attention(*[tokens()] * 3, (4, 6), 2, bias=torch.zeros(1, 4, 4)),
        ValueError,
        r"bias must be of shape \(H, T, S\) = \(2, 4, 4\)",
    ),
    (lambda: shifted_window_attention(*[tokens()] * 3, (4, 6), 2, 2), ValueError, "shift must be below window"),
    (lambda: shifted_window_attention(*[tokens()] * 3, (4, 6), 2, dropout_p=2), ValueError, "dropout_p"),
    (lambda: relative_positions(0), ValueError, "window must be a positive whole number"),
]


@pytest.mark.parametrize(("call", "kind", "message"), ERRORS)
def test_errors_say_what_was_expected_and_what_to_do(
    call: Callable[[], object], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        call()
