"""The captioner against torch's decoder, its cached steps against the full pass, its beams against all sentences."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from cs_transformers.captioning import CaptioningState, CaptioningTransformer, caption_loss
from cs_transformers.decoding import beam_search
from cs_transformers.positional import LearnedPositionalEncoding, PositionalEncoding2D

NULL, START, END = 0, 1, 2
WORDS = ["<NULL>", "<START>", "<END>", "a", "red", "blue", "circle", "square"]
VOCABULARY = {word: index for index, word in enumerate(WORDS)}
N, T, S, D_IN, D, H, V = 3, 4, 6, 10, 12, 2, 8
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def seeded(seed: int = 0, vocabulary: dict | None = None, **options: object) -> CaptioningTransformer:
    """Make a model in float64 and eval mode whose weights are large enough for differences to show."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        settings = {"input_dim": D_IN, "wordvec_dim": D, "num_heads": H, "num_layers": 2, "max_length": 9, **options}
        model = CaptioningTransformer(vocabulary or VOCABULARY, **settings).double()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.3)
    return model.eval()


def features(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*(shape or (N, S, D_IN)), generator=generator, dtype=torch.float64)


def captions(length: int = T, seed: int = 0, batch: int = N) -> Tensor:
    return torch.randint(0, V, (batch, length), generator=torch.Generator().manual_seed(seed))


# --- forward


def torch_twin(model: CaptioningTransformer) -> list[nn.TransformerDecoderLayer]:
    layers = []
    for ours in model.transformer.layers:
        layer = nn.TransformerDecoderLayer(D, H, 2048, dropout=0.0, activation="gelu", batch_first=True).double().eval()
        with torch.no_grad():
            for theirs, attention in ((layer.self_attn, ours.self_attn), (layer.multihead_attn, ours.cross_attn)):
                parts = (attention.query, attention.key, attention.value)
                theirs.in_proj_weight.copy_(torch.cat([part.weight for part in parts]))
                theirs.in_proj_bias.copy_(torch.cat([part.bias for part in parts]))
                theirs.out_proj.load_state_dict(attention.proj.state_dict())
            pairs = [("linear1", "ffn.fc1"), ("linear2", "ffn.fc2")]
            pairs += [("norm1", "norm_self"), ("norm2", "norm_cross"), ("norm3", "norm_ffn")]
            for theirs, name in pairs:
                getattr(layer, theirs).load_state_dict(ours.get_submodule(name).state_dict())
        layers.append(layer)
    return layers


