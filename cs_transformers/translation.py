"""Translation: an encoder reads a sentence, a decoder writes it in another language and looks back at every word.

Letters: N batch, S source words, T target words, D model width, H heads, V vocabulary (source and target have their
own). Masks: True = may attend.
"""

from __future__ import annotations

import math
from numbers import Real

import torch
from torch import Tensor, nn

from .attention import causal_mask, recorded_weights
from .blocks import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from .cache import DecoderCache
from .captioning import CaptioningState, check_step
from .decoding import beam_search, evaluating, forbid_tokens, greedy_decode
from .errors import check_choice, check_count, check_ids, check_probability, check_shape, check_tensor, explain
from .positional import LearnedPositionalEncoding, PositionalEncoding

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

POSITIONS = {"learned": LearnedPositionalEncoding, "sinusoidal": PositionalEncoding}
SHARING = ("none", "target", "all")


class TranslationState(CaptioningState):
    """What a translator remembers between two words: the encoded source in place of an image, and a cache.

    Args:
        memory: (N, S, D) the source, encoded.
        memory_mask: (N, S) bool, True where a source word is real.
        cache: Keys and values of the words written so far and of the source.

    Example:
        >>> real = torch.ones(3, 5, dtype=torch.bool)
        >>> TranslationState(torch.zeros(3, 5, 8), real, DecoderCache(num_layers=2)).length
        0
    """


def make_src_mask(src: Tensor, pad: int = 0) -> Tensor:
    """Let everything look at the real words of the source and at none of its padding.

    ``mask[n, 0, 0, s] = (src[n, s] != pad)``, one row for all heads and all queries.

    Args:
        src: (N, S) word ids.
        pad: Id of the source's padding.

    Returns:
        (N, 1, 1, S) bool, True = may be looked at.

    Raises:
        TypeError: If ``src`` is no integer tensor.
        ValueError: If it has not two axes.

    Example:
        >>> make_src_mask(torch.tensor([[5, 7, 0]]))
        tensor([[[[ True,  True, False]]]])
    """
    _check_words("make_src_mask", "src", src, pad)
    # Exercise 7.1, first half: compare with `pad`, then add the two axes (about 2 lines; None or unsqueeze).
    ### BEGIN SOLUTION 7.1 make_src_mask
    real = src != pad  # (N, S)
    return real[:, None, None, :]  # (N, 1, 1, S)
    ### END SOLUTION 7.1 make_src_mask


def make_tgt_mask(tgt: Tensor, pad: int = 0) -> Tensor:
    """Let every word of the target look at itself and the real words before it.

    ``mask[n, 0, t, s] = (tgt[n, s] != pad) and (s <= t)``. Padding is hidden as a key; as a query it keeps its row, so
    that every row sees the first word and no softmax runs over nothing. What such rows give, the loss leaves out.

    Args:
        tgt: (N, T) word ids.
        pad: Id of the target's padding, which need not be that of the source.

    Returns:
        (N, 1, T, T) bool, True = may be looked at; rows are queries.

    Raises:
        TypeError: If ``tgt`` is no integer tensor.
        ValueError: If it has not two axes.

    Example:
        >>> make_tgt_mask(torch.tensor([[4, 9, 0]])).int()
        tensor([[[[1, 0, 0],
                  [1, 1, 0],
                  [1, 1, 0]]]], dtype=torch.int32)
    """
    _check_words("make_tgt_mask", "tgt", tgt, pad)
    # Exercise 7.1, second half: real words as above, and the causal mask for T words on the device of tgt (about 3
    # lines). Look at causal_mask and &.
    ### BEGIN SOLUTION 7.1 make_tgt_mask
    real = tgt != pad  # (N, T)
    past = causal_mask(tgt.shape[1], device=tgt.device)  # (T, T)
    return real[:, None, None, :] & past  # (N, 1, T, T)
    ### END SOLUTION 7.1 make_tgt_mask


