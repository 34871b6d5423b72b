"""Deformable attention against scalar bilinear loops and transformers' modules with copied weights, and its padding."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from torch import Tensor, nn

from cs_transformers import deformable
from cs_transformers.deformable import (
    DeformableAttention,
    DeformableDetectionTransformer,
    RealGroupNorm,
    recorded_points,
    sample_levels,
    sampling_locations,
)
from cs_transformers.detection import ConvPyramid, level_mask, pad_images

N, T, H, K, P, L = 2, 3, 2, 4, 3, 2
D = H * K
SIZES = [(4, 5), (2, 3)]
S = sum(h * w for h, w in SIZES)
ZEROS = torch.zeros(N, T, D), torch.zeros(N, T, L, 2), torch.zeros(N, S, D)


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lively(model: nn.Module, scale: float = 0.5) -> nn.Module:
    generator = torch.Generator().manual_seed(3)
    model = model.double().eval()
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64)
            value.copy_(drawn + 0.5 if "var" in name else (drawn - 0.5) * 2 * scale)
    return model


# ---------------------------------------------------------------- places


def test_offsets_count_cells_around_a_point_and_parts_of_a_box() -> None:
    offsets, points = 4 * noise(N, T, H, L, P, 2) - 2, noise(N, T, L, 4, seed=1)
    around_point = sampling_locations(points[..., :2], offsets, SIZES)
    around_box = sampling_locations(points, offsets, SIZES)
    for n, t, head, level, point in itertools.product(*map(range, (N, T, H, L, P))):
        (dx, dy), (x, y, w, h) = offsets[n, t, head, level, point].tolist(), points[n, t, level].tolist()
        height, width = SIZES[level]
        found = around_point[n, t, head, level, point].tolist()
        assert found == pytest.approx([x + dx / width, y + dy / height], abs=1e-12)
        found = around_box[n, t, head, level, point].tolist()
        assert found == pytest.approx([x + dx / P * w / 2, y + dy / P * h / 2], abs=1e-12)


@pytest.mark.parametrize(("reference", "offsets", "error", "message"), [
    (torch.zeros(N, T, L, 3), torch.zeros(N, T, H, L, P, 2), ValueError, "reference must be of shape"),
    (torch.zeros(N, T, 2), torch.zeros(N, T, H, L, P, 2), ValueError, "reference must be of shape"),
    (torch.zeros(N, T, L, 2), torch.zeros(N, T, H, L + 1, P, 2), ValueError, "offsets must be of shape"),
    (torch.zeros(N, T, L, 2), torch.zeros(N, T, H, L, P, 2).int(), TypeError, "offsets must be a tensor of a floating"),
])  # fmt: skip
def test_places_refuse_other_shapes(reference: Tensor, offsets: Tensor, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        sampling_locations(reference, offsets, SIZES)


# ---------------------------------------------------------------- reading


def cell(fmap: list, row: int, column: int) -> float:
    return fmap[row][column] if 0 <= row < len(fmap) and 0 <= column < len(fmap[0]) else 0.0


def bilinear(fmap: list, x: float, y: float) -> float:
    column, row = x * len(fmap[0]) - 0.5, y * len(fmap) - 0.5
    left, top = math.floor(column), math.floor(row)
    right, below = column - left, row - top
    return ((1 - below) * ((1 - right) * cell(fmap, top, left) + right * cell(fmap, top, left + 1))
            + below * ((1 - right) * cell(fmap, top + 1, left) + right * cell(fmap, top + 1, left + 1)))  # fmt: skip


def test_reading_equals_scalar_bilinear_loops_also_outside_the_map() -> None:
    value, places, shares = noise(N, S, H, K), 2 * noise(N, T, H, L, P, 2, seed=1) - 0.5, noise(N, T, H, L, P, seed=2)
    found = sample_levels(value, SIZES, places, shares)
    starts = [0, 20]
    for n, t, head, channel in itertools.product(*map(range, (N, T, H, K))):
        total = 0.0
        for level, point in itertools.product(range(L), range(P)):
            h, w = SIZES[level]
            fmap = value[n, starts[level] : starts[level] + h * w, head, channel].view(h, w).tolist()
            total += shares[n, t, head, level, point].item() * bilinear(
                fmap, *places[n, t, head, level, point].tolist()
            )
        assert found[n, t, head * K + channel].item() == pytest.approx(total, abs=1e-9)


def test_a_point_in_the_middle_of_a_cell_reads_that_cell() -> None:
    value = noise(1, S, 1, K)
    places = (
        torch.tensor([(2 + 0.5) / 5, (3 + 0.5) / 4], dtype=torch.float64)
        .view(1, 1, 1, 1, 1, 2)
        .expand(1, 1, 1, 2, 1, 2)
    )
    shares = torch.tensor([1.0, 0.0], dtype=torch.float64).view(1, 1, 1, 2, 1)
    torch.testing.assert_close(
        sample_levels(value, SIZES, places, shares)[0, 0], value[0, 3 * 5 + 2, 0], rtol=0, atol=1e-12
    )


# ---------------------------------------------------------------- the module


def their_attention(ours: DeformableAttention) -> nn.Module:
    from transformers import DeformableDetrConfig
    from transformers.models.deformable_detr import modeling_deformable_detr as theirs

    config = DeformableDetrConfig(d_model=D, num_feature_levels=L, use_timm_backbone=False, backbone_config=tiny())
    made = theirs.DeformableDetrMultiscaleDeformableAttention(config, num_heads=H, n_points=P).double().eval()
    made.load_state_dict(ours.state_dict())
    return made


def tiny() -> object:
    from transformers import ResNetConfig

    return ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], out_features=["stage1"])


@pytest.mark.parametrize("numbers", [2, 4])
def test_attention_equals_transformers_with_its_gradients(numbers: int) -> None:
    ours = lively(DeformableAttention(D, L, H, P))
    theirs = their_attention(ours)
    query, memory = noise(N, T, D).requires_grad_(), noise(N, S, D, seed=1).requires_grad_()
    reference = noise(N, T, L, numbers, seed=2)
    real = torch.ones(N, S, dtype=torch.bool)
    real[1, 15:20] = real[1, 24:] = False
    shapes = torch.tensor(SIZES)
    expected, _ = theirs(
        query, attention_mask=real, encoder_hidden_states=memory, reference_points=reference, spatial_shapes=shapes,
        spatial_shapes_list=SIZES, level_start_index=torch.tensor([0, 20]),
    )  # fmt: skip
    found = ours(query, reference, memory, SIZES, key_mask=real)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9)
    upstream = noise(N, T, D, seed=4)
    mine = torch.autograd.grad((found * upstream).sum(), [query, memory, *ours.parameters()])
    other = torch.autograd.grad((expected * upstream).sum(), [query, memory, *theirs.parameters()])
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_shares_sum_to_one_over_levels_and_points_together() -> None:
    _, shares = lively(DeformableAttention(D, L, H, P)).points(noise(N, T, D), noise(N, T, L, 2), SIZES)
    torch.testing.assert_close(shares.sum(dim=(3, 4)), torch.ones(N, T, H, dtype=torch.float64))
    assert not torch.allclose(shares.sum(dim=4), torch.full((), 0.5, dtype=torch.float64))


def test_a_fresh_module_looks_in_rings_with_equal_shares_whatever_the_query() -> None:
    attend = DeformableAttention(32, num_levels=1, num_heads=8, num_points=2)
    sizes, reference = [(10, 20)], torch.full((1, 2, 1, 2), 0.5)
    places, shares = attend.points(torch.randn(1, 2, 32), reference, sizes)
    assert torch.equal(places[0, 0], places[0, 1])
    torch.testing.assert_close(shares, torch.full_like(shares, 0.5))
    cells = (places - 0.5) * torch.tensor([20.0, 10.0])
    steps = cells[0, 0, :, 0].abs().amax(dim=-1)  # (H, P) in cells, the larger of both axes
    torch.testing.assert_close(steps, torch.tensor([[1.0, 2.0]]).expand(8, 2), rtol=1e-5, atol=1e-5)
    first = cells[0, 0, :, 0, 0].round().int().tolist()
    assert first == [[1, 0], [1, 1], [0, 1], [-1, 1], [-1, 0], [-1, -1], [0, -1], [1, -1]]


def test_padding_is_read_as_nothing() -> None:
    attend, query, reference = lively(DeformableAttention(D, L, H, P)), noise(N, T, D), noise(N, T, L, 2)
    real = torch.ones(N, S, dtype=torch.bool)
    real[:, 12:20] = False
    memory = noise(N, S, D, seed=1).requires_grad_()
    found = attend(query, reference, memory, SIZES, key_mask=real)
    (gradient,) = torch.autograd.grad(found.sum(), memory)
    assert torch.equal(gradient[:, 12:20], torch.zeros(N, 8, D, dtype=torch.float64))
    assert gradient[:, :12].abs().max() > 0


@pytest.mark.parametrize(("call", "message"), [
    (lambda m: m(ZEROS[0][..., 1:], *ZEROS[1:], SIZES), "query must be of shape"),
    (lambda m: m(*ZEROS, SIZES[:1]), "sizes must be of 2 levels"),
    (lambda m: m(*ZEROS[:2], ZEROS[2][:, 1:], SIZES), "memory must be of S = 26"),
    (lambda m: m(ZEROS[0], torch.zeros(N, T, L, 3), ZEROS[2], SIZES), "reference must be of shape"),
    (lambda m: m(*ZEROS, SIZES, key_mask=torch.ones(N, T)), "key_mask must be of shape"),
    (lambda _: DeformableAttention(8, num_heads=3), "embed_dim must be a multiple of num_heads = 3, got 8"),
    (lambda _: DeformableAttention(8, num_levels=0), "num_levels must be a positive whole number"),
    (lambda _: DeformableDetectionTransformer(0), "num_classes must be a positive whole number"),
    (lambda _: DeformableDetectionTransformer(2, two_stage=True), "two_stage must be off without refine, got True"),
])  # fmt: skip
def test_wrong_calls_say_what_they_expect(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call(DeformableAttention(D, L, H, P))


# ---------------------------------------------------------------- group norm over real cells


def test_group_norm_without_padding_is_torchs() -> None:
    x, ours = noise(N, 8, 4, 5), lively(RealGroupNorm(2, 8))
    theirs = nn.GroupNorm(2, 8).double()
    theirs.load_state_dict(ours.state_dict())
    real = torch.ones(N, 4, 5, dtype=torch.bool)
    torch.testing.assert_close(ours(x, real), theirs(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=0)


def test_group_norm_of_a_padded_map_is_that_of_the_map_alone() -> None:
    ours, small = lively(RealGroupNorm(2, 8)), noise(1, 8, 3, 4)
    padded, real = torch.full((1, 8, 5, 6), 9.0, dtype=torch.float64), torch.zeros(1, 5, 6, dtype=torch.bool)
    padded[:, :, :3, :4], real[:, :3, :4] = small, True
    torch.testing.assert_close(ours(padded, real)[:, :, :3, :4], ours(small), rtol=1e-12, atol=1e-12)


# ---------------------------------------------------------------- the whole model

Q, CLASSES, WIDTH, HEADS = 5, 3, 32, 4


def detector(**options: object) -> DeformableDetectionTransformer:
    options = {"backbone": ConvPyramid((4, 6, 8), (2, 2, 2), levels=2), "num_levels": 3, "num_points": 2, **options}
    return lively(DeformableDetectionTransformer(CLASSES, Q, WIDTH, HEADS, 2, 3, 20, 0.0, **options), 0.3)


class TheirBackbone(nn.Module):
    """Our feature maps in the form that transformers' model expects."""

    def __init__(self, ours: ConvPyramid) -> None:
        super().__init__()
        self.ours, self.intermediate_channel_sizes = ours, ours.channels

    def forward(self, pixels: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        real = None if bool(mask.all()) else mask.bool()
        maps = self.ours(pixels, real)
        return [(fmap, level_mask(real, fmap.shape[-2:], like=fmap)) for fmap in maps]


def their_model(ours: DeformableDetectionTransformer) -> nn.Module:
    from transformers import DeformableDetrConfig, DeformableDetrForObjectDetection

    config = DeformableDetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=tiny(), num_queries=Q,
        d_model=WIDTH, encoder_layers=2, decoder_layers=3, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=20, decoder_ffn_dim=20, encoder_n_points=2, decoder_n_points=2, num_feature_levels=3,
        num_labels=CLASSES, dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, with_box_refine=ours.refine,
        two_stage=ours.two_stage, two_stage_num_proposals=Q,
    )  # fmt: skip
    theirs = DeformableDetrForObjectDetection(config).double().eval()
    body = theirs.model
    body.backbone = TheirBackbone(ours.backbone)
    body.input_proj = nn.ModuleList(nn.Sequential(*projection) for projection in ours.input_proj)
    body.level_embed.data.copy_(ours.level_embed)
    if not ours.two_stage:
        body.query_position_embeddings.load_state_dict(ours.query_embed.state_dict())
        body.reference_points.load_state_dict(ours.reference_points.state_dict())
    roles = {
        "ffn.fc1": "mlp.fc1",
        "ffn.fc2": "mlp.fc2",
        "norm_self": "self_attn_layer_norm",
        "norm_ffn": "final_layer_norm",
    }
    own = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "proj": "o_proj"}
    decoding = {
        **roles, **{f"self_attn.{mine}": f"self_attn.{name}" for mine, name in own.items()},
        "cross_attn": "encoder_attn", "norm_cross": "encoder_attn_layer_norm",
    }  # fmt: skip
    for layers, others, names in (
        (ours.encoder, body.encoder.layers, {**roles, "self_attn": "self_attn"}),
        (ours.decoder, body.decoder.layers, decoding),
    ):
        for layer, other in zip(layers, others, strict=True):
            for mine, name in names.items():
                other.get_submodule(name).load_state_dict(layer.get_submodule(mine).state_dict())
    # Heads of their own for every layer, as the paper has them; transformers ties them all to the first.
    heads = [index if ours.refine else 0 for index in range(3)]
    theirs.class_embed = nn.ModuleList(copy.deepcopy(ours.class_embed[head]) for head in heads)
    theirs.bbox_embed = nn.ModuleList(copy.deepcopy(ours.bbox_embed[head]) for head in heads)
    if ours.refine:
        body.decoder.bbox_embed = theirs.bbox_embed
    if ours.two_stage:
        copy_proposals(ours, theirs)
    return theirs