def sinusoids(length: int, width: int) -> Tensor:
    position = torch.arange(length, dtype=torch.float64)
    columns = [(torch.sin if c % 2 == 0 else torch.cos)(position / 10000 ** (c // 2 * 2 / width)) for c in range(width)]
    return torch.stack(columns, dim=1)


@pytest.mark.parametrize("padded", [False, True])
def test_the_scores_equal_those_of_torchs_decoder(padded: bool) -> None:
    model, image, words = seeded(), features(), captions()
    real = torch.tensor([[1, 1, 1, 1, 0, 0], [1, 1, 1, 1, 1, 1], [0, 1, 1, 0, 0, 1]]).bool() if padded else None
    hidden = F.embedding(words, model.embedding.weight) + sinusoids(T, D)
    memory = F.linear(image, model.visual_projection.weight, model.visual_projection.bias)
    future = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
    for layer in torch_twin(model):
        blocked = None if real is None else ~real
        hidden = layer(hidden, memory, tgt_mask=future, memory_key_padding_mask=blocked)
    expected = F.linear(hidden, model.output.weight, model.output.bias)
    torch.testing.assert_close(model(image, words, memory_mask=real), expected, **CLOSE)


def test_a_global_feature_is_a_memory_of_one_token() -> None:
    model, image = seeded(), features(N, D_IN)
    torch.testing.assert_close(model(image, captions()), model(image[:, None], captions()), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(N, D_IN), (N, S, D_IN)])
def test_the_future_does_not_change_the_past(shape: tuple[int, ...]) -> None:
    model, image, words = seeded(), features(*shape), captions()
    before = model(image, words)
    for place in range(1, T):
        changed = words.clone()
        changed[:, place] = (changed[:, place] + 3) % V
        after = model(image, changed)
        torch.testing.assert_close(after[:, :place], before[:, :place], rtol=0, atol=1e-12)
        assert (after[:, place:] - before[:, place:]).abs().max() > 1e-3


def test_the_image_matters() -> None:
    model = seeded()
    difference = model(features(seed=1), captions()) - model(features(seed=2), captions())
    assert difference.abs().amax(dim=(1, 2)).min() > 1e-3


def test_the_place_of_a_word_matters() -> None:
    model = seeded()
    scores = model(features(), torch.full((N, T), 5))
    assert (scores[:, 1:] - scores[:, :-1]).abs().max() > 1e-3


def test_padding_of_the_memory_is_inert() -> None:
    model, image, words = seeded(), features(), captions()
    real = torch.arange(S + 3) < S
    longer = torch.cat((image, 99 * features(N, 3, D_IN, seed=5)), dim=1)
    scores = model(longer, words, memory_mask=real.expand(N, -1))
    torch.testing.assert_close(scores, model(image, words), **CLOSE)
    for kind in (torch.int64, torch.float32, torch.uint8):
        assert torch.equal(model(longer, words, memory_mask=real.expand(N, -1).to(kind)), scores)


def test_a_memory_without_a_real_token_gives_finite_scores_and_gradients() -> None:
    model = seeded()
    mask = torch.ones(N, S, dtype=torch.bool)
    mask[1] = False
    model(features(), captions(), memory_mask=mask).sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in model.parameters())


def test_padding_on_the_right_of_a_caption_is_inert() -> None:
    model, words = seeded(), captions()
    padded = torch.cat((words, torch.full((N, 3), NULL)), dim=1)
    torch.testing.assert_close(model(features(), padded)[:, :T], model(features(), words), **CLOSE)


def test_captions_of_any_whole_dtype_are_read() -> None:
    model, words = seeded(), captions()
    for kind in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(model(features(), words.to(kind)), model(features(), words))


def test_features_that_are_not_contiguous_give_the_same_scores() -> None:
    model, image = seeded(), features()
    for odd in (image.transpose(0, 1).contiguous().transpose(0, 1), image[:1].expand(N, -1, -1)):
        assert not odd.is_contiguous()
        torch.testing.assert_close(model(odd, captions()), model(odd.contiguous(), captions()), rtol=1e-12, atol=1e-12)


# --- positions of the memory


def test_without_memory_positions_the_order_of_the_memory_does_not_matter() -> None:
    model, image = seeded(), features()
    torch.testing.assert_close(model(image.flip(1), captions()), model(image, captions()), **CLOSE)


@pytest.mark.parametrize(("choice", "tokens"), [("2d", 9), ((2, 3), 6), ([3, 1], 3)])
def test_grid_positions_are_added_to_the_memory(choice: object, tokens: int) -> None:
    model, plain = seeded(memory_positions=choice), seeded()
    image = features(N, tokens, D_IN)
    rows, columns = (3, 3) if choice == "2d" else choice
    grid = PositionalEncoding2D(D)(torch.zeros(1, 1, rows, columns, dtype=torch.float64))  # (1, D, rows, columns)
    assert (model(image.flip(1), captions()) - model(image, captions())).abs().max() > 1e-3
    plain.visual_projection.register_forward_hook(lambda _m, _a, memory: memory + grid.flatten(2).transpose(1, 2))
    torch.testing.assert_close(model(image, captions()), plain(image, captions()), **CLOSE)


def test_a_grid_module_and_any_other_module_can_be_given() -> None:
    own = seeded(memory_positions=PositionalEncoding2D(D, normalize=False))
    image = features(N, 4, D_IN)
    assert not torch.allclose(own(image, captions()), seeded(memory_positions="2d")(image, captions()))
    learned = LearnedPositionalEncoding(D, dropout=0.0, max_len=4)
    model = seeded(memory_positions=learned)
    assert "memory_positions.pe" in model.state_dict()
    assert (model(image.flip(1), captions()) - model(image, captions())).abs().max() > 1e-3


def test_a_memory_that_is_no_such_grid_is_refused() -> None:
    with pytest.raises(ValueError, match="of a square number of tokens S, got 6"):
        seeded(memory_positions="2d")(features(), captions())
    with pytest.raises(ValueError, match=r"of a grid of \(2, 2\) tokens, got 6"):
        seeded(memory_positions=(2, 2))(features(), captions())


def test_memory_positions_in_use_or_not_draw_nothing_from_the_generator() -> None:
    weights = []
    for choice in (None, "2d", (2, 3)):
        torch.manual_seed(3)
        model = CaptioningTransformer(VOCABULARY, D_IN, D, H, memory_positions=choice)
        weights.append((model.state_dict(), torch.get_rng_state()))
    for state, generator in weights[1:]:
        assert torch.equal(generator, weights[0][1])
        assert all(torch.equal(state[name], tensor) for name, tensor in weights[0][0].items())


# --- construction


def test_construction_follows_the_published_order_and_start() -> None:
    """A replay of the draws with torch's own functions gives the same weights."""
    torch.manual_seed(7)
    model = CaptioningTransformer({"<NULL>": 0, "cat": 2, "dog": 3}, input_dim=20, wordvec_dim=30, num_heads=2)
    top = [name for name, _ in model.named_children()]
    assert top == ["visual_projection", "embedding", "positional_encoding", "transformer", "output"]
    torch.manual_seed(7)
    nn.Linear(20, 30), nn.Embedding(3, 30, padding_idx=0)
    for _ in range(8):  # key, query, value, proj, twice, of the pattern that is copied
        nn.Linear(30, 30)
    nn.Linear(30, 2048), nn.Linear(2048, 30)
    layer = [*[(30, 30)] * 8, (2048, 30), (30, 2048)]
    drawn = [torch.empty(shape).normal_(0, 0.02) for shape in [(30, 20), (3, 30), *layer, *layer]]
    output = nn.Linear(30, 3)  # made after the sweep: it keeps torch's own start
    drawn.append(output.weight)
    matrices = [parameter for parameter in model.parameters() if parameter.dim() == 2]
    assert len(matrices) == len(drawn)
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(matrices, drawn, strict=True))
    assert torch.equal(model.output.bias, output.bias)


def test_layers_start_apart_and_share_nothing() -> None:
    first, second = CaptioningTransformer(VOCABULARY, D_IN, D, H).transformer.layers
    for a, b in zip(first.parameters(), second.parameters(), strict=True):
        assert a.data_ptr() != b.data_ptr()
    assert not torch.equal(first.cross_attn.value.weight, second.cross_attn.value.weight)


