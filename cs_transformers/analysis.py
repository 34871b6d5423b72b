"""Measurements behind the inline questions: what attention does, what it costs, and how tutorials get it wrong.

Letters: N batch, T target (query) length, S source (key) length, D model width, H heads, K = D/H head width.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .attention import MultiHeadAttention, scaled_dot_product_attention, split_heads
from .errors import check_choice, check_count, check_shape, check_tensor, explain

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers

# --- 6.1: heads, scaling, output projection


def softmax_entropy(scores: Tensor) -> Tensor:
    """Say how widely attention is spread: log S where all keys share evenly, 0 where one key takes all.

    Args:
        scores: (..., T, S) scores, before the softmax.

    Returns:
        The entropy of softmax over the keys in nats, a mean over all queries (0-d).

    Raises:
        TypeError: If ``scores`` is no floating tensor.

    Example:
        >>> torch.isclose(softmax_entropy(torch.zeros(2, 3, 8)), torch.tensor(8.0).log()).item()
        True
    """
    check_tensor("softmax_entropy", "scores", scores)
    weights = scores.softmax(dim=-1)
    return torch.special.entr(weights).sum(dim=-1).mean()


def score_statistics(query: Tensor, key: Tensor, num_heads: int) -> dict[str, Tensor]:
    """Compare the scores of attention with and without the division by the square root of the head width.

    Args:
        query: (N, T, D) with D a multiple of ``num_heads``.
        key: (N, S, D).
        num_heads: Number of heads H.

    Returns:
        Four 0-d tensors: ``variance`` and ``entropy`` of the plain scores Q K^T of all heads, ``scaled_variance`` and
        ``scaled_entropy`` of the divided ones. Variances are those of ``Tensor.var``, entropies of
        ``softmax_entropy``.

    Raises:
        TypeError: If an argument is of the wrong type.
        ValueError: If the shapes do not fit.

    Example:
        >>> statistics = score_statistics(torch.zeros(2, 3, 8), torch.zeros(2, 5, 8), num_heads=2)
        >>> sorted(statistics)
        ['entropy', 'scaled_entropy', 'scaled_variance', 'variance']

    Source:
        Vaswani et al. 2017, section 3.2.1 and footnote 4, arXiv:1706.03762.
    """
    check_tensor("score_statistics", "query", query)
    check_tensor("score_statistics", "key", key)
    check_shape("score_statistics", "query", query, N=None, T=None, D=None)
    check_shape("score_statistics", "key", key, N=len(query), S=None, D=query.shape[-1])
    # Exercise 6.1: split the heads of both, multiply, divide a copy, and return the four numbers (about 5 lines).
    # Look at split_heads, Tensor.var and softmax_entropy above.
    ### BEGIN SOLUTION 6.1
    q, k = split_heads(query, num_heads), split_heads(key, num_heads)  # (N, H, T or S, K)
    scores = q @ k.transpose(-2, -1)  # (N, H, T, S)
    scaled = scores / math.sqrt(q.shape[-1])
    plain = {"variance": scores.var(), "entropy": softmax_entropy(scores)}
    return {**plain, "scaled_variance": scaled.var(), "scaled_entropy": softmax_entropy(scaled)}
    ### END SOLUTION 6.1


def score_sweep(
    widths: Sequence[int], num_heads: int = 1, *, tokens: int = 64, seed: int = 0
) -> list[dict[str, float]]:
    """Measure the statistics of 6.1 for several widths, on queries and keys of unit variance.

    Args:
        widths: Model widths D, multiples of ``num_heads``.
        num_heads: Number of heads H.
        tokens: Number of queries and of keys.
        seed: Seed of the random queries and keys.

    Returns:
        One row per width: ``width`` and what ``score_statistics`` returns, as plain numbers.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a width is no multiple of ``num_heads``, or ``tokens`` is below 1.

    Example:
        >>> [round(row["scaled_variance"], 1) for row in score_sweep([16, 256])]
        [1.0, 1.0]
    """
    check_count("score_sweep", "tokens", tokens)
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for width in widths:
        query, key = torch.randn(2, 4, tokens, width, generator=generator)  # (4, tokens, D) each
        statistics = score_statistics(query, key, num_heads)
        rows.append({"width": width, **{name: value.item() for name, value in statistics.items()}})
    return rows


def compare_heads(num_heads: Sequence[int] = (1, 2, 4), *, steps: int = 150, seed: int = 0) -> dict[int, float]:
    """Train one attention layer to tell each token both its neighbours, with one head and with several.

    One head mixes the two neighbours into one vector and cannot tell them apart: of the mean square of the target, 1,
    it leaves about half. Two heads fetch one neighbour each. The number of parameters is the same.

    Args:
        num_heads: Numbers of heads H to try, divisors of 32.
        steps: Steps of training, a batch of 64 sequences of 8 tokens each.
        seed: Seed of weights and data.

    Returns:
        The mean squared error on fresh sequences, per number of heads.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number of heads does not divide 32, or ``steps`` is negative.

    Example:
        >>> sorted(compare_heads((1, 2), steps=2))
        [1, 2]
    """
    check_count("compare_heads", "steps", steps, minimum=0)
    return {heads: _neighbour_error(heads, steps, seed) for heads in num_heads}


def _neighbour_error(num_heads: int, steps: int, seed: int) -> float:
    length, content, width = 8, 8, 32
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        attention = MultiHeadAttention(width, num_heads, dropout=0.0)
        enter, leave = nn.Linear(content, width), nn.Linear(width, 2 * content)
        places = nn.Parameter(torch.randn(length, width))
        parameters = [*attention.parameters(), *enter.parameters(), *leave.parameters(), places]
        optimizer = torch.optim.Adam(parameters, lr=1e-2)
        for step in range(steps + 1):
            x = torch.randn(64, length, content)
            target = torch.cat((x.roll(1, dims=1), x.roll(-1, dims=1)), dim=-1)  # (64, length, 2 * content)
            tokens = enter(x) + places  # (64, length, D)
            loss = F.mse_loss(leave(attention(tokens, tokens, tokens)), target)
            if step < steps:
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
    return loss.item()


@torch.no_grad()
def head_influence(attention: MultiHeadAttention, tokens: Tensor, *, projection: bool = True) -> Tensor:
    """Silence one head after the other and see which parts of the output change.

    Args:
        attention: The layer; it is not changed.
        tokens: (N, T, D) input of self-attention.
        projection: Whether the output projection stays in place.

    Returns:
        (H, H): row i says how much block j of the output, K numbers wide, changes without head i (root mean square).
        Without the projection all but the diagonal is 0: each head writes to its own block only.

    Raises:
        TypeError: If ``attention`` is no ``MultiHeadAttention``.

    Example:
        >>> head_influence(MultiHeadAttention(6, 3), torch.ones(1, 4, 6), projection=False).count_nonzero().item()
        3
    """
    if not isinstance(attention, MultiHeadAttention):
        fix = "pass the layer itself, model.transformer.layers[0].self_attn, say"
        raise TypeError(explain("head_influence", "attention", "a MultiHeadAttention", type(attention).__name__, fix))
    whole = copy.deepcopy(attention).eval()
    if not projection:
        whole.proj = nn.Identity()
    before = whole(tokens, tokens, tokens)  # (N, T, D)
    rows = []
    for head in range(attention.n_head):
        silent = copy.deepcopy(whole)
        for parameter in silent.value.parameters():  # weight (D, D) and bias (D,): the rows of one head
            parameter.view(attention.n_head, attention.head_dim, -1)[head] = 0.0
        change = silent(tokens, tokens, tokens) - before  # (N, T, D)
        rows.append(change.unflatten(-1, (attention.n_head, -1)).square().mean(dim=(0, 1, 3)).sqrt())  # (H,)
    return torch.stack(rows)


# --- 6.2: a Vision Transformer against a small convolutional network


class SmallCNN(nn.Module):
    """Three convolutions that halve the image, and a mean over what is left: locality and shifts for free.

    Args:
        in_channels: Number of channels C of the image.
        width: Channels after the first convolution, doubled by each further one.
        num_classes: Number of classes.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive.

    Example:
        >>> SmallCNN(num_classes=5)(torch.zeros(2, 3, 32, 48)).shape
        torch.Size([2, 5])
    """

    def __init__(self, in_channels: int = 3, width: int = 32, num_classes: int = 10) -> None:
        super().__init__()
        for name, size in (("in_channels", in_channels), ("width", width), ("num_classes", num_classes)):
            check_count("SmallCNN", name, size)
        channels = [in_channels, width, 2 * width, 4 * width]
        blocks = [
            nn.Sequential(
                nn.Conv2d(before, after, kernel_size=3, stride=2, padding=1, bias=False),
                nn.BatchNorm2d(after),
                nn.ReLU(),
            )
            for before, after in itertools.pairwise(channels)
        ]
        self.in_channels = in_channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(channels[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Score the classes.

        Args:
            x: (N, C, H, W) images of any size.

        Returns:
            (N, num_classes) logits.

        Raises:
            TypeError: If ``x`` is no floating tensor.
            ValueError: If the shape or the number of channels differs.
        """
        check_tensor("SmallCNN", "x", x)
        check_shape("SmallCNN", "x", x, N=None, C=self.in_channels, H=None, W=None)
        return self.head(self.blocks(x).mean(dim=(2, 3)))  # (N, num_classes)


