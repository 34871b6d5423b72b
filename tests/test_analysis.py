"""The measurements of the inline questions, against formulas, loops and torch's own functions."""

from __future__ import annotations

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cs_transformers.analysis import (
    FAULTY,
    SmallCNN,
    accuracy_by_images,
    attention_flops,
    compare_heads,
    cost_ratios,
    fault_margin,
    find_the_fault,
    head_influence,
    measure_one_token,
    measured_cost_ratios,
    predict_one_token,
    score_statistics,
    score_sweep,
    softmax_entropy,
)
from cs_transformers.attention import MultiHeadAttention
from cs_transformers.vit import VisionTransformer

N, T, S, D, H = 3, 4, 5, 12, 2


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# --- 6.1: heads, scaling, output projection


def test_the_entropy_is_that_of_torchs_distribution() -> None:
    scores = normal(N, H, T, S)
    expected = torch.distributions.Categorical(logits=scores).entropy().mean()
    torch.testing.assert_close(softmax_entropy(scores), expected, rtol=1e-12, atol=0)


def test_the_entropy_runs_from_the_log_of_the_keys_to_zero() -> None:
    assert softmax_entropy(torch.zeros(2, 3, 7)).item() == pytest.approx(math.log(7))
    blocked = torch.full((3, 3), -math.inf).fill_diagonal_(0.0)
    assert softmax_entropy(blocked).item() == 0.0


def statistics_by_loops(query: Tensor, key: Tensor, heads: int, scale: float) -> tuple[float, float]:
    width, values, entropies = query.shape[-1] // heads, [], []
    for n in range(len(query)):
        for h in range(heads):
            part = slice(h * width, (h + 1) * width)
            for q in query[n, :, part]:
                row = [sum(a * b for a, b in zip(q.tolist(), k.tolist(), strict=True)) / scale for k in key[n, :, part]]
                total = sum(math.exp(value) for value in row)
                entropies.append(-sum(math.exp(v) / total * math.log(math.exp(v) / total) for v in row))
                values += row
    mean = sum(values) / len(values)
    return sum((v - mean) ** 2 for v in values) / (len(values) - 1), sum(entropies) / len(entropies)


