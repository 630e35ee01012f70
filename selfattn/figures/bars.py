"""Numbers as bars: tables with a bar beside each number, and rows of upright bars.

A bar's length is the CSS variable `--w`, between 0 and 1; the site's stylesheet draws it.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from selfattn.figures.heatmap import HIDDEN


def bars(
    values: Any,
    *,
    labels: Sequence[str],
    head: str,
    name: str = "",
    digits: int = 4,
    most: float = 1.0,
) -> str:
    """Draw a table with a row for each label: its number, and a bar.

    Args:
        values: `[labels]`, none negative; anything with `.tolist()`, or a sequence.
        labels: the row headers.
        head: what the numbers are: the heading of their column.
        name: the table's name for screen readers, where the heading alone does not tell it from
            its neighbours.
        digits: decimals shown.
        most: the value whose bar is full.

    Raises:
        ValueError: when there is not one value for each label, or one is below 0 or above `most`.
    """
    rows = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th>{_bar(value, digits, most)}</tr>'
        for label, value in zip(labels, vector(values, len(labels), "values"), strict=True)
    )
    return (
        f'<table class="bars" aria-label="{escape(name or head)}">\n'
        f'<thead><tr><td></td><th scope="col">{escape(head)}</th></tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody>\n</table>\n"
    )


def strip(values: Any, *, head: str, most: float = 1.0) -> str:
    """Draw numbers between 0 and `most` as upright bars in a row; the numbers are read aloud.

    Args:
        values: `[n]`, anything with `.tolist()` or a sequence.
        head: what the numbers are, in words above them.
        most: the value whose bar is full.

    Raises:
        ValueError: when a value is below 0 or above `most`.
    """
    items = "".join(
        f'<li style="--w:{share(value, most):.3g}">{HIDDEN.format(number(value, 4))}</li>'
        for value in vector(values, None, "values")
    )
    return (
        f'<p class="head">{escape(head)}</p>\n'
        f'<ol class="strip" aria-label="{escape(head)}">{items}</ol>\n'
    )


def number(value: float, digits: int) -> str:
    """Write a number with a minus sign that screen readers read, and no minus before a zero."""
    text = f"{value:,.{digits}f}"
    return text.replace("-", "\u2212") if text.strip("-0.,") else text.removeprefix("-")


def share(value: float, most: float) -> float:
    """Measure a value by the largest that can be shown.

    Raises:
        ValueError: when it is below 0 or above `most`.
    """
    if not -1e-6 * most <= value <= most * (1 + 1e-6):
        raise ValueError(f"a bar must be between 0 and {most}; got {value!r}. Pass a larger most=.")
    return min(max(value / most, 0.0), 1.0)


def vector(values: Any, length: int | None, what: str) -> list[float]:
    """Turn a tensor, an array or a sequence into a list of numbers, and check its length.

    Raises:
        ValueError: when it is not 1-D with that length.
    """
    listed = values.tolist() if hasattr(values, "tolist") else list(values)
    if not isinstance(listed, list) or any(isinstance(entry, list) for entry in listed):
        raise ValueError(f"{what} must have one dimension; got {listed!r}")
    if length is not None and len(listed) != length:
        raise ValueError(f"{what} must have {length} entries; got {len(listed)}")
    return listed


def _bar(value: float, digits: int, most: float) -> str:
    if math.isnan(value):
        return '<td class="nan">nan</td>'
    return f'<td style="--w:{share(value, most):.3g}">{number(value, digits)}</td>'