def accuracy_by_images(
    models: dict[str, Callable[[], nn.Module]],
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    counts: Sequence[int],
    *,
    steps: int = 200,
    learning_rate: float = 1e-3,
    seed: int = 0,
) -> dict[str, list[float]]:
    """Train each model on few images, then on more, with the same number of steps, and compare.

    Args:
        models: A function that builds a new model, by name.
        train: Images (N, C, H, W) and labels (N,).
        test: Images and labels that no model is trained on.
        counts: How many of the training images to use, the first ones each time.
        steps: Steps of AdamW, batches of up to 64 images.
        learning_rate: Its highest rate; it warms up over a fifth of the steps and falls to zero.
        seed: Seed of weights and batches.

    Returns:
        For each name the accuracies on ``test``, one per count, from 0 to 1.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a count exceeds the number of training images, or a number is not positive.

    Example:
        >>> images, labels = torch.zeros(4, 3, 8, 8), torch.zeros(4, dtype=torch.int64)
        >>> len(accuracy_by_images({"cnn": SmallCNN}, (images, labels), (images, labels), [2, 4], steps=1)["cnn"])
        2
    """
    check_count("accuracy_by_images", "steps", steps)
    for count in counts:
        check_count("accuracy_by_images", "counts", count)
        if count > len(train[0]):
            expected, fix = f"at most {len(train[0])}, the images there are", "give more images or smaller counts"
            raise ValueError(explain("accuracy_by_images", "counts", expected, count, fix))
    results = {}
    for name, build in models.items():
        fewer = [(train[0][:count], train[1][:count]) for count in counts]
        results[name] = [_trained_accuracy(build, few, test, steps, learning_rate, seed) for few in fewer]
    return results