def test_the_statistics_equal_those_of_loops() -> None:
    query, key = normal(N, T, D, seed=1), normal(N, S, D, seed=2)
    got = {name: value.item() for name, value in score_statistics(query, key, H).items()}
    variance, entropy = statistics_by_loops(query, key, H, 1.0)
    scaled_variance, scaled_entropy = statistics_by_loops(query, key, H, math.sqrt(D / H))
    assert got == pytest.approx(
        {
            "variance": variance,
            "entropy": entropy,
            "scaled_variance": scaled_variance,
            "scaled_entropy": scaled_entropy,
        },
        rel=1e-10,
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_the_variance_of_plain_scores_is_the_head_width_and_of_scaled_ones_one(heads: int) -> None:
    rows = score_sweep([16, 64, 256], heads)
    assert [row["width"] for row in rows] == [16, 64, 256]
    for row in rows:
        assert row["variance"] == pytest.approx(row["width"] / heads, rel=0.05)
        assert row["scaled_variance"] == pytest.approx(1.0, rel=0.05)


def test_plain_attention_narrows_with_the_width_and_scaled_attention_does_not() -> None:
    rows = score_sweep([16, 64, 256, 1024])
    plain, scaled = [row["entropy"] for row in rows], [row["scaled_entropy"] for row in rows]
    assert plain == sorted(plain, reverse=True)
    assert plain[-1] < 0.2 < 1.0 < plain[0]
    assert max(scaled) - min(scaled) < 0.05


def test_a_sweep_repeats_itself_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    assert score_sweep([8, 16], seed=4) == score_sweep([8, 16], seed=4)
    assert score_sweep([8, 16], seed=4) != score_sweep([8, 16], seed=5)
    with pytest.raises(ValueError, match="score_sweep: tokens must be a positive whole number, got 0"):
        score_sweep([8], tokens=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("query", "key", "heads", "error", "message"),
    [
        (normal(N, T, D), normal(N, S, D - 2), H, ValueError, r"key must be of shape \(N, S, D\) = \(3, any, 12\)"),
        (normal(N, T, D), normal(N + 1, S, D), H, ValueError, r"key must be of shape \(N, S, D\) = \(3, any, 12\)"),
        (normal(N, T, D), normal(N, S, D), 5, ValueError, "multiple of num_heads = 5, got 12"),
        (normal(N, H, T, D), normal(N, S, D), H, ValueError, r"query must be of shape \(N, T, D\)"),
        (normal(N, T, D).long(), normal(N, S, D), H, TypeError, "query must be a tensor of a floating dtype"),
    ],
)
def test_the_statistics_refuse_what_does_not_fit(
    query: Tensor, key: Tensor, heads: int, error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        score_statistics(query, key, heads)


@pytest.mark.learning
def test_one_head_confuses_two_neighbours_and_two_heads_do_not() -> None:
    errors = compare_heads((1, 2))
    assert 0.4 < errors[1] < 0.6
    assert errors[2] < 0.05


def test_a_comparison_of_heads_repeats_itself_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    assert compare_heads((1, 4), steps=2, seed=3) == compare_heads((1, 4), steps=2, seed=3)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="multiple of num_heads = 5, got 32"):
        compare_heads((5,), steps=1)
    with pytest.raises(ValueError, match="steps must be a whole number of at least 0, got -1"):
        compare_heads((1,), steps=-1)


def attention_layer() -> MultiHeadAttention:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return MultiHeadAttention(D, 3).double()


def head_outputs(attention: MultiHeadAttention, tokens: Tensor) -> Tensor:
    layers = (attention.query, attention.key, attention.value)
    q, k, v = (layer(tokens).view(N, T, 3, 4).transpose(1, 2) for layer in layers)
    return F.scaled_dot_product_attention(q, k, v)  # (N, 3, T, 4)


def test_without_a_projection_each_head_writes_to_its_own_block() -> None:
    attention, tokens = attention_layer(), normal(N, T, D)
    expected = head_outputs(attention, tokens).square().mean(dim=(0, 2, 3)).sqrt().diag()
    torch.testing.assert_close(head_influence(attention, tokens, projection=False), expected, rtol=1e-12, atol=1e-15)


def test_with_a_projection_each_head_writes_everywhere() -> None:
    attention, tokens = attention_layer(), normal(N, T, D)
    heads = head_outputs(attention, tokens)
    weight = attention.proj.weight.view(3, 4, 3, 4)  # (block, row, head, column)
    change = torch.einsum("nhtk,brhk->hbntr", heads, weight)
    expected = change.square().mean(dim=(2, 3, 4)).sqrt()
    influence = head_influence(attention, tokens)
    torch.testing.assert_close(influence, expected, rtol=1e-12, atol=1e-15)
    assert influence.min() > 1e-3


def test_the_layer_that_is_looked_at_stays_as_it_was() -> None:
    attention = attention_layer().train()
    before = copy.deepcopy(attention.state_dict())
    head_influence(attention, normal(N, T, D), projection=False)
    assert attention.training
    assert isinstance(attention.proj, nn.Linear)
    assert all(torch.equal(before[name], tensor) for name, tensor in attention.state_dict().items())
    with pytest.raises(TypeError, match="attention must be a MultiHeadAttention, got Linear"):
        head_influence(nn.Linear(2, 2), normal(N, T, D))


# --- 6.2: a Vision Transformer against a small convolutional network


def test_the_small_network_takes_images_of_any_size() -> None:
    network = SmallCNN(in_channels=2, width=4, num_classes=7)
    for size in ((8, 8), (33, 20)):
        assert network(torch.zeros(5, 2, *size)).shape == (5, 7)
    channels = [layer.out_channels for layer in network.modules() if isinstance(layer, nn.Conv2d)]
    assert channels == [4, 8, 16]


def test_the_small_network_refuses_what_does_not_fit() -> None:
    with pytest.raises(
        ValueError, match=r"x must be of shape \(N, C, H, W\) = \(any, 3, any, any\), got \(5, 1, 8, 8\)"
    ):
        SmallCNN()(torch.zeros(5, 1, 8, 8))
    with pytest.raises(TypeError, match="x must be a tensor of a floating dtype, got torch"):
        SmallCNN()(torch.zeros(5, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(ValueError, match="width must be a positive whole number, got 0"):
        SmallCNN(width=0)


def brightness(count: int) -> tuple[Tensor, Tensor]:
    labels = torch.arange(count) % 2
    noise = torch.rand(count, 3, 8, 8, generator=torch.Generator().manual_seed(count))
    return noise + 2.0 * labels[:, None, None, None], labels


@pytest.mark.learning
def test_an_easy_task_is_learned_and_a_senseless_one_is_not() -> None:
    images, labels = brightness(40)
    senseless = torch.cat((labels[:20], 1 - labels[20:]))
    models = {"cnn": lambda: SmallCNN(width=4, num_classes=2)}
    right = accuracy_by_images(models, (images, labels), brightness(30), [20], steps=40, learning_rate=1e-2)
    garbled = accuracy_by_images(models, (images, senseless), brightness(30), [20, 40], steps=40, learning_rate=1e-2)
    assert right["cnn"] == [1.0]
    assert garbled["cnn"][0] == 1.0, "only the first 20 images count"
    assert garbled["cnn"][1] < 0.9


def test_a_comparison_of_models_repeats_itself_and_leaves_the_generator_alone() -> None:
    before = torch.get_rng_state()
    models = {"cnn": lambda: SmallCNN(width=2, num_classes=2), "wide": lambda: SmallCNN(width=4, num_classes=2)}
    runs = [accuracy_by_images(models, brightness(8), brightness(6), [4, 8], steps=2, seed=1) for _ in range(2)]
    assert runs[0] == runs[1]
    assert {name: len(values) for name, values in runs[0].items()} == {"cnn": 2, "wide": 2}
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(ValueError, match="counts must be at most 8, the images there are, got 9"):
        accuracy_by_images(models, brightness(8), brightness(6), [4, 9])
    with pytest.raises(ValueError, match="counts must be a positive whole number, got 0"):
        accuracy_by_images(models, brightness(8), brightness(6), [0])
    with pytest.raises(ValueError, match="steps must be a positive whole number, got 0"):
        accuracy_by_images(models, brightness(8), brightness(6), [4], steps=0)


@pytest.mark.learning
def test_on_400_shapes_the_small_network_is_ahead_of_a_vision_transformer() -> None:
    from cs_transformers.data.scenes import scene_classification

    pictures, labels = scene_classification(1000, seed=1)
    images = (torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255 - 0.5) / 0.25
    shapes = torch.from_numpy(labels) % 5  # the shape alone, wherever it lies
    options = {"num_layers": 2, "dim_feedforward": 128, "num_classes": 5, "dropout": 0.0, "norm_first": True}
    models = {
        "vit": lambda: VisionTransformer(32, 8, embed_dim=64, **options),
        "cnn": lambda: SmallCNN(width=16, num_classes=5),
    }
    train, test = (images[:400], shapes[:400]), (images[400:], shapes[400:])
    accuracy = accuracy_by_images(models, train, test, [400], steps=200)
    assert accuracy["cnn"][0] > accuracy["vit"][0] + 0.05
    assert accuracy["vit"][0] > 0.4


# --- 6.3: what attention costs


@pytest.mark.parametrize("sizes", [(8, 8, 4, 1), (12, 24, 4, 3), (64, 32, 8, 6)])
def test_the_counted_operations_are_those_of_the_two_products(sizes: tuple[int, ...]) -> None:
    width, side, patch, depth = sizes
    tokens = (side // patch) ** 2
    assert attention_flops(width, side, patch, depth) == depth * 4 * tokens**2 * width
    assert attention_flops(width, side, patch, depth, num_heads=2) == attention_flops(width, side, patch, depth)


@pytest.mark.parametrize("sizes", [(128, 32, 4, 6), (64, 48, 8, 1), (20, 24, 3, 5)])
def test_the_predicted_ratios_are_measured_and_known(sizes: tuple[int, ...]) -> None:
    expected = {"width": 2.0, "image_side": 16.0, "patch_size": 1 / 16, "depth": 2.0}
    assert cost_ratios(*sizes) == expected
    assert measured_cost_ratios(*sizes) == expected


@pytest.mark.parametrize("count", [attention_flops, cost_ratios, measured_cost_ratios])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"width": 0}, ValueError, "width must be a positive whole number, got 0"),
        ({"depth": 1.5}, TypeError, "depth must be a positive whole number, got 1.5"),
        ({"image_side": 33}, ValueError, "image_side must be a multiple of"),
        ({"patch_size": -4}, ValueError, "patch_size must be a positive whole number, got -4"),
    ],
)
def test_sizes_that_do_not_fit_have_no_cost(count: object, change: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        count(**{"width": 8, "image_side": 32, "patch_size": 4, "depth": 2, **change})


def test_the_cost_refuses_heads_that_do_not_divide_the_width() -> None:
    with pytest.raises(ValueError, match="width must be a multiple of num_heads = 3, got 8"):
        attention_flops(8, 32, 4, 2, num_heads=3)
    with pytest.raises(
        ValueError, match="image_side must be a multiple of 16 pixels, a whole number of patches, got 24"
    ):
        measured_cost_ratios(8, 24, 8, 2)


# --- 6.4: a memory of one token


def test_the_prediction_for_one_token_is_measured_exactly() -> None:
    predicted = predict_one_token(num_queries=T, head_dim=6)
    for seed in range(5):
        query, key, value = 9 * normal(T, 6, seed=seed), normal(1, 6, seed=50 + seed), normal(1, 6, seed=90 + seed)
        measured = measure_one_token(query, key, value)
        assert measured.keys() == predicted.keys()
        for name, tensor in measured.items():
            assert torch.equal(tensor, predicted[name].double()), name


def test_a_prediction_needs_queries_and_a_width() -> None:
    with pytest.raises(ValueError, match="num_queries must be a positive whole number, got 0"):
        predict_one_token(0, 6)
    with pytest.raises(TypeError, match=r"head_dim must be a positive whole number, got 6\.0"):
        predict_one_token(T, 6.0)


def test_with_a_second_token_neither_the_weights_nor_the_gradients_are_trivial() -> None:
    measured = measure_one_token(normal(T, 6), normal(2, 6, seed=1), normal(2, 6, seed=2))
    assert measured["weights"].shape == (T, 2)
    assert measured["weights"].max() < 1
    for name in ("query_gradient", "key_gradient"):
        assert measured[name].abs().amax(dim=1).min() > 1e-6, name


def test_the_measured_gradients_are_those_of_central_differences() -> None:
    query, key, value = normal(T, 6), normal(2, 6, seed=1), normal(2, 6, seed=2)

    def loss(query: Tensor, key: Tensor) -> float:
        return ((query @ key.T / math.sqrt(6)).softmax(dim=-1) @ value).square().sum().item()

    measured = measure_one_token(query, key, value)
    for row, column in ((0, 0), (1, 5)):
        bump = torch.zeros(2, 6, dtype=torch.float64)
        bump[row, column] = 1e-5
        slope = (loss(query, key + bump) - loss(query, key - bump)) / 2e-5
        assert measured["key_gradient"][row, column].item() == pytest.approx(slope, rel=1e-6)


def test_a_measurement_works_without_gradients_switched_on_and_keeps_its_arguments() -> None:
    query = normal(T, 6)
    with torch.no_grad():
        measure_one_token(query, normal(1, 6), normal(1, 6))
    assert not query.requires_grad
    with pytest.raises(TypeError, match=r"key must be a torch\.Tensor, got list"):
        measure_one_token(query, [[0.0]], query)
    with pytest.raises(ValueError, match="key"):
        measure_one_token(query, normal(1, 5), normal(1, 6))


# --- 6.5: find the fault


def harmless(name: str) -> dict[str, object]:
    """Give an input on which the faulty function is right."""
    x = normal(1, H, S, 4)
    wide = {"query": x, "key": normal(1, H, S, 4, seed=1), "value": normal(1, H, S, 4, seed=2)}
    causal = torch.ones(S, S).tril()
    return {
        "a": {"query": x[..., :1], "key": x[..., :1], "value": x, "mask": causal},  # K = 1
        "b": {**wide, "mask": causal, "dropout_p": 0.5},  # each query sees something
        "c": {**wide, "mask": causal.flip(0)},  # nothing to drop
        "d": {**wide, "query": 0 * x, "dropout_p": 0.5},  # even weights are symmetric
    }[name]


@pytest.mark.parametrize("name", sorted(FAULTY))
def test_each_faulty_function_is_right_on_many_inputs(name: str) -> None:
    assert fault_margin(name, harmless(name)) < 1e-12


@pytest.mark.parametrize("name", sorted(FAULTY))
def test_the_inputs_show_the_fault_clearly_and_right_attention_stands(name: str) -> None:
    inputs = find_the_fault()[name]
    assert fault_margin(name, inputs) > 0.01
    mask = inputs.get("mask")
    query, key, value = (inputs[part] for part in ("query", "key", "value"))
    right = F.scaled_dot_product_attention(query, key, value, None if mask is None else mask.bool())
    faulty = FAULTY[name](**inputs)
    assert torch.isfinite(right).all()
    assert not torch.allclose(faulty, right, atol=0.01)


def test_each_input_was_made_for_its_own_fault() -> None:
    """The masked row shows -1e9 alone, the dropout shows dropout alone."""
    found = find_the_fault()
    assert fault_margin("b", found["c"]) < 1e-6
    assert fault_margin("c", found["b"]) < 1e-6


def test_a_function_that_raises_or_returns_another_shape_is_infinitely_wrong() -> None:
    unequal = {"query": normal(1, H, T, 4), "key": normal(1, H, S, 4), "value": normal(1, H, S, 4)}
    assert fault_margin("d", unequal) == math.inf
    assert fault_margin("a", unequal) < math.inf
    half = {name: tensor.half() for name, tensor in unequal.items()}
    assert fault_margin("b", {**half, "mask": torch.ones(T, S).tril()}) == math.inf, "-1e9 is no half"


def test_a_margin_refuses_unknown_names_and_inputs_on_which_nothing_is_right() -> None:
    with pytest.raises(ValueError, match="name must be one of 'a', 'b', 'c', 'd', got 'e'"):
        fault_margin("e", harmless("a"))
    with pytest.raises(ValueError, match="right attention must be finite on the inputs, got NaN or infinity"):
        fault_margin("a", {**harmless("c"), "value": normal(1, H, S, 4) * math.nan})
    with pytest.raises(TypeError, match=r"query must be a torch\.Tensor, got list"):
        fault_margin("a", {**harmless("c"), "query": [1.0]})