def test_the_size_of_the_vocabulary_is_its_length_whatever_its_ids() -> None:
    model = CaptioningTransformer({"<NULL>": 0, "cat": 2, "dog": 3}, D_IN, D, H)
    assert model.vocab_size == 3
    assert model(features().float(), torch.tensor([[0, 1, 2]] * N)).shape == (N, 3, 3)


@pytest.mark.parametrize(
    ("vocabulary", "error", "message"),
    [
        ({"<START>": 0, "<END>": 1}, ValueError, "word_to_idx must be a vocabulary with <NULL>, got 2 others"),
        ({}, ValueError, "word_to_idx must be a vocabulary with <NULL>, got 0 others"),
        ({"<NULL>": 3, "a": 0}, ValueError, "must be an id from 0 to V - 1 = 1, got 3"),
        ({"<NULL>": "0"}, TypeError, "must be a whole number of at least 0, got '0'"),
        (["<NULL>"], TypeError, "word_to_idx must be a dict from words to ids, got list"),
    ],
)
def test_a_vocabulary_that_does_not_do_is_refused(vocabulary: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        CaptioningTransformer(vocabulary, D_IN, D, H)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"wordvec_dim": 13}, ValueError, "embed_dim must be a positive even number, got 13"),
        ({"wordvec_dim": 14, "num_heads": 4}, ValueError, "multiple of num_heads = 4, got 14"),
        ({"input_dim": 0}, ValueError, "input_dim must be a positive whole number, got 0"),
        ({"max_length": 0}, ValueError, "max_length must be a positive whole number, got 0"),
        ({"max_length": 2.5}, TypeError, "max_length must be a positive whole number, got 2.5"),
        ({"num_layers": 0}, ValueError, "num_layers must be a positive whole number, got 0"),
        ({"memory_positions": "3d"}, ValueError, "memory_positions must be one of None, '2d', got '3d'"),
        ({"memory_positions": (2, 3, 4)}, ValueError, r"None, '2d', \(rows, columns\) or a module, got \(2, 3, 4\)"),
        ({"memory_positions": 5}, ValueError, r"None, '2d', \(rows, columns\) or a module, got 5"),
        ({"memory_positions": (0, 4)}, ValueError, "memory_positions must be a positive whole number, got 0"),
        ({"memory_positions": "2d", "wordvec_dim": 14}, ValueError, "embed_dim must be a multiple of 4, got 14"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        CaptioningTransformer(VOCABULARY, **{"input_dim": D_IN, "wordvec_dim": D, "num_heads": H, **options})


# --- what forward refuses

BAD_INPUTS = [
    (features(N, D_IN + 1), captions(), ValueError, r"D_in = 10 and S > 0, got \(3, 11\)"),
    (features(D_IN), captions(), ValueError, r"D_in = 10 and S > 0, got \(10,\)"),
    (features(N, 2, 2, D_IN), captions(), ValueError, r"D_in = 10 and S > 0, got \(3, 2, 2, 10\)"),
    (features(N, 0, D_IN), captions(), ValueError, r"D_in = 10 and S > 0, got \(3, 0, 10\)"),
    (features().float(), captions(), TypeError, "features must be torch.float64 like weights, got torch.float32"),
    (features().long(), captions(), TypeError, "features must be a tensor of a floating dtype, got torch.int64"),
    (features().numpy(), captions(), TypeError, "features must be a torch.Tensor, got ndarray"),
    (features(), captions().double(), TypeError, "captions must be whole numbers, got torch.float64"),
    (features(), captions().bool(), TypeError, "captions must be whole numbers, got torch.bool"),
    (features(), captions().numpy(), TypeError, "captions must be a torch.Tensor, got ndarray"),
    (features(), captions()[:2], ValueError, r"captions must be of shape \(N, T\) = \(3, any\), got \(2, 4\)"),
    (features(), captions()[0], ValueError, r"captions must be of shape \(N, T\) = \(3, any\), got \(4,\)"),
    (features(), captions(10), ValueError, "captions must be 1 to max_length = 9 words long, got 10"),
    (features(), captions()[:, :0], ValueError, "captions must be 1 to max_length = 9 words long, got 0"),
    (features(), captions() + 8, ValueError, "ids of the vocabulary of 8 words, 0 to 7, got the id"),
    (features(), captions() - 9, ValueError, "ids of the vocabulary of 8 words, 0 to 7, got the id -"),
    (features(), captions().to("meta"), ValueError, "captions must be on cpu like the weights, got meta"),
    (features().to("meta"), captions(), ValueError, "features must be on cpu like weights, got meta"),
]


@pytest.mark.parametrize(("image", "words", "error", "message"), BAD_INPUTS)
def test_forward_refuses_bad_input_before_it_computes(image: object, words: object, error: type, message: str) -> None:
    model = seeded().train()
    model.visual_projection.register_forward_hook(lambda *_: pytest.fail("computed before the refusal"))
    model.embedding.register_forward_hook(lambda *_: pytest.fail("computed before the refusal"))
    with pytest.raises(error, match=message):
        model(image, words)
    assert model.training


def test_the_id_that_is_not_in_the_vocabulary_is_named() -> None:
    model = CaptioningTransformer({**VOCABULARY, "x": 8, "y": 9}, D_IN, D, H).double()
    for wrong in (12, -1):
        words = captions()
        words[1, 2] = wrong
        with pytest.raises(ValueError, match=f"vocabulary of 10 words, 0 to 9, got the id {wrong}"):
            model(features(), words)


@pytest.mark.parametrize(
    ("mask", "error", "message"),
    [
        (torch.ones(N, S + 1), ValueError, r"memory_mask must be of shape \(N, S\) = \(3, 6\), got \(3, 7\)"),
        (torch.ones(S), ValueError, r"memory_mask must be of shape \(N, S\) = \(3, 6\), got \(6,\)"),
        (torch.full((N, S), -math.inf), ValueError, "memory_mask must be 0/1 .*additive"),
        ([[True]], TypeError, "memory_mask must be a torch.Tensor, got list"),
    ],
)
def test_forward_refuses_a_bad_memory_mask(mask: object, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        seeded()(features(), captions(), memory_mask=mask)


# --- dtypes and devices


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_every_float_dtype_comes_out_as_it_went_in(dtype: torch.dtype) -> None:
    torch.manual_seed(5)
    model = CaptioningTransformer(VOCABULARY, D_IN, D, H, memory_positions=(2, 3)).eval()
    exact = model.double()(features(), captions())
    scores = model.to(dtype)(features().to(dtype), captions())
    assert scores.dtype == dtype
    assert (scores.double() - exact).abs().max() < (2e-2 if dtype.itemsize == 2 else 1e-5)
    assert model.sample(features(), max_length=5).shape == (N, 5)


def test_autocast_runs() -> None:
    model = CaptioningTransformer(VOCABULARY, D_IN, D, H).eval()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = model(features().float(), captions())
        assert model.sample(features(), max_length=5).shape == (N, 5)
    assert (scores.float() - model(features().float(), captions())).abs().max() < 5e-2


@pytest.mark.parametrize("shape", [(N, D_IN), (N, 9, D_IN)])
def test_shapes_can_be_worked_out_without_numbers(shape: tuple[int, ...]) -> None:
    model = CaptioningTransformer(VOCABULARY, D_IN, D, H, memory_positions="2d").to("meta")
    mask = torch.ones(N, 1 if len(shape) == 2 else 9, device="meta")
    words = torch.zeros(N, T, dtype=torch.int64, device="meta")
    assert model(torch.empty(shape, device="meta"), words, memory_mask=mask).shape == (N, T, V)
    state = model.start_state(torch.empty(shape, device="meta"))
    assert model.step(words[:, :1], state)[0].shape == (N, V)
    assert caption_loss(torch.empty(N, T - 1, V, device="meta"), words, null=NULL).shape == ()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_a_model_on_a_gpu_takes_features_from_anywhere() -> None:
    model = seeded(memory_positions=(2, 3)).cuda()
    expected = seeded(memory_positions=(2, 3)).sample(features(), max_length=7)
    for image in (features(), features().cuda(), features().numpy()):
        np.testing.assert_array_equal(model.sample(image, max_length=7), expected)
        np.testing.assert_array_equal(model.beam_search(image, max_length=7, beam_size=1), expected)
    scores = model(features().cuda(), captions().cuda())
    torch.testing.assert_close(scores.cpu(), seeded(memory_positions=(2, 3))(features(), captions()), **CLOSE)


@pytest.mark.parametrize("options", [{}, {"memory_positions": "2d"}])
def test_eval_repeats_itself_and_leaves_the_generator_alone_while_training_does_not(options: dict) -> None:
    model, image = seeded(**options), features(N, 4, D_IN)
    before = torch.get_rng_state()
    assert torch.equal(model(image, captions()), model(image, captions()))
    assert torch.equal(torch.get_rng_state(), before)
    model.train()
    assert not torch.equal(model(image, captions()), model(image, captions()))


def test_every_parameter_gets_a_gradient() -> None:
    model = seeded()
    model(features(), captions()).square().sum().backward()
    silent = [n for n, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    # A shift common to all keys cancels in the softmax: rounding alone is left.
    assert [name for name in silent if not name.endswith("attn.key.bias")] == []


# --- one word after the other


@pytest.mark.parametrize("options", [{}, {"memory_positions": (2, 3)}])
@pytest.mark.parametrize("masked", [False, True])
def test_cached_steps_give_the_scores_of_the_full_pass(options: dict, masked: bool) -> None:
    model, image, words = seeded(**options), features(), captions(9)
    mask = torch.arange(S).expand(N, -1) < torch.tensor([[6], [2], [4]]) if masked else None
    expected = model(image, words, memory_mask=mask)
    state = model.start_state(image, memory_mask=mask)
    for place in range(9):
        assert state.length == place
        scores, state = model.step(words[:, place, None], state)
        torch.testing.assert_close(scores, expected[:, place], **CLOSE)


def test_a_step_knows_no_later_word() -> None:
    """Two captions that part at place 2 have equal scores before it."""
    model, words = seeded(), captions(5)
    other = words.clone()
    other[:, 2:] = (other[:, 2:] + 1) % V
    states = [model.start_state(features()), model.start_state(features())]
    for place in range(5):
        pair = [model.step(w[:, place, None], s)[0] for w, s in zip((words, other), states, strict=True)]
        assert torch.equal(*pair) == (place < 2)


def test_a_state_moves_its_rows_together() -> None:
    model, words, index = seeded(), captions(6), torch.tensor([2, 0, 2, 1])
    mask = torch.arange(S).expand(N, -1) < torch.tensor([[6], [2], [4]])
    state = model.start_state(features(), memory_mask=mask)
    for place in range(3):
        _, state = model.step(words[:, place, None], state)
    assert state.reorder(index) is state
    expected = model(features()[index], words[index], memory_mask=mask[index])
    for place in range(3, 6):
        scores, state = model.step(words[index, place, None], state)
        torch.testing.assert_close(scores, expected[:, place], **CLOSE)


def test_the_image_is_projected_once_for_all_steps() -> None:
    model, calls = seeded(), []
    model.visual_projection.register_forward_hook(lambda *_: calls.append("projection"))
    for layer in model.transformer.layers:
        layer.cross_attn.key.register_forward_hook(lambda _m, args, _out: calls.append(args[0].shape[1]))
    state = model.start_state(features())
    for _ in range(4):
        model.step(captions()[:, :1], state)
    assert calls.count("projection") == 1
    assert sum(size for size in calls if size != "projection") == 2 * S


def test_a_step_refuses_what_does_not_fit_and_leaves_the_state_as_it_was() -> None:
    model = seeded(max_length=2)
    state = model.start_state(features())
    word = captions()[:, :1]
    cases = [
        (captions()[:, :2], ValueError, r"tokens must be of shape \(N, T\) = \(3, 1\), got \(3, 2\)"),
        (word[:2], ValueError, r"tokens must be of shape \(N, T\) = \(3, 1\), got \(2, 1\)"),
        (word + 8, ValueError, "ids of the vocabulary of 8 words"),
        (word.double(), TypeError, "tokens must be whole numbers, got torch.float64"),
    ]
    for tokens, error, message in cases:
        with pytest.raises(error, match=message):
            model.step(tokens, state)
        assert state.length == 0
    model.step(word, state)
    model.step(word, state)
    with pytest.raises(ValueError, match="state must be at most max_length - 1 = 1 words long, got 2 words"):
        model.step(word, state)
    with pytest.raises(TypeError, match="state must be a CaptioningState, got NoneType"):
        model.step(word, None)
    with pytest.raises(TypeError, match="index must be whole numbers, got torch"):
        state.reorder(torch.zeros(2))
    assert state.length == 2
    assert len(state.memory) == N


# --- sample


def greedy_by_full_passes(model: CaptioningTransformer, image: Tensor, length: int) -> list[list[int]]:
    answer = []
    for row in range(len(image)):
        words = [START]
        while len(words) <= length and words[-1] != END:
            scores = model(image[row : row + 1], torch.tensor([words]))[0, -1]
            words.append(max((w for w in range(V) if w not in (NULL, START)), key=lambda w, s=scores: s[w].item()))
        answer.append([*words[1:], *[NULL] * (length + 1 - len(words))])
    return answer


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(5, D_IN), (5, S, D_IN)])
def test_sample_is_greedy_decoding_by_full_passes(seed: int, shape: tuple[int, ...]) -> None:
    model, image = seeded(seed), features(*shape)
    sampled = model.sample(image, max_length=9)
    assert sampled.dtype == np.int64
    assert sampled.tolist() == greedy_by_full_passes(model, image, 9)


def endless(**options: object) -> CaptioningTransformer:
    model = seeded(**options)
    model.output.bias.data[END] = -1e4
    return model


def test_a_caption_ends_with_end_and_null_and_never_holds_start() -> None:
    model = seeded()
    model.output.bias.data[[NULL, START]] = 50.0
    model.output.bias.data[END] = 1.0
    rows = [model.sample(features(seed=seed), max_length=9) for seed in range(20)]
    sampled = np.concatenate(rows)
    assert START not in sampled
    ended = [row.tolist().index(END) for row in sampled if END in row]
    assert len(ended) > 5, "the model of this test should end some captions"
    for row in sampled.tolist():
        stop = row.index(END) if END in row else len(row)
        assert NULL not in row[:stop]
        assert set(row[stop + 1 :]) <= {NULL}


def test_a_model_that_never_ends_fills_max_length() -> None:
    sampled = endless().sample(features(), max_length=5)
    assert sampled.shape == (N, 5)
    assert not np.isin(sampled, [NULL, START, END]).any()
    assert endless().sample(features(), max_length=1).shape == (N, 1)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, ">f4"])
