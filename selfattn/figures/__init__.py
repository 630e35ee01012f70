"""Figures as text: pure functions from weights, curves and labels to HTML or SVG."""

from selfattn.figures.bars import bars, strip
from selfattn.figures.curves import curves
from selfattn.figures.frames import beside, captioned, frames
from selfattn.figures.heatmap import grid, heatmap
from selfattn.figures.sums import average, products

__all__ = [
    "average",
    "bars",
    "beside",
    "captioned",
    "curves",
    "frames",
    "grid",
    "heatmap",
    "products",
    "strip",
]
