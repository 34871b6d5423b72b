"""Pictures of the course: attention maps, positions, masks, curves, captions, patches."""

from cs_transformers.plots.style import use_style

__all__ = ["use_style"]
