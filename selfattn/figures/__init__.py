"""Figures as text: pure functions from numbers and labels to HTML or SVG."""

from selfattn.figures.bars import bars, strip
from selfattn.figures.curves import curves
from selfattn.figures.frames import beside, captioned, frames
from selfattn.figures.heatmap import grid, heatmap
from selfattn.figures.loglog import fitted, loglog
from selfattn.figures.shapes import calculator, lined_up, verdict
from selfattn.figures.sums import average, products

__all__ = [
    "average",
    "bars",
    "beside",
    "calculator",
    "captioned",
    "curves",
    "fitted",
    "frames",
    "grid",
    "heatmap",
    "lined_up",
    "loglog",
    "products",
    "strip",
    "verdict",
]
