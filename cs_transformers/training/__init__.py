"""Training: one loop for every task, schedules, checkpoints, metrics and recipes."""

from cs_transformers.training.config import FitConfig
from cs_transformers.training.history import History
from cs_transformers.training.loop import evaluate_loss, fit
from cs_transformers.training.losses import captioning_loss, classification_loss
from cs_transformers.training.solvers import CaptioningSolverTransformer, ClassificationSolverViT

__all__ = [
    "CaptioningSolverTransformer",
    "ClassificationSolverViT",
    "FitConfig",
    "History",
    "captioning_loss",
    "classification_loss",
    "evaluate_loss",
    "fit",
]