class TranslationTransformer(nn.Module):
    """Read a sentence as a whole, write its translation word by word.

    Words become vectors times sqrt(D), positions are added; the encoder's layers look at the whole source, the
    decoder's at the words before and, through cross-attention, at the encoded source.

    Args:
        src_vocab_size: Number of words of the source language.
        tgt_vocab_size: Number of words of the target language.
        embed_dim: Model width D.
        num_heads: Number of heads H.
        num_layers: Number of layers of the encoder, and of the decoder.
        dim_feedforward: Inner width of the feed-forward networks.
        dropout: Probability of dropout, everywhere.
        src_pad: Id of the source's padding.
        tgt_pad: Id of the target's padding.
        positions: "learned" or "sinusoidal".
        norm_first: Pre-norm instead of post-norm.
        activation: "relu" or "gelu".
        share_embeddings: "none"; "target" lets the output layer score with the target's word vectors; "all" lets the
            source use them too, for one common vocabulary.
        max_length: Number of positions, the longest sentence of either language.

    Attributes:
        src_embedding: Vectors of the source's words.
        tgt_embedding: Vectors of the target's words.
        src_positions: Positions of the source, with dropout.
        tgt_positions: Positions of the target, with dropout.
        encoder: The ``TransformerEncoder``.
        decoder: The ``TransformerDecoder``.
        output: Linear from D to the target's words.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If sizes, ids or choices do not fit.

    Example:
        >>> model = TranslationTransformer(11, 13, embed_dim=8, num_heads=2, num_layers=1, dim_feedforward=16)
        >>> model(torch.ones(3, 5, dtype=torch.int64), torch.ones(3, 4, dtype=torch.int64)).shape
        torch.Size([3, 4, 13])

    Source:
        Vaswani et al. 2017, sections 3.1 and 3.4, arXiv:1706.03762; tying: Press and Wolf 2017, arXiv:1608.05859.
    """

    def __init__(
        self,
        src_vocab_size: int,
        tgt_vocab_size: int,
        embed_dim: int = 256,
        num_heads: int = 8,
        num_layers: int = 3,
        dim_feedforward: int = 512,
        dropout: float = 0.1,
        *,
        src_pad: int = 0,
        tgt_pad: int = 0,
        positions: str = "learned",
        norm_first: bool = False,
        activation: str = "relu",
        share_embeddings: str = "none",
        max_length: int = 100,
    ) -> None:
        super().__init__()
        _check_sizes(src_vocab_size, tgt_vocab_size, src_pad, tgt_pad, positions, share_embeddings)
        self.src_vocab_size, self.tgt_vocab_size = src_vocab_size, tgt_vocab_size
        self.src_pad, self.tgt_pad, self.max_length = src_pad, tgt_pad, max_length
        self.src_embedding = nn.Embedding(src_vocab_size, embed_dim)
        self.tgt_embedding = nn.Embedding(tgt_vocab_size, embed_dim)
        self.src_positions = POSITIONS[positions](embed_dim, dropout, max_length)
        self.tgt_positions = POSITIONS[positions](embed_dim, dropout, max_length)
        layer = (embed_dim, num_heads, dim_feedforward, dropout)
        kind = {"norm_first": norm_first, "activation": activation}
        self.encoder = TransformerEncoder(TransformerEncoderLayer(*layer, **kind), num_layers)
        self.decoder = TransformerDecoder(TransformerDecoderLayer(*layer, **kind), num_layers)
        self.output = nn.Linear(embed_dim, tgt_vocab_size)
        if share_embeddings == "all":
            self.src_embedding.weight = self.tgt_embedding.weight
        if share_embeddings != "none":
            self.output.weight = self.tgt_embedding.weight
        self._draw_weights()

    def forward(self, src: Tensor, tgt: Tensor, *, need_weights: bool = False) -> Tensor | tuple[Tensor, list[Tensor]]:
        """Score every target word as the successor of every word of a translation so far.

        The scores at position t depend on the whole source and on the target's words up to t.

        Args:
            src: (N, S) word ids; padding anywhere.
            tgt: (N, T) word ids from the start word on, without the last word.
            need_weights: Whether to return where the decoder looked.

        Returns:
            (N, T, V) logits; with ``need_weights`` also, for each decoder layer, the cross-attention (N, H, T, S).

        Raises:
            TypeError: If ids are no integer tensors.
            ValueError: If a shape does not fit, a sentence is too long or an id is not in its vocabulary.
        """
        src, tgt = self._check_pair(src, tgt)
        if need_weights:
            return self._with_weights(src, tgt)
        # Exercise 7.2: masks of source and target, each with its own pad; vectors of the source's words by `_embed_src`
        # through the encoder, those of the target's by `_embed_tgt` through the decoder, which looks at the memory
        # (`memory_mask=`); scores by `self.output` (about 6 lines). Look at make_src_mask and make_tgt_mask.
        ### BEGIN SOLUTION 7.2
        src_mask = make_src_mask(src, self.src_pad)  # (N, 1, 1, S)
        tgt_mask = make_tgt_mask(tgt, self.tgt_pad)  # (N, 1, T, T)
        memory = self.encoder(self._embed_src(src), src_mask)  # (N, S, D)
        hidden = self.decoder(self._embed_tgt(tgt), memory, tgt_mask, memory_mask=src_mask)  # (N, T, D)
        return self.output(hidden)  # (N, T, V)
        ### END SOLUTION 7.2

    def start_state(self, src: Tensor) -> TranslationState:
        """Read the source, before the first word is written.

        Args:
            src: (N, S) word ids.

        Returns:
            A state for ``step``.

        Raises:
            TypeError: If ``src`` is no integer tensor.
            ValueError: If its shape does not fit, it is too long or an id is not in the vocabulary.
        """
        src = self._check_sentences("src", src, self.src_vocab_size)
        real = src != self.src_pad  # (N, S)
        memory = self.encoder(self._embed_src(src), src_key_mask=real)  # (N, S, D)
        return TranslationState(memory, real, DecoderCache(self.decoder.num_layers))

    def step(self, tokens: Tensor, state: TranslationState) -> tuple[Tensor, TranslationState]:
        """Read one more word of every translation: the last row of ``forward``, without computing the others again.

        Args:
            tokens: (N, 1) word ids.
            state: From ``start_state`` or the previous step; it grows by one word.

        Returns:
            (N, V) scores of the next word, and the state.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a shape does not fit, an id is not in the vocabulary, or ``max_length`` words were read.
        """
        made_by, sizes = "start_state(src)", (self.tgt_vocab_size, self.max_length)
        tokens = check_step(tokens, state, TranslationState, *sizes, made_by=made_by, writes="translation")
        words = self._embed_tgt(tokens, start=state.length)  # (N, 1, D)
        hidden = self.decoder(words, state.memory, memory_key_mask=state.memory_mask, cache=state.cache)
        return self.output(hidden[:, -1]), state  # (N, V)

    def generate(
        self,
        src: Tensor,
        max_length: int = 50,
        *,
        start: int,
        end: int,
        beam_size: int = 1,
        alpha: float = 0.6,
        forbidden: tuple[int, ...] = (),
    ) -> Tensor:
        """Translate: write the most probable word again and again, or search with several beams.

        Works in eval mode, without gradients, and puts every module's mode back.

        Args:
            src: (N, S) word ids.
            max_length: Number of words at which a translation is cut, at most the model's ``max_length``.
            start: Id that begins a translation.
            end: Id that ends it.
            beam_size: Number of beginnings that are followed; 1 is greedy.
            alpha: How strongly ``length_penalty`` favours long translations, for more than one beam.
            forbidden: Ids that are never written, such as that of unknown words.

        Returns:
            (N, max_length) int64 ids: words, then ``end``, then padding; without ``start``.

        Raises:
            TypeError: If an argument is of the wrong type.
            ValueError: If a number, a shape or an id does not fit.
        """
        check_count("generate", "max_length", max_length)
        check_count("generate", "beam_size", beam_size)
        if max_length > self.max_length:
            fix = "ask for fewer words, or build the model with a larger max_length"
            expected = f"at most the model's max_length = {self.max_length}"
            raise ValueError(explain("generate", "max_length", expected, max_length, fix))

        def step(tokens: Tensor, state: TranslationState) -> tuple[Tensor, TranslationState]:
            logits, state = self.step(tokens, state)
            return forbid_tokens(logits, forbidden), state

        device = self.output.weight.device
        options = {"start": start, "end": end, "null": self.tgt_pad, "max_length": max_length, "device": device}
        with evaluating(self):
            state = self.start_state(src)
            if beam_size == 1:
                return greedy_decode(step, state, len(src), **options)
            options |= {"beam_size": beam_size, "penalty": lambda length: length_penalty(length, alpha)}
            return beam_search(step, state, len(src), **options)[0]

    def _embed_src(self, src: Tensor) -> Tensor:
        """Vectors of the source's words with positions, (N, S, D)."""
        return self.src_positions(self.src_embedding(src) * math.sqrt(self.src_embedding.embedding_dim))

    def _embed_tgt(self, tgt: Tensor, start: int = 0) -> Tensor:
        """Vectors of the target's words with positions from ``start`` on, (N, T, D)."""
        vectors = self.tgt_embedding(tgt) * math.sqrt(self.tgt_embedding.embedding_dim)  # (N, T, D)
        return self.tgt_positions(vectors, start=start)

    def _with_weights(self, src: Tensor, tgt: Tensor) -> tuple[Tensor, list[Tensor]]:
        with recorded_weights(self.decoder) as seen:
            logits = self(src, tgt)
        names = [f"layers.{index}.cross_attn" for index in range(self.decoder.num_layers)]
        return logits, [seen[name][0] for name in names]

    def _draw_weights(self) -> None:
        # Xavier's spread for everything with rows and columns; a positional table (1, L, D) is one of these.
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter.view(parameter.shape[-2:]))

    def _check_pair(self, src: Tensor, tgt: Tensor) -> tuple[Tensor, Tensor]:
        src = self._check_sentences("src", src, self.src_vocab_size)
        tgt = self._check_sentences("tgt", tgt, self.tgt_vocab_size)
        fix = "give one translation per source sentence"
        check_shape(type(self).__name__, "tgt", tgt, fix, N=len(src), T=None)
        return src, tgt

    def _check_sentences(self, name: str, ids: Tensor, vocab_size: int) -> Tensor:
        who = type(self).__name__
        ids = check_ids(who, name, ids, vocab_size)
        if ids.dim() != 2 or not 1 <= ids.shape[1] <= self.max_length:
            expected = f"of shape (N, length) with 1 to max_length = {self.max_length} words"
            fix = (
                "shorten the sentences, or build the model with a larger max_length; add the batch axis with ids[None]"
            )
            raise ValueError(explain(who, name, expected, tuple(ids.shape), fix))
        if ids.device != self.output.weight.device:
            expected, fix = f"on {self.output.weight.device} like the weights", "move it with .to()"
            raise ValueError(explain(who, name, expected, ids.device, fix))
        return ids