def test_numpy_features_of_any_float_dtype_are_taken(kind: object) -> None:
    model = seeded()
    image = features().numpy().astype(kind)
    image.setflags(write=False)
    expected = model.sample(torch.from_numpy(image.astype(np.float64)), max_length=7)
    np.testing.assert_array_equal(model.sample(image, max_length=7), expected)
    np.testing.assert_array_equal(model.sample(image[::-1], max_length=7), expected[::-1])


class Arrivals(TorchDispatchMode):
    """Notes the dtype of every floating tensor that is sent to the meta device, the stand-in for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.dtypes: list[torch.dtype] = []

    def __torch_dispatch__(self, func: object, types: object, args: tuple = (), kwargs: dict | None = None) -> object:
        sent = args[0] if args and isinstance(args[0], Tensor) else None
        answer = func(*args, **(kwargs or {}))
        if sent is not None and sent.device.type == "cpu" and getattr(answer, "is_meta", False):
            self.dtypes += [sent.dtype, answer.dtype] if sent.is_floating_point() else []
        return answer


@pytest.mark.parametrize("image", [features(), features().numpy()], ids=["tensor", "array"])
def test_features_take_the_models_dtype_before_they_leave_the_cpu(image: object) -> None:
    """Apple's GPUs have no float64, and it is twice the way for the others."""
    model = CaptioningTransformer(VOCABULARY, D_IN, D, H, max_length=9).to("meta")
    with Arrivals() as arrivals, pytest.raises(Exception, match="meta"):  # no words can be chosen without numbers
        model.sample(image, max_length=5)
    assert set(arrivals.dtypes) == {torch.float32}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_tensors_of_any_float_dtype_are_taken(dtype: torch.dtype) -> None:
    model, image = seeded(), features().to(dtype)
    np.testing.assert_array_equal(model.sample(image, max_length=7), model.sample(image.double(), max_length=7))


