"""Figures as text: pure functions from weights, curves and labels to HTML or SVG."""

from selfattn.figures.curves import curves
from selfattn.figures.heatmap import heatmap

__all__ = ["curves", "heatmap"]