def label_smoothing_loss(logits: Tensor, targets: Tensor, *, smoothing: float = 0.1, pad: int = 0) -> Tensor:
    """Ask for the right word with a little doubt: some of the probability is wanted for every other word.

    The wanted distribution has ``1 - smoothing`` at the right word, ``smoothing / (V - 2)`` at all others but padding,
    which gets 0. The loss is ``sum wanted (log wanted - log p)``, the mean over the targets that are not padding; 0 if
    all are. It falls to 0 exactly where the model says what is wanted. ``F.cross_entropy(label_smoothing=...)``
    spreads the share over all V words, the right one and padding included, and leaves ``log wanted`` out.

    Args:
        logits: (N, T, V) scores of the words.
        targets: (N, T) ids of the right words, aligned with the scores.
        smoothing: Share of the probability for other words, 0 to 1.
        pad: Id of the padding.

    Returns:
        The loss (0-d), in float32 at least. A wanted word of probability 0 makes it infinite, an unwanted one does
        not.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If shapes or ids do not fit, or there are fewer than three words.

    Example:
        >>> round(label_smoothing_loss(torch.zeros(1, 1, 5), torch.tensor([[2]]), smoothing=0.0).exp().item(), 4)
        5.0

    Source:
        Szegedy et al. 2016, section 7, arXiv:1512.00567; Vaswani et al. 2017, section 5.4, arXiv:1706.03762.
    """
    logits, targets = _check_loss(logits, targets, smoothing, pad)
    V = logits.shape[-1]
    # Exercise 7.3: log-probabilities; a tensor `wanted` of the same shape with smoothing / (V - 2) everywhere,
    # 1 - smoothing at the targets, 0 in the column of `pad` and in the rows whose target is `pad`; the sum of the
    # terms of the formula, those with wanted = 0 left out by torch.where; divided by the number of real targets, at
    # least 1 (about 8 lines). Look at torch.full_like, Tensor.scatter_ and torch.where.
    ### BEGIN SOLUTION 7.3
    log_probs = logits.log_softmax(dim=-1)  # (N, T, V)
    wanted = torch.full_like(log_probs, smoothing / (V - 2))
    wanted.scatter_(-1, targets[:, :, None], 1 - smoothing)
    wanted[:, :, pad] = 0.0
    real = targets != pad  # (N, T)
    wanted = wanted * real[:, :, None]
    terms = torch.where(wanted > 0, wanted * (wanted.log() - log_probs), 0.0)  # 0 log 0 = 0, whatever p is
    return terms.sum() / real.sum().clamp(min=1)
    ### END SOLUTION 7.3