def copy_proposals(ours: DeformableDetectionTransformer, theirs: nn.Module) -> None:
    """Their proposals have a class head with a column for each class, of which the first alone is looked at."""
    body, made = theirs.model, ours.proposals
    names = {
        "project": "enc_output",
        "norm": "enc_output_norm",
        "to_query": "pos_trans",
        "query_norm": "pos_trans_norm",
    }
    for mine, name in names.items():
        body.get_submodule(name).load_state_dict(made.get_submodule(mine).state_dict())
    head = nn.Linear(WIDTH, CLASSES).double()
    head.weight.data[0], head.bias.data[0] = made.class_embed.weight.data[0], made.class_embed.bias.data[0]
    theirs.class_embed.append(head)
    theirs.bbox_embed.append(copy.deepcopy(made.bbox_embed))
    body.decoder.class_embed, body.decoder.bbox_embed = theirs.class_embed, theirs.bbox_embed


@pytest.mark.parametrize("refine", [False, True])
def test_the_model_equals_that_of_transformers_layer_by_layer(refine: bool) -> None:
    ours, images = detector(refine=refine), noise(N, 3, 32, 48)
    theirs = their_model(ours)
    found, expected = ours(images), theirs(images)
    torch.testing.assert_close(found["pred_logits"], expected.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_boxes"], expected.pred_boxes, rtol=1e-9, atol=1e-9)
    states = expected.intermediate_hidden_states
    for index, layer in enumerate(found["aux_outputs"]):
        logits = theirs.class_embed[index](states[:, index])
        torch.testing.assert_close(layer["pred_logits"], logits, rtol=1e-9, atol=1e-9)
        if refine:
            boxes = expected.intermediate_reference_points[:, index]
            torch.testing.assert_close(layer["pred_boxes"], boxes, rtol=1e-9, atol=1e-9)


def test_with_padding_the_model_equals_that_of_transformers_given_the_same_maps() -> None:
    """Their group norm counts padding, ours does not: both get our normed maps."""
    ours = detector()
    images, real = pad_images([noise(3, 24, 48), noise(3, 32, 16, seed=1)])
    expected = their_model_of_maps(ours, images, real)(images, pixel_mask=real.long())
    found = ours(images, real)
    torch.testing.assert_close(found["pred_logits"], expected.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_boxes"], expected.pred_boxes, rtol=1e-9, atol=1e-9)


def their_model_of_maps(ours: DeformableDetectionTransformer, images: Tensor, real: Tensor) -> nn.Module:
    theirs, made = their_model(ours), ours.see(images, real)
    maps = [part.transpose(1, 2).unflatten(2, size) for part, size in zip(
        made.tokens.split([h * w for h, w in made.sizes], dim=1), made.sizes, strict=True)]  # fmt: skip

    class Ready(nn.Module):
        def forward(self, _pixels: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
            return [(fmap, level_mask(mask.bool(), fmap.shape[-2:])) for fmap in maps]

    theirs.model.backbone, theirs.model.input_proj = Ready(), nn.ModuleList([nn.Identity()] * 3)
    return theirs


def slow_waves(boxes: Tensor) -> Tensor:
    """Sines and cosines of boxes, number by number: transformers computes them in single precision only."""
    found = torch.zeros(*boxes.shape[:2], 2 * WIDTH, dtype=torch.float64)
    half = WIDTH // 2
    for n, q, number, channel in itertools.product(*map(range, (*boxes.shape[:2], 4, half))):
        angle = 2 * math.pi * boxes[n, q, number].item() / 10000 ** (2 * (channel // 2) / half)
        found[n, q, number * half + channel] = math.cos(angle) if channel % 2 else math.sin(angle)
    return found


def test_two_stages_equal_those_of_transformers() -> None:
    ours, images = detector(refine=True, two_stage=True), noise(N, 3, 32, 48)
    theirs, found = their_model(ours), ours(images)
    body, single = theirs.model, theirs(images)
    torch.testing.assert_close(found["pred_boxes"], single.pred_boxes, rtol=0, atol=1e-5)  # all of it their own
    body.get_proposal_pos_embed = lambda logits: slow_waves(logits.sigmoid())
    expected = theirs(images)
    proposed = found["enc_outputs"]
    torch.testing.assert_close(proposed["pred_logits"], expected.enc_outputs_class[..., :1], rtol=1e-9, atol=1e-9)
    boxes = expected.enc_outputs_coord_logits.sigmoid()
    torch.testing.assert_close(proposed["pred_boxes"], boxes, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_logits"], expected.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_boxes"], expected.pred_boxes, rtol=1e-9, atol=1e-9)
    for index, layer in enumerate(found["aux_outputs"]):
        boxes = expected.intermediate_reference_points[:, index]
        torch.testing.assert_close(layer["pred_boxes"], boxes, rtol=1e-9, atol=1e-9)


def test_two_stages_with_padding_equal_those_of_transformers_given_the_same_maps() -> None:
    ours = detector(refine=True, two_stage=True)
    images, real = pad_images([noise(3, 24, 48), noise(3, 32, 16, seed=1)])
    theirs, found = their_model_of_maps(ours, images, real), ours(images, real)
    theirs.model.get_proposal_pos_embed = lambda logits: slow_waves(logits.sigmoid())
    expected, proposed = theirs(images, pixel_mask=real.long()), found["enc_outputs"]
    useful = (proposed["pred_logits"] > -50).squeeze(-1)
    assert torch.equal(useful, expected.enc_outputs_coord_logits.isfinite().all(-1))
    assert 0 < useful.sum() < useful.numel()
    logits = expected.enc_outputs_class[..., :1][useful]
    torch.testing.assert_close(proposed["pred_logits"][useful], logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(
        proposed["pred_boxes"], expected.enc_outputs_coord_logits.sigmoid(), rtol=1e-9, atol=1e-9
    )
    torch.testing.assert_close(found["pred_logits"], expected.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_boxes"], expected.pred_boxes, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("refine", "two_stage"), [(False, False), (True, False), (True, True)])
def test_a_batch_with_padding_gives_what_its_images_give_alone(refine: bool, two_stage: bool) -> None:
    model = detector(refine=refine, two_stage=two_stage)
    singles = [noise(3, 24, 40), noise(3, 29, 17, seed=1), noise(3, 20, 18, seed=2)]
    together = model(*pad_images(singles, multiple=16))
    for index, image in enumerate(singles):
        alone = model(image.unsqueeze(0))
        for name in ("pred_logits", "pred_boxes"):
            torch.testing.assert_close(together[name][index], alone[name][0], rtol=1e-9, atol=1e-9)


def test_boxes_start_small_at_their_reference_and_classes_are_unlikely() -> None:
    model = DeformableDetectionTransformer(CLASSES, Q, WIDTH, HEADS, 1, 2, 20, num_levels=2).eval()
    found = model(torch.rand(1, 3, 32, 48))
    query_pos = model.query_embed.weight[:, :WIDTH]
    torch.testing.assert_close(found["pred_boxes"][0, :, :2], model.reference_points(query_pos).sigmoid())
    torch.testing.assert_close(found["pred_boxes"][..., 2:], torch.full((1, Q, 2), 1 / (1 + math.exp(2))))
    assert model.class_embed[0].bias.tolist() == pytest.approx([-math.log(99)] * CLASSES)


def test_refinement_starts_by_keeping_the_box_of_the_first_layer() -> None:
    model = DeformableDetectionTransformer(CLASSES, Q, WIDTH, HEADS, 1, 3, 20, num_levels=2, refine=True).eval()
    found = model(torch.rand(1, 3, 32, 48))
    for layer in found["aux_outputs"]:
        torch.testing.assert_close(layer["pred_boxes"], found["pred_boxes"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"refine": True}, {"refine": True, "two_stage": True}, {"num_levels": 1}, {"num_levels": 4}]
)
def test_every_parameter_learns(options: dict) -> None:
    model = lively(DeformableDetectionTransformer(CLASSES, Q, WIDTH, HEADS, 1, 2, 20, **options)).train()
    found = model(noise(N, 3, 64, 64))
    layers = [found, *found["aux_outputs"], *([found["enc_outputs"]] if "enc_outputs" in found else [])]
    sum(layer["pred_logits"].square().sum() + layer["pred_boxes"].square().sum() for layer in layers).backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_points_can_be_recorded_and_the_hooks_go_away() -> None:
    model = detector()
    with recorded_points(model) as points:
        model(noise(N, 3, 32, 48))
    places, shares = points["decoder.2.cross_attn"][0]
    assert places.shape == (N, Q, HEADS, 3, 2, 2)
    assert shares.shape == (N, Q, HEADS, 3, 2)
    model(noise(N, 3, 32, 48))
    assert len(points["decoder.2.cross_attn"]) == 1
    with (
        pytest.raises(ValueError, match="model must be one with DeformableAttention layers"),
        recorded_points(nn.Linear(2, 2)),
    ):
        pass


def test_rows_of_cells_stand_for_the_cells_of_the_maps() -> None:
    model, images = detector(), noise(1, 3, 32, 48)
    levels = model.see(images)
    assert levels.sizes == [(8, 12), (4, 6), (2, 3)]
    centres = deformable._cell_centres(levels)
    assert centres[0, 1 * 12 + 3].tolist() == pytest.approx([3.5 / 12, 1.5 / 8])
    assert centres[0, 96 + 1 * 6 + 3].tolist() == pytest.approx([3.5 / 6, 1.5 / 4])