def test_a_numpy_mask_is_taken() -> None:
    model, longer = seeded(), torch.cat((features(), 99 * features(N, 2, D_IN, seed=4)), dim=1)
    mask = np.arange(S + 2)[None].repeat(N, 0) < S
    expected = model.sample(features(), max_length=7)
    for kind in (bool, np.int32, np.float32):
        np.testing.assert_array_equal(model.sample(longer, max_length=7, memory_mask=mask.astype(kind)), expected)


@pytest.mark.parametrize("writer", ["sample", "beam_search", "cross_attention"])
def test_eval_mode_is_used_and_every_modules_mode_put_back(writer: str) -> None:
    model = seeded().train()
    model.transformer.layers[0].eval()
    modes = [module.training for module in model.modules()]
    arguments = (features(), captions()) if writer == "cross_attention" else (features(), 6)
    first, second = getattr(model, writer)(*arguments), getattr(model, writer)(*arguments)
    assert np.array_equal(np.asarray(first), np.asarray(second))
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize("writer", ["sample", "beam_search", "cross_attention"])
def test_the_mode_is_put_back_after_an_exception(writer: str) -> None:
    model = seeded().train()

    def fail(*_: object) -> None:
        assert not model.training
        raise KeyError("on purpose")

    handle = model.output.register_forward_hook(fail)
    arguments = (features(), captions()) if writer == "cross_attention" else (features(), 6)
    with pytest.raises(KeyError, match="on purpose"):
        getattr(model, writer)(*arguments)
    assert all(module.training for module in model.modules())
    handle.remove()
    assert isinstance(
        model.transformer.layers[-1].cross_attn(features(N, T, D), features(N, S, D), features(N, S, D)), Tensor
    )


