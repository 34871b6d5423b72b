"""Where a training runs: in this process on the model's own device, or wherever accelerate places it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Here:
    """This process and the device on which the model already is.

    Args:
        model: Model to train.
    """

    rank, world = 0, 1

    def __init__(self, model: nn.Module) -> None:
        self.device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))

    def prepare(
        self, model: nn.Module, optimizers: list[torch.optim.Optimizer]
    ) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
        """Give model and optimizers back as they are.

        Args:
            model: Model to train.
            optimizers: Its optimizers.

        Returns:
            Both.
        """
        return model, optimizers

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients.

        Args:
            loss: Scalar to differentiate.
        """
        loss.backward()

    def clip(self, model: nn.Module, norm: float) -> None:
        """Shorten the whole gradient to a norm.

        Args:
            model: Model with its gradients.
            norm: Largest norm that is left.
        """
        nn.utils.clip_grad_norm_(model.parameters(), norm)

    def release(self, model: nn.Module) -> None:
        """Take away what placing it added to the model.

        Args:
            model: The model, not its wrapper.
        """

    def state_dict(self) -> dict[str, Any]:
        """State that a checkpoint must keep, as plain values."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the state of a checkpoint.

        Args:
            state: What :meth:`state_dict` gave.
        """

    def gather(self, value: Any) -> list[Any]:
        """Collect a value from every process.

        Args:
            value: Plain value of this process.

        Returns:
            One value per process.
        """
        return [value]


class Accelerated(Here):
    """Devices, precision and processes as accelerate finds them, for instance under torchrun.

    Args:
        precision: "no", "fp16" or "bf16".

    Raises:
        ImportError: If the package accelerate is not installed.
    """

    def __init__(self, precision: str = "no") -> None:
        try:
            from accelerate import Accelerator
        except ImportError as problem:
            raise ImportError(
                "fit: accelerate=True needs the package accelerate: pip install 'cs_transformers[train]', "
                "or leave accelerate off to train in this process."
            ) from problem
        self.accelerator = Accelerator(mixed_precision=precision)
        self.device = self.accelerator.device
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes

    def prepare(
        self, model: nn.Module, optimizers: list[torch.optim.Optimizer]
    ) -> tuple[nn.Module, list[torch.optim.Optimizer]]:
        """Move the model and wrap it and its optimizers for precision and processes.

        Args:
            model: Model to train.
            optimizers: Its optimizers.

        Returns:
            Both, prepared.
        """
        model, *optimizers = self.accelerator.prepare(model, *optimizers)
        return model, list(optimizers)

    def backward(self, loss: Tensor) -> None:
        """Compute the gradients, scaled where the precision needs it.

        Args:
            loss: Scalar to differentiate.
        """
        self.accelerator.backward(loss)

    def clip(self, model: nn.Module, norm: float) -> None:
        """Shorten the whole gradient to a norm, after undoing its scale.

        Args:
            model: Model with its gradients.
            norm: Largest norm that is left.
        """
        self.accelerator.clip_grad_norm_(model.parameters(), norm)

    def release(self, model: nn.Module) -> None:
        """Take the casts of mixed precision off the model's forward.

        Args:
            model: The model, not its wrapper.
        """
        self.accelerator.unwrap_model(model, keep_fp32_wrapper=False)
        vars(model).pop("forward", None)

    def state_dict(self) -> dict[str, Any]:
        """The scale of the gradients where the precision has one."""
        scaler = self.accelerator.scaler
        return {} if scaler is None else scaler.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take the scale of the gradients from a checkpoint.

        Args:
            state: What :meth:`state_dict` gave.
        """
        if state:
            self.accelerator.scaler.load_state_dict(state)

    def gather(self, value: Any) -> list[Any]:
        """Collect a value from every process.

        Args:
            value: Plain value of this process.

        Returns:
            One value per process, in the order of their ranks.
        """
        from accelerate.utils import gather_object

        return gather_object([value])
