"""Heatmaps side by side as one SVG, for places that show an image and no style sheet.

The same input gives the same bytes. The picture brings its own paper, so it reads alike on a
light and on a dark page.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from selfattn.figures.heatmap import table_of

Panel = tuple[str, Any, Sequence[str], Sequence[str]]
"""A title, weights `[queries, keys]`, the query labels and the key labels."""

CELL = 48
LABELS = 64
TOP = 74
GAP = 36
MARGIN = 20

_PAPER, _INK, _MUTED = "#fbfaf6", "#1f2430", "#5b6270"
_QUERY, _KEY = "#0b5cad", "#a63d00"
_PALE, _DEEP = (0xF4, 0xED, 0xFB), (0x4A, 0x0F, 0x7D)


def svg(panels: Sequence[Panel]) -> str:
    """Draw panels side by side, each a grid of weights with labels and a title above it.

    Raises:
        ValueError: when there is no panel, or a shape does not fit its labels.
    """
    if not panels:
        raise ValueError("svg needs at least one panel (title, weights, queries, keys); got none")
    parts, left, height = [], MARGIN, 0
    for title, weights, queries, keys in panels:
        rows = table_of(weights, len(queries), len(keys), "weights")
        parts.append(f'<g transform="translate({left} {MARGIN})">')
        parts += _panel(title, rows, queries, keys)
        parts.append("</g>")
        left += LABELS + CELL * len(keys) + GAP
        height = max(height, TOP + CELL * len(queries))
    width, height = left - GAP + MARGIN, height + 2 * MARGIN
    name = escape("; ".join(title for title, *_ in panels))
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" '
            f'width="{width}" height="{height}" '
            'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="14">',
            f"<title>{name}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{_PAPER}"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(
    title: str, rows: list[list[float]], queries: Sequence[str], keys: Sequence[str]
) -> list[str]:
    parts = [
        _text(LABELS, 16, title, _INK, 'font-weight="600" font-size="16"'),
        _text(LABELS - 10, TOP - 26, "keys \u2192", _KEY, 'text-anchor="end" font-size="12"'),
        _text(LABELS - 10, TOP - 9, "queries \u2193", _QUERY, 'text-anchor="end" font-size="12"'),
    ]
    for j, key in enumerate(keys):
        x = LABELS + CELL * j + CELL // 2
        parts.append(
            _text(x, TOP - 9, key, _KEY, 'text-anchor="middle" font-weight="600" font-size="13"')
        )
    for i, (query, row) in enumerate(zip(queries, rows, strict=True)):
        y = TOP + CELL * i
        bold = 'text-anchor="end" font-weight="600"'
        parts.append(_text(LABELS - 10, y + CELL // 2 + 5, query, _QUERY, bold))
        parts += [_cell(LABELS + CELL * j, y, weight) for j, weight in enumerate(row)]
    return parts


def _cell(x: int, y: int, weight: float) -> str:
    fill, ink, word = _PAPER, _MUTED, "nan"
    if not math.isnan(weight):
        red, green, blue = _shade(weight)
        fill, word = f"#{red:02x}{green:02x}{blue:02x}", f"{abs(weight):.2f}"
        ink = "#000000" if _luminance((red, green, blue)) > 0.179 else "#ffffff"
    return (
        f'<rect x="{x}" y="{y}" width="{CELL - 2}" height="{CELL - 2}" rx="3" fill="{fill}"/>'
        + _text(x + CELL // 2 - 1, y + CELL // 2 + 4, word, ink, 'text-anchor="middle"')
    )


def _text(x: int, y: int, words: str, fill: str, more: str) -> str:
    return f'<text x="{x}" y="{y}" fill="{fill}" {more}>{escape(words)}</text>'


def _shade(weight: float) -> tuple[int, int, int]:
    share = min(1.0, max(0.0, weight))
    mixed = [round(a + (b - a) * share) for a, b in zip(_PALE, _DEEP, strict=True)]
    return mixed[0], mixed[1], mixed[2]


def _luminance(colour: tuple[int, int, int]) -> float:
    """Relative luminance; black and white text read equally well on a colour of 0.179."""

    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)

    red, green, blue = map(linear, colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