@pytest.mark.parametrize("writer", ["sample", "beam_search"])
@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"max_length": 10}, ValueError, "max_length must be at most the model's max_length = 9, got 10"),
        ({"max_length": 0}, ValueError, "max_length must be a positive whole number, got 0"),
        ({"max_length": -3}, ValueError, "max_length must be a positive whole number, got -3"),
        ({"max_length": 4.0}, TypeError, "max_length must be a positive whole number, got 4.0"),
        ({"features": features(N, D_IN - 1)}, ValueError, r"D_in = 10 and S > 0, got \(3, 9\)"),
        ({"features": features(D_IN).numpy()}, ValueError, r"D_in = 10 and S > 0, got \(10,\)"),
        ({"features": features().long()}, TypeError, "features must be a tensor of a floating dtype, got torch.int64"),
        ({"features": features().long().numpy()}, TypeError, "a tensor of a floating dtype, got torch.int64"),
        ({"features": [[0.0] * D_IN]}, TypeError, "features must be a torch.Tensor or numpy.ndarray, got list"),
        ({"features": np.array(["a"])}, TypeError, "features must be an array of numbers, got <U1"),
        ({"memory_mask": np.ones((N, 2))}, ValueError, r"memory_mask must be of shape \(N, S\) = \(3, 6\)"),
        ({"features": features() * math.nan}, ValueError, "the largest logit must be a finite number, got NaN"),
    ],
)
def test_bad_requests_are_refused_and_the_mode_kept(writer: str, change: dict, error: type, message: str) -> None:
    model = seeded().train()
    with pytest.raises(error, match=message):
        getattr(model, writer)(**{"features": features(), "max_length": 5, **change})
    assert all(module.training for module in model.modules())


def test_max_length_is_looked_at_before_anything_is_computed() -> None:
    model = seeded()
    model.visual_projection.register_forward_hook(lambda *_: pytest.fail("computed before the refusal"))
    with pytest.raises(ValueError, match="got 30"):
        model.sample(features())


@pytest.mark.parametrize("lacking", ["<START>", "<END>"])
def test_start_and_end_are_needed_to_write_and_not_to_read(lacking: str) -> None:
    vocabulary = {word: index for index, word in enumerate(word for word in WORDS if word != lacking)}
    model = seeded(vocabulary=vocabulary)
    assert model(features(), captions() % 7).shape == (N, T, 7)
    with pytest.raises(ValueError, match=f"a vocabulary with <START> and <END>, got no.*{lacking}"):
        model.sample(features(), max_length=5)


def test_a_special_id_outside_the_vocabulary_is_found_when_writing() -> None:
    model = seeded(vocabulary={"<NULL>": 0, "<START>": 1, "<END>": 9, "a": 2})
    with pytest.raises(ValueError, match="special ids must be from 0 to V - 1 = 3"):
        model.sample(features(), max_length=5)


def test_no_image_gives_no_caption() -> None:
    assert seeded().sample(features(0, S, D_IN), max_length=5).shape == (0, 5)
    assert seeded().beam_search(features(0, S, D_IN), max_length=5, beam_size=2).shape == (0, 5)


# --- beams


