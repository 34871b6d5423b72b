"""The loop: it learns, chooses by validation, and an interruption changes nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from cs_transformers.training.batches import share_of
from cs_transformers.training.checkpoints import load_checkpoint
from cs_transformers.training.config import FitConfig
from cs_transformers.training.history import History
from cs_transformers.training.loop import evaluate_loss, fit
from cs_transformers.training.schedules import constant

EXAMPLES, FEATURES, CLASSES = 22, 3, 5


def make_data(examples: int = EXAMPLES, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(examples, FEATURES, generator=generator)
    return TensorDataset(inputs, torch.randint(CLASSES, (examples,), generator=generator))


def make_model(dropout: float = 0.0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(7)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.GELU(), nn.Dropout(dropout), nn.Linear(8, CLASSES))


def class_loss(model: nn.Module, batch: tuple) -> tuple:
    inputs, labels = batch
    scores = model(inputs)
    return nn.functional.cross_entropy(scores, labels), {"accuracy": (scores.argmax(1) == labels).double().mean()}


def same_weights(first: nn.Module, second: nn.Module) -> bool:
    pairs = zip(first.state_dict().values(), second.state_dict().values(), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


class Counting(Dataset):
    """A data set that notes what is read, for the order of the data."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return EXAMPLES

    def __getitem__(self, index: int) -> tuple:
        self.read.append(index)
        return torch.full((FEATURES,), float(index)), index % CLASSES


# --- one update ---------------------------------------------------------------------------------------------------


