"""Tables of faults by probes: every cell says its verdict in words, and how far an output moved."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from selfattn.probes.report import FAULT, VERDICTS, Finding

SECTIONS = "probe-list.html#{}"
"""Where the site says what a probe does."""


def faults_by_probes(rows: Mapping[str, Mapping[str, Finding]], caption: str) -> str:
    """Draw a row for each fault, and a column for each probe that finds one of them.

    Args:
        rows: by a fault's words, what every probe found, by the probe's name.
        caption: plain text below the table, and the name of its box for screen readers.

    Returns:
        A `<figure>`. The last column counts what the probes without a column said.
    """
    names = list(next(iter(rows.values())))
    shown = [name for name in names if any(row[name].verdict == FAULT for row in rows.values())]
    rest = [name for name in names if name not in shown]
    body = {
        escape(what): [cell(row[name]) for name in shown]
        + [f"<td>{_counts([row[name] for name in rest])}</td>"]
        for what, row in rows.items()
    }
    return figure(["fault", *map(link, shown), f"the other {len(rest)}"], body, caption)


def figure(head: Sequence[str], rows: Mapping[str, Sequence[str]], caption: str) -> str:
    """Put column headers and rows, by their headers, into a box that scrolls; all HTML."""
    columns = "".join(f'<th scope="col">{words}</th>' for words in head)
    body = "\n".join(
        f'<tr><th scope="row">{what}</th>{"".join(cells)}</tr>' for what, cells in rows.items()
    )
    return (
        '<figure class="faults">\n'
        '<div class="faults-scroll" tabindex="0">\n'
        f'<table class="faults" aria-label="{escape(caption)}">\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        f"</table>\n</div>\n<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def link(name: str) -> str:
    """Link a probe's name to its section."""
    return f'<a href="{SECTIONS.format(name)}">{name}</a>'


def cell(finding: Finding) -> str:
    """Draw the cell of one finding: its verdict, and of a fault how far the output moved."""
    if finding.verdict != FAULT:
        return f"<td>{finding.verdict}</td>"
    value = math.nan if finding.moved is None else finding.moved
    # What is only rounding differs between processors.
    words = "under 0.0001" if 0 < value < 1e-4 else f"{float(f'{value:.2g}'):,.10g}"
    return f'<td class="fault"><b>fault</b> {words}</td>'


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
