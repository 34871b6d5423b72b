"""DETR against transformers' with copied weights, padding, and what comes out in pixels."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from cs_transformers.attention import recorded_weights
from cs_transformers.detection import (
    BoxHead,
    ConvPyramid,
    DetectionTransformer,
    level_mask,
    pad_images,
    post_process,
    sine_grid,
)
from cs_transformers.matching import SetCriterion

N, Q, K, D, H, F = 2, 5, 3, 12, 2, 20


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lively(model: nn.Module) -> nn.Module:
    """Weights that leave no part idle, and batch norms that have seen something."""
    generator = torch.Generator().manual_seed(3)
    model = model.double().eval()
    for name, value in model.state_dict().items():
        if value.is_floating_point():
            drawn = torch.rand(value.shape, generator=generator, dtype=torch.float64)
            value.copy_(drawn + 0.5 if "var" in name else (drawn - 0.5) * (1.0 if value.dim() > 1 else 0.6))
    return model


def small(**options: object) -> DetectionTransformer:
    options = {"backbone": ConvPyramid((4, 6, 8), (2, 2, 2)), "dropout": 0.0, **options}
    return lively(DetectionTransformer(K, Q, D, H, 2, 3, F, **options))


# ---------------------------------------------------------------- positions


@pytest.mark.parametrize("shift", [0.0, -0.5])
def test_positions_equal_those_of_transformers(shift: float) -> None:
    from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrSinePositionEmbedding
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    real = torch.zeros(N, 4, 5, dtype=torch.bool)
    real[0], real[1, :3, :2] = True, True
    theirs = DeformableDetrSinePositionEmbedding if shift else DetrSinePositionEmbedding
    expected = theirs(D // 2, normalize=True)(torch.Size([N, 1, 4, 5]), "cpu", torch.float64, real)
    torch.testing.assert_close(sine_grid(real, D, shift=shift), expected.permute(0, 2, 3, 1), rtol=1e-9, atol=1e-9)


def test_positions_are_sines_and_cosines_of_rows_then_columns() -> None:
    found = sine_grid(torch.ones(1, 2, 3, dtype=torch.bool), 8, temperature=100.0)
    for row in range(2):
        for column in range(3):
            y, x = 2 * math.pi * (row + 1) / (2 + 1e-6), 2 * math.pi * (column + 1) / (3 + 1e-6)
            wanted = [wave(place / scale) for place in (y, x) for scale in (1.0, 10.0) for wave in (math.sin, math.cos)]
            assert found[0, row, column].tolist() == pytest.approx(wanted, abs=1e-12)


def test_a_padded_grid_has_the_positions_of_the_grid_alone() -> None:
    real = torch.zeros(1, 6, 7, dtype=torch.bool)
    real[0, :4, :5] = True
    alone = sine_grid(torch.ones(1, 4, 5, dtype=torch.bool), D)
    torch.testing.assert_close(sine_grid(real, D)[:, :4, :5], alone, rtol=0, atol=0)


@pytest.mark.parametrize(("real", "width", "error", "message"), [
    (torch.ones(2, 3), 8, ValueError, r"real must be of shape \(N, h, w\)"),
    (torch.ones(1, 2, 3), 6, ValueError, "embed_dim must be a multiple of 4, got 6"),
    ([[1]], 8, TypeError, "real must be a torch.Tensor"),
    (torch.full((1, 2, 3), -1.0), 8, ValueError, "real must be 0/1"),
])  # fmt: skip
def test_positions_refuse_what_they_cannot_use(real: object, width: int, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        sine_grid(real, width)


# ---------------------------------------------------------------- the whole model


class TheirBackbone(nn.Module):
    """Our feature maps in the form that transformers' DETR expects."""

    def __init__(self, ours: ConvPyramid) -> None:
        super().__init__()
        self.ours, self.intermediate_channel_sizes = ours, ours.channels

    def forward(self, pixels: Tensor, mask: Tensor) -> list[tuple[Tensor, Tensor]]:
        return [(fmap, level_mask(mask.bool(), fmap.shape[-2:])) for fmap in self.ours(pixels, mask.bool())]


