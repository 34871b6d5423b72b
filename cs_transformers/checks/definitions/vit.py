"""Checks of notebook 05: what is computed on which inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from cs_transformers import vit

from .probe import FFN, D, H, N, Probe, check
from .training import GOAL, InputWatch, Watch, load_weights, record_weights

CHANNELS, CLASSES = 3, 7
IMAGE, PATCH = (8, 12), 4


@check("5.1")
def _patch_embedding(probe: Probe) -> None:
    """Squares, then images and patches that are higher or wider."""
    with probe.part("values"):
        square = probe.fill(vit.PatchEmbedding(8, 4, CHANNELS, D))
        probe.record("tokens", square(probe.tensor("square", N, CHANNELS, 8, 8)))
    with probe.part("values: rectangles"):
        wide = probe.fill(vit.PatchEmbedding(IMAGE, PATCH, CHANNELS, D))
        probe.record("tokens of a wide image", wide(probe.tensor("image", N, CHANNELS, *IMAGE)))
        flat = probe.fill(vit.PatchEmbedding((4, 9), (2, 3), CHANNELS, D))
        probe.record("tokens of wide patches", flat(probe.tensor("flat", N, CHANNELS, 4, 9)))
    with probe.part("gradients"):
        images = probe.tensor("image", N, CHANNELS, *IMAGE)
        probe.gradients(wide(images), wide, images=images)


@check("5.2")
def _pooled(probe: Probe) -> None:
    """The mean over the patches, with both kinds of positions."""
    models = [_model(probe, pool="mean"), _model(probe, pool="mean", positions="learned", norm_first=True)]
    _classify(probe, models)


@check("5.3")
def _class_token(probe: Probe) -> None:
    """The class token, with both kinds of positions."""
    models = [_model(probe, pool="cls"), _model(probe, pool="cls", positions="learned", norm_first=True)]
    _classify(probe, models)


def _model(probe: Probe, **options: object) -> nn.Module:
    sizes = {"embed_dim": D, "num_layers": 2, "num_heads": H, "dim_feedforward": FFN, "num_classes": CLASSES}
    return probe.fill(vit.VisionTransformer(IMAGE, PATCH, CHANNELS, **sizes, **options))


def _classify(probe: Probe, models: list[nn.Module]) -> None:
    images = probe.tensor("images", N, CHANNELS, *IMAGE)
    names = ("sinusoids, post-norm", "learned positions, pre-norm")
    with probe.part("values"):
        for name, model in zip(names, models, strict=True):
            probe.record(f"logits with {name}", model(images))
    with probe.part("gradients"):
        probe.gradients(models[1](images), models[1], images=images)
    with probe.part("dropout"):
        probe.dropout_as_factor()
        probe.record("logits in training", models[0].train()(images))
        models[0].eval()
    with probe.part("invariant: order of the patches"):
        left, middle, right = images.chunk(3, dim=3)
        shuffled = torch.cat((right, left, middle), dim=3)
        probe.record("logits of shuffled patches", models[1](shuffled))
        with torch.no_grad():
            models[1].positional_encoding.pe.zero_()
        probe.record("logits without positions", models[1](images))
        probe.record("logits of shuffled patches without positions", models[1](shuffled))


LEARNED = "score: every image is named right"


@check("5.4")
def _overfit_batch(probe: Probe) -> None:
    """Train on one batch; another process measures the weights."""
    from cs_transformers.training import recipes

    model, images, labels = _batch_to_learn(probe)
    with Watch(model) as watch:
        with probe.part(LEARNED):
            recipes.overfit_batch(model, images, labels, steps=200)
            record_weights(probe, model)
        watch.record(probe)


@check("score 5.4")
def _score_batch(probe: Probe) -> None:
    """What the trained weights say in eval mode."""
    model, images, labels = _batch_to_learn(probe)
    with probe.part(LEARNED), torch.no_grad():
        moved = load_weights(probe, LEARNED, model)
        named = model.eval()(images).argmax(dim=1)
        probe.record("the training", _fate_of_batch(named, labels, moved))


def _batch_to_learn(probe: Probe) -> tuple[nn.Module, Tensor, Tensor]:
    sizes = {"embed_dim": 32, "num_layers": 2, "num_heads": 4, "dim_feedforward": 64, "num_classes": CLASSES}
    model = vit.VisionTransformer(16, 4, CHANNELS, **sizes)
    images = probe.tensor("images to learn", 42, CHANNELS, 16, 16).detach().float()
    return model, images, torch.arange(42) * 5 % CLASSES


def _fate_of_batch(named: Tensor, labels: Tensor, moved: bool) -> str:
    if not moved:
        return "the weights did not move"
    if torch.equal(named, labels):
        return GOAL
    if torch.equal(named.sort().values, labels.sort().values) and (named == labels).float().mean() < 0.5:
        return "the images have each other's classes"
    return "some images are named wrong"


MOST, NEARLY_ALL = "score: three of four classes are right", "score: nine of ten classes are right"
TRAINING, UNLABELLED, TWICE = 1000, 300, 20


@check("inputs 5.5")
def _scenes(probe: Probe) -> None:
    """Scenes to learn from, others to name, and the answers, which only the scoring sees."""
    from cs_transformers.data.scenes import scene_classification

    images, labels = scene_classification(TRAINING + UNLABELLED, probe.seed)
    pictures = torch.from_numpy(images).permute(0, 3, 1, 2).contiguous()
    with probe.part("given"):
        probe.record("images", pictures[:TRAINING])
        probe.record("labels", labels[:TRAINING])
        # The first ones come again at the end: who keeps the order gives them the same classes.
        probe.record("unlabelled", torch.cat((pictures[TRAINING:], pictures[TRAINING : TRAINING + TWICE])))
    with probe.part("kept"):
        probe.record("answers", labels[TRAINING:])


@check("5.5")
def _vit_recipe(probe: Probe) -> None:
    """Train on scenes and name others; another process knows the answers."""
    from cs_transformers.training import recipes

    images, labels, unlabelled = (
        torch.from_numpy(probe.given[f"given/{name}"]) for name in ("images", "labels", "unlabelled")
    )
    with InputWatch(vit.VisionTransformer) as watch:
        with probe.part(MOST):
            named = recipes.vit_recipe(images, labels, unlabelled, classes=10, seed=probe.seed)
            probe.record("classes", named)
        watch.record(probe)


@check("score 5.5")
def _score_scenes(probe: Probe) -> None:
    """The share of right classes, and what is odd about wrong ones."""
    named, answers = probe.given.get(f"{MOST}/classes"), torch.from_numpy(probe.given["kept/answers"])
    right = _share_right(named, answers)
    for part, share in ((MOST, 0.75), (NEARLY_ALL, 0.9)):
        with probe.part(part):
            probe.record("the classes", GOAL if right >= share else _fault_of(named))


def _share_right(named: object, answers: Tensor) -> float:
    if getattr(named, "shape", None) != (UNLABELLED + TWICE,):
        return 0.0
    return float((torch.from_numpy(named)[:UNLABELLED] == answers).float().mean())


def _fault_of(named: object) -> str:
    shape = getattr(named, "shape", None)
    if shape == (TRAINING,):
        return "there is one class for every training image"
    if shape != (UNLABELLED + TWICE,):
        return "the number of classes is not that of the unlabelled images"
    classes = torch.from_numpy(named)
    same = float((classes[:TWICE] == classes[UNLABELLED:]).float().mean())
    if same < 0.6:
        return "the same image has another class when it comes again"
    return "too many classes are wrong"
