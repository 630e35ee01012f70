"""Sums taken apart, as tables: a weighted average of vectors, and a dot product term by term.

Each number has a bar that starts in the middle of its cell, to the right for plus and to the left
for minus. The figures add nothing up: they show the sums that they are given.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from selfattn.figures.bars import number, share, vector
from selfattn.figures.frames import ROLES
from selfattn.figures.heatmap import HIDDEN, table_of


def average(
    weights: Any,
    vectors: Any,
    output: Any,
    *,
    labels: Sequence[str],
    what: str = "vector",
    most: float,
    mask: Any = None,
) -> str:
    """Draw the vectors that are mixed, each with its weight, and what comes out below them.

    Args:
        weights: `[keys]`, between 0 and 1.
        vectors: `[keys, dim]`.
        output: `[dim]`, the sum of weights times vectors.
        labels: the tokens, one for each row.
        what: the name of the vectors; "value" has its colour.
        most: the size of entry whose bar is full.
        mask: boolean `[keys]`, True where the query must not look.

    Raises:
        ValueError: when a shape does not fit, or a number is too large for its bar.
    """
    role = f" {ROLES[what]}" if what in ROLES else ""
    shares = vector(weights, len(labels), "weights")
    out = vector(output, None, "output")
    rows = table_of(vectors, len(labels), len(out), "vectors")
    hidden = [False] * len(labels) if mask is None else vector(mask, len(labels), "mask")
    body = "\n".join(
        f'<tr><th scope="row">{escape(label)}</th>{_weight(w, bool(m))}{_cells(row, most)}</tr>'
        for label, w, m, row in zip(labels, shares, hidden, rows, strict=True)
    )
    return (
        f'<table class="sum{role}" aria-label="weights, {escape(what)}s and their average">\n'
        '<thead><tr><td></td><th scope="col">weight'
        f'</th><th scope="col" colspan="{len(out)}"><span>{escape(what)}</span></th></tr></thead>\n'
        f'<tbody>\n{body}\n</tbody>\n<tfoot><tr><th scope="row">average</th><td></td>'
        f"{_cells(out, most)}</tr></tfoot>\n</table>\n"
    )


def products(q: Any, k: Any, terms: Any, total: float, *, most: float) -> str:
    """Draw a dot product: a query's entries, a key's, their products, and the sum of these.

    Args:
        q: `[dim]`, the query.
        k: `[dim]`, the key.
        terms: `[dim]`, q times k, entry by entry.
        total: the sum of the terms.
        most: the size of number whose bar is full.

    Raises:
        ValueError: when a shape does not fit, or a number is too large for its bar.
    """
    dim = len(vector(q, None, "q"))
    columns = "".join(f'<th scope="col">{i}</th>' for i in range(1, dim + 1))
    lines = (
        ("query", ' class="q"', q),
        ("key", ' class="k"', k),
        ("product", "", terms),
    )
    body = "\n".join(
        f'<tr{role}><th scope="row">{name}</th>'
        f"{_cells(vector(entries, dim, name), most)}"
        f"{_cells([total], most) if name == 'product' else '<td></td>'}</tr>"
        for name, role, entries in lines
    )
    return (
        f'<table class="sum products" aria-label="the products of one score">\n'
        f'<thead><tr><td></td>{columns}<th scope="col">sum</th>'
        f"</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n"
    )


def _weight(weight: float, masked: bool) -> str:
    if masked:
        return f'<td class="masked">{HIDDEN.format("masked")}</td>'
    text = f"{share(weight, 1.0):.2f}"
    return f'<td class="weight" style="--w:{text}">{text}</td>'


def _cells(entries: Sequence[float], most: float) -> str:
    return "".join(
        f'<td class="{"minus" if entry < 0 else "plus"}" style="--w:{share(abs(entry), most):.2g}">'
        f"{number(entry, 2)}</td>"
        for entry in entries
    )
