"""Attention in windows: a token looks at its neighbours only, along a sequence or on a grid.

Letters: N batch, T length, H heads, K head width, C channels, P tokens of a grid, W windows of a grid.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import attention_scores, attention_weights, scaled_dot_product_attention
from .efficient import check_heads
from .errors import check_count, check_probability, check_shape, check_tensor, explain
from .masks import check_key_mask

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

# --- along a sequence


def sliding_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: int,
    *,
    key_mask: Tensor | None = None,
    causal: bool = False,
    dropout_p: float = 0.0,
) -> Tensor:
    """Let every token look at itself and at ``window`` neighbours on each side.

    The sequence is cut into blocks of the window's length; a block of queries meets its own keys and those of the
    blocks beside it, so time and memory are O(T x window).

    Args:
        query: (N, H, T, K).
        key: (N, H, T, K).
        value: (N, H, T, K).
        window: How far a token sees: token t looks at t - window to t + window. T - 1 or more is full attention.
        key_mask: (N, T), nonzero or True = a real token.
        causal: Whether only the left side is seen.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.

    Returns:
        (N, H, T, K). A token that sees no real one gets 0.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or the mask do not fit, or a number is out of its range.

    Example:
        >>> x = torch.randn(1, 2, 9, 4)
        >>> sliding_window_attention(x, x, x, window=2).shape
        torch.Size([1, 2, 9, 4])

    Source:
        Beltagy et al. 2020, section 3.1, arXiv:2004.05150.
    """
    who = "sliding_window_attention"
    N, H, T, S = check_heads(who, query, key, value)
    check_count(who, "window", window, minimum=0)
    check_probability(who, "dropout_p", dropout_p)
    if T != S:
        raise ValueError(explain(who, "key", f"as long as query, {T} tokens", S, "a window needs one sequence"))
    if T == 0:
        return value.clone()
    size = max(1, min(window, T))
    blocks, sides = -(-T // size), 2 if causal else 3
    q = F.pad(query, (0, 0, 0, blocks * size - T)).unflatten(-2, (blocks, size))  # (N, H, blocks, size, K)
    k, v = (_beside(x, size, blocks, sides) for x in (key, value))  # (N, H, blocks, sides * size, K)
    mask = _window_mask(T, size, blocks, sides, window, query.device)  # (blocks, size, sides * size)
    if key_mask is not None:
        real = check_key_mask(key_mask, N, T, who=who).to(query.device)
        near = _beside(real[:, None, :, None].to(torch.uint8), size, blocks, sides)  # (N, 1, blocks, sides * size, 1)
        mask = mask & near.transpose(-2, -1).bool()  # (N, 1, blocks, size, sides * size)
        mask = mask.expand(N, H, -1, -1, -1).flatten(0, 1)
    q, k, v = (x.flatten(0, 1) for x in (q, k, v))  # heads count as batch, blocks as heads
    mixed = scaled_dot_product_attention(q, k, v, mask.view(-1, *mask.shape[-3:]), dropout_p)
    return mixed.view(N, H, blocks * size, -1)[..., :T, :]  # (N, H, T, K)


def _beside(x: Tensor, size: int, blocks: int, sides: int) -> Tensor:
    """Give each block its own rows and those of the block before it (and, with three sides, behind it)."""
    behind = blocks * size - x.shape[-2] + (sides - 2) * size
    padded = F.pad(x, (0, 0, size, behind))
    return padded.unfold(-2, sides * size, size).transpose(-2, -1)  # (N, H, blocks, sides * size, K)


def _window_mask(T: int, size: int, blocks: int, sides: int, window: int, device: torch.device) -> Tensor:
    first = torch.arange(blocks, device=device)[:, None, None] * size
    q = first + torch.arange(size, device=device)[:, None]
    k = first + torch.arange(sides * size, device=device) - size
    near = (q - k).abs() <= window if sides == 3 else (k <= q) & (q - k <= window)
    return near & (k >= 0) & (k < T)  # (blocks, size, sides * size)


# --- on a grid


def window_partition(x: Tensor, window: int) -> Tensor:
    """Cut a grid of tokens into square windows.

    Args:
        x: (N, rows, columns, C) with rows and columns multiples of ``window``.
        window: Side of a window in tokens.

    Returns:
        (N, W, window * window, C): windows row by row, and row by row the tokens of each.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``x`` has not four axes, or the grid is not a whole number of windows.

    Example:
        >>> window_partition(torch.arange(8).view(1, 2, 4, 1), 2).squeeze(-1)
        tensor([[[0, 1, 4, 5],
                 [2, 3, 6, 7]]])

    Source:
        Liu et al. 2021, section 3.2, arXiv:2103.14030.
    """
    check_tensor("window_partition", "x", x, floating=False)
    check_shape("window_partition", "x", x, "bring the channels to the back", N=None, rows=None, columns=None, C=None)
    _check_windows("window_partition", tuple(x.shape[1:3]), window)
    # Exercise 10.4, first half: give rows and columns an axis for the window and one for the place inside it, bring
    # both window axes to the front, flatten each pair (about 3 lines; unflatten or reshape, transpose, flatten).
    ### BEGIN SOLUTION 10.4 window_partition
    parts = x.unflatten(2, (-1, window)).unflatten(1, (-1, window))  # (N, W rows, window, W columns, window, C)
    parts = parts.transpose(2, 3)  # (N, W rows, W columns, window, window, C)
    return parts.flatten(3, 4).flatten(1, 2)  # (N, W, window * window, C)
    ### END SOLUTION 10.4 window_partition


def window_reverse(windows: Tensor, grid: tuple[int, int]) -> Tensor:
    """Put the windows together again: the way back from ``window_partition``.

    Args:
        windows: (N, W, window * window, C).
        grid: Rows and columns of the whole.

    Returns:
        (N, rows, columns, C).

    Raises:
        TypeError: If ``windows`` is no tensor.
        ValueError: If the windows do not fill the grid.

    Example:
        >>> x = torch.arange(24).view(1, 4, 6, 1)
        >>> torch.equal(window_reverse(window_partition(x, 2), (4, 6)), x)
        True
    """
    check_tensor("window_reverse", "windows", windows, floating=False)
    check_shape("window_reverse", "windows", windows, N=None, W=None, places=None, C=None)
    W, places = windows.shape[1:3]
    window, (rows, columns) = round(places**0.5), grid
    if window * window != places or W * places != rows * columns or rows % window or columns % window:
        fix = "give the grid that was cut"
        expected = f"filled by {W} windows of {places} tokens"
        raise ValueError(explain("window_reverse", "grid", expected, tuple(grid), fix))
    parts = windows.unflatten(2, (window, window)).unflatten(1, (rows // window, -1))
    return parts.transpose(2, 3).flatten(3, 4).flatten(1, 2)  # (N, rows, columns, C)


def shift_mask(grid: tuple[int, int], window: int, shift: tuple[int, int]) -> Tensor:
    """Say which tokens of a window may see each other after a cyclic shift has brought far ends together.

    A shift by s moves every token s places up or to the left; the first s rows (columns) come in again at the end.
    In the windows there, tokens that were wrapped around and tokens that were not are no neighbours in the image.

    Args:
        grid: Rows and columns, multiples of ``window``.
        window: Side of a window in tokens.
        shift: By how many rows and by how many columns the grid was shifted, each from 0 to ``window`` - 1.

    Returns:
        (W, window * window, window * window) bool, True where a token may look.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If the grid is not a whole number of windows, or a shift is out of its range.

    Example:
        >>> shift_mask((2, 2), 2, (0, 1))[0].int()
        tensor([[1, 0, 1, 0],
                [0, 1, 0, 1],
                [1, 0, 1, 0],
                [0, 1, 0, 1]], dtype=torch.int32)

    Source:
        Liu et al. 2021, section 3.2 and figure 4, arXiv:2103.14030.
    """
    _check_windows("shift_mask", grid, window)
    _check_shift("shift_mask", shift, window)
    rows, columns = grid
    # Exercise 10.4, second half: mark the rows, and the columns, that were wrapped around (torch.arange, >=); give each
    # token of the grid a number that says which of both holds for it, four numbers in all; cut the numbers like the
    # tokens; a token may look where the number is its own (about 5 lines).
    ### BEGIN SOLUTION 10.4 shift_mask
    wrapped_rows = torch.arange(rows) >= rows - shift[0]
    wrapped_columns = torch.arange(columns) >= columns - shift[1]
    part = 2 * wrapped_rows.int().unsqueeze(1) + wrapped_columns.int()  # (rows, columns)
    part = window_partition(part[None, :, :, None], window)[0, :, :, 0]  # (W, window * window)
    return part.unsqueeze(2) == part.unsqueeze(1)  # (W, window * window, window * window)
    ### END SOLUTION 10.4 shift_mask


def relative_positions(window: int) -> Tensor:
    """Number the offsets between the tokens of a window: pairs with one offset get one number.

    Args:
        window: Side of a window in tokens.

    Returns:
        (window * window, window * window) int64 from 0 to (2 * window - 1)^2 - 1, rows for the token that looks.

    Raises:
        TypeError: If ``window`` is no whole number.
        ValueError: If it is not positive.

    Example:
        >>> relative_positions(2)[0]
        tensor([4, 3, 1, 0])

    Source:
        Liu et al. 2021, equation 4, arXiv:2103.14030.
    """
    check_count("relative_positions", "window", window)
    places = torch.cartesian_prod(torch.arange(window), torch.arange(window)).view(-1, 2)  # row and column
    offset = places.unsqueeze(1) - places.unsqueeze(0) + window - 1  # (places, places, 2)
    return offset[..., 0] * (2 * window - 1) + offset[..., 1]


def shifted_window_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    grid: tuple[int, int],
    window: int,
    shift: int = 0,
    *,
    bias: Tensor | None = None,
    dropout_p: float = 0.0,
) -> Tensor:
    """Let the tokens of a grid look at those in their window; a shift moves the borders of the windows.

    Grids that are not whole windows are filled up, and the filling is seen by nobody. Along a side that one window
    covers there is nothing to shift.

    Args:
        query: (N, H, P, K) tokens of the grid, row by row.
        key: (N, H, P, K).
        value: (N, H, P, K).
        grid: Rows and columns, P together.
        window: Side of a window in tokens.
        shift: By how much the windows are shifted in both directions, from 0 to ``window`` - 1.
        bias: (H, window * window, window * window), added to the scores of every window.
        dropout_p: Probability with which a weight is dropped. Drops whenever it is above 0: pass 0 in eval mode.

    Returns:
        (N, H, P, K).

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes do not fit, or a number is out of its range.

    Example:
        >>> x = torch.randn(1, 2, 24, 8)
        >>> shifted_window_attention(x, x, x, grid=(4, 6), window=2, shift=1).shape
        torch.Size([1, 2, 24, 8])

    Source:
        Liu et al. 2021, section 3.2, arXiv:2103.14030.
    """
    who = "shifted_window_attention"
    N, H, P, S = check_heads(who, query, key, value)
    check_count(who, "window", window)
    _check_shift(who, (shift, shift), window)
    check_probability(who, "dropout_p", dropout_p)
    if grid[0] * grid[1] != P or S != P:
        fix = "pass one token for each place of the grid"
        raise ValueError(explain(who, "query", f"of {grid[0]} x {grid[1]} = {grid[0] * grid[1]} tokens", P, fix))
    if bias is not None:
        check_shape(who, "bias", bias, "give one number per head and pair", H=H, T=window**2, S=window**2)
    whole = tuple(-(-side // window) * window for side in grid)
    shifts = tuple(0 if side <= window else shift for side in whole)
    real = torch.ones(1, 1, P, 1, dtype=torch.bool, device=query.device)
    mask = _into_windows(real, grid, whole, window, shifts).transpose(-2, -1)  # (1, W, 1, places)
    mask = mask & shift_mask(whole, window, shifts).to(query.device)  # (1, W, places, places)
    q, k, v = (_into_windows(x, grid, whole, window, shifts) for x in (query, key, value))  # (N * H, W, places, K)
    scores = attention_scores(q, k)  # (N * H, W, places, places)
    if bias is not None:
        scores = scores + bias.to(scores.dtype).repeat(N, 1, 1).unsqueeze(1)
    mixed = F.dropout(attention_weights(scores, mask), dropout_p) @ v
    rolled = window_reverse(mixed, whole).roll(shifts, dims=(1, 2))  # (N * H, rows, columns, K)
    return rolled[:, : grid[0], : grid[1]].flatten(1, 2).unflatten(0, (N, H))  # (N, H, P, K)


def _into_windows(
    x: Tensor, grid: tuple[int, int], whole: tuple[int, ...], window: int, shifts: tuple[int, ...]
) -> Tensor:
    cells = x.flatten(0, 1).unflatten(1, grid)  # (N * H, rows, columns, K)
    cells = F.pad(cells, (0, 0, 0, whole[1] - grid[1], 0, whole[0] - grid[0]))
    return window_partition(cells.roll((-shifts[0], -shifts[1]), dims=(1, 2)), window)  # (N * H, W, places, K)


def _check_windows(who: str, grid: tuple[int, int], window: int) -> None:
    check_count(who, "window", window)
    for side in grid:
        if side % window or side < 1:
            fix = f"fill it up to {max(1, -(-side // window)) * window}, or choose another window"
            raise ValueError(explain(who, "the grid", f"a multiple of window = {window} on each side", grid, fix))


def _check_shift(who: str, shift: tuple[int, int], window: int) -> None:
    for step in shift:
        check_count(who, "shift", step, minimum=0)
        if step >= window:
            expected = f"below window = {window}"
            raise ValueError(explain(who, "shift", expected, step, "use window // 2: a whole window changes nothing"))