def test_one_step_equals_the_textbook_step() -> None:
    data, ours, theirs = make_data(), make_model(), make_model()
    config = FitConfig(steps=1, batch_size=EXAMPLES, learning_rate=0.01, weight_decay=0.0, clip_norm=None)
    fit(ours, data, loss=class_loss, config=config)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.0)
    class_loss(theirs, data[:])[0].backward()
    optimizer.step()
    for one, other, start in zip(ours.parameters(), theirs.parameters(), make_model().parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
        assert not torch.equal(one, start)


def test_gradients_of_one_step_do_not_leak_into_the_next() -> None:
    data, ours, theirs = make_data(), make_model(), make_model()
    pairs = [(torch.optim.SGD(ours.parameters(), lr=0.1), constant())]
    fit(ours, data, loss=class_loss, config=FitConfig(steps=4, batch_size=EXAMPLES, clip_norm=None), optimizers=pairs)
    for _ in range(4):
        gradients = torch.autograd.grad(class_loss(theirs, data[:])[0], list(theirs.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(theirs.parameters(), gradients, strict=True):
                parameter -= 0.1 * gradient
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_gradient_is_clipped_to_the_norm() -> None:
    model, before = make_model(), make_model()
    pairs = [(torch.optim.SGD(model.parameters(), lr=1.0), constant())]
    config = FitConfig(steps=1, batch_size=EXAMPLES, clip_norm=0.01)
    fit(model, make_data(), loss=class_loss, config=config, optimizers=pairs)
    moved = [one - other for one, other in zip(model.parameters(), before.parameters(), strict=True)]
    norm = torch.cat([step.flatten() for step in moved]).norm().item()
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_every_optimizer_follows_its_own_schedule() -> None:
    model = make_model()
    first = torch.optim.SGD(model[0].parameters(), lr=1.0)
    second = torch.optim.SGD(model[3].parameters(), lr=1.0)
    rates = []
    pairs = [
        (first, lambda step: 1 / (step + 1)),
        (second, torch.optim.lr_scheduler.StepLR(second, step_size=2, gamma=0.5)),
    ]

    def note(batch, _generator):
        rates.append((first.param_groups[0]["lr"], second.param_groups[0]["lr"]))
        return batch

    fit(model, make_data(), loss=class_loss, config=FitConfig(steps=4), optimizers=pairs, transform=note)
    assert rates == [(1.0, 1.0), (1 / 2, 1.0), (1 / 3, 0.5), (1 / 4, 0.5)]


def test_the_running_mean_of_the_weights_is_what_is_returned() -> None:
    model, seen = make_model(), []

    def note(batch, _generator):
        seen.append([parameter.detach().clone() for parameter in model.parameters()])
        return batch

    fit(model, make_data(), loss=class_loss, config=FitConfig(steps=5, ema_decay=0.8), transform=note)
    last_raw = make_model()
    fit(last_raw, make_data(), loss=class_loss, config=FitConfig(steps=5))
    raw = [*seen[1:], [parameter.detach() for parameter in last_raw.parameters()]]
    mean = raw[0]
    for weights in raw[1:]:
        mean = [0.8 * old + 0.2 * new for old, new in zip(mean, weights, strict=True)]
    for ours, theirs in zip(model.parameters(), mean, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_augmentation_differs_by_step_and_depends_on_the_seed_alone() -> None:
    def draws(seed: int) -> list[float]:
        found: list[float] = []

        def note(batch, generator):
            found.append(torch.rand(1, generator=generator).item())
            return batch

        torch.manual_seed(len(found))
        fit(make_model(), make_data(), loss=class_loss, config=FitConfig(steps=6, seed=seed), transform=note)
        return found

    assert len(set(draws(1))) == 6
    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_a_warm_up_below_one_is_a_share_of_the_steps() -> None:
    for warmup in (0.25, 5):
        config = FitConfig(steps=20, warmup=warmup, evaluate_every=1, learning_rate=0.5)
        rates = fit(make_model(), make_data(), loss=class_loss, config=config)["rate"]
        assert rates[:4] == pytest.approx([0.2, 0.3, 0.4, 0.5])  # the rate of the step that follows each record


# --- data order ---------------------------------------------------------------------------------------------------


def test_every_epoch_reads_each_example_once_in_another_order() -> None:
    data = Counting()
    fit(make_model(), data, loss=class_loss, config=FitConfig(epochs=2, batch_size=4))
    first, second = data.read[:EXAMPLES], data.read[EXAMPLES:]
    assert sorted(first) == sorted(second) == list(range(EXAMPLES))
    assert first != second
    assert first != list(range(EXAMPLES))


@pytest.mark.parametrize(("drop_last", "steps"), [(True, 5), (False, 6)])
def test_the_last_batch_of_an_epoch_is_kept_or_dropped(drop_last: bool, steps: int) -> None:
    config = FitConfig(epochs=1, batch_size=4, drop_last=drop_last)
    assert len(fit(make_model(), make_data(), loss=class_loss, config=config).losses) == steps


@pytest.mark.parametrize(("examples", "world"), [(8, 2), (7, 3), (1, 2), (2, 5)])
def test_no_process_misses_a_step_and_no_example_is_left_out(examples: int, world: int) -> None:
    batch = torch.arange(10, 10 + examples)
    shares = [share_of(batch, rank, world).tolist() for rank in range(world)]
    assert min(len(share) for share in shares) >= 1
    assert max(len(share) for share in shares) <= -(-examples // world)
    assert {index for share in shares for index in share} == set(batch.tolist())
    if examples >= world:
        assert sum(len(share) for share in shares) == examples


def test_replacement_draws_whole_batches_with_repeats() -> None:
    data = Counting()
    fit(make_model(), data, loss=class_loss, config=FitConfig(epochs=1, batch_size=4, replacement=True))
    assert len(data.read) == 20
    assert len(set(data.read)) < 20


def test_workers_read_the_same_batches() -> None:
    inside, outside = make_model(), make_model()
    fit(inside, Counting(), loss=class_loss, config=FitConfig(epochs=2, batch_size=4))
    fit(outside, Counting(), loss=class_loss, config=FitConfig(epochs=2, batch_size=4, num_workers=2))
    assert same_weights(inside, outside)


# --- evaluation and choice ----------------------------------------------------------------------------------------


def test_the_best_weights_by_validation_are_returned_not_the_last() -> None:
    train, val = make_data(6), make_data(40, seed=1)
    model = make_model()
    config = FitConfig(steps=150, batch_size=6, learning_rate=0.05, evaluate_every=10, weight_decay=0.0)
    history = fit(model, train, val, loss=class_loss, config=config)
    best = history.best("val_loss")
    assert best["step"] < 150
    assert history["val_loss"][-1] > best["val_loss"]
    assert evaluate_loss(model, val, loss=class_loss)["loss"] == pytest.approx(best["val_loss"], rel=1e-9)


def test_the_last_weights_are_returned_where_the_best_are_not_wanted() -> None:
    train, val = make_data(6), make_data(40, seed=1)
    model = make_model()
    config = FitConfig(steps=150, batch_size=6, learning_rate=0.05, evaluate_every=10, keep_best=False)
    history = fit(model, train, val, loss=class_loss, config=config)
    assert evaluate_loss(model, val, loss=class_loss)["loss"] == pytest.approx(history["val_loss"][-1], rel=1e-9)
    assert history["val_loss"][-1] > min(history["val_loss"])


def test_training_stops_when_validation_no_longer_improves() -> None:
    config = FitConfig(steps=1000, batch_size=6, learning_rate=0.05, evaluate_every=5, patience=3)
    history = fit(make_model(), make_data(6), make_data(40, seed=1), loss=class_loss, config=config)
    assert history.rows[-1]["step"] == history.best("val_loss")["step"] + 15 < 1000


def test_an_own_figure_may_choose() -> None:
    scores = iter([0.1, 0.9, 0.3])
    weights = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        assert not model.training
        weights.append({name: value.clone() for name, value in model.state_dict().items()})
        return {"score": next(scores)}

    model = make_model()
    config = FitConfig(epochs=3, monitor="score")
    history = fit(model, make_data(), loss=class_loss, config=config, evaluate=evaluate)
    assert history["score"] == [0.1, 0.9, 0.3]
    assert all(torch.equal(value, weights[1][name]) for name, value in model.state_dict().items())


def test_evaluation_does_not_change_the_training() -> None:
    def noisy(_model: nn.Module) -> dict[str, float]:
        return {"noise": torch.rand(1).item() + np.random.rand()}

    plain, watched = make_model(dropout=0.5), make_model(dropout=0.5)
    fit(plain, make_data(), loss=class_loss, config=FitConfig(steps=9))
    config = FitConfig(steps=9, evaluate_every=2, keep_best=False)
    fit(watched, make_data(), make_data(9), loss=class_loss, config=config, evaluate=noisy)
    assert same_weights(plain, watched)


def test_means_over_validation_weigh_examples_not_batches() -> None:
    model, data = make_model(), make_data(10)
    whole = class_loss(model, data[:])[0].item()
    assert evaluate_loss(model, data, loss=class_loss, batch_size=7)["loss"] == pytest.approx(whole, rel=1e-6)


def test_the_mode_and_the_random_streams_are_left_as_they_were() -> None:
    model = make_model(dropout=0.5)
    model.train()
    model[2].eval()
    before, numbers = torch.get_rng_state(), np.random.get_state()[1].copy()
    fit(model, make_data(), make_data(), loss=class_loss, config=FitConfig(steps=3))
    assert model.training
    assert not model[2].training
    assert torch.equal(before, torch.get_rng_state())
    assert np.array_equal(numbers, np.random.get_state()[1])


def test_the_seed_alone_decides_the_weights() -> None:
    models = [make_model(dropout=0.5) for _ in range(3)]
    for model, seed in zip(models, (1, 1, 2), strict=True):
        torch.rand(seed)
        fit(model, make_data(), loss=class_loss, config=FitConfig(epochs=2, batch_size=8, seed=seed))
    assert same_weights(models[0], models[1])
    assert not same_weights(models[0], models[2])


def test_history_is_written_as_a_table_and_handed_to_the_hook(tmp_path: Path) -> None:
    seen = []
    config = FitConfig(epochs=3, batch_size=11)
    history = fit(
        make_model(), make_data(), make_data(5), loss=class_loss, config=config, folder=tmp_path,
        on_record=lambda history: seen.append(len(history.rows)),
    )  # fmt: skip
    assert seen == [1, 2, 3]
    assert history.columns == [
        "step", "epoch", "rate", "train_loss", "train_accuracy", "val_loss", "val_accuracy", "seconds",
    ]  # fmt: skip
    assert History.read_csv(tmp_path / "history.csv").rows == history.rows
    assert history["step"] == [2, 4, 6]
    assert len(history.losses) == 6


# --- interruption -------------------------------------------------------------------------------------------------

INTERRUPTED = """
    import os, signal, sys
    import numpy as np, torch
    from torch import nn
    from torch.utils.data import Dataset
    from cs_transformers.training.checkpoints import save_checkpoint
    from cs_transformers.training.config import FitConfig
    from cs_transformers.training.loop import fit
    from cs_transformers.training.schedules import one_cycle, warmup_linear

    torch.set_num_threads(1)
    folder, kill_at = sys.argv[1], int(sys.argv[2])

    class Noisy(Dataset):
        def __len__(self):
            return 23

        def __getitem__(self, index):
            return torch.full((3,), float(index)) + torch.tensor(np.random.randn(3)).float(), index % 5

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Dropout(0.3), nn.Linear(8, 5))
    steps = 17
    slow = torch.optim.AdamW(model[0].parameters(), lr=0.01)
    fast = torch.optim.SGD([*model[1].parameters(), *model[4].parameters()], lr=0.1, momentum=0.9)
    torch_schedule = torch.optim.lr_scheduler.OneCycleLR(slow, 0.01, total_steps=steps + 1)
    pairs = [(slow, torch_schedule), (fast, warmup_linear(steps, warmup=4))]
    done = 0

    def augment(batch, generator):
        global done
        done += 1
        if done == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        return batch[0] + torch.randn(batch[0].shape, generator=generator), batch[1]

    def loss(model, batch):
        return nn.functional.cross_entropy(model(batch[0]), batch[1])

    config = FitConfig(steps=steps, batch_size=4, ema_decay=0.9, evaluate_every=5, checkpoint_every=3)
    val = Noisy()
    history = fit(model, Noisy(), val, loss=loss, config=config, optimizers=pairs, transform=augment,
                  folder=folder, resume=True)
    rows = [{name: value for name, value in row.items() if name != "seconds"} for row in history.rows]
    save_checkpoint(folder + "/result.pt", {"model": model.state_dict(), "losses": history.losses, "rows": rows})
"""


def run_interrupted(folder: Path, kill_at: int) -> int:
    command = [sys.executable, "-c", textwrap.dedent(INTERRUPTED), str(folder), str(kill_at)]
    return subprocess.run(command, check=False, capture_output=True).returncode


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system knows no SIGKILL")
def test_a_killed_training_goes_on_to_the_same_weights(tmp_path: Path) -> None:
    assert run_interrupted(tmp_path / "whole", 0) == 0
    assert run_interrupted(tmp_path / "killed", 2) == -signal.SIGKILL  # before the first checkpoint
    assert run_interrupted(tmp_path / "killed", 8) == -signal.SIGKILL  # in the middle of an epoch
    assert run_interrupted(tmp_path / "killed", 7) == -signal.SIGKILL  # once more, beyond the second evaluation
    assert load_checkpoint(tmp_path / "killed" / "last.pt")["step"] == 12
    assert run_interrupted(tmp_path / "killed", 0) == 0
    whole, killed = (load_checkpoint(tmp_path / name / "result.pt") for name in ("whole", "killed"))
    assert whole["losses"] == killed["losses"]
    assert whole["rows"] == killed["rows"]
    assert whole["model"].keys() == killed["model"].keys()
    assert all(torch.equal(value, killed["model"][name]) for name, value in whole["model"].items())


def test_going_on_with_a_finished_training_changes_nothing(tmp_path: Path) -> None:
    model, again = make_model(), make_model()
    arguments = {"loss": class_loss, "config": FitConfig(epochs=2), "folder": tmp_path, "resume": True}
    first = fit(model, make_data(), make_data(5), **arguments)
    second = fit(again, make_data(), make_data(5), **arguments)
    assert first.rows == second.rows
    assert same_weights(model, again)


def test_a_training_whose_figure_was_never_a_number_can_go_on(tmp_path: Path) -> None:
    arguments = {"loss": class_loss, "evaluate": lambda _model: {"score": float("nan")}, "folder": tmp_path}
    config = FitConfig(epochs=1, monitor="score")
    first, second = make_model(), make_model()
    fit(first, make_data(), config=config, **arguments)
    fit(second, make_data(), config=config, resume=True, **arguments)
    assert same_weights(first, second)


def test_a_folder_with_a_training_is_not_written_over(tmp_path: Path) -> None:
    fit(make_model(), make_data(), loss=class_loss, config=FitConfig(epochs=1), folder=tmp_path)
    before = (tmp_path / "last.pt").read_bytes()
    with pytest.raises(ValueError, match="holds one; pass resume=True to go on with it, or choose another folder"):
        fit(make_model(), make_data(), loss=class_loss, config=FitConfig(epochs=1), folder=tmp_path)
    assert (tmp_path / "last.pt").read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"config": FitConfig(epochs=1, learning_rate=0.5)}, r"learning_rate 0\.001 there, 0\.5 here"),
        ({"train": make_data(9)}, "examples 22 there, 9 here"),
        ({"model": nn.Linear(FEATURES, CLASSES)}, "the model has other parameters"),
    ],
)
def test_another_training_does_not_go_on_with_a_checkpoint(tmp_path: Path, change: dict, message: str) -> None:
    given = {"model": make_model(), "train": make_data(), "config": FitConfig(epochs=1)}
    fit(**given, loss=class_loss, folder=tmp_path)
    other = {**given, "model": make_model(), **change}
    before = [parameter.clone() for parameter in other["model"].parameters()]
    with pytest.raises(ValueError, match=message):
        fit(**other, loss=class_loss, folder=tmp_path, resume=True)
    assert all(torch.equal(one, two) for one, two in zip(before, other["model"].parameters(), strict=True))


# --- errors -------------------------------------------------------------------------------------------------------


def test_wrong_calls_are_refused_before_any_step() -> None:
    model, data, empty = make_model(), make_data(), make_data(0)
    with pytest.raises(ValueError, match="expected training examples, got an empty data set"):
        fit(model, empty, loss=class_loss)
    with pytest.raises(ValueError, match="expected validation examples, got an empty data set"):
        fit(model, data, empty, loss=class_loss)
    with pytest.raises(ValueError, match="expected val or evaluate with patience, got neither"):
        fit(model, data, loss=class_loss, config=FitConfig(patience=2))
    with pytest.raises(ValueError, match="evaluate_loss: expected examples, got an empty data set"):
        evaluate_loss(model, make_data(0), loss=class_loss)
    with pytest.raises(ValueError, match="expected a folder with resume=True, got None"):
        fit(model, data, loss=class_loss, resume=True)
    with pytest.raises(TypeError, match=r"return one number as a tensor.*got a tensor of shape \(22,\)"):
        fit(model, data, loss=lambda model, batch: model(batch[0])[:, 0], config=FitConfig(epochs=1))
    with pytest.raises(TypeError, match=r"return one number as a tensor.*got float"):
        fit(model, data, loss=lambda _model, _batch: 0.5, config=FitConfig(epochs=1))
    assert same_weights(model, make_model())


def test_a_figure_that_does_not_exist_cannot_choose() -> None:
    config = FitConfig(epochs=1, monitor="bleu")
    with pytest.raises(ValueError, match=r"expected monitor to be one of step, .*val_accuracy, seconds, got 'bleu'"):
        fit(make_model(), make_data(), make_data(5), loss=class_loss, config=config)


def test_a_loss_that_is_not_finite_stops_the_training_with_advice() -> None:
    def broken(model: nn.Module, batch: tuple) -> torch.Tensor:
        return class_loss(model, batch)[0] / 0

    model = make_model()
    with pytest.raises(FloatingPointError, match="got inf at step 1; lower the learning rate"):
        fit(model, make_data(), loss=broken)
    assert same_weights(model, make_model())


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0}, {"steps": 0}, {"batch_size": 0}, {"evaluate_every": 0}, {"checkpoint_every": -1},
        {"patience": 0}, {"weight_decay": -0.1}, {"warmup": -1}, {"seed": -1}, {"num_workers": -1},
        {"learning_rate": 0.0}, {"muon_rate": -1.0}, {"clip_norm": 0.0}, {"ema_decay": 1.0},
        {"optimizer": "sgdd"}, {"precision": "fp8"}, {"monitor": "train_loss"}, {"schedule": "cosin"}, {"floor": 0.0},
    ],
)  # fmt: skip
def test_impossible_settings_are_refused_by_name(settings: dict) -> None:
    (name,) = settings
    with pytest.raises(ValueError, match=f"FitConfig: expected {name} .*got {settings[name]!r}"):
        FitConfig(**settings)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"batch_size": "64"}, TypeError, r"batch_size to be a whole number of at least 1, got '64' \(str\)"),
        ({"steps": 1e3}, TypeError, r"steps to be a whole number of at least 1, got 1000.0 \(float\)"),
        ({"epochs": None}, TypeError, "epochs to be a whole number of at least 1, got None"),
        ({"seed": True}, TypeError, r"seed to be a whole number of 0 or more, got True \(bool\)"),
        ({"learning_rate": "1e-3"}, TypeError, "learning_rate to be a rate above 0, got '1e-3'"),
        ({"betas": (0.9, 1.0)}, ValueError, r"betas to be two numbers in \[0, 1\), got \(0.9, 1.0\)"),
        ({"betas": (0.9,)}, ValueError, "betas to be two numbers"),
    ],
)
def test_settings_of_another_type_are_refused_by_name(settings: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=f"FitConfig: expected {message}"):
        FitConfig(**settings)