@pytest.mark.parametrize("seed", range(5))
def test_one_beam_is_sample(seed: int) -> None:
    model, image = seeded(seed), features(4, S, D_IN)
    expected = model.sample(image, max_length=9)
    for alpha in (0.0, 1.0):
        found = model.beam_search(image, max_length=9, beam_size=1, alpha=alpha)
        assert found.dtype == np.int64
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("alpha", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(3))
def test_enough_beams_are_exhaustive_search(seed: int, alpha: float) -> None:
    vocabulary = {"<NULL>": 0, "<START>": 1, "<END>": 2, "a": 3, "b": 4}
    model, image, length = seeded(seed, vocabulary), features(2, S, D_IN), 4
    candidates = [(*body, END) for n in range(length) for body in itertools.product((3, 4), repeat=n)]
    candidates += list(itertools.product((3, 4), repeat=length))
    found = model.beam_search(image, max_length=length, beam_size=40, alpha=alpha)
    for row in range(2):
        score = {}
        for words in candidates:
            with torch.no_grad():
                log_p = model(image[row : row + 1], torch.tensor([[START, *words[:-1]]])).log_softmax(dim=-1)[0]
            score[words] = sum(log_p[t, w].item() for t, w in enumerate(words)) / len(words) ** alpha
        best = max(score, key=score.get)
        assert found[row].tolist() == [*best, *[NULL] * (length - len(best))]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_beams_without_an_end_give_the_best_unfinished_caption(beam_size: int) -> None:
    found = endless().beam_search(features(), max_length=5, beam_size=beam_size)
    assert not np.isin(found, [NULL, START, END]).any()
    with pytest.raises(ValueError, match="max_length must be a positive whole number, got 0"):
        endless().beam_search(features(), max_length=0, beam_size=beam_size)


def test_beams_use_the_mask_of_each_image() -> None:
    model, longer = seeded(), torch.cat((features(), 99 * features(N, 2, D_IN, seed=4)), dim=1)
    mask = torch.arange(S + 2).expand(N, -1) < S
    expected = model.beam_search(features(), max_length=7, beam_size=3, alpha=0.5)
    np.testing.assert_array_equal(
        model.beam_search(longer, max_length=7, beam_size=3, alpha=0.5, memory_mask=mask), expected
    )


def test_the_score_of_a_beam_is_the_models_log_probability() -> None:
    model = seeded()
    settings = {"start": START, "end": END, "null": NULL, "max_length": 6, "beam_size": 4, "alpha": 0.5}
    with torch.no_grad():
        found, scores = beam_search(model.step, model.start_state(features()), N, **settings)
    for row, words in enumerate(found.tolist()):
        words = [word for word in words if word != NULL]
        log_p = model(features()[row : row + 1], torch.tensor([[START, *words[:-1]]])).log_softmax(dim=-1)[0]
        expected = sum(log_p[t, w].item() for t, w in enumerate(words)) / len(words) ** 0.5
        assert scores[row].item() == pytest.approx(expected, abs=1e-9)


def test_beams_refuse_settings_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="beam_size must be a positive whole number, got 0"):
        seeded().beam_search(features(), max_length=5, beam_size=0)
    with pytest.raises(ValueError, match="alpha must be a finite number of at least 0, got -1"):
        seeded().beam_search(features(), max_length=5, alpha=-1)


# --- where the model looks


@pytest.mark.parametrize("layer", [0, 1, -1])
def test_cross_attention_is_that_of_torch_and_sums_to_one(layer: int) -> None:
    model, image, words = seeded(), features(), captions()
    weights = model.train().cross_attention(image, words, layer=layer)
    assert weights.shape == (N, H, T, S)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(N, H, T, dtype=torch.float64), **CLOSE)
    model.eval()
    twins, inputs = torch_twin(model), []
    hidden = F.embedding(words, model.embedding.weight) + sinusoids(T, D)
    memory = model.visual_projection(image)
    for twin in twins:
        future = nn.Transformer.generate_square_subsequent_mask(T, dtype=torch.float64)
        asking = twin.norm1(hidden + twin._sa_block(hidden, future, None))
        inputs.append(twin.multihead_attn(asking, memory, memory, need_weights=True, average_attn_weights=False)[1])
        hidden = twin(hidden, memory, tgt_mask=future)
    torch.testing.assert_close(weights, inputs[layer].detach(), **CLOSE)


def test_cross_attention_leaves_no_trace() -> None:
    model = seeded()
    before = model(features(), captions())
    model.cross_attention(features(), captions())
    assert torch.equal(model(features(), captions()), before)
    attention = model.transformer.layers[-1].cross_attn
    assert not attention._forward_hooks
    assert not attention._forward_pre_hooks


def test_cross_attention_on_one_token_is_one_and_on_padding_zero() -> None:
    assert torch.equal(seeded().cross_attention(features(N, D_IN), captions()), torch.ones(N, H, T, 1).double())
    mask = torch.arange(S).expand(N, -1) < 4
    weights = seeded().cross_attention(features(), captions(), memory_mask=mask)
    assert torch.count_nonzero(weights[..., 4:]) == 0


def test_cross_attention_refuses_a_layer_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="layer must be one of -2, -1, 0, 1, got 2"):
        seeded().cross_attention(features(), captions(), layer=2)


# --- the loss


def loss_by_loops(scores: Tensor, words: Tensor, null: int) -> tuple[float, int]:
    total, count = 0.0, 0
    for n in range(scores.shape[0]):
        for t in range(scores.shape[1]):
            target = words[n, t + 1].item()
            if target != null:
                row = scores[n, t].tolist()
                total += math.log(sum(math.exp(value) for value in row)) - row[target]
                count += 1
    return total, count


def scores_and_captions() -> tuple[Tensor, Tensor]:
    words = torch.tensor([[1, 3, 4, 2, 0], [1, 5, 2, 0, 0], [1, 6, 7, 7, 2]])
    return features(N, 4, V, seed=8), words


