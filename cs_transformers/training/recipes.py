"""Recipes of the training exercises: overfit captions, overfit a batch, train a Vision Transformer on scenes.

A recipe is what turns a right model into a trained one: optimizer, learning rate, number of steps, order of the data.
The full recipes for whole data sets are in ``recipes_captions`` and ``recipes_vit``.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from cs_transformers.captioning import caption_loss
from cs_transformers.data.images import channel_statistics, normalise
from cs_transformers.errors import check_count, check_shape, check_tensor, explain
from cs_transformers.training.batches import epoch_order, read_batches
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import eval_mode
from cs_transformers.training.loop import fit
from cs_transformers.training.losses import classification_loss
from cs_transformers.vit import VisionTransformer

### BEGIN SOLUTION helpers
# Your own imports and functions for this module.
### END SOLUTION helpers


def overfit_captions(
    model: nn.Module,
    features: Tensor,
    captions: Tensor,
    *,
    null: int = 0,
    steps: int = 200,
    batch_size: int = 25,
    seed: int = 231,
) -> list[float]:
    """Let a captioner learn a handful of captions by heart: the first test of a model and of its training.

    A model that cannot do this has a fault; a model that can has not shown yet that it understands pictures.

    Args:
        model: Captioner, trained in place; it scores (N, T, V) from features and captions.
        features: (M, D) or (M, S, D) image features, one row per caption.
        captions: (M, T + 1) word ids from ``<START>`` on.
        null: Id of ``<NULL>``.
        steps: Number of updates.
        batch_size: Captions per update.
        seed: Decides the order of the captions.

    Returns:
        The loss of every step, the mean over all N * T positions as Stanford's solver prints it.

    Raises:
        TypeError: If features or captions are no tensors.
        ValueError: If their numbers differ, or a count is below 1.
    """
    check_tensor("overfit_captions", "features", features)
    check_tensor("overfit_captions", "captions", captions, floating=False)
    if len(features) != len(captions) or len(captions) == 0:
        got, fix = f"{len(features)} features for {len(captions)} captions", "pass features[image_idxs]"
        raise ValueError(explain("overfit_captions", "features", "one row for each of some captions", got, fix))
    model.train()
    batches = endless_batches(TensorDataset(features, captions), steps, batch_size, seed)
    # Exercise 4.6: choose an optimizer and its learning rate. Then, for every (memory, words) of `batches`: the loss by
    # caption_loss with mean_over="positions", its gradients, one step of the optimizer. Collect loss.item() of all
    # steps and return the list (about 9 lines). Look at torch.optim and in which order its three calls belong.
    ### BEGIN SOLUTION 4.6
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    losses = []
    for memory, words in batches:
        optimizer.zero_grad()
        loss = caption_loss(model(memory, words[:, :-1]), words, null=null, mean_over="positions")
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
    ### END SOLUTION 4.6


def overfit_batch(model: nn.Module, images: Tensor, labels: Tensor, *, steps: int = 200) -> list[float]:
    """Let a classifier learn one batch by heart until it names every image right.

    Args:
        model: Classifier, trained in place; it scores (N, classes) from images.
        images: (N, C, H, W) images, normalised.
        labels: (N,) classes.
        steps: Number of updates, each on the whole batch.

    Returns:
        The loss of every step.

    Raises:
        TypeError: If images or labels are no tensors.
        ValueError: If their numbers differ, or ``steps`` is below 1.
    """
    check_tensor("overfit_batch", "images", images)
    check_tensor("overfit_batch", "labels", labels, floating=False)
    check_shape("overfit_batch", "labels", labels, "pass one class per image", N=len(images))
    check_count("overfit_batch", "steps", steps)
    model.train()
    # Exercise 5.4: choose an optimizer and a learning rate that learns the batch within `steps` updates. In every step:
    # the cross entropy of all images, its gradients, one step. Collect loss.item() of all steps and return the list
    # (about 9 lines). Stanford's rate of 1e-4 is too small here: try a few; a rate that falls at the end helps.
    ### BEGIN SOLUTION 5.4
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    falling = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, 3 * (1 - step / steps)))
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        falling.step()  # in the last third: at the full rate a late step may undo what was learnt
        losses.append(loss.item())
    return losses
    ### END SOLUTION 5.4


def vit_recipe(images: Tensor, labels: Tensor, unlabelled: Tensor, *, classes: int = 10, seed: int = 231) -> Tensor:
    """Train a Vision Transformer on labelled images and name the class of others that it has never seen.

    The initial weights come from torch's global generator: call ``torch.manual_seed`` before, to repeat a run.

    Args:
        images: (M, 3, H, W) uint8 images to learn from.
        labels: (M,) their classes.
        unlabelled: (U, 3, H, W) uint8 images whose classes are wanted.
        classes: Number of classes.
        seed: Decides the order of the images.

    Returns:
        (U,) int64 classes of ``unlabelled``, in its order.

    Raises:
        TypeError: If an argument is no tensor.
        ValueError: If the numbers of images and labels differ.
    """
    for name, value in (("images", images), ("labels", labels), ("unlabelled", unlabelled)):
        check_tensor("vit_recipe", name, value, floating=False)
    check_shape("vit_recipe", "labels", labels, "pass one class per image", N=len(images))
    # Exercise 5.5: normalise both sets of images with the mean and deviation of the training images; build a
    # VisionTransformer; choose a FitConfig (steps, batch size, learning rate, schedule); `fit` it; return
    # `predict_classes` of the unlabelled images (about 10 lines). At least 90 % of the classes must be right, in a
    # minute at most: large patches are quick. Look at channel_statistics, normalise and classification_loss().
    ### BEGIN SOLUTION 5.5
    mean, std = channel_statistics(images)
    train = TensorDataset(normalise(images, mean, std), labels)
    options = {"img_size": tuple(images.shape[2:]), "num_classes": classes, "positions": "learned", "norm_first": True}
    model = VisionTransformer(
        patch_size=8, embed_dim=64, num_layers=2, num_heads=4, dim_feedforward=128, dropout=0.0, **options
    )
    config = FitConfig(
        steps=400, batch_size=64, learning_rate=3e-3, weight_decay=0.05, schedule="one-cycle", floor=1e-4, seed=seed
    )
    fit(model, train, loss=classification_loss(), config=config)
    return predict_classes(model, normalise(unlabelled, mean, std))
    ### END SOLUTION 5.5


def endless_batches(data: TensorDataset, steps: int, batch_size: int, seed: int) -> Iterator[tuple[Tensor, ...]]:
    """Go through a data set again and again, each time in another order.

    Args:
        data: Examples.
        steps: Number of batches to give.
        batch_size: Examples per batch.
        seed: Decides the orders.

    Returns:
        An iterator over the batches.

    Raises:
        ValueError: If a count is below 1.

    Example:
        >>> data = TensorDataset(torch.arange(4))
        >>> [len(numbers) for (numbers,) in endless_batches(data, steps=3, batch_size=2, seed=0)]
        [2, 2, 2]
    """
    config = FitConfig(steps=steps, batch_size=batch_size, seed=seed)
    epochs = range(-(-steps // config.steps_per_epoch(len(data))))
    order = [indices for epoch in epochs for indices in epoch_order(len(data), config, epoch)]
    return read_batches(data, order[:steps])


def captions_by_heart(model: nn.Module, features: Tensor, captions: Tensor, *, null: int = 0) -> dict[str, float]:
    """Ask a captioner for the captions that it was to learn by heart, in eval mode.

    Args:
        model: Captioner with a method ``sample``.
        features: (M, D) or (M, S, D) image features, one row per caption.
        captions: (M, T + 1) word ids from ``<START>`` on.
        null: Id of ``<NULL>``.

    Returns:
        "loss", the mean over all M * T positions as Stanford counts it; "word_loss", the mean over real words;
        "reproduced", how many captions come out word for word.
    """
    with eval_mode(model), torch.no_grad():
        scores = model(features, captions[:, :-1])
        loss = caption_loss(scores, captions, null=null, mean_over="positions").item()
        word_loss = caption_loss(scores, captions, null=null).item()
        written = torch.as_tensor(model.sample(features, captions.shape[1] - 1))
    reproduced = (written == captions[:, 1:].cpu()).all(dim=1).sum().item()
    return {"loss": loss, "word_loss": word_loss, "reproduced": reproduced}


def predict_classes(model: nn.Module, images: Tensor, *, batch_size: int = 256) -> Tensor:
    """Name the most probable class of every image, in eval mode.

    Args:
        model: Classifier; it goes back to its mode.
        images: (N, C, H, W) images, normalised as for training.
        batch_size: Images at a time.

    Returns:
        (N,) int64 classes, in the order of the images.
    """
    device = next(model.parameters()).device
    with eval_mode(model), torch.no_grad():
        scores = [model(part.to(device)).argmax(dim=1).cpu() for part in images.split(batch_size)]
    return torch.cat(scores)
