"""Figures as text: pure functions from weights and labels to HTML or SVG."""

from selfattn.figures.bars import bars, strip
from selfattn.figures.frames import beside, captioned, frames
from selfattn.figures.heatmap import grid, heatmap
from selfattn.figures.sums import average, products

__all__ = [
    "average",
    "bars",
    "beside",
    "captioned",
    "frames",
    "grid",
    "heatmap",
    "products",
    "strip",
]