def test_the_loss_is_the_mean_over_the_words_that_follow() -> None:
    scores, words = scores_and_captions()
    total, count = loss_by_loops(scores, words, NULL)
    assert count == 9
    assert caption_loss(scores, words, null=NULL).item() == pytest.approx(total / count, rel=1e-12)
    assert caption_loss(scores, words.int(), null=NULL).item() == pytest.approx(total / count, rel=1e-12)


def test_the_published_mean_divides_by_all_positions() -> None:
    scores, words = scores_and_captions()
    total, _ = loss_by_loops(scores, words, NULL)
    assert caption_loss(scores, words, null=NULL, mean_over="positions").item() == pytest.approx(total / 12, rel=1e-12)


def test_padding_changes_neither_the_loss_nor_a_gradient() -> None:
    scores, words = scores_and_captions()
    scores.requires_grad_()
    longer = torch.cat((scores, features(N, 2, V, seed=9)), dim=1)
    padded = torch.cat((words, torch.full((N, 2), NULL)), dim=1)
    loss = caption_loss(longer, padded, null=NULL)
    assert loss.item() == pytest.approx(caption_loss(scores, words, null=NULL).item(), rel=1e-12)
    loss.backward()
    silent = (words[:, 1:] == NULL)[:, :, None].expand_as(scores)
    assert torch.count_nonzero(scores.grad[silent]) == 0
    assert scores.grad[~silent].abs().min() > 0


def test_the_id_of_null_may_be_any() -> None:
    scores, words = scores_and_captions()
    total, count = loss_by_loops(scores, words, 7)
    assert caption_loss(scores, words, null=7).item() == pytest.approx(total / count, rel=1e-12)


@pytest.mark.parametrize("mean_over", ["words", "positions"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_of_padding_costs_nothing(mean_over: str, smoothing: float) -> None:
    scores = features(N, 4, V).requires_grad_()
    words = torch.full((N, 5), NULL)
    loss = caption_loss(scores, words, null=NULL, mean_over=mean_over, label_smoothing=smoothing)
    loss.backward()
    assert loss.item() == 0.0
    assert torch.count_nonzero(scores.grad) == 0
    assert torch.isfinite(scores.grad).all()


def test_smoothing_is_that_of_torch() -> None:
    scores, words = scores_and_captions()
    smooth = caption_loss(scores, words, null=NULL, label_smoothing=0.2)
    expected = F.cross_entropy(scores.flatten(0, 1), words[:, 1:].flatten(), ignore_index=NULL, label_smoothing=0.2)
    torch.testing.assert_close(smooth, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_scores_do_not_overflow_the_sum(dtype: torch.dtype) -> None:
    scores = torch.full((40, 100, 4), 0.0, dtype=dtype)
    scores[..., 0] = 300.0
    loss = caption_loss(scores, torch.ones(40, 101, dtype=torch.int64), null=0)
    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(300.0)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"captions": captions(4)},
            ValueError,
            r"of shape \(N, T \+ 1\) = \(3, 5\), got \(3, 4\); pass the whole captions",
        ),
        ({"captions": captions(5)[:2]}, ValueError, r"of shape \(N, T \+ 1\) = \(3, 5\), got \(2, 5\)"),
        ({"captions": captions(5) + 8}, ValueError, "ids of the vocabulary of 8 words"),
        ({"captions": captions(5).float()}, TypeError, "captions must be whole numbers, got torch.float32"),
        ({"captions": captions(5).to("meta")}, ValueError, "captions must be on cpu like scores, got meta"),
        ({"scores": features(N, 4)}, ValueError, r"scores must be of shape \(N, T, V\)"),
        (
            {"scores": features(N, 4, V).long()},
            TypeError,
            "scores must be a tensor of a floating dtype, got torch.int64",
        ),
        ({"null": None}, TypeError, "null must be a whole number of at least 0, got None"),
        ({"null": -100}, ValueError, "null must be a whole number of at least 0, got -100"),
        ({"null": V}, ValueError, f"null must be an id of the vocabulary of {V} words, 0 to {V - 1}, got {V}"),
        ({"label_smoothing": 1.5}, ValueError, "label_smoothing must be a probability from 0 to 1, got 1.5"),
        ({"mean_over": "batch"}, ValueError, "mean_over must be one of 'words', 'positions', got 'batch'"),
    ],
)
def test_the_loss_refuses_what_does_not_fit(change: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        caption_loss(**{"scores": features(N, 4, V), "captions": captions(5), "null": NULL, **change})


# --- it learns


@pytest.mark.learning
def test_two_images_are_learned_by_heart_and_told_apart() -> None:
    torch.manual_seed(0)
    model = CaptioningTransformer(VOCABULARY, D_IN, 32, H, max_length=9)
    image = torch.randn(2, D_IN)
    words = torch.tensor([[1, 3, 4, 6, 2, 0], [1, 3, 5, 7, 2, 0]])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(100):
        optimizer.zero_grad()
        caption_loss(model(image, words[:, :-1]), words, null=NULL).backward()
        optimizer.step()
    sampled = model.sample(image, max_length=5)
    assert sampled.tolist() == words[:, 1:].tolist()
    model.eval()
    assert (model(image, words[:, :-1]) - model(0 * image, words[:, :-1])).abs().max() > 0.1


def test_a_fresh_state_has_read_nothing() -> None:
    state = seeded().start_state(features(N, D_IN))
    assert isinstance(state, CaptioningState)
    assert state.length == 0
    assert state.memory.shape == (N, 1, D)
