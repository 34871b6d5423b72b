"""What a check function works with: inputs and weights from names and shapes, parts, and the arrays it records.

This file runs in the worker, in the same process as a student's code. It knows no expected value; whatever it says is
judged outside.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import math
import os
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

N, T, S, H, K, D, FFN = 3, 4, 5, 2, 6, 12, 20
MESSAGE_LIMIT = 1500
CHECKS: dict[str, Callable[[Probe], None]] = {}
_grad = torch.autograd.grad  # kept here: an exercise may forbid it to answers


class ForbiddenCallError(RuntimeError):
    """Raised in place of a function that an exercise may not call."""


class Probe:
    """Inputs for a check function, and the record of what the code under test did with them.

    Args:
        seed: Seed of every input and weight.
        arrays: Arrays handed to the check (trained weights, say).
        tree: Folder of the package under test; errors are located relative to it.
    """

    def __init__(self, seed: int, arrays: dict[str, np.ndarray] | None = None, tree: str = "") -> None:
        self.seed, self.given, self.tree = seed, arrays or {}, tree
        self.errors: list[dict[str, Any]] = []
        self._arrays: dict[str, np.ndarray] = {}
        self._kinds: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._part = ""
        self._factor = False

    # ---- inputs -----------------------------------------------------------------------------------------------

    def random(self, name: str) -> np.random.RandomState:
        """A generator that depends on the seed and a name only (numpy has frozen its stream).

        Args:
            name: Name of what is drawn.
        """
        return np.random.RandomState([self.seed & 0xFFFFFFFF, zlib.crc32(name.encode())])

    def tensor(self, name: str, *shape: int, scale: float = 1.0) -> Tensor:
        """A float64 leaf tensor of standard normal entries that asks for gradients.

        Args:
            name: Name of the input.
            *shape: Its sizes.
            scale: Its standard deviation.
        """
        values = self.random(name).standard_normal(shape) * scale
        return torch.from_numpy(np.asarray(values)).requires_grad_()

    def integers(self, name: str, *shape: int, low: int = 0, high: int) -> Tensor:
        """An int64 tensor of entries in [low, high).

        Args:
            name: Name of the input.
            *shape: Its sizes.
            low: Smallest entry.
            high: Bound of the entries.
        """
        return torch.from_numpy(np.asarray(self.random(name).randint(low, high, shape), dtype=np.int64))

    def mask(self, name: str, *shape: int) -> Tensor:
        """A bool tensor, True = may attend: every row keeps its first place, every second one loses its last.

        Args:
            name: Name of the mask.
            *shape: Its sizes, keys last.
        """
        values = self.random(name).random_sample(shape) < 0.6
        values[..., 0] = True
        values[..., -1] = np.arange(values[..., -1].size).reshape(shape[:-1]) % 2 == 0
        return torch.from_numpy(values)

    def fill(self, module: nn.Module) -> nn.Module:
        """Give a module, in eval mode, float64 weights that depend on each parameter's name and shape alone.

        Args:
            module: The module under test.
        """
        module = module.double()
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                values = self.random(name).standard_normal(tuple(parameter.shape))
                if parameter.dim() > 1:
                    values = values / math.sqrt(parameter.shape[-1])
                else:
                    values = 0.3 * values + (1.0 if "norm" in name and name.endswith("weight") else 0.0)
                parameter.copy_(torch.from_numpy(np.asarray(values)))
        return module.eval()

    # ---- parts and records ------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        """One part of a check, called ``stage`` or ``stage: what``; an error ends the part, not the check.

        Args:
            name: The part, as the registry writes it.
        """
        outer, self._part = self._part, name
        try:
            yield
        except BaseException as error:
            self.errors.append(self._describe(error))
        finally:
            self._part, self._factor = outer, False

    def record(self, name: str, value: Any) -> Any:
        """Keep a result (tensor, array, number, bool or text) under the current part; returns it.

        Args:
            name: Name within the part.
            value: The result.
        """
        key = f"{self._part}/{name}"
        self._kinds[key] = kind_of(value)
        if isinstance(value, str):
            self._texts[key] = value[:MESSAGE_LIMIT]
        elif isinstance(value, (Tensor, np.ndarray, np.generic, bool, int, float)):
            self._arrays[key] = as_array(value)
        return value

    def gradients(self, output: Any, inputs: dict[str, Tensor] | nn.Module | None = None, **more: Tensor) -> None:
        """Record the gradient of a fixed weighted sum of an output for every input or parameter.

        Args:
            output: A result of the code under test.
            inputs: Tensors by name, or a module whose parameters count.
            **more: Further tensors.
        """
        named = dict(inputs.named_parameters()) if isinstance(inputs, nn.Module) else dict(inputs or {})
        named.update(more)
        upstream = self.tensor("upstream", *output.shape).detach().to(output.dtype)
        total = (output * upstream).sum()
        found = [None] * len(named)
        if total.requires_grad:
            found = list(_grad(total, list(named.values()), allow_unused=True))
        for (name, tensor), gradient in zip(named.items(), found, strict=True):
            self.record(f"gradient of {name}", torch.zeros_like(tensor) if gradient is None else gradient)

    def dropout_as_factor(self) -> None:
        """For the rest of this part dropout multiplies by a fixed factor that depends on the position and on p."""
        self._factor = True

    # ---- the worker's side ------------------------------------------------------------------------------------

    def prepare(self, forbidden: list[str]) -> None:
        """Put this probe's dropout and the guards of forbidden functions in place, before any answer is imported.

        Args:
            forbidden: Dotted names of torch.
        """
        plain = F.dropout

        @functools.wraps(plain)
        def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
            if not self._factor:
                return plain(input, p, training, inplace)
            return input * position_factor(input, p) if training and p > 0 else input * 1.0

        F.dropout = dropout
        torch.dropout = lambda input, p, train: dropout(input, p, train)
        for dotted in forbidden:
            _guard(dotted)
        torch.manual_seed(self.seed)

    def answer(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Everything recorded: a head of plain values and the arrays."""
        return {"errors": self.errors[:50], "kinds": self._kinds, "texts": self._texts}, self._arrays

    def _describe(self, error: BaseException) -> dict[str, Any]:
        file, line = "", 0
        traceback = error.__traceback__
        while traceback is not None:
            name = traceback.tb_frame.f_code.co_filename
            if self.tree and name.startswith(self.tree) and f"{os.sep}checks{os.sep}" not in name:
                file, line = os.path.relpath(name, self.tree).replace(os.sep, "/"), traceback.tb_lineno
            traceback = traceback.tb_next
        if isinstance(error, SyntaxError) and error.filename and error.filename.startswith(self.tree):
            file, line = os.path.relpath(error.filename, self.tree).replace(os.sep, "/"), error.lineno or 0
        try:
            message = str(error)[:MESSAGE_LIMIT]
        except Exception:
            message = ""
        names = [kind.__name__ for kind in type(error).__mro__][:-1]
        return {"part": self._part, "type": names[0], "bases": names, "message": message, "file": file, "line": line}