ATTENTION = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "proj": "o_proj"}
ROLES = {
    **{f"self_attn.{ours}": f"self_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    **{f"cross_attn.{ours}": f"encoder_attn.{theirs}" for ours, theirs in ATTENTION.items()},
    "ffn.fc1": "mlp.fc1", "ffn.fc2": "mlp.fc2", "norm_self": "self_attn_layer_norm",
    "norm_cross": "encoder_attn_layer_norm", "norm_ffn": "final_layer_norm",
}  # fmt: skip


def copy_layers(ours: nn.ModuleList, theirs: nn.ModuleList) -> None:
    for layer, other in zip(ours, theirs, strict=True):
        for role, name in ROLES.items():
            if role.split(".")[0] in dict(layer.named_children()):
                other.get_submodule(name).load_state_dict(layer.get_submodule(role).state_dict())


def their_model(ours: DetectionTransformer) -> nn.Module:
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    body = ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], out_features=["stage1"])
    config = DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=body, num_queries=Q,
        d_model=D, encoder_layers=2, decoder_layers=3, encoder_attention_heads=H, decoder_attention_heads=H,
        encoder_ffn_dim=F, decoder_ffn_dim=F, num_labels=K, dropout=0.0, attention_dropout=0.0, auxiliary_loss=False,
    )  # fmt: skip
    theirs = DetrForObjectDetection(config).double().eval()
    theirs.model.backbone = TheirBackbone(ours.backbone)
    theirs.model.input_projection = ours.input_proj
    copy_layers(ours.encoder.layers, theirs.model.encoder.layers)
    copy_layers(ours.decoder.layers, theirs.model.decoder.layers)
    theirs.model.decoder.layernorm.load_state_dict(ours.decoder.norm.state_dict())
    theirs.model.query_position_embeddings.load_state_dict(ours.query_embed.state_dict())
    theirs.class_labels_classifier.load_state_dict(ours.class_embed.state_dict())
    theirs.bbox_predictor.load_state_dict(ours.bbox_embed.state_dict())
    return theirs


def padded() -> tuple[Tensor, Tensor]:
    return pad_images([noise(3, 24, 40), noise(3, 32, 16, seed=1)])


