"""One look for every picture: readable for colour-blind people and on a dark page."""

from __future__ import annotations

import matplotlib as mpl

# Okabe and Ito (2008): eight colours that stay apart under every common form of colour blindness.
COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7", "#F0E442", "#000000"]
SEQUENTIAL = "cividis"  # magnitudes
DIVERGING = "PuOr"  # signed values, white at zero
MARKERS = "osD^v*"  # shapes beside the colours, so that curves can be told apart without them


def use_style() -> None:
    """Set matplotlib's defaults for the course; the background is opaque, so a dark page does not swallow the axes."""
    mpl.rcParams.update(
        {
            "axes.prop_cycle": mpl.cycler(color=COLOURS),
            "image.cmap": SEQUENTIAL,
            "figure.facecolor": "white",
            "savefig.facecolor": "white",
            "figure.dpi": 80,
            "figure.constrained_layout.use": True,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "font.size": 10,
        }
    )