def check(name: str) -> Callable[[Callable[[Probe], None]], Callable[[Probe], None]]:
    """Make a function the check of an exercise.

    Args:
        name: The exercise, ``1.6``, or another name under which a job asks for the function.
    """

    def register(function: Callable[[Probe], None]) -> Callable[[Probe], None]:
        CHECKS[name] = function
        return function

    return register


def position_factor(tensor: Tensor, p: float) -> Tensor:
    """A factor near 1 for each entry of a tensor, fixed by its position and by p.

    Args:
        tensor: What dropout would act on.
        p: Its probability.
    """
    places = torch.arange(tensor.numel(), dtype=torch.float64, device=tensor.device)
    return (1 + p * torch.cos(0.7 * places + 0.3)).reshape(tensor.shape).to(tensor.dtype)


def kind_of(value: Any) -> str:
    """What a value is, in words that are the same everywhere: ``torch.float64 tensor``, ``NoneType``.

    Args:
        value: Any value.
    """
    if isinstance(value, Tensor):
        return f"{value.dtype} tensor".replace("torch.", "")
    if isinstance(value, np.ndarray):
        return f"{value.dtype.name} array"
    return type(value).__name__


def as_array(value: Any) -> np.ndarray:
    """The plain numpy array of a value; a tensor on meta has only a shape and gives zeros.

    Args:
        value: A tensor, an array or a number.
    """
    if not isinstance(value, Tensor):
        return np.asarray(value)
    if value.device.type == "meta":
        return np.zeros(tuple(value.shape), dtype=bool)
    value = torch.Tensor.detach(value).cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy().copy()


def _guard(dotted: str) -> None:
    """Replace a function or class of torch by one that raises ForbiddenCallError."""
    path, _, name = dotted.rpartition(".")
    if not path:
        return  # a function of the course: its source is looked at, and other code may call it
    try:
        owner = importlib.import_module(path)
    except ImportError:
        head, _, last = path.rpartition(".")
        owner = getattr(importlib.import_module(head), last, None)
    if owner is not None and hasattr(owner, name):
        setattr(owner, name, _forbidden(dotted))


def _forbidden(dotted: str) -> Callable[..., Any]:
    def refuse(*_args: Any, **_kwargs: Any) -> Any:
        raise ForbiddenCallError(dotted)

    return refuse
