"""Two stages of detection: the encoder's cells propose boxes, and the best of them become the queries of the decoder.

Letters: N batch, S cells of all feature maps together, Q object queries, D model width. Boxes are (cx, cy, w, h) as
fractions of the real image. Masks: True = real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .detection import BoxHead
from .errors import explain

SMALLEST, MARGIN = 0.05, 0.01  # side of a box on the finest map, doubled with each map; distance from 0 and 1
NOTHING = -100.0  # logit of cells that propose nothing, below that of any other


class Queries(NamedTuple):
    """What the decoder starts from.

    Args:
        state: (N, Q, D) states of the queries.
        pos: (N, Q, D) what they ask for, added to queries and keys.
        reference: (N, Q, 2) points (x, y) or (N, Q, 4) boxes around which they look first.
    """

    state: Tensor
    pos: Tensor
    reference: Tensor


def anchor_boxes(centres: Tensor, sizes: Sequence[tuple[int, int]]) -> Tensor:
    """Give each cell of each map a square to begin with, in its middle, twice as large on the next coarser map.

    Args:
        centres: (N, S, 2) middles (x, y) of the cells.
        sizes: (h, w) of each map in cells.

    Returns:
        (N, S, 4).

    Example:
        >>> anchor_boxes(torch.full((1, 3, 2), 0.5), [(1, 2), (1, 1)])[0, :, 2].tolist()
        [0.05000000074505806, 0.05000000074505806, 0.10000000149011612]
    """
    sides = [SMALLEST * 2**level for level, (h, w) in enumerate(sizes) for _ in range(h * w)]
    return torch.cat((centres, centres.new_tensor(sides).view(1, -1, 1).expand_as(centres)), dim=-1)


def box_waves(boxes: Tensor, embed_dim: int, *, temperature: float = 10000.0) -> Tensor:
    """Describe boxes by sines and cosines of many wavelengths, as ``sine_grid`` describes places.

    Args:
        boxes: (N, Q, 4).
        embed_dim: Width D, a multiple of 4: each of the four numbers gets D / 2 channels.
        temperature: Base of the wavelengths.

    Returns:
        (N, Q, 2 D).

    Example:
        >>> box_waves(torch.zeros(1, 1, 4), embed_dim=4)
        tensor([[[0., 1., 0., 1., 0., 1., 0., 1.]]])
    """
    exponent = torch.arange(0, embed_dim // 2, 2, dtype=boxes.dtype, device=boxes.device) / (embed_dim // 2)
    angles = 2 * math.pi * boxes.unsqueeze(-1) / temperature**exponent  # (N, Q, 4, D/4)
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(2)  # (N, Q, 2 D)


class EncoderProposals(nn.Module):
    """Ask every cell of the encoder whether an object lies there and how large it is; the surest become queries.

    Learned queries are the same for every image. These are made from it, and the decoder begins near the objects. Cells
    of padding, and cells whose first box comes close to the border or to the whole image, propose nothing.

    Args:
        embed_dim: Width D, a multiple of 4.
        num_queries: Number of object queries Q, at most as many as an image has cells.

    Source:
        Zhu et al. 2020, section 4.2 and appendix A.4, arXiv:2010.04159.
    """

    def __init__(self, embed_dim: int, num_queries: int) -> None:
        super().__init__()
        self.embed_dim, self.num_queries = embed_dim, num_queries
        self.project, self.norm = nn.Linear(embed_dim, embed_dim), nn.LayerNorm(embed_dim)
        self.class_embed, self.bbox_embed = nn.Linear(embed_dim, 1), BoxHead(embed_dim)
        self.to_query, self.query_norm = nn.Linear(2 * embed_dim, 2 * embed_dim), nn.LayerNorm(2 * embed_dim)
        for layer in (self.project, self.to_query):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.constant_(self.class_embed.bias, -math.log(99))  # a first guess of 1 % keeps the focal loss small
        for parameter in self.bbox_embed.layers[-1].parameters():
            nn.init.zeros_(parameter)  # the first boxes are the anchors

    def forward(
        self, memory: Tensor, centres: Tensor, sizes: Sequence[tuple[int, int]], key_mask: Tensor | None
    ) -> tuple[Queries, dict[str, Tensor]]:
        """Make queries of an encoder's output.

        Args:
            memory: (N, S, D) from the encoder.
            centres: (N, S, 2) middles (x, y) of the cells as fractions of the real image.
            sizes: (h, w) of each map in cells.
            key_mask: (N, S) bool, True = a real cell; None: all.

        Returns:
            The queries, which pass no gradient to the boxes they came from, and what all cells say, for the loss:
            "pred_logits" (N, S, 1), whether there is an object, and "pred_boxes" (N, S, 4).

        Raises:
            ValueError: If there are fewer cells than queries.
        """
        if memory.shape[1] < self.num_queries:
            expected, fix = f"at most S = {memory.shape[1]} with these images", "use larger images or fewer queries"
            raise ValueError(explain("EncoderProposals", "num_queries", expected, self.num_queries, fix))
        anchors = anchor_boxes(centres, sizes)  # (N, S, 4)
        useful = ((anchors > MARGIN) & (anchors < 1 - MARGIN)).all(dim=-1, keepdim=True)  # (N, S, 1)
        useful = useful if key_mask is None else useful & key_mask.unsqueeze(-1)
        cells = self.norm(self.project(memory.masked_fill(~useful, 0.0)))  # (N, S, D)
        logits = self.class_embed(cells).masked_fill(~useful, NOTHING)  # (N, S, 1)
        boxes = (self.bbox_embed(cells) + torch.logit(anchors).masked_fill(~useful, math.inf)).sigmoid()  # (N, S, 4)
        best = logits.squeeze(-1).topk(self.num_queries, dim=1).indices  # (N, Q)
        chosen = boxes.detach().gather(1, best.unsqueeze(-1).expand(-1, -1, 4))  # (N, Q, 4)
        made = self.query_norm(self.to_query(box_waves(chosen, self.embed_dim)))  # (N, Q, 2 D)
        pos, state = made.chunk(2, dim=-1)  # (N, Q, D) each
        return Queries(state, pos, chosen), {"pred_logits": logits, "pred_boxes": boxes}