def test_the_model_equals_that_of_transformers_layer_by_layer() -> None:
    """The states of earlier layers come by hooks: with its option for auxiliary losses, the normed state is fed on."""
    ours, (images, real) = small(), padded()
    theirs, states = their_model(ours), []
    for layer in theirs.model.decoder.layers:
        layer.register_forward_hook(lambda _layer, _inputs, out: states.append(out))
    last = theirs(images, pixel_mask=real.long())
    found = ours(images, real)
    torch.testing.assert_close(found["pred_logits"], last.logits, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found["pred_boxes"], last.pred_boxes, rtol=1e-9, atol=1e-9)
    for layer, state in zip([*found["aux_outputs"], found], states, strict=True):
        normed = theirs.model.decoder.layernorm(state)
        torch.testing.assert_close(layer["pred_logits"], theirs.class_labels_classifier(normed), rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(layer["pred_boxes"], theirs.bbox_predictor(normed).sigmoid(), rtol=1e-9, atol=1e-9)


def test_gradients_equal_those_of_transformers() -> None:
    ours, (images, real) = small(), padded()
    theirs = their_model(ours)
    found = ours(images, real)
    last = theirs(images, pixel_mask=real.long())
    upstream = noise(N, Q, K + 1, seed=5), noise(N, Q, 4, seed=6)
    total = (found["pred_logits"] * upstream[0]).sum() + (found["pred_boxes"] * upstream[1]).sum()
    their_total = (last.logits * upstream[0]).sum() + (last.pred_boxes * upstream[1]).sum()
    pairs = [
        (ours.query_embed.weight, theirs.model.query_position_embeddings.weight),
        (ours.encoder.layers[0].self_attn.query.weight, theirs.model.encoder.layers[0].self_attn.q_proj.weight),
        (ours.decoder.layers[1].cross_attn.key.weight, theirs.model.decoder.layers[1].encoder_attn.k_proj.weight),
        (ours.bbox_embed.layers[0].weight, theirs.bbox_predictor.layers[0].weight),
    ]
    mine = torch.autograd.grad(total, [one for one, _ in pairs])
    other = torch.autograd.grad(their_total, [one for _, one in pairs])
    for one, two in zip(mine, other, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-8, atol=1e-9)


def test_a_batch_with_padding_gives_what_its_images_give_alone() -> None:
    model = small()
    singles = [noise(3, 24, 40), noise(3, 29, 17, seed=1), noise(3, 8, 8, seed=2)]
    together = model(*pad_images(singles, multiple=16))
    for index, image in enumerate(singles):
        alone = model(image.unsqueeze(0))
        for name in ("pred_logits", "pred_boxes"):
            torch.testing.assert_close(together[name][index], alone[name][0], rtol=1e-9, atol=1e-9)


def test_what_stands_in_the_padding_does_not_matter() -> None:
    model, (images, real) = small(), padded()
    other = images.masked_fill(~real.unsqueeze(1), 0.7)
    for name in ("pred_logits", "pred_boxes"):
        torch.testing.assert_close(model(other, real)[name], model(images, real)[name], rtol=1e-9, atol=1e-9)


def test_a_mask_of_nothing_but_real_pixels_changes_nothing() -> None:
    model, images = small(), noise(N, 3, 24, 32)
    masked = model(images, torch.ones(N, 24, 32))
    torch.testing.assert_close(masked["pred_boxes"], model(images)["pred_boxes"], rtol=0, atol=0)


def test_the_queries_are_a_set() -> None:
    """Other queries in other places say the same in those places."""
    model, images = small(), noise(N, 3, 24, 32)
    before = model(images)["pred_boxes"]
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        model.query_embed.weight.copy_(model.query_embed.weight[order])
    torch.testing.assert_close(model(images)["pred_boxes"], before[:, order], rtol=1e-9, atol=1e-9)


def test_a_query_may_be_kept_from_looking_at_others() -> None:
    """Then each says what it says alone; a mask of ones changes nothing."""
    model, images = small(), noise(N, 3, 24, 32)
    whole = model(images)["pred_boxes"]
    torch.testing.assert_close(model(images, query_mask=torch.ones(Q, Q))["pred_boxes"], whole, rtol=1e-9, atol=1e-9)
    apart = model(images, query_mask=torch.eye(Q))["pred_boxes"]
    assert (apart - whole).abs().max() > 1e-7
    with torch.no_grad():
        model.query_embed.weight[3] += 1.0
    changed = model(images, query_mask=torch.eye(Q))["pred_boxes"]
    torch.testing.assert_close(changed[:, :3], apart[:, :3], rtol=1e-9, atol=1e-9)
    assert (changed[:, 3] - apart[:, 3]).abs().max() > 1e-7


def test_where_a_query_looks_can_be_recorded() -> None:
    model, images = small(), noise(N, 3, 24, 32)
    with recorded_weights(model) as weights:
        model(images)
    looked = weights["decoder.layers.2.cross_attn"][0]
    assert looked.shape == (N, H, Q, 3 * 4)
    torch.testing.assert_close(looked.sum(-1), torch.ones(N, H, Q, dtype=torch.float64))


@pytest.mark.parametrize("options", [{"norm_first": True}, {"activation": "gelu"}, {}])
def test_every_parameter_learns(options: dict) -> None:
    model = DetectionTransformer(K, Q, D, H, 1, 2, F, backbone=ConvPyramid((4, 6), (2, 2)), **options)
    found = model(torch.rand(N, 3, 16, 24))
    layers = [found, *found["aux_outputs"]]
    sum(layer["pred_logits"].square().sum() + layer["pred_boxes"].square().sum() for layer in layers).backward()
    assert not [name for name, parameter in model.named_parameters() if parameter.grad is None]


def test_one_image_and_one_query_keep_all_axes() -> None:
    model = DetectionTransformer(1, 1, D, H, 1, 1, F)
    found = model(torch.rand(1, 3, 16, 16))
    assert found["pred_logits"].shape == (1, 1, 2)
    assert found["pred_boxes"].shape == (1, 1, 4)
    assert found["aux_outputs"] == []


def test_one_image_one_query_and_one_object_can_be_learnt_from() -> None:
    model = DetectionTransformer(1, 1, D, H, 1, 2, F)
    target = {"labels": torch.tensor([0]), "boxes": torch.tensor([[0.5, 0.5, 0.2, 0.4]])}
    loss = SetCriterion(1)(model(torch.rand(1, 3, 16, 16)), [target])["loss"]
    loss.backward()
    assert loss.isfinite()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_bytes_are_read_as_fractions() -> None:
    model, images = small(), torch.randint(0, 256, (N, 3, 16, 24), dtype=torch.uint8)
    expected = model(images.double() / 255)["pred_boxes"]
    torch.testing.assert_close(model(images)["pred_boxes"], expected, rtol=0, atol=0)


def test_half_precision_and_no_values_at_all_work() -> None:
    model = DetectionTransformer(K, Q, D, H, 1, 1, F).to(torch.bfloat16)
    assert model(torch.rand(N, 3, 16, 24).to(torch.bfloat16))["pred_boxes"].dtype == torch.bfloat16
    with torch.device("meta"):
        model = DetectionTransformer(K, Q, D, H, 1, 1, F)
        assert model(torch.rand(N, 3, 16, 24), torch.ones(N, 16, 24))["pred_logits"].shape == (N, Q, K + 1)


@pytest.mark.parametrize(("images", "mask", "error", "message"), [
    (torch.zeros(3, 16, 24), None, ValueError, r"images must be of shape \(N, C, H, W\)"),
    (torch.zeros(N, 1, 16, 24), None, ValueError, r"\(any, 3, any, any\)"),
    (torch.zeros(N, 3, 16, 24, dtype=torch.int32), None, TypeError, "images must be a tensor of a floating dtype"),
    (torch.full((N, 3, 16, 24), 255.0), None, ValueError, r"images must be of pixels from 0 to 1, got .* to 255; div"),
    (torch.zeros(N, 3, 16, 24), torch.ones(N, 16, 20), ValueError, r"pixel_mask must be .* pad_images gives both"),
    (torch.zeros(N, 3, 16, 24), torch.full((N, 16, 24), -1.0), ValueError, "pixel_mask must be 0/1"),
])  # fmt: skip
def test_odd_images_are_refused(images: Tensor, mask: Tensor | None, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        DetectionTransformer(K, Q, D, H, 1, 1, F)(images, mask)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: DetectionTransformer(0), "num_classes must be a positive"),
    (lambda: DetectionTransformer(3, 0), "num_queries must be a positive"),
    (lambda: ConvPyramid((4, 8), (2,)), "strides must be 1 or 2, one per width"),
    (lambda: ConvPyramid((4, 8), (2, 3)), "strides must be 1 or 2"),
    (lambda: ConvPyramid((4, 8), (2, 1), levels=2), "levels must be at most 1, got 2"),
    (lambda: pad_images([]), "images must be at least one"),
    (lambda: pad_images([torch.zeros(1, 4, 4)]), r"image 0 must be of shape \(C, H, W\)"),
])  # fmt: skip
def test_wrong_sizes_say_what_they_expect(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


# ---------------------------------------------------------------- parts


def test_the_pyramid_gives_the_last_map_of_each_size() -> None:
    pyramid = ConvPyramid((4, 5, 6, 7), (2, 1, 2, 1), levels=2)
    assert pyramid.channels == [5, 7]
    assert [fmap.shape[1:] for fmap in pyramid(torch.zeros(1, 3, 15, 9))] == [(5, 8, 5), (7, 4, 3)]


def test_the_box_head_is_three_layers_with_relu() -> None:
    head, x = BoxHead(D).double(), noise(N, Q, D)
    first, second, third = head.layers
    torch.testing.assert_close(head(x), third(second(first(x).relu()).relu()), rtol=0, atol=0)


def test_padding_goes_to_the_right_and_the_bottom() -> None:
    images, real = pad_images([torch.ones(3, 2, 5), torch.ones(3, 4, 3)], multiple=4)
    assert images.shape == (2, 3, 4, 8)
    assert torch.equal(images[:, 0] > 0, real)
    assert real[0, :2, :5].all()
    assert real[1].sum() == 12


@pytest.mark.parametrize("size", [(7, 9), (8, 8), (15, 33)])
def test_a_cell_is_real_where_the_image_alone_would_have_one(size: tuple[int, int]) -> None:
    pyramid = ConvPyramid((4, 4, 4), (2, 2, 2), levels=3).eval()
    _, real = pad_images([torch.zeros(3, *size), torch.zeros(3, 40, 37)])
    alone, together = pyramid(torch.zeros(1, 3, *size)), pyramid(torch.zeros(2, 3, 40, 37))
    for one, many in zip(alone, together, strict=True):
        mask = level_mask(real, many.shape[-2:])[0]
        assert mask.sum() == one.shape[2] * one.shape[3]
        assert mask[: one.shape[2], : one.shape[3]].all()


@pytest.mark.parametrize("halvings", [1, 3, 5])
def test_cells_are_counted_right_whatever_size_the_batch_has(halvings: int) -> None:
    def cells(pixels: int) -> int:
        return math.ceil(pixels / 2**halvings)  # halved again and again, rounded up each time

    for padded in range(20, 140, 3):
        for own in range(1, padded + 1, 5):
            real = (torch.arange(padded) < own).expand(1, 1, padded)
            assert level_mask(real, (1, cells(padded))).sum() == cells(own), (padded, own)


def test_cells_of_a_map_that_no_halving_gives_are_spread_evenly() -> None:
    assert level_mask((torch.arange(8) < 4).expand(1, 1, 8), (1, 3)).tolist() == [[[True, True, False]]]


# ---------------------------------------------------------------- pixels


def test_a_box_over_everything_is_the_whole_picture_width_first() -> None:
    whole = {"pred_logits": torch.zeros(1, 1, 4), "pred_boxes": torch.tensor([[[0.5, 0.5, 1.0, 1.0]]])}
    assert post_process(whole, torch.tensor([[100, 200]]))[0]["boxes"].tolist() == [[0, 0, 200, 100]]


def test_softmax_scores_leave_no_object_out_and_equal_transformers() -> None:
    from transformers import DetrImageProcessor
    from transformers.models.detr.modeling_detr import DetrObjectDetectionOutput

    logits, boxes = 4 * noise(N, Q, K + 1), noise(N, Q, 4, seed=1)
    sizes = torch.tensor([[50, 80], [30, 20]])
    found = post_process({"pred_logits": logits, "pred_boxes": boxes}, sizes)
    theirs = DetrObjectDetectionOutput(logits=logits, pred_boxes=boxes)
    expected = DetrImageProcessor().post_process_object_detection(theirs, threshold=0.0, target_sizes=sizes)
    for one, other in zip(found, expected, strict=True):
        order = one["queries"]
        torch.testing.assert_close(one["scores"], other["scores"][order], rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(one["boxes"], other["boxes"][order], rtol=1e-9, atol=1e-9)
        assert torch.equal(one["labels"], other["labels"][order])
        assert one["scores"].tolist() == sorted(one["scores"].tolist(), reverse=True)


def test_sigmoid_scores_take_the_best_pairs_and_equal_transformers() -> None:
    from transformers import DeformableDetrImageProcessor
    from transformers.models.deformable_detr.modeling_deformable_detr import DeformableDetrObjectDetectionOutput

    logits, boxes = 4 * noise(N, Q, K) - 2, noise(N, Q, 4, seed=1)
    sizes = torch.tensor([[50, 80], [30, 20]])
    found = post_process({"pred_logits": logits, "pred_boxes": boxes}, sizes, scoring="sigmoid", top=7)
    theirs = DeformableDetrObjectDetectionOutput(logits=logits, pred_boxes=boxes)
    processor = DeformableDetrImageProcessor()
    expected = processor.post_process_object_detection(theirs, threshold=0.0, target_sizes=sizes, top_k=7)
    for one, other in zip(found, expected, strict=True):
        for name in ("scores", "labels", "boxes"):
            torch.testing.assert_close(one[name], other[name], rtol=1e-9, atol=1e-9)


def test_one_query_may_name_two_classes_by_sigmoid() -> None:
    logits = torch.tensor([[[3.0, 2.0, -9.0], [-9.0, -9.0, -9.0]]])
    found = post_process({"pred_logits": logits, "pred_boxes": torch.rand(1, 2, 4)}, [[8, 8]], scoring="sigmoid", top=2)
    assert found[0]["queries"].tolist() == [0, 0]
    assert found[0]["labels"].tolist() == [0, 1]


def test_sizes_of_another_shape_are_refused() -> None:
    whole = {"pred_logits": torch.zeros(2, 1, 4), "pred_boxes": torch.zeros(2, 1, 4)}
    with pytest.raises(
        ValueError, match=r"target_sizes must be of shape \(N, two\) = \(2, 2\), got \(1, 2\); give \(height"
    ):
        post_process(whole, [[100, 200]])
    with pytest.raises(ValueError, match="scoring must be one of 'softmax', 'sigmoid'"):
        post_process(whole, [[1, 2], [3, 4]], scoring="nms")
