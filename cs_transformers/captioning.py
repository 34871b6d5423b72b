"""Image captioning: a decoder that looks at the words so far and at an image, and proposes the next word.

Letters: N batch, T words, S image tokens (1 for a global feature), D model width, H heads, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import causal_mask, recorded_weights
from .blocks import TransformerDecoder, TransformerDecoderLayer, init_weights
from .cache import DecoderCache
from .decoding import beam_search, evaluating, greedy_decode
from .errors import (
    check_choice,
    check_count,
    check_ids,
    check_probability,
    check_same_kind,
    check_shape,
    check_tensor,
    explain,
)
from .masks import check_key_mask
from .positional import PositionalEncoding, PositionalEncoding2D

if TYPE_CHECKING:
    import numpy as np

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


@dataclass
class CaptioningState:
    """What a captioner remembers between two words.

    Args:
        memory: (N, S, D) image tokens.
        memory_mask: (N, S) bool, True where an image token is real, or None.
        cache: Keys and values of the words read so far and of the image tokens.

    Example:
        >>> CaptioningState(torch.zeros(3, 5, 8), None, DecoderCache(num_layers=2)).length
        0
    """

    memory: Tensor
    memory_mask: Tensor | None
    cache: DecoderCache

    @property
    def length(self) -> int:
        """Number of words read: the position of the next one."""
        return self.cache.length

    def reorder(self, index: Tensor) -> CaptioningState:
        """Let row i continue from old row ``index[i]``, as beam search does after ranking.

        Args:
            index: (N',) whole numbers, rows to keep; may repeat and may change the batch size.

        Returns:
            This state, changed.

        Raises:
            TypeError: If ``index`` is no integer tensor.
            ValueError: If ``index`` has not one axis.
        """
        self.cache.reorder(index)
        index = index.to(self.memory.device)
        self.memory = self.memory.index_select(0, index)  # (N', S, D)
        if self.memory_mask is not None:
            self.memory_mask = self.memory_mask.index_select(0, index)  # (N', S)
        return self


def check_step(
    tokens: Tensor,
    state: CaptioningState,
    kind: type[CaptioningState],
    vocab_size: int,
    max_length: int,
    *,
    made_by: str,
    writes: str,
) -> Tensor:
    """Require what a model's ``step`` reads: one known word for each sentence, and a state with room for it.

    Args:
        tokens: (N, 1) word ids.
        state: What the model remembers.
        kind: Class of the state.
        vocab_size: Number of words V.
        max_length: Number of positions of the model.
        made_by: The call that makes a state.
        writes: What the model writes, for the message.

    Returns:
        The ids as the model takes them.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If a shape does not fit, an id is not in the vocabulary, or ``max_length`` words were read.
    """
    if not isinstance(state, kind):
        article = f"a {kind.__name__}"
        raise TypeError(explain("step", "state", article, type(state).__name__, f"make one with {made_by}"))
    tokens = check_ids("step", "tokens", tokens, vocab_size)
    check_shape("step", "tokens", tokens, f"give one word per {writes}", N=len(state.memory), T=1)
    if state.length >= max_length:
        fix = "stop here, or build the model with a larger max_length"
        expected = f"at most max_length - 1 = {max_length - 1} words long"
        raise ValueError(explain("step", "state", expected, f"{state.length} words", fix))
    return tokens


class CaptioningTransformer(nn.Module):
    """Write a caption word by word, each from the words before it and the image.

    The image is the memory of a Transformer decoder: one token for a global feature, S tokens for a grid or any other
    set of region features.

    Args:
        word_to_idx: Id of every word; its length is V. ``<NULL>`` must be in it, ``sample`` needs ``<START>`` and
            ``<END>`` too.
        input_dim: Width D_in of the image features.
        wordvec_dim: Model width D, even and a multiple of ``num_heads``.
        num_heads: Number of heads H.
        num_layers: Number of decoder layers.
        max_length: Number of positions, the longest caption that can be read or written.
        memory_positions: What tells the image tokens apart. None: nothing. "2d": sinusoids for rows and columns of a
            square grid, row by row; (rows, columns): the same for a rectangle; a ``PositionalEncoding2D`` for another
            form of these; any other module is called with the memory (N, S, D) and returns it with positions added.

    Attributes:
        visual_projection: Linear from D_in to D.
        embedding: Vectors of the words, (V, D).
        positional_encoding: Positions of the words.
        transformer: The ``TransformerDecoder``, of feed-forward width 2048.
        output: Linear from D to V.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If ``<NULL>`` is missing or its id not below V, or a size does not fit.

    Example:
        >>> vocabulary = {"<NULL>": 0, "<START>": 1, "<END>": 2, "cat": 3}
        >>> model = CaptioningTransformer(vocabulary, input_dim=20, wordvec_dim=8)
        >>> model(torch.zeros(5, 20), torch.zeros(5, 7, dtype=torch.int64)).shape
        torch.Size([5, 7, 4])

    Source:
        Vaswani et al. 2017, arXiv:1706.03762; for captions Sharma et al. 2018, "Conceptual Captions", section 4.
    """

    def __init__(
        self,
        word_to_idx: Mapping[str, int],
        input_dim: int,
        wordvec_dim: int,
        num_heads: int = 4,
        num_layers: int = 2,
        max_length: int = 50,
        *,
        memory_positions: str | Sequence[int] | nn.Module | None = None,
    ) -> None:
        super().__init__()
        self._null = _null_id(word_to_idx)
        self._start, self._end = word_to_idx.get("<START>"), word_to_idx.get("<END>")
        for name, size in (("input_dim", input_dim), ("wordvec_dim", wordvec_dim), ("max_length", max_length)):
            check_count("CaptioningTransformer", name, size)
        self.vocab_size, self.input_dim, self.max_length = len(word_to_idx), input_dim, max_length
        # The order of construction is the order in which the generator is drawn from: keep it.
        self.visual_projection = nn.Linear(input_dim, wordvec_dim)
        self.embedding = nn.Embedding(self.vocab_size, wordvec_dim, padding_idx=self._null)
        self.positional_encoding = PositionalEncoding(wordvec_dim, max_len=max_length)
        self.transformer = TransformerDecoder(TransformerDecoderLayer(wordvec_dim, num_heads), num_layers)
        self.apply(init_weights)
        self.output = nn.Linear(wordvec_dim, self.vocab_size)
        self.memory_positions, self._grid = _memory_positions(memory_positions, wordvec_dim)

    def forward(self, features: Tensor, captions: Tensor, *, memory_mask: Tensor | None = None) -> Tensor:
        """Score every word of the vocabulary as the successor of every word of the captions.

        The scores at position t depend on the image and on the words up to t. Padding needs no mask: it stands on the
        right, where only later padding sees it.

        Args:
            features: (N, D_in) one feature per image, or (N, S, D_in) several.
            captions: (N, T) word ids, from ``<START>`` on and without the last; T is at most ``max_length``.
            memory_mask: (N, S), nonzero or True = a real feature, 0 or False = padding. None: all are real.

        Returns:
            (N, T, V) scores, before the softmax.

        Raises:
            TypeError: If an argument is of the wrong type, or the dtype of ``features`` not that of the weights.
            ValueError: If a shape does not fit, or an id is not in the vocabulary.
        """
        features, memory_mask = self._check_features(features, memory_mask)  # (N, S, D_in)
        captions = self._check_captions(captions, len(features))
        # Exercise 4.1: project the features to the memory (`self._place` gives it positions, where there are any);
        # embed the captions and add positions; a causal mask for T words on the captions' device; decode; score
        # (about 6 lines). Pass `memory_key_mask=memory_mask` to self.transformer. Look at causal_mask.
        ### BEGIN SOLUTION 4.1
        memory = self._place(self.visual_projection(features))  # (N, S, D)
        words = self.positional_encoding(self.embedding(captions))  # (N, T, D)
        future_hidden = causal_mask(captions.shape[1], device=captions.device)  # (T, T)
        hidden = self.transformer(words, memory, future_hidden, memory_key_mask=memory_mask)
        return self.output(hidden)  # (N, T, V)
        ### END SOLUTION 4.1

    def start_state(self, features: Tensor, *, memory_mask: Tensor | None = None) -> CaptioningState:
        """Look at the images, before the first word.

        Args:
            features: (N, D_in) or (N, S, D_in).
            memory_mask: (N, S), nonzero or True = a real feature. None: all are real.

        Returns:
            A state for ``step``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit.
        """
        features, memory_mask = self._check_features(features, memory_mask)  # (N, S, D_in)
        image = self.visual_projection(features)  # (N, S, D)
        return CaptioningState(self._place(image), memory_mask, DecoderCache(self.transformer.num_layers))

    def step(self, tokens: Tensor, state: CaptioningState) -> tuple[Tensor, CaptioningState]:
        """Read one more word of every caption: the last row of ``forward``, without computing the others again.

        Args:
            tokens: (N, 1) word ids.
            state: From ``start_state`` or the previous step; it grows by one word.

        Returns:
            (N, V) scores of the next word, and the state.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit, an id is not in the vocabulary, or ``max_length`` words were read.
        """
        made_by, sizes = "start_state(features)", (self.vocab_size, self.max_length)
        tokens = check_step(tokens, state, CaptioningState, *sizes, made_by=made_by, writes="caption")
        words = self.positional_encoding(self.embedding(tokens), start=state.length)  # (N, 1, D)
        hidden = self.transformer(words, state.memory, memory_key_mask=state.memory_mask, cache=state.cache)
        return self.output(hidden[:, -1]), state  # (N, V)

    def sample(
        self, features: Tensor | np.ndarray, max_length: int = 30, *, memory_mask: Tensor | np.ndarray | None = None
    ) -> np.ndarray:
        """Write a caption for every image, always the most probable next word.

        Works in eval mode and puts every module's mode back.

        Args:
            features: (N, D_in) or (N, S, D_in), a tensor or numpy array of any floating dtype, on any device.
            max_length: Number of words at which a caption is cut, at most the model's ``max_length``.
            memory_mask: (N, S), nonzero or True = a real feature. None: all are real.

        Returns:
            (N, max_length) int64 ids: words, then ``<END>``, then ``<NULL>``; without ``<START>``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If ``max_length`` does not fit the model, ``<START>`` or ``<END>`` is not in the vocabulary,
                or a shape does not fit.
        """
        settings = self._search_settings("sample", max_length)
        with evaluating(self):
            state = self._state_of(features, memory_mask)
            return greedy_decode(self.step, state, len(state.memory), **settings).cpu().numpy()

    def beam_search(
        self,
        features: Tensor | np.ndarray,
        max_length: int = 30,
        *,
        beam_size: int = 5,
        alpha: float = 0.0,
        memory_mask: Tensor | np.ndarray | None = None,
    ) -> np.ndarray:
        """Write a caption for every image, the best of the ``beam_size`` most promising at every length.

        Args:
            features: As for ``sample``.
            max_length: Number of words at which a caption is cut, at most the model's ``max_length``.
            beam_size: Number of beginnings that are followed; 1 is ``sample``.
            alpha: Captions compare by their log-probability over length ** alpha: 0 favours short ones.
            memory_mask: (N, S), nonzero or True = a real feature. None: all are real.

        Returns:
            (N, max_length) int64 ids, as from ``sample``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: As ``sample``, and if ``beam_size`` is not positive or ``alpha`` negative.
        """
        settings = self._search_settings("beam_search", max_length)
        check_count("beam_search", "beam_size", beam_size)
        with evaluating(self):
            state = self._state_of(features, memory_mask)
            rows = len(state.memory)
            found, _ = beam_search(self.step, state, rows, beam_size=beam_size, alpha=alpha, **settings)
            return found.cpu().numpy()

    def cross_attention(
        self, features: Tensor, captions: Tensor, *, layer: int = -1, memory_mask: Tensor | None = None
    ) -> Tensor:
        """Say where in the image the model looks when it chooses each next word.

        Works in eval mode, without gradients, and puts every module's mode back.

        Args:
            features: (N, D_in) or (N, S, D_in).
            captions: (N, T) word ids, as for ``forward``.
            layer: Which decoder layer; the last by default.
            memory_mask: (N, S), nonzero or True = a real feature. None: all are real.

        Returns:
            (N, H, T, S) weights; row t belongs to the word after word t, and sums to 1 over the image tokens.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If there is no such layer, a shape does not fit, or an id is not in the vocabulary.
        """
        check_choice(
            "cross_attention", "layer", layer, range(-self.transformer.num_layers, self.transformer.num_layers)
        )
        attention = self.transformer.layers[layer].cross_attn
        with evaluating(self), recorded_weights(attention) as weights:
            self(features, captions, memory_mask=memory_mask)
        return weights[""][0]

    def _place(self, memory: Tensor) -> Tensor:
        """Add positions to the image tokens, where the model has any."""
        if self.memory_positions is None:
            return memory
        if not isinstance(self.memory_positions, PositionalEncoding2D):
            return self.memory_positions(memory)
        cells = memory[:1].transpose(1, 2).unflatten(2, self._grid_of(memory.shape[1]))  # (1, D, rows, columns)
        return memory + self.memory_positions(cells).flatten(2).transpose(1, 2)  # (N, S, D)

    def _grid_of(self, tokens: int) -> tuple[int, int]:
        side = math.isqrt(tokens)
        return self._grid or (side, side)

    def _check_features(self, features: Tensor, memory_mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        who, width = type(self).__name__, self.input_dim
        check_tensor(who, "features", features)
        if features.dim() not in (2, 3) or features.shape[-1] != width or 0 in features.shape[1:]:
            expected = f"of shape (N, D_in) or (N, S, D_in) with D_in = {width} and S > 0"
            raise ValueError(explain(who, "features", expected, tuple(features.shape), "check input_dim and the axes"))
        check_same_kind(who, "weights", weights=self.embedding.weight, features=features)
        features = features if features.dim() == 3 else features.unsqueeze(1)  # (N, S, D_in)
        batch, tokens = features.shape[:2]
        if isinstance(self.memory_positions, PositionalEncoding2D) and math.prod(self._grid_of(tokens)) != tokens:
            expected = "of a square number of tokens S" if self._grid is None else f"of a grid of {self._grid} tokens"
            fix = "build the model with memory_positions=(rows, columns) of your grid"
            raise ValueError(explain(who, "features", expected, tokens, fix))
        if memory_mask is not None:
            memory_mask = check_key_mask(memory_mask, batch, tokens, who=who, name="memory_mask").to(features.device)
        return features, memory_mask

    def _check_captions(self, captions: Tensor, batch: int) -> Tensor:
        who = type(self).__name__
        captions = check_ids(who, "captions", captions, self.vocab_size)
        fix = "give one caption per image; add the batch axis with captions[None] to a single one"
        check_shape(who, "captions", captions, fix, N=batch, T=None)
        if not 1 <= captions.shape[1] <= self.max_length:
            fix = "shorten the captions, or build the model with a larger max_length"
            expected = f"1 to max_length = {self.max_length} words long"
            raise ValueError(explain(who, "captions", expected, captions.shape[1], fix))
        if captions.device != self.embedding.weight.device:
            expected, fix = f"on {self.embedding.weight.device} like the weights", "move it with .to()"
            raise ValueError(explain(who, "captions", expected, captions.device, fix))
        return captions

    def _search_settings(self, who: str, max_length: int) -> dict[str, Any]:
        check_count(who, "max_length", max_length)
        if max_length > self.max_length:
            fix = "ask for fewer words, or build the model with a larger max_length"
            expected = f"at most the model's max_length = {self.max_length}"
            raise ValueError(explain(who, "max_length", expected, max_length, fix))
        special = {"<START>": self._start, "<END>": self._end}
        missing = [name for name, index in special.items() if index is None]
        if missing:
            fix = "build the model with a vocabulary that has them"
            raise ValueError(explain(who, "word_to_idx", "a vocabulary with <START> and <END>", f"no {missing}", fix))
        ids = {"start": self._start, "end": self._end, "null": self._null}
        return {**ids, "max_length": max_length, "device": self.embedding.weight.device}

    def _state_of(self, features: Tensor | np.ndarray, memory_mask: Tensor | np.ndarray | None) -> CaptioningState:
        weight = self.embedding.weight
        features = _to_tensor("features", features)
        check_tensor(type(self).__name__, "features", features)
        mask = None if memory_mask is None else _to_tensor("memory_mask", memory_mask)
        # The dtype first: Apple's GPUs have no float64.
        return self.start_state(features.to(weight.dtype).to(weight.device), memory_mask=mask)


def caption_loss(
    scores: Tensor, captions: Tensor, *, null: int, label_smoothing: float = 0.0, mean_over: str = "words"
) -> Tensor:
    """Ask how surprised the model was, at each word, by the word that really came next.

    Cross-entropy of ``scores[:, t]`` with ``captions[:, t + 1]``, a mean over all targets that are not ``<NULL>``. A
    batch of nothing but ``<NULL>`` costs 0.

    Args:
        scores: (N, T, V) from ``model(features, captions[:, :-1])``.
        captions: (N, T + 1) the whole captions, ``<START>`` included: shifting them is the task of this function.
        null: Id of ``<NULL>``.
        label_smoothing: Share of the target that is spread evenly over the vocabulary, 0 to 1.
        mean_over: "words" divides by the number of real targets; "positions" by N * T, the published convention, with
            which a batch looks the better the more padding it holds.

    Returns:
        The loss (0-d), in float32 at least.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit, or an id or option is not allowed.

    Example:
        >>> captions = torch.tensor([[1, 3, 2, 0]])
        >>> caption_loss(torch.zeros(1, 3, 4), captions, null=0).exp()
        tensor(4.)
    """
    scores, captions = _check_loss(scores, captions, null, label_smoothing, mean_over)
    # Exercise 4.2: take the targets, one place to the left; sum their cross-entropies, those of <NULL> left out; divide
    # by the number of real targets, at least 1 (about 4 lines). With mean_over="positions" divide by the number of all
    # targets. Pass label_smoothing on. Look at F.cross_entropy and its arguments ignore_index and reduction.
    ### BEGIN SOLUTION 4.2
    targets = captions[:, 1:]  # (N, T)
    options = {"ignore_index": null, "reduction": "sum", "label_smoothing": label_smoothing}
    total = F.cross_entropy(scores.flatten(0, 1), targets.flatten(), **options)
    counted = targets != null if mean_over == "words" else torch.ones_like(targets)  # (N, T)
    return total / counted.sum().clamp(min=1)
    ### END SOLUTION 4.2


def _null_id(word_to_idx: Mapping[str, int]) -> int:
    who = "CaptioningTransformer"
    if not isinstance(word_to_idx, Mapping):
        fix = "pass the vocabulary, {'<NULL>': 0, ...}"
        raise TypeError(explain(who, "word_to_idx", "a dict from words to ids", type(word_to_idx).__name__, fix))
    if "<NULL>" not in word_to_idx:
        fix = "add it: it fills captions up to the length of the longest"
        raise ValueError(explain(who, "word_to_idx", "a vocabulary with <NULL>", f"{len(word_to_idx)} others", fix))
    null = word_to_idx["<NULL>"]
    check_count(who, "word_to_idx['<NULL>']", null, minimum=0)
    if null >= len(word_to_idx):
        expected = f"an id from 0 to V - 1 = {len(word_to_idx) - 1}"
        raise ValueError(explain(who, "word_to_idx['<NULL>']", expected, null, "number the words from 0 on"))
    return int(null)


def _memory_positions(
    choice: str | Sequence[int] | nn.Module | None, width: int
) -> tuple[nn.Module | None, tuple[int, int] | None]:
    """Turn the option into a module, or None, and the form of its grid, or None for a square."""
    who, name = "CaptioningTransformer", "memory_positions"
    if choice is None or isinstance(choice, nn.Module):
        return choice, None
    if isinstance(choice, str):
        check_choice(who, name, choice, (None, "2d"))
        return PositionalEncoding2D(width), None
    if not isinstance(choice, Sequence) or len(choice) != 2:
        fix = "use '2d' for a square grid"
        raise ValueError(explain(who, name, "None, '2d', (rows, columns) or a module", repr(choice), fix))
    for side in choice:
        check_count(who, name, side)
    return PositionalEncoding2D(width), (int(choice[0]), int(choice[1]))


def _to_tensor(name: str, array: Tensor | np.ndarray) -> Tensor:
    if isinstance(array, Tensor):
        return array
    import numpy as np

    if not isinstance(array, np.ndarray):
        fix = "convert it with np.asarray or torch.as_tensor"
        raise TypeError(explain("sample", name, "a torch.Tensor or numpy.ndarray", type(array).__name__, fix))
    if array.dtype.kind == "f":
        return torch.from_numpy(array.astype(np.float64))  # a copy: any byte order, any strides, read-only or not
    if array.dtype.kind not in "biu":
        fix = "convert it with .astype(np.float32)"
        raise TypeError(explain("sample", name, "an array of numbers", array.dtype, fix))
    return torch.from_numpy(array.astype(np.int64))


def _check_loss(
    scores: Tensor, captions: Tensor, null: int, label_smoothing: float, mean_over: str
) -> tuple[Tensor, Tensor]:
    who = "caption_loss"
    check_tensor(who, "scores", scores)
    check_shape(who, "scores", scores, "pass what the model returns", N=None, T=None, V=None)
    N, T, V = scores.shape
    check_tensor(who, "captions", captions, floating=False)
    fix = "pass the whole captions, one word longer than what the model read; this function shifts them"
    if captions.shape != (N, T + 1):
        raise ValueError(explain(who, "captions", f"of shape (N, T + 1) = {(N, T + 1)}", tuple(captions.shape), fix))
    check_count(who, "null", null, minimum=0)
    check_probability(who, "label_smoothing", label_smoothing)
    check_choice(who, "mean_over", mean_over, ("words", "positions"))
    captions = check_ids(who, "captions", captions, V)
    if null >= V:
        expected = f"an id of the vocabulary of {V} words, 0 to {V - 1}"
        raise ValueError(explain(who, "null", expected, null, "pass word_to_idx['<NULL>'], or padding would count"))
    if captions.device != scores.device:
        raise ValueError(
            explain(who, "captions", f"on {scores.device} like scores", captions.device, "move it with .to()")
        )
    # A sum over thousands of words leaves the range of half precision.
    return (scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores), captions