def noam_rate(step: int, embed_dim: int, *, warmup: int = 4000, factor: float = 1.0) -> float:
    """Raise the learning rate in a straight line, then let it fall with the root of the step.

    ``factor D^-0.5 min(step^-0.5, step warmup^-1.5)``; both terms meet at ``step = warmup``, the peak.

    Args:
        step: Number of the update, from 1; 0 counts as 1.
        embed_dim: Model width D: wide models learn more slowly.
        warmup: Number of steps of the rise.
        factor: What the rate is multiplied by.

    Returns:
        The learning rate.

    Raises:
        TypeError: If a count is no whole number.
        ValueError: If ``step`` is negative, or another number not positive.

    Example:
        >>> round(noam_rate(4000, 512), 7)
        0.0006988

    Source:
        Vaswani et al. 2017, section 5.3, equation 3, arXiv:1706.03762.
    """
    check_count("noam_rate", "step", step, minimum=0)
    check_count("noam_rate", "embed_dim", embed_dim)
    check_count("noam_rate", "warmup", warmup)
    _check_number("noam_rate", "factor", factor, positive=True)
    # Exercise 7.4: the formula, with step 0 counted as 1 (about 2 lines).
    ### BEGIN SOLUTION 7.4
    step = max(step, 1)
    return factor * embed_dim**-0.5 * min(step**-0.5, step * warmup**-1.5)
    ### END SOLUTION 7.4


