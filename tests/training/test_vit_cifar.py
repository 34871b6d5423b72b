"""The recipe of the ViT on CIFAR-10: Muon, the start values, and a training that is repeatable and can be resumed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from cs_transformers.attention import MultiHeadAttention
from cs_transformers.training.muon import Muon, orthogonalise
from cs_transformers.training.vit_cifar import (
    cifar_accuracy,
    cifar_config,
    cifar_optimizers,
    cifar_vit,
    mirror_half,
    pixel_loss,
    train_cifar_vit,
)
from cs_transformers.training.vit_init import (
    NEIGHBOURS,
    grid_waves,
    look_at_neighbours,
    start_from_images,
    whitening_filters,
)
from cs_transformers.vit import VisionTransformer


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def some_images(count: int = 40, size: tuple[int, int] = (32, 32), seed: int = 0) -> torch.Tensor:
    """Smooth random images, in which neighbouring pixels resemble each other as in photos."""
    coarse = torch.rand(count, 3, 5, 5, generator=generator(seed))
    smooth = nn.functional.interpolate(coarse, size, mode="bilinear")
    return (200 * smooth + 50 * torch.rand(count, 3, *size, generator=generator(seed + 1))).to(torch.uint8)


# --------------------------------------------------------------------------------------------------------- Muon


@pytest.mark.parametrize("shape", [(6, 6), (5, 9), (9, 5), (3, 4, 7)])
def test_orthogonalise_makes_singular_values_alike_and_keeps_their_directions(shape):
    matrices = torch.randn(shape, generator=generator(), dtype=torch.float64)
    before, after = torch.linalg.svd(matrices, full_matrices=False), orthogonalise(matrices)
    strengths = torch.linalg.svdvals(after)
    assert strengths.min() > 0.5
    assert strengths.max() < 1.3
    in_old_directions = before.U.mT @ after @ before.Vh.mT
    off_diagonal = in_old_directions - torch.diag_embed(in_old_directions.diagonal(dim1=-2, dim2=-1))
    assert off_diagonal.abs().max() < 1e-9


def test_orthogonalise_does_not_depend_on_the_scale_and_leaves_zero_alone():
    matrix = torch.randn(5, 8, generator=generator(), dtype=torch.float64)
    torch.testing.assert_close(orthogonalise(1e4 * matrix), orthogonalise(matrix), rtol=1e-4, atol=1e-6)
    assert orthogonalise(torch.zeros(3, 4)).count_nonzero() == 0


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon of its own to compare with")
@pytest.mark.parametrize("shape", [(8, 20), (20, 8)])
def test_muon_goes_where_torchs_own_goes(shape):
    ours, theirs = (nn.Parameter(torch.randn(shape, generator=generator())) for _ in range(2))
    begin = ours.detach().clone()
    options = {"lr": 0.02, "momentum": 0.9, "weight_decay": 0.1}
    optimizers = Muon([ours], **options), torch.optim.Muon([theirs], **options, nesterov=True)
    for step in range(6):
        for parameter, optimizer in zip((ours, theirs), optimizers, strict=True):
            parameter.grad = torch.randn(shape, generator=generator(step))
            optimizer.step()
    # torch's orthogonalisation runs in bfloat16, which is good to about 1 % of a step.
    assert (ours - theirs).norm() < 0.03 * (ours - begin).norm()


def test_muon_treats_matrices_of_one_shape_as_it_treats_each_alone():
    shapes = [(4, 7), (4, 7), (7, 4)]
    together, alone = ([nn.Parameter(torch.ones(shape)) for shape in shapes] for _ in range(2))
    optimizers = [Muon(together, lr=0.1), *(Muon([parameter], lr=0.1) for parameter in alone)]
    for _ in range(3):
        for place, (one, other) in enumerate(zip(together, alone, strict=True)):
            one.grad = other.grad = torch.randn(shapes[place], generator=generator(place))
        for optimizer in optimizers:
            optimizer.step()
    for one, other in zip(together, alone, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_muon_goes_on_from_its_saved_state():
    def steps(parameter, optimizer, numbers):
        for number in numbers:
            parameter.grad = torch.randn(3, 5, generator=generator(number))
            optimizer.step()

    straight, broken = nn.Parameter(torch.ones(3, 5)), nn.Parameter(torch.ones(3, 5))
    steps(straight, Muon([straight]), range(6))
    first = Muon([broken])
    steps(broken, first, range(3))
    second = Muon([broken])
    second.load_state_dict(first.state_dict())
    steps(broken, second, range(3, 6))
    assert torch.equal(straight, broken)


def test_muon_leaves_matrices_without_a_gradient_and_returns_the_closures_loss():
    moved, still = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2, 3))
    optimizer = Muon([moved, still])

    def closure():
        optimizer.zero_grad()
        loss = (moved**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 6
    assert not torch.equal(moved, torch.ones(2, 3))
    assert torch.equal(still, torch.ones(2, 3))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lr": 0.0}, "Muon: lr must be above 0, got 0.0"),
        ({"momentum": 1.0}, r"Muon: momentum must be in \[0, 1\), got 1.0"),
        ({"weight_decay": -1.0}, "Muon: weight_decay must be 0 or more, got -1.0"),
    ],
)
def test_muon_refuses_numbers_outside_their_range(options, message):
    with pytest.raises(ValueError, match=message):
        Muon([nn.Parameter(torch.ones(2, 2))], **options)


def test_muon_refuses_what_is_no_matrix():
    with pytest.raises(ValueError, match="AdamW"):
        Muon([nn.Parameter(torch.ones(4))])


# ------------------------------------------------------------------------------------------------- start values


def test_whitened_patches_are_uncorrelated_and_of_one_strength_down_to_the_floor():
    mixing = torch.randn(6, 6, generator=generator(), dtype=torch.float64)
    patches = torch.randn(4000, 6, generator=generator(1), dtype=torch.float64) @ mixing + 3.0
    answers = (patches - patches.mean(dim=0)) @ whitening_filters(patches, floor=0.0).T
    torch.testing.assert_close(answers.T @ answers / 4000, torch.eye(6, dtype=torch.float64), rtol=0, atol=1e-9)
    weak = 1e-3 * patches
    assert ((weak - weak.mean(dim=0)) @ whitening_filters(weak, floor=0.01).T).std() < 0.1


def test_whitening_filters_are_ordered_by_variance_and_have_no_free_sign():
    patches = torch.randn(500, 3, generator=generator()) * torch.tensor([1.0, 5.0, 2.0])
    filters = whitening_filters(patches)
    assert filters.abs().argmax(dim=1).tolist() == [1, 2, 0]
    torch.testing.assert_close(filters, whitening_filters(-patches))


def test_whitening_refuses_too_few_patches():
    with pytest.raises(ValueError, match="more images"):
        whitening_filters(torch.zeros(4, 5))


def test_places_are_most_like_themselves_and_likeness_depends_on_the_distance_alone():
    rows, columns = 3, 5
    waves = grid_waves(rows, columns, 12).double()
    likeness = waves @ waves.T
    assert (likeness.argmax(dim=1) == torch.arange(rows * columns)).all()
    by_distance: dict[tuple[int, int], float] = {}
    for a in range(rows * columns):
        for b in range(rows * columns):
            distance = (abs(a // columns - b // columns), abs(a % columns - b % columns))
            assert math.isclose(
                by_distance.setdefault(distance, likeness[a, b].item()), likeness[a, b].item(), abs_tol=1e-5
            )


def test_grid_waves_refuse_a_width_without_whole_pairs():
    with pytest.raises(ValueError, match="multiple of 4"):
        grid_waves(2, 3, 6)


@pytest.mark.parametrize("grid", [(8, 8), (4, 6)])
def test_each_head_looks_at_its_neighbour(grid):
    rows, columns = grid
    attention = MultiHeadAttention(embed_dim=64, num_heads=2, dropout=0.0)
    with torch.no_grad():
        for linear in (attention.query, attention.key):
            linear.weight.zero_()
            linear.bias.zero_()
    offsets = [(0, 1), (-2, 1)]
    look_at_neighbours(attention, offsets, grid)
    tokens = torch.cat((grid_waves(rows, columns, 32), torch.zeros(rows * columns, 32)), dim=1)[None]
    weights = attention(tokens, tokens, tokens, need_weights=True)[1][0]  # (H, P, P)
    for head, (down, across) in enumerate(offsets):
        for row in range(rows):
            for column in range(columns):
                if 0 <= row + down < rows and 0 <= column + across < columns:
                    looked_at = weights[head, row * columns + column].argmax().item()
                    assert divmod(looked_at, columns) == (row + down, column + across)
    assert 0.3 < weights[0, 0].max() < 0.9


def test_tokens_of_the_started_model_are_whitened_patches_beside_their_places():
    images = some_images(400)
    pixels = images.float()
    pixels = (pixels - pixels.mean(dim=(0, 2, 3), keepdim=True)) / pixels.std(dim=(0, 2, 3), keepdim=True)
    model = cifar_vit(images)
    tokens = model.patch_embed(pixels)
    assert tokens[..., :32].count_nonzero() == 0
    shown = tokens[..., 32:80].flatten(0, 1)
    spread = torch.cov(shown.T)
    off_diagonal = spread - torch.diag(spread.diagonal())
    assert off_diagonal.abs().max() < 0.05
    assert spread.diagonal().max() < 1.05
    assert torch.equal(model.positional_encoding.pe[0, :, :32], grid_waves(8, 8, 32))
    assert model.positional_encoding.pe[0, :, 32:].count_nonzero() == 0


def test_the_started_layers_leave_the_places_as_they_are():
    images = some_images()
    model = cifar_vit(images)
    tokens = torch.randn(2, 64, 128, generator=generator())
    for layer in model.transformer.layers:
        after = layer(tokens)
        torch.testing.assert_close(after[..., :32], tokens[..., :32], rtol=0, atol=1e-6)
        assert (after - tokens)[..., 32:].abs().mean() > 0.01


@pytest.mark.parametrize("keywords", [{"positions": "sinusoidal"}, {"positions": "learned", "pool": "cls"}])
def test_start_values_refuse_another_kind_of_model(keywords):
    model = VisionTransformer(8, 4, embed_dim=64, num_layers=4, num_heads=4, norm_first=True, **keywords)
    with pytest.raises(ValueError, match="start_from_images: model must be"):
        start_from_images(model, torch.zeros(60, 3, 8, 8))


def test_start_values_refuse_neighbours_that_do_not_fit_the_heads():
    model = VisionTransformer(8, 4, embed_dim=64, num_layers=2, num_heads=4, positions="learned", norm_first=True)
    with pytest.raises(ValueError, match="one offset for each head of each layer"):
        start_from_images(model, torch.zeros(60, 3, 8, 8), neighbours=NEIGHBOURS)


# ------------------------------------------------------------------------------------------------------- recipe


def test_the_recipe_passes_twice_over_all_images_and_the_optimizers_share_out_all_parameters():
    config = cifar_config()
    assert config.total_steps(50_000) == 2 * (50_000 // config.batch_size)
    model = cifar_vit(some_images())
    optimizers = [optimizer for optimizer, _ in cifar_optimizers(model, config, 50_000)]
    taken = [id(p) for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]]
    assert sorted(taken) == sorted(id(parameter) for parameter in model.parameters())


def test_the_model_has_the_published_sizes():
    model = cifar_vit(some_images())
    layer = model.transformer.layers[0]
    assert (model.patch_embed.num_patches, model.patch_embed.embed_dim, len(model.transformer.layers)) == (64, 128, 4)
    assert (layer.self_attn.n_head, layer.ffn.fc1.out_features) == (4, 256)


def test_the_model_depends_on_the_seed_and_not_on_the_global_stream():
    images = some_images()
    torch.manual_seed(1)
    first = cifar_vit(images, seed=5).state_dict()
    torch.manual_seed(2)
    same, other = cifar_vit(images, seed=5).state_dict(), cifar_vit(images, seed=6).state_dict()
    assert all(torch.equal(first[name], same[name]) for name in first)
    assert not torch.equal(first["head.weight"], other["head.weight"])


def test_training_is_repeatable_and_an_interrupted_one_ends_with_the_same_weights(tmp_path):
    images, labels = some_images(24, (8, 12)), torch.arange(24) % 10

    class InterruptionError(Exception):
        pass

    settings = cifar_config(batch_size=4, seed=3, checkpoint_every=2, progress=False)
    straight, history = train_cifar_vit(images, labels, config=settings)
    again, _ = train_cifar_vit(images, labels, config=settings)
    assert len(history.losses) == 12
    assert all(map(torch.equal, straight.parameters(), again.parameters()))

    original, count = Muon.step, iter(range(100))

    def failing(self, closure=None):
        if next(count) == 7:
            raise InterruptionError
        return original(self, closure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Muon, "step", failing)
        with pytest.raises(InterruptionError):
            train_cifar_vit(images, labels, config=settings, folder=tmp_path)
    resumed, _ = train_cifar_vit(images, labels, config=settings, folder=tmp_path, resume=True)
    assert all(map(torch.equal, straight.parameters(), resumed.parameters()))


@pytest.mark.learning
def test_a_few_steps_learn_at_which_height_an_image_is_bright():
    labels = torch.arange(64) % 4
    images = torch.randint(60, (64, 3, 16, 8), generator=generator(), dtype=torch.uint8)
    for image, label in zip(images, labels.tolist(), strict=True):
        image[:, 4 * label : 4 * label + 4] += 100
    settings = cifar_config(batch_size=8, epochs=8, progress=False)
    model, history = train_cifar_vit(images, labels, config=settings, validation=(images, labels))
    assert cifar_accuracy(model, images, labels, images) == 1.0
    assert history.rows[-1]["val_accuracy"] == 1.0


def test_images_must_be_bytes():
    with pytest.raises(TypeError, match="uint8"):
        cifar_vit(torch.zeros(2, 3, 8, 8))


def test_about_half_of_the_images_are_mirrored_and_no_label_moves():
    images, labels = some_images(400, (4, 8)), torch.arange(400)
    mirrored, same = mirror_half((images, labels), generator())
    is_mirrored = (mirrored == images.flip(3)).flatten(1).all(dim=1)
    assert ((mirrored == images).flatten(1).all(dim=1) ^ is_mirrored).all()
    assert 150 < is_mirrored.sum() < 250
    assert torch.equal(same, labels)


def test_the_loss_is_that_of_normalised_images():
    images, labels = some_images(6), torch.arange(6)
    pixels = images.float() / 255
    mean, std = pixels.mean(dim=(0, 2, 3), keepdim=True), pixels.std(dim=(0, 2, 3), keepdim=True, correction=0)
    model = cifar_vit(some_images(seed=3))
    loss, metrics = pixel_loss(images)(model, (images, labels))
    scores = model((pixels - mean) / std)
    torch.testing.assert_close(loss, nn.functional.cross_entropy(scores, labels), rtol=1e-4, atol=1e-5)
    assert metrics["accuracy"] == (scores.argmax(dim=1) == labels).float().mean()