def test_precision_needs_accelerate() -> None:
    with pytest.raises(ValueError, match="expected accelerate=True with precision='bf16'"):
        FitConfig(precision="bf16")


# --- surroundings -------------------------------------------------------------------------------------------------


def test_no_bar_is_drawn_where_there_is_no_terminal(capfd: pytest.CaptureFixture) -> None:
    fit(make_model(), make_data(), loss=class_loss, config=FitConfig(epochs=1))
    assert capfd.readouterr() == ("", "")
    fit(make_model(), make_data(), loss=class_loss, config=FitConfig(epochs=1, progress=True))
    assert "training" in capfd.readouterr().err


def test_accelerate_is_not_imported_unless_asked_for() -> None:
    code = "import sys, cs_transformers.training.loop; sys.exit('accelerate' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_accelerate_missing_is_said_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "accelerate", None)
    with pytest.raises(ImportError, match=r"pip install 'cs_transformers\[train\]'"):
        fit(make_model(), make_data(), loss=class_loss, config=FitConfig(accelerate=True))


ACCELERATED = """
    import os, sys, warnings
    warnings.simplefilter("ignore")
    import torch
    from tests.training.test_loop import class_loss, make_data, make_model
    from cs_transformers.training.config import FitConfig
    from cs_transformers.training.loop import fit
    from cs_transformers.training.checkpoints import save_checkpoint

    torch.set_num_threads(1)
    precision, folder, batch_size = sys.argv[1:]
    model = make_model()
    forward = model.forward.__func__
    config = FitConfig(
        steps=12, batch_size=int(batch_size), drop_last=int(batch_size) == 6, accelerate=True, precision=precision
    )
    history = fit(model, make_data(), make_data(9), loss=class_loss, config=config, folder=folder, resume=True)
    assert model.forward.__func__ is forward and "forward" not in vars(model)
    if int(os.environ.get("RANK", 0)) == 0:
        save_checkpoint(folder + "/result.pt", {"model": model.state_dict(), "losses": history.losses})
"""