def length_penalty(length: int, alpha: float = 0.6) -> float:
    """Say by what the log-probability of a translation is divided, so that long ones need not lose.

    ``((5 + length) / 6) ** alpha``: 1 for a single word, growing more slowly than the length. Every word makes a
    log-probability fall, so without it the search prefers translations that leave something out.

    Args:
        length: Number of words, the end word included.
        alpha: 0 divides by 1 and favours short translations; 0.6 to 1 is usual.

    Returns:
        The divisor.

    Raises:
        TypeError: If ``length`` is no whole number or ``alpha`` no number.
        ValueError: If ``length`` is below 1 or ``alpha`` negative.

    Example:
        >>> length_penalty(1), length_penalty(7, alpha=1.0)
        (1.0, 2.0)

    Source:
        Wu et al. 2016, section 7, equation 14, arXiv:1609.08144.
    """
    check_count("length_penalty", "length", length)
    _check_number("length_penalty", "alpha", alpha, positive=False)
    # Exercise 7.5: the formula (1 line).
    ### BEGIN SOLUTION 7.5
    return ((5 + length) / 6) ** alpha
    ### END SOLUTION 7.5


def _check_words(who: str, name: str, words: Tensor, pad: int) -> None:
    check_tensor(who, name, words, floating=False)
    if words.is_floating_point() or words.is_complex() or words.dtype == torch.bool:
        raise TypeError(explain(who, name, "word ids", words.dtype, "pass the ids, not their vectors or a mask"))
    if words.dim() != 2:
        fix = "add the batch axis with ids[None] to a single sentence"
        raise ValueError(explain(who, name, "of shape (N, length)", tuple(words.shape), fix))
    check_count(who, "pad", pad, minimum=0)