def _trained_accuracy(
    build: Callable[[], nn.Module],
    train: tuple[Tensor, Tensor],
    test: tuple[Tensor, Tensor],
    steps: int,
    learning_rate: float,
    seed: int,
) -> float:
    images, labels = train
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = build().train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, weight_decay=0.05)
        # Warm-up and decay: at a constant rate it depends on the seed whether the transformer learns at all.
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, learning_rate, total_steps=steps + 1, pct_start=0.2)
        for _ in range(steps):
            batch = torch.randperm(len(images))[:64]
            optimizer.zero_grad()
            F.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
            schedule.step()
    with torch.no_grad():
        predicted = torch.cat([model.eval()(part).argmax(dim=-1) for part in test[0].split(256)])  # (N,)
    return (predicted == test[1]).float().mean().item()


# --- 6.3: what attention costs


def attention_flops(width: int, image_side: int, patch_size: int, depth: int, *, num_heads: int = 4) -> int:
    """Count the operations of attention in a Vision Transformer without a class token.

    Only Q K^T and the product of weights and values count, not the four projections and not the softmax. They are
    counted by torch while ``scaled_dot_product_attention`` runs on tensors without content.

    Args:
        width: Model width D, a multiple of ``num_heads``.
        image_side: Side of the square image in pixels, a multiple of ``patch_size``.
        patch_size: Side of the square patch in pixels.
        depth: Number of layers.
        num_heads: Number of heads H.

    Returns:
        Floating-point operations for one image; a multiplication and an addition are two.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, or the sizes do not divide each other.

    Example:
        >>> attention_flops(width=8, image_side=8, patch_size=4, depth=1) == 2 * (2 * 4 * 4 * 8)
        True
    """
    from torch.utils.flop_counter import FlopCounterMode

    _check_sizes("attention_flops", width, image_side, patch_size, depth)
    check_count("attention_flops", "num_heads", num_heads)
    if width % num_heads:
        fix = "choose another width or number of heads"
        raise ValueError(explain("attention_flops", "width", f"a multiple of num_heads = {num_heads}", width, fix))
    tokens = (image_side // patch_size) ** 2
    x = torch.empty(1, num_heads, tokens, width // num_heads, device="meta")
    with FlopCounterMode(display=False) as counter:
        for _ in range(depth):
            scaled_dot_product_attention(x, x, x)
    return counter.get_total_flops()


def cost_ratios(width: int, image_side: int, patch_size: int, depth: int) -> dict[str, float]:
    """Predict by which factor attention becomes dearer when one size of a Vision Transformer doubles.

    Counted are the products Q K^T and weights times values of all layers, as in ``attention_flops``; there is no class
    token.

    Args:
        width: Model width D.
        image_side: Side of the square image in pixels, a multiple of twice ``patch_size``.
        patch_size: Side of the square patch in pixels.
        depth: Number of layers.

    Returns:
        The cost with the size doubled over the cost without, under the names of the arguments.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, or ``image_side`` is no multiple of twice ``patch_size``.

    Example:
        >>> sorted(cost_ratios(width=128, image_side=32, patch_size=4, depth=6))
        ['depth', 'image_side', 'patch_size', 'width']

    Source:
        Vaswani et al. 2017, table 1, arXiv:1706.03762.
    """
    _check_sizes("cost_ratios", width, image_side, patch_size, depth, doubled=True)
    sizes = {"width": width, "image_side": image_side, "patch_size": patch_size, "depth": depth}

    # Exercise 6.3: write the cost as a formula of the four sizes; evaluate it with one of `sizes` doubled, and divide
    # by its value without (about 5 lines). Look at attention_flops for what counts, but do not call it.
    ### BEGIN SOLUTION 6.3
    def cost(width: int, image_side: int, patch_size: int, depth: int) -> int:
        side = image_side // patch_size
        return depth * 2 * (2 * side**4 * width)  # two products of 2 * T * S * D operations each

    return {name: cost(**{**sizes, name: 2 * size}) / cost(**sizes) for name, size in sizes.items()}
    ### END SOLUTION 6.3


def measured_cost_ratios(width: int, image_side: int, patch_size: int, depth: int) -> dict[str, float]:
    """Measure what ``cost_ratios`` predicts, with torch's counter of operations.

    Args:
        width: Model width D, a multiple of 4, the number of heads.
        image_side: Side of the square image in pixels, a multiple of twice ``patch_size``.
        patch_size: Side of the square patch in pixels.
        depth: Number of layers.

    Returns:
        The operations with the size doubled over those without, under the names of the arguments.

    Raises:
        TypeError: If a size is not a whole number.
        ValueError: If a size is not positive, or the sizes do not divide each other.

    Example:
        >>> measured_cost_ratios(width=128, image_side=32, patch_size=4, depth=6)["depth"]
        2.0
    """
    _check_sizes("measured_cost_ratios", width, image_side, patch_size, depth, doubled=True)
    sizes = {"width": width, "image_side": image_side, "patch_size": patch_size, "depth": depth}
    base = attention_flops(**sizes)
    return {name: attention_flops(**{**sizes, name: 2 * size}) / base for name, size in sizes.items()}


def _check_sizes(who: str, width: int, image_side: int, patch_size: int, depth: int, *, doubled: bool = False) -> None:
    names = ("width", "image_side", "patch_size", "depth")
    for name, size in zip(names, (width, image_side, patch_size, depth), strict=True):
        check_count(who, name, size)
    largest = 2 * patch_size if doubled else patch_size
    if image_side % largest:
        expected = f"a multiple of {largest} pixels, a whole number of patches"
        raise ValueError(explain(who, "image_side", expected, image_side, "choose another side or patch"))


# --- 6.4: a memory of one token


def predict_one_token(num_queries: int, head_dim: int) -> dict[str, Tensor]:
    """Say beforehand what attention over a memory of one single token gives, whatever the numbers in it are.

    Args:
        num_queries: Number of queries T.
        head_dim: Head width K.

    Returns:
        ``weights`` (T, 1); and the gradients of a loss on the output by query and key: ``query_gradient`` (T, K),
        ``key_gradient`` (1, K).

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is not positive.

    Example:
        >>> {name: tuple(tensor.shape) for name, tensor in predict_one_token(3, 4).items()}
        {'weights': (3, 1), 'query_gradient': (3, 4), 'key_gradient': (1, 4)}
    """
    check_count("predict_one_token", "num_queries", num_queries)
    check_count("predict_one_token", "head_dim", head_dim)
    # Exercise 6.4: three tensors of the shapes above, filled with what you expect, before you measure (3 lines).
    ### BEGIN SOLUTION 6.4
    weights = torch.ones(num_queries, 1)  # a softmax over one score is 1, trained or not
    query_gradient = torch.zeros(num_queries, head_dim)  # so no score moves the output
    return {"weights": weights, "query_gradient": query_gradient, "key_gradient": torch.zeros(1, head_dim)}
    ### END SOLUTION 6.4


def measure_one_token(query: Tensor, key: Tensor, value: Tensor) -> dict[str, Tensor]:
    """Measure what ``predict_one_token`` predicts, with the sum of the squared output as loss.

    Args:
        query: (T, K).
        key: (1, K), or (S, K) to see what a longer memory changes.
        value: (1, K), as long as ``key``.

    Returns:
        ``weights`` (T, 1), ``query_gradient`` (T, K) and ``key_gradient`` (1, K).

    Raises:
        TypeError: If an argument is no floating tensor.
        ValueError: If the shapes do not fit.

    Example:
        >>> measure_one_token(torch.ones(3, 4), torch.ones(1, 4), torch.ones(1, 4))["weights"].flatten()
        tensor([1., 1., 1.])
    """
    for name, tensor in (("query", query), ("key", key), ("value", value)):
        check_tensor("measure_one_token", name, tensor)
    query, key = query.detach().requires_grad_(), key.detach().requires_grad_()
    with torch.enable_grad():
        out, weights = scaled_dot_product_attention(query, key, value.detach(), need_weights=True)
        query_gradient, key_gradient = torch.autograd.grad(out.square().sum(), (query, key))
    return {"weights": weights.detach(), "query_gradient": query_gradient, "key_gradient": key_gradient}


# --- 6.5: four functions as tutorials print them, each with one fault


def tutorial_attention_a(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Mix the values by attention, with one fault for exercise 6.5.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K).
        mask: 0/1 of shape (T, S), nonzero where a query may look.
        dropout_p: Probability with which a weight is dropped in training.
        training: Whether the model trains.

    Returns:
        (N, H, T, K), were it right.
    """
    scores = query @ key.transpose(-2, -1)  # (N, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = scores.softmax(dim=-1).nan_to_num()
    return F.dropout(weights, dropout_p, training) @ value


def tutorial_attention_b(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Mix the values by attention, with one fault for exercise 6.5.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K).
        mask: 0/1 of shape (T, S), nonzero where a query may look.
        dropout_p: Probability with which a weight is dropped in training.
        training: Whether the model trains.

    Returns:
        (N, H, T, K), were it right.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (N, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(dim=-1)
    return F.dropout(weights, dropout_p, training) @ value


def tutorial_attention_c(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = False,  # noqa: ARG001 - the fault
) -> Tensor:
    """Mix the values by attention, with one fault for exercise 6.5.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K).
        mask: 0/1 of shape (T, S), nonzero where a query may look.
        dropout_p: Probability with which a weight is dropped in training.
        training: Whether the model trains.

    Returns:
        (N, H, T, K), were it right.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (N, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = scores.softmax(dim=-1).nan_to_num()
    return F.dropout(weights, dropout_p) @ value


def tutorial_attention_d(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout_p: float = 0.0,
    training: bool = False,
) -> Tensor:
    """Mix the values by attention, with one fault for exercise 6.5.

    Args:
        query: (N, H, T, K).
        key: (N, H, S, K).
        value: (N, H, S, K).
        mask: 0/1 of shape (T, S), nonzero where a query may look.
        dropout_p: Probability with which a weight is dropped in training.
        training: Whether the model trains.

    Returns:
        (N, H, T, K), were it right.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])  # (N, H, T, S)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    weights = F.dropout(scores.softmax(dim=-1).nan_to_num(), dropout_p, training)
    return (value.transpose(-2, -1) @ weights).transpose(-2, -1)


FAULTY: dict[str, Callable[..., Tensor]] = {
    "a": tutorial_attention_a,
    "b": tutorial_attention_b,
    "c": tutorial_attention_c,
    "d": tutorial_attention_d,
}


def find_the_fault() -> dict[str, dict[str, Any]]:
    """Give for each function in ``FAULTY`` an input on which it fails in eval mode, while right attention does not.

    Returns:
        Under each name of ``FAULTY`` the arguments ``query`` (N, H, T, K), ``key`` and ``value`` (N, H, S, K), and,
        where needed, ``mask`` (T, S) and ``dropout_p``.

    Example:
        >>> sorted(find_the_fault()) == sorted(FAULTY)
        True
    """
    # Exercise 6.5: read the four functions, find the fault of each, and build a small input that shows it (about 8
    # lines). All four agree with right attention on many inputs: `fault_margin` says how far they are apart on yours.
    ### BEGIN SOLUTION 6.5
    query = torch.tensor([[[[2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]]])  # (1, 1, 2, 4), a keen and an idle query
    inputs = {"query": query, "key": query, "value": torch.eye(2, 4)[None, None]}
    return {
        "a": inputs,  # no division by sqrt(K): shows where K > 1 and a query's scores differ
        "b": {**inputs, "mask": torch.tensor([[1, 1], [0, 0]])},  # -1e9: a query that sees nothing attends to all
        "c": {**inputs, "dropout_p": 0.5},  # F.dropout trains unless it is told not to
        "d": inputs,  # V P for P V: shows where the weights are not symmetric
    }
    ### END SOLUTION 6.5


def fault_margin(name: str, inputs: dict[str, Any]) -> float:
    """Measure how far a faulty function is from right attention on an input, in eval mode.

    Args:
        name: One of the names in ``FAULTY``.
        inputs: Arguments for it, as of ``find_the_fault``.

    Returns:
        The largest difference between the two outputs; infinity where the faulty one raises or returns another shape.

    Raises:
        TypeError: If right attention cannot take the inputs.
        ValueError: If ``name`` is unknown, or right attention cannot take the inputs or gives NaN on them.

    Example:
        >>> q = torch.zeros(1, 1, 2, 4)
        >>> fault_margin("a", {"query": q, "key": q, "value": q})
        0.0
    """
    check_choice("fault_margin", "name", name, tuple(FAULTY))
    right = scaled_dot_product_attention(**{**inputs, "dropout_p": 0.0})
    if not torch.isfinite(right).all():
        fix = "give finite numbers: on these, right attention fails too"
        raise ValueError(explain("fault_margin", "right attention", "finite on the inputs", "NaN or infinity", fix))
    try:
        faulty = FAULTY[name](**inputs)
    except (RuntimeError, IndexError):
        return math.inf
    if faulty.shape != right.shape or not torch.isfinite(faulty).all():
        return math.inf
    return (faulty - right).abs().max().item()
