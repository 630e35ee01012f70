"""A table of attention weights as an HTML figure: coloured, selectable, and read aloud in full.

The cells carry their weight as the CSS variable `--w`; the site's stylesheet turns it into a
colour for the reader's theme. Nothing here imports torch: anything with `.tolist()` will do.
"""

import math
from collections.abc import Sequence
from html import escape
from typing import Any

HIDDEN = '<span class="sr">{}</span>'


def heatmap(
    weights: Any,
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    caption: str,
    mask: Any = None,
    digits: int = 2,
    compact: bool = False,
) -> str:
    """Draw weights as a `<figure>` with a table: a row for each query, a column for each key.

    Args:
        weights: `[queries, keys]`, after the softmax: each between 0 and 1, or nan.
        queries: the row headers.
        keys: the column headers.
        caption: plain text below the table; it says what a row sums to.
        mask: boolean `[queries, keys]`, True where the query must not look at the key.
        digits: decimals shown in a cell.
        compact: small cells for many keys, with the numbers for screen readers only.

    Raises:
        ValueError: when a shape does not fit the labels, a weight is outside 0 to 1, or a masked
            cell has a weight.
    """
    return (
        f'<figure class="heat{" compact" if compact else ""}">\n'
        + grid(
            weights,
            queries=queries,
            keys=keys,
            label=caption,
            mask=mask,
            digits=digits,
            compact=compact,
        )
        + f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def grid(
    weights: Any,
    *,
    queries: Sequence[str],
    keys: Sequence[str],
    label: str,
    mask: Any = None,
    digits: int = 2,
    compact: bool = False,
    current: int | None = None,
) -> str:
    """Draw the table of a heatmap alone, in a box that scrolls: a part of a larger figure.

    Takes and raises what `heatmap` does, but for `label`, the table's name for screen readers,
    and `current`, the row that is marked.
    """
    rows = table_of(weights, len(queries), len(keys), "weights")
    hidden = _masked(mask, rows, len(queries), len(keys))
    for i, row in enumerate(rows):
        for j, weight in enumerate(row):
            _check_weight(weight, hidden[i][j], i, j)
    head = "".join(f'<th scope="col"><span>{escape(key)}</span></th>' for key in keys)
    mark = {current: ' class="current"'}
    body = "\n".join(
        f'<tr{mark.get(i, "")}><th scope="row">{escape(query)}</th>'
        f"{_cells(row, blocked, digits, compact)}</tr>"
        for i, (query, row, blocked) in enumerate(zip(queries, rows, hidden, strict=True))
    )
    return (
        '<div class="heat-scroll" tabindex="0">\n'
        f'<table class="heatmap" aria-label="{escape(label)}">\n'
        f'<thead><tr><td><span class="k">{HIDDEN.format("columns: ")}keys</span> '
        f'<span class="q">{HIDDEN.format("rows: ")}queries</span></td>'
        f"{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
    )


def table_of(values: Any, rows: int, columns: int, what: str) -> list[list[Any]]:
    """Turn a tensor, an array or nested lists into lists, and check them against the labels.

    Raises:
        ValueError: when `values` is not 2-D with shape `[rows, columns]`.
    """
    table = values.tolist() if hasattr(values, "tolist") else values
    shape = _shape(table)
    if shape != [rows, columns]:
        raise ValueError(
            f"{what} must have shape [queries, keys] = [{rows}, {columns}], one row for each query "
            f"label and one column for each key label; got {shape}. Pick one sequence of the "
            "batch, and cut the labels to the same tokens."
        )
    return [list(row) for row in table]


def _shape(table: Any) -> list[int | str]:
    if not isinstance(table, list | tuple):
        return []
    below = [_shape(row) for row in table]
    if any(shape != below[0] for shape in below):
        return [len(table), "rows of different lengths"]
    return [len(table), *(below[0] if below else [])]


def _masked(mask: Any, rows: list[list[Any]], queries: int, keys: int) -> list[list[Any]]:
    if mask is None:
        return [[False] * keys for _ in rows]
    return table_of(mask, queries, keys, "mask")


def _check_weight(weight: float, masked: bool, i: int, j: int) -> None:
    if math.isnan(weight):
        return
    if not -1e-6 <= weight <= 1 + 1e-6:
        raise ValueError(
            f"weights must be between 0 and 1; got {weight!r} in row {i}, column {j}. "
            "Pass the weights after the softmax, not the scores."
        )
    if masked and weight != 0:
        raise ValueError(
            f"a masked weight must be 0; got {weight!r} in row {i}, column {j}. "
            "Pass the mask with which these weights were made, or none."
        )


def _cells(row: list[float], masked: list[bool], digits: int, compact: bool) -> str:
    return "".join(
        _cell(weight, blocked, digits, compact) for weight, blocked in zip(row, masked, strict=True)
    )


def _cell(weight: float, masked: bool, digits: int, compact: bool) -> str:
    if math.isnan(weight):
        return f'<td class="nan">{HIDDEN.format("nan") if compact else "nan"}</td>'
    if masked:
        return f'<td class="masked">{HIDDEN.format("masked")}</td>'
    text = f"{abs(weight):.{digits}f}"
    return f'<td style="--w:{text}">{HIDDEN.format(text) if compact else text}</td>'