def _check_sizes(
    src_vocab_size: int, tgt_vocab_size: int, src_pad: int, tgt_pad: int, positions: str, share_embeddings: str
) -> None:
    who = "TranslationTransformer"
    for side, size, pad in (("src", src_vocab_size, src_pad), ("tgt", tgt_vocab_size, tgt_pad)):
        check_count(who, f"{side}_vocab_size", size)
        check_count(who, f"{side}_pad", pad, minimum=0)
        if pad >= size:
            raise ValueError(explain(who, f"{side}_pad", f"an id from 0 to {size - 1}", pad, "number words from 0 on"))
    check_choice(who, "positions", positions, tuple(POSITIONS))
    check_choice(who, "share_embeddings", share_embeddings, SHARING)
    if share_embeddings == "all" and (src_vocab_size, src_pad) != (tgt_vocab_size, tgt_pad):
        got = f"{src_vocab_size} and {tgt_vocab_size} words, padding {src_pad} and {tgt_pad}"
        fix = "build one vocabulary for both languages, or share 'target' only"
        raise ValueError(explain(who, "share_embeddings", "'none' or 'target' with two vocabularies", got, fix))


def _check_loss(logits: Tensor, targets: Tensor, smoothing: float, pad: int) -> tuple[Tensor, Tensor]:
    who = "label_smoothing_loss"
    check_tensor(who, "logits", logits)
    check_shape(who, "logits", logits, "pass what the model returns", N=None, T=None, V=None)
    V = logits.shape[-1]
    if V <= 2:
        fix = "smoothing needs a word beside the right one and padding"
        raise ValueError(explain(who, "logits", "for at least 3 words", f"V = {V}", fix))
    targets = check_ids(who, "targets", targets, V)
    fix = "pass the target without its first word: the model read it without its last"
    check_shape(who, "targets", targets, fix, N=logits.shape[0], T=logits.shape[1])
    check_probability(who, "smoothing", smoothing)
    check_count(who, "pad", pad, minimum=0)
    if pad >= V:
        raise ValueError(explain(who, "pad", f"an id from 0 to {V - 1}", pad, "take it from the vocabulary"))
    if targets.device != logits.device:
        raise ValueError(explain(who, "targets", f"on {logits.device} like the logits", targets.device, "move it"))
    return (logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits), targets


def _check_number(who: str, name: str, value: float, *, positive: bool) -> None:
    expected = "a positive number" if positive else "a number of at least 0"
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(explain(who, name, expected, f"{value!r} ({type(value).__name__})", "pass a float"))
    holds = value > 0 if positive else value >= 0
    if not holds or value == math.inf:
        raise ValueError(explain(who, name, expected, value, "pass one"))