def run_accelerated(folder: Path, precision: str = "no", processes: int = 1, batch_size: int = 6) -> dict:
    script = folder / "script.py"
    folder.mkdir()
    script.write_text(textwrap.dedent(ACCELERATED))
    root = str(Path(__file__).parents[2])
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    environment = {**os.environ, "PYTHONPATH": root, "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, *launcher, str(script), precision, str(folder), str(batch_size)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment, cwd=root, timeout=300)
    assert done.returncode == 0, done.stderr
    return load_checkpoint(folder / "result.pt")


def test_accelerate_on_one_process_changes_nothing(tmp_path: Path) -> None:
    result, model = run_accelerated(tmp_path / "run"), make_model()
    config = FitConfig(steps=12, batch_size=6, drop_last=True)
    fit(model, make_data(), make_data(9), loss=class_loss, config=config)
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in result["model"].items())


def test_half_precision_learns_and_leaves_the_weights_in_float32(tmp_path: Path) -> None:
    result = run_accelerated(tmp_path / "run", precision="bf16")
    assert result["losses"][-1] < result["losses"][0]
    assert {value.dtype for value in result["model"].values()} == {torch.float32}


@pytest.mark.slow
def test_two_processes_share_out_the_batches_of_one(tmp_path: Path) -> None:
    two, one = run_accelerated(tmp_path / "two", processes=2), run_accelerated(tmp_path / "one")
    for name, value in one["model"].items():
        torch.testing.assert_close(value, two["model"][name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_two_processes_come_to_an_end_where_the_last_batch_holds_one_example(tmp_path: Path) -> None:
    assert EXAMPLES % 7 == 1
    assert len(run_accelerated(tmp_path / "uneven", processes=2, batch_size=7)["losses"]) == 12
