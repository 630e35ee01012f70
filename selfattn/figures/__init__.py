"""Figures as text: pure functions from weights and labels to HTML or SVG."""

from selfattn.figures.heatmap import heatmap

__all__ = ["heatmap"]
