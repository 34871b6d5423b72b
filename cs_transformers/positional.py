"""Positions: attention does not see the order of its tokens, so the order is written into them.

Letters: N batch, T length, D model width, H heads, K head width; h, w height and width of a grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from .errors import check_count, check_probability, check_shape, check_tensor, explain
from .masks import to_bool

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


def sinusoidal_table(max_len: int, embed_dim: int) -> Tensor:
    """Give every position a fixed fingerprint: the hands of D/2 clocks, from fast to very slow.

    table[t, 2k] = sin(t / 10000^(2k/D)), table[t, 2k+1] = cos(t / 10000^(2k/D)). The dot product of two rows depends
    on their distance alone.

    Args:
        max_len: Number of positions.
        embed_dim: Width D, even.

    Returns:
        (max_len, D) in float64 on the CPU; cast it after, as a float32 angle of some thousands is off by 1e-4.

    Raises:
        TypeError: If an argument is no whole number.
        ValueError: If ``max_len`` is not positive, or ``embed_dim`` not positive and even.

    Example:
        >>> sinusoidal_table(2, 4)[0]
        tensor([0., 1., 0., 1.], dtype=torch.float64)

    Source:
        Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
    """
    check_count("sinusoidal_table", "max_len", max_len)
    _check_even("sinusoidal_table", embed_dim)
    # Exercise 2.1: positions times frequencies gives all angles at once; sine in the even columns, cosine in the odd
    # ones (about 5 lines; torch.arange, torch.stack or slices with step 2). Pass dtype=torch.float64, device="cpu".
    ### BEGIN SOLUTION 2.1
    position = torch.arange(max_len, dtype=torch.float64, device="cpu").unsqueeze(1)  # (max_len, 1)
    exponent = torch.arange(0, embed_dim, 2, dtype=torch.float64, device="cpu") / embed_dim  # (D/2,)
    angle = position / 10000.0**exponent  # (max_len, D/2)
    return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)  # (max_len, D)
    ### END SOLUTION 2.1


class PositionalEncoding(nn.Module):
    """Add to every token the sinusoidal fingerprint of its position.

    The table is computed in float64 and cast to the dtype and device in use, so ``.double()`` loses nothing. It is a
    buffer, ``pe`` (1, max_len, D), that no state dict holds.

    Args:
        embed_dim: Width D, even.
        dropout: Probability with which an entry of the sum is dropped in training.
        max_len: Number of positions.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``embed_dim`` is not positive and even, ``max_len`` not positive or ``dropout`` no probability.

    Example:
        >>> add_positions = PositionalEncoding(embed_dim=4, dropout=0.0)
        >>> add_positions(torch.zeros(1, 2, 4))[0, 0]
        tensor([0., 1., 0., 1.])

    Source:
        Vaswani et al. 2017, section 3.5, arXiv:1706.03762.
    """

    pe: Tensor

    def __init__(self, embed_dim: int, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        _check_even("PositionalEncoding", embed_dim)
        check_count("PositionalEncoding", "max_len", max_len)
        check_probability("PositionalEncoding", "dropout", dropout)
        self.embed_dim, self.max_len = embed_dim, max_len
        self.dropout = nn.Dropout(dropout)
        like = torch.empty(())  # torch's default dtype and device
        self.register_buffer("pe", self._table(like.dtype, like.device), persistent=False)
        self._other: Tensor | None = None

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """Add the positions ``start``, ``start`` + 1, ... to the tokens.

        Args:
            x: (N, T, D) tokens.
            start: Position of the first token; in step-by-step decoding, the number of tokens already read.

        Returns:
            (N, T, D) in the dtype of ``x``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If the width differs from D, or a position reaches ``max_len``.
        """
        _check_positions("PositionalEncoding", x, start, self.embed_dim, self.max_len)
        table = self._table_for(x)  # (1, max_len, D)
        # Exercise 2.2: add the T rows from `start` on, then dropout on the sum (about 2 lines; a slice).
        ### BEGIN SOLUTION 2.2
        stop = start + x.shape[1]
        return self.dropout(x + table[:, start:stop])
        ### END SOLUTION 2.2

    def _table(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        return sinusoidal_table(self.max_len, self.embed_dim).unsqueeze(0).to(dtype).to(device)

    def _table_for(self, x: Tensor) -> Tensor:
        for table in (self.pe, self._other):
            if table is not None and (table.dtype, table.device) == (x.dtype, x.device):
                return table
        self._other = self._table(x.dtype, x.device)  # tokens of another dtype than the module's, kept for next time
        return self._other

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> PositionalEncoding:
        """Make the table anew after ``.to()``, ``.double()`` or ``.to_empty()``: a cast float32 table is not exact."""
        super()._apply(fn, *args, **kwargs)
        self.pe, self._other = self._table(self.pe.dtype, self.pe.device), None
        return self


class LearnedPositionalEncoding(nn.Module):
    """Add to every token a vector that training finds for its position.

    Args:
        embed_dim: Width D.
        dropout: Probability with which an entry of the sum is dropped in training.
        max_len: Number of positions; each has D parameters.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a size is not positive or ``dropout`` no probability.

    Example:
        >>> LearnedPositionalEncoding(embed_dim=4, max_len=10)(torch.zeros(2, 3, 4)).shape
        torch.Size([2, 3, 4])

    Source:
        Gehring et al. 2017, section 3.1, arXiv:1705.03122; initial spread as in Dosovitskiy et al. 2020's code.
    """

    def __init__(self, embed_dim: int, dropout: float = 0.1, max_len: int = 5000) -> None:
        super().__init__()
        check_count("LearnedPositionalEncoding", "embed_dim", embed_dim)
        check_count("LearnedPositionalEncoding", "max_len", max_len)
        check_probability("LearnedPositionalEncoding", "dropout", dropout)
        self.embed_dim, self.max_len = embed_dim, max_len
        self.pe = nn.Parameter(torch.empty(1, max_len, embed_dim))
        self.dropout = nn.Dropout(dropout)
        nn.init.normal_(self.pe, std=0.02)

    def forward(self, x: Tensor, *, start: int = 0) -> Tensor:
        """Add the vectors of the positions ``start``, ``start`` + 1, ... to the tokens.

        Args:
            x: (N, T, D) tokens.
            start: Position of the first token.

        Returns:
            (N, T, D) in the dtype of ``x``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If the width differs from D, or a position reaches ``max_len``.
        """
        _check_positions("LearnedPositionalEncoding", x, start, self.embed_dim, self.max_len)
        rows = self.pe.narrow(1, start, x.shape[1])  # (1, T, D)
        return self.dropout(x + rows.to(x.dtype))


def apply_rotary(x: Tensor, *, start: int = 0) -> Tensor:
    """Turn every pair of neighbouring columns by an angle that grows with the position.

    Columns 2k and 2k+1 of position t turn by t / 10000^(2k/K). Done to queries and keys, their dot product then
    depends on the distance of the two tokens, not on where they stand.

    Args:
        x: (N, H, T, K) or any shape that ends in (T, K), K even.
        start: Position of the first token.

    Returns:
        The turned vectors, in the shape and dtype of ``x``.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If K is odd, ``start`` negative, or there are fewer than two axes.

    Example:
        >>> apply_rotary(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        tensor([[1.0000, 0.0000],
                [0.5403, 0.8415]])

    Source:
        Su et al. 2021, equation 34, arXiv:2104.09864.
    """
    check_tensor("apply_rotary", "x", x)
    if x.dim() < 2:
        raise ValueError(explain("apply_rotary", "x", "of shape (..., T, K)", tuple(x.shape), "add the axis of tokens"))
    _check_even("apply_rotary", x.shape[-1], "K")
    check_count("apply_rotary", "start", start, minimum=0)
    if x.shape[-2] == 0:
        return x
    table = sinusoidal_table(start + x.shape[-2], x.shape[-1])[start:].to(x.dtype).to(x.device)  # (T, K)
    # Exercise 2.3: `table` holds the sines (even columns) and cosines (odd columns) of every token's angles. Turn the
    # pairs (even, odd) of x: (even cos - odd sin, even sin + odd cos), and interleave them again (about 5 lines;
    # slices with step 2, torch.stack, flatten).
    ### BEGIN SOLUTION 2.3
    sin, cos = table[:, 0::2], table[:, 1::2]  # (T, K/2)
    even, odd = x[..., 0::2], x[..., 1::2]  # (..., T, K/2)
    turned = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)  # (..., T, K/2, 2)
    return turned.flatten(-2)  # (..., T, K)
    ### END SOLUTION 2.3


class PositionalEncoding2D(nn.Module):
    """Positions of the cells of a grid: half of the channels say how far down, the other half how far right.

    Rows and columns are counted from 1, over real cells alone; with ``normalize`` the last one counts ``scale``.
    Channel order is (rows | columns), each half sine and cosine interleaved.

    Args:
        embed_dim: Channels D, a multiple of 4.
        temperature: Base of the wavelengths.
        normalize: Whether to measure in fractions of the grid, as DETR does.
        scale: What the full height or width counts, in radians; 2 pi by default.

    Raises:
        TypeError: If ``embed_dim`` is no whole number, or ``temperature`` or ``scale`` no number.
        ValueError: If ``embed_dim`` is no multiple of 4, ``temperature`` or ``scale`` is not positive, or ``scale`` is
            given without ``normalize``.

    Example:
        >>> PositionalEncoding2D(embed_dim=8)(torch.zeros(1, 16, 2, 3)).shape
        torch.Size([1, 8, 2, 3])

    Source:
        Carion et al. 2020, appendix A.4, arXiv:2005.12872.
    """

    def __init__(
        self, embed_dim: int, temperature: float = 10000.0, *, normalize: bool = True, scale: float | None = None
    ) -> None:
        super().__init__()
        who = "PositionalEncoding2D"
        check_count(who, "embed_dim", embed_dim)
        if embed_dim % 4:
            fix = "rows and columns need sine and cosine each: use 4, 8, 12 and so on"
            raise ValueError(explain(who, "embed_dim", "a multiple of 4", embed_dim, fix))
        _check_positive(who, "temperature", temperature, "DETR uses 10000")
        if scale is not None:
            _check_positive(who, "scale", scale, "DETR uses 2 * math.pi")
        if scale is not None and not normalize:
            fix = "pass normalize=True, or leave scale out"
            raise ValueError(explain(who, "scale", "None without normalize", scale, fix))
        self.embed_dim, self.temperature, self.normalize = embed_dim, temperature, normalize
        self.scale = 2 * math.pi if scale is None else scale

    def forward(self, x: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        """Compute the positions of a feature map's cells; its values are not read.

        Args:
            x: (N, C, h, w) feature map, of any number of channels.
            key_mask: (N, h, w), nonzero or True = a real cell, 0 or False = padding; None: all real.

        Returns:
            (N, D, h, w) in the dtype and on the device of ``x``; ``.flatten(2).transpose(1, 2)`` makes tokens of it.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape or the mask does not fit.
        """
        real = self._real_cells(x, key_mask)  # (N, h, w)
        rows, columns = real.cumsum(1), real.cumsum(2)
        if self.normalize:
            rows = rows / (rows[:, -1:, :] + 1e-6) * self.scale
            columns = columns / (columns[:, :, -1:] + 1e-6) * self.scale
        half = self.embed_dim // 2
        exponent = torch.arange(0, half, 2, dtype=real.dtype, device=real.device) / half  # (D/4,)
        frequency = self.temperature**-exponent
        angles = [count.unsqueeze(-1) * frequency for count in (rows, columns)]  # (N, h, w, D/4) each
        waves = [torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(3) for angle in angles]  # (N, h, w, D/2)
        return torch.cat(waves, dim=-1).permute(0, 3, 1, 2).to(x.dtype)  # (N, D, h, w)

    def _real_cells(self, x: Tensor, key_mask: Tensor | None) -> Tensor:
        check_tensor("PositionalEncoding2D", "x", x)
        check_shape("PositionalEncoding2D", "x", x, N=None, C=None, h=None, w=None)
        batch, _, height, width = x.shape
        precise = torch.float32 if x.device.type == "mps" else torch.float64  # Apple's GPUs have no float64
        if key_mask is None:
            return torch.ones(batch, height, width, dtype=precise, device=x.device)
        check_tensor("PositionalEncoding2D", "key_mask", key_mask, floating=False)
        fix = "give one entry per cell, True where the cell is real"
        check_shape("PositionalEncoding2D", "key_mask", key_mask, fix, N=batch, h=height, w=width)
        return to_bool(key_mask, who="PositionalEncoding2D", name="key_mask").to(x.device, precise)


def _check_even(who: str, width: int, name: str = "embed_dim") -> None:
    kind = "a positive even number"
    fix = "sine and cosine come in pairs, so use 2, 4, 6 and so on"
    if isinstance(width, bool) or not isinstance(width, Integral):
        raise TypeError(explain(who, name, kind, f"{width!r} ({type(width).__name__})", fix))
    if width <= 0 or width % 2:
        raise ValueError(explain(who, name, kind, width, fix))


def _check_positive(who: str, name: str, value: float, fix: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(explain(who, name, "a positive number", f"{value!r} ({type(value).__name__})", fix))
    if not value > 0:
        raise ValueError(explain(who, name, "positive", value, fix))


def _check_positions(who: str, x: Tensor, start: int, embed_dim: int, max_len: int) -> None:
    check_tensor(who, "x", x)
    check_shape(who, "x", x, "the width is set when the module is made", N=None, T=None, D=embed_dim)
    check_count(who, "start", start, minimum=0)
    if start + x.shape[1] > max_len:
        got = f"{start + x.shape[1]} (start {start} + {x.shape[1]} tokens)"
        fix = "shorten the input, or make the module with a larger max_len"
        raise ValueError(explain(who, "the last position", f"at most max_len = {max_len}", got, fix))
