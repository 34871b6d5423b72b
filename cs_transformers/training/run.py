"""One training under way: its state, its steps, its records and its checkpoints. `fit` in loop.py is the way in."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import Dataset
from tqdm import tqdm

from cs_transformers.training import batches
from cs_transformers.training.checkpoints import load_checkpoint, own_rng, rng_state, save_checkpoint, set_rng_state
from cs_transformers.training.config import FitConfig
from cs_transformers.training.evaluation import LossFunction, Totals, eval_mode, keeping_mode, mean_loss, split_loss
from cs_transformers.training.history import History, is_better
from cs_transformers.training.optimizers import make_optimizers
from cs_transformers.training.placement import Accelerated, Here
from cs_transformers.training.schedules import Schedule, make_schedule

Scheduled = tuple[torch.optim.Optimizer, "Schedule | LRScheduler"]


class Run:
    """A training with everything that an interruption must not lose.

    Args:
        model: Model to train in place.
        train: Training examples.
        val: Validation examples, or None.
        loss: Function of model and batch.
        config: Settings.
        evaluate: Function of the model that gives more figures, or None.
        transform: Augmentation of a training batch, or None.
        collate: How a list of examples becomes a batch, or None.
    """

    def __init__(
        self,
        model: nn.Module,
        train: Dataset,
        val: Dataset | None,
        loss: LossFunction,
        config: FitConfig,
        *,
        evaluate: Callable[[nn.Module], dict[str, float]] | None = None,
        transform: Callable[[Any, torch.Generator], Any] | None = None,
        collate: Callable[[list], Any] | None = None,
    ) -> None:
        self.model, self.data, self.val, self.loss, self.config = model, train, val, loss, config
        self.evaluate, self.transform, self.collate = evaluate, transform, collate
        self.total, self.epoch_steps = config.total_steps(len(train)), config.steps_per_epoch(len(train))
        self.step, self.seconds, self.history, self.sums = 0, 0.0, History(), Totals()
        self.best: dict[str, Tensor] | None = None
        self.average: AveragedModel | None = None

    def prepare(
        self,
        optimizers: Sequence[Scheduled] | None,
        folder: Path | None,
        on_record: Callable[[History], None] | None,
    ) -> None:
        """Place the model, build what is not given, and refuse a folder that holds another training.

        Args:
            optimizers: Pairs of optimizer and schedule, or None.
            folder: Where checkpoints are kept, or None.
            on_record: Called after every evaluation, or None.
        """
        self.folder, self.on_record = folder, on_record
        self.where = Accelerated(self.config.precision) if self.config.accelerate else Here(self.model)
        if self.config.ema_decay is not None:
            self.average = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(self.config.ema_decay))
            self.average.to(self.where.device)
        pairs = list(optimizers) if optimizers is not None else self._build_optimizers()
        self.schedulers = [
            schedule if isinstance(schedule, LRScheduler) else LambdaLR(optimizer, schedule)
            for optimizer, schedule in pairs
        ]
        self.plain_optimizers = [optimizer for optimizer, _ in pairs]
        self.placed, self.optimizers = self.where.prepare(self.model, self.plain_optimizers)

    def train(self) -> None:
        """Go on to the end, or to the early stop, and give the model its final weights."""
        bar = tqdm(
            total=self.total,
            initial=self.step,
            desc="training",
            unit="step",
            disable=None if self.config.progress is None else not self.config.progress or self.where.rank > 0,
        )
        with bar, keeping_mode(self.model):
            self.model.train()
            started = time.monotonic() - self.seconds
            while self.step < self.total and not self._stopped():
                for batch in self._rest_of_epoch():
                    self._update(batch)
                    self.seconds = time.monotonic() - started
                    bar.update()
                    bar.set_postfix(loss=f"{self.history.losses[-1]:.4f}", refresh=False)
                    self._record_and_save()
                    if self.step >= self.total or self._stopped():
                        break
        self.where.release(self.model)
        self._finish()

    def _rest_of_epoch(self) -> Iterator[Any]:
        """Batches from the current step to the end of its epoch, each process its share of every batch."""
        epoch, offset = divmod(self.step, self.epoch_steps)
        lengths = getattr(self.data, "bucket_lengths", None)
        order = batches.epoch_order(len(self.data), self.config, epoch, lengths)[offset:]
        if self.where.world > 1:
            order = [batches.share_of(indices, self.where.rank, self.where.world) for indices in order]
        generator = batches.generator_for(self.config.seed, batches.WORKERS, epoch)
        return batches.read_batches(
            self.data, order, collate=self.collate, num_workers=self.config.num_workers, generator=generator
        )

    def _update(self, batch: Any) -> None:
        batch = batches.to_device(batch, self.where.device)
        if self.transform is not None:
            key = (self.config.seed, batches.AUGMENTATION, self.step, self.where.rank)
            batch = self.transform(batch, batches.generator_for(*key))
        loss, metrics = split_loss(self.loss(self.placed, batch))
        value = loss.item()
        if not math.isfinite(value):
            raise FloatingPointError(
                f"fit: expected a finite loss, got {value} at step {self.step + 1}; lower the learning rate, "
                "clip the gradients, or look for a division by zero in the loss."
            )
        self.placed.zero_grad(set_to_none=True)
        self.where.backward(loss)
        if self.config.clip_norm is not None:
            self.where.clip(self.placed, self.config.clip_norm)
        for optimizer, scheduler in zip(self.optimizers, self.schedulers, strict=True):
            optimizer.step()
            scheduler.step()
        self.step += 1
        if self.average is not None:
            self.average.update_parameters(self.model)
        self.history.losses.append(value)
        self.sums.add(value, metrics, batches.batch_length(batch))

    def _record_and_save(self) -> None:
        every = self.config.evaluate_every or self.epoch_steps
        recorded = self.step % every == 0 or self.step == self.total
        if recorded:
            self._record()
        due = recorded if self.config.checkpoint_every is None else self.step % self.config.checkpoint_every == 0
        if self.folder is not None and (due or self.step == self.total):
            self._save()
        if recorded and self.on_record is not None and self.where.rank == 0:
            self.on_record(self.history)

    def _record(self) -> None:
        """Add a row to the history and keep the weights if they are the best so far."""
        row: dict[str, float] = {"step": self.step, "epoch": round(self.step / self.epoch_steps, 4)}
        row["rate"] = float(self.schedulers[0].get_last_lr()[0])
        row |= {f"train_{name}": value for name, value in self.sums.means().items()}
        self.sums = Totals()
        judged = self.model if self.average is None else self.average.module
        with own_rng(self.where.device), eval_mode(judged), torch.no_grad():
            if self.val is not None:
                size = max(256, self.config.batch_size)
                figures = mean_loss(judged, self.val, self.loss, self.where.device, size, self.collate)
                row |= {f"val_{name}": value for name, value in figures.items()}
            if self.evaluate is not None:
                row |= {name: float(value) for name, value in self.evaluate(judged).items()}
        row["seconds"] = round(self.seconds, 2)
        monitor = self.config.monitor
        if monitor in row and self._improves(row[monitor]):
            self.best = {name: value.detach().clone() for name, value in judged.state_dict().items()}
            if self.folder is not None and self.where.rank == 0:
                save_checkpoint(self.folder / "best.pt", {"step": self.step, "row": row, "model": self.best})
        elif monitor not in row and (monitor != "val_loss" or self.config.patience is not None):
            raise ValueError(f"fit: expected monitor to be one of {', '.join(row)}, got {monitor!r}; name one of them.")
        self.history.rows.append(row)

    def _improves(self, value: float) -> bool:
        monitor = self.config.monitor
        past = [row[monitor] for row in self.history.rows if monitor in row]
        return not math.isnan(value) and all(is_better(monitor, value, old) for old in past)

    def _stopped(self) -> bool:
        rows = [row for row in self.history.rows if self.config.monitor in row]
        if self.config.patience is None or not rows:
            return False
        return len(rows) - 1 - rows.index(self.history.best(self.config.monitor)) >= self.config.patience

    def _finish(self) -> None:
        if self.config.keep_best and self.best is not None:
            self.model.load_state_dict(self.best)
        elif self.average is not None:
            self.model.load_state_dict(self.average.module.state_dict())

    def _build_optimizers(self) -> list[Scheduled]:
        config = self.config
        optimizers = make_optimizers(
            self.model,
            config.optimizer,
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=config.betas,
            muon_rate=config.muon_rate,
        )
        schedule = make_schedule(
            config.schedule, self.total, warmup=config.warmup_steps(self.total), floor=config.floor
        )
        return [(optimizer, schedule) for optimizer in optimizers]

    def _save(self) -> None:
        streams = self.where.gather(rng_state(self.where.device))
        if self.where.rank > 0:
            return
        state = {
            "step": self.step,
            "seconds": self.seconds,
            "config": self.config.as_dict(),
            "examples": len(self.data),
            "model": self.model.state_dict(),
            "average": None if self.average is None else self.average.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.plain_optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in self.schedulers],
            "placement": self.where.state_dict(),
            "streams": streams,
            "sums": self.sums.state_dict(),
            "history": self.history.state_dict(),
        }
        save_checkpoint(self.folder / "last.pt", state)
        self.history.write_csv(self.folder / "history.csv")

    def restore(self, resume: bool) -> None:
        """Go to where the last checkpoint stands, or refuse to begin anew on top of it.

        Args:
            resume: Whether the caller wants to go on.

        Raises:
            ValueError: If the folder holds a checkpoint and ``resume`` is off, or holds that of another training.
        """
        last = None if self.folder is None else self.folder / "last.pt"
        if last is None or not last.exists():
            return
        if not resume:
            raise ValueError(
                f"fit: expected a folder without a training, got {self.folder.absolute()}, which holds one; "
                "pass resume=True to go on with it, or choose another folder."
            )
        state = load_checkpoint(last)
        self._refuse_another_training(state)
        self.step, self.seconds = state["step"], state["seconds"]
        self.history, self.sums = History(**state["history"]), Totals(**state["sums"])
        self.model.load_state_dict(state["model"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        for optimizer, kept in zip(self.plain_optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(kept)
        for scheduler, kept in zip(self.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(kept)
        self.where.load_state_dict(state["placement"])
        if self.where.rank < len(state["streams"]):
            set_rng_state(state["streams"][self.where.rank], self.where.device)
        if any(not math.isnan(row.get(self.config.monitor, math.nan)) for row in self.history.rows):
            self.best = load_checkpoint(self.folder / "best.pt")["model"]

    def _refuse_another_training(self, state: dict[str, Any]) -> None:
        wanted = {**self.config.as_dict(), "examples": len(self.data), "optimizers": len(self.plain_optimizers)}
        kept = {**state["config"], "examples": state["examples"], "optimizers": len(state["optimizers"])}
        differ = [
            f"{name} {kept.get(name)!r} there, {wanted[name]!r} here"
            for name in wanted
            if kept.get(name) != wanted[name]
        ]
        shapes = {name: tuple(value.shape) for name, value in self.model.state_dict().items()}
        if shapes != {name: tuple(value.shape) for name, value in state["model"].items()}:
            differ.append("the model has other parameters")
        if differ:
            raise ValueError(
                f"fit: expected the training that {self.folder.absolute()} holds, got another one "
                f"({'; '.join(differ)}); resume with the settings it began with, or choose another folder."
            )
