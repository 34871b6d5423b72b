"""Speed of deformable attention: against transformers' module, and growing with the image against dense attention."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

from benchmarks.records import Record, SkippedError, record, save_picture
from cs_transformers.attention import MultiHeadAttention
from cs_transformers.deformable import DeformableAttention
from cs_transformers.plots.style import use_style

WIDTH, HEADS, POINTS = 64, 4, 4
ROUNDS, QUICK_ROUNDS = 7, 1
SIDES = (64, 96, 128, 192, 256)  # pixels; the levels have strides of 8, 16 and 32
STRIDES = (8, 16, 32)
AGAINST = 256  # side for the comparison with transformers' module


def run(*, quick: bool, seeds: Sequence[int]) -> list[Record]:
    """Time forward and backward passes of attention among all cells of three levels, the kinds in turn in each round.

    Dense attention takes its explicit path: like the others it has no fused kernel.

    Args:
        quick: One round on small images, to show that it works.
        seeds: Seeds of weights and inputs, one repeat each.

    Returns:
        Milliseconds beside those of transformers' module, and by how much both kinds of attention grow with the image.

    Raises:
        SkippedError: If transformers is not installed.
    """
    try:
        import transformers  # noqa: F401
    except ImportError as error:
        raise SkippedError("needs the extra 'dev': pip install 'cs_transformers[dev]'") from error
    sides, rounds = ((32, 64), QUICK_ROUNDS) if quick else (SIDES, ROUNDS)
    times = {side: [_rounds(side, rounds, seed) for seed in seeds] for side in sides}
    compared = times[sides[-1] if quick else AGAINST]
    ours = [_median(one, "ours") for one in compared]
    made = record(
        "detection", "detection_speed/against_transformers", ours, "ms", seeds=seeds,
        peer=statistics.mean(_median(one, "theirs") for one in compared),
    )  # fmt: skip
    made.ratio = statistics.mean(statistics.median(row["ours"] / row["theirs"] for row in one) for one in compared)
    records = [made]
    for kind in ("ours", "dense"):
        growth = [
            _median(last, kind) / _median(first, kind)
            for first, last in zip(times[sides[0]], times[sides[-1]], strict=True)
        ]
        name = {"ours": "deformable", "dense": "dense"}[kind]
        size = f"{sides[0]}_to_{sides[-1]}_pixels"
        records.append(
            record("detection", f"detection_speed/{name}_growth_{size}", growth, "times as long", seeds=seeds)
        )
    if not quick:
        _draw(times)
    return records


def _median(rows: list[dict[str, float]], kind: str) -> float:
    return 1000 * statistics.median(row[kind] for row in rows)


def _rounds(side: int, rounds: int, seed: int) -> list[dict[str, float]]:
    torch.manual_seed(seed)
    sizes = [(side // stride, side // stride) for stride in STRIDES]
    cells = sum(height * width for height, width in sizes)
    tokens = torch.randn(1, cells, WIDTH, requires_grad=True)
    reference = torch.rand(1, cells, len(sizes), 2)
    ours, dense = DeformableAttention(WIDTH, len(sizes), HEADS, POINTS), MultiHeadAttention(WIDTH, HEADS, dropout=0.0)
    theirs = _theirs(ours)
    starts = torch.tensor([0, *torch.tensor([h * w for h, w in sizes]).cumsum(0)[:-1].tolist()])
    options: dict[str, Any] = {
        "encoder_hidden_states": tokens, "reference_points": reference, "spatial_shapes": torch.tensor(sizes),
        "spatial_shapes_list": sizes, "level_start_index": starts,
    }  # fmt: skip
    calls: dict[str, Callable[[], Tensor]] = {
        "ours": lambda: ours(tokens, reference, tokens, sizes),
        "theirs": lambda: theirs(tokens, **options)[0],
        "dense": lambda: dense(tokens, tokens, tokens, need_weights=True)[0],
    }
    for call in calls.values():
        _seconds(call)  # the first call of each allocates and chooses kernels
    return [{name: _seconds(call) for name, call in calls.items()} for _ in range(rounds)]


def _theirs(ours: DeformableAttention) -> nn.Module:
    from transformers import DeformableDetrConfig, ResNetConfig
    from transformers.models.deformable_detr import modeling_deformable_detr as theirs

    body = ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], out_features=["stage1"])
    config = DeformableDetrConfig(
        d_model=WIDTH, num_feature_levels=len(STRIDES), use_timm_backbone=False, backbone_config=body
    )
    made = theirs.DeformableDetrMultiscaleDeformableAttention(config, num_heads=HEADS, n_points=POINTS)
    made.load_state_dict(ours.state_dict())
    return made


def _seconds(call: Callable[[], Tensor]) -> float:
    started = time.perf_counter()
    call().sum().backward()
    return time.perf_counter() - started


def _draw(times: dict[int, list[list[dict[str, float]]]]) -> None:
    use_style()
    figure, axes = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    names = {"ours": "deformable attention", "theirs": "the same, transformers' module", "dense": "dense attention"}
    for kind, marker in zip(names, "os^", strict=True):
        values = [statistics.mean(_median(one, kind) for one in times[side]) for side in times]
        axes.plot(list(times), values, marker=marker, label=names[kind])
    axes.set(xscale="log", yscale="log", xlabel="side of the image (pixels)", ylabel="forward and backward (ms)")
    axes.set_xticks(list(times), [str(side) for side in times])
    axes.minorticks_off()
    axes.set_title("Attention among all cells of three levels")
    axes.legend()
    save_picture("detection_speed", figure)
