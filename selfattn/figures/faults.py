"""Tables of faults by probes: every cell says its verdict in words, and how far an output moved.

The style sheet shows a dash for "not applicable" and a question mark for "cannot tell". Where
there is no room it shows each fault as a block: its name, then the probes that found it, each named
in its own cell. The roles keep it a table for screen readers there.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape

from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK, VERDICTS, Finding

SECTIONS = "probe-list.html#{}"
"""Where the site says what a probe does."""

CLASSES = {OK: "ok", FAULT: "fault", NOT_APPLICABLE: "not", CANNOT_TELL: "unknown"}
"""What the style sheet knows a verdict by."""


def faults_by_probes(rows: Mapping[str, Mapping[str, Finding]], caption: str) -> str:
    """Draw a row for each fault, and a column for each probe that finds one of them.

    Args:
        rows: by a fault's words, what every probe found, by the probe's name.
        caption: plain text below the table, and the table's name for screen readers.

    Returns:
        A `<figure>`. The last column counts what the probes without a column said.
    """
    names = list(next(iter(rows.values())))
    shown = [name for name in names if any(row[name].verdict == FAULT for row in rows.values())]
    rest = [name for name in names if name not in shown]
    body = {
        escape(what): [cell(row[name], named=True) for name in shown]
        + [f'<td class="rest">{_counts([row[name] for name in rest])}</td>']
        for what, row in rows.items()
    }
    return figure(["fault", *map(link, shown), f"the other {len(rest)}"], body, caption)


def figure(head: Sequence[str], rows: Mapping[str, Sequence[str]], caption: str) -> str:
    """Put column headers and rows, by their headers, into a table with a caption; all HTML."""
    columns = "".join(f'<th scope="col" role="columnheader">{words}</th>' for words in head)
    body = "\n".join(
        f'<tr role="row"><th scope="row" role="rowheader">{what}</th>{_with_roles(cells)}</tr>'
        for what, cells in rows.items()
    )
    return (
        '<figure class="faults">\n'
        f'<table class="faults" role="table" aria-label="{escape(caption)}">\n'
        f'<thead role="rowgroup"><tr role="row">{columns}</tr></thead>\n'
        f'<tbody role="rowgroup">\n{body}\n</tbody>\n'
        f"</table>\n<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def link(name: str) -> str:
    """Link a probe's name to its section."""
    return f'<a href="{SECTIONS.format(name)}">{name}</a>'


def cell(finding: Finding, *, named: bool = False) -> str:
    """Draw the cell of one finding: its verdict, and of a fault how far the output moved.

    Args:
        finding: what the probe found.
        named: whether a fault's cell names its probe, for where column headers are not shown.
    """
    if finding.verdict != FAULT:
        return _words(finding.verdict, "td")
    value = math.nan if finding.moved is None else finding.moved
    # What is only rounding differs between processors.
    words = "under 0.0001" if 0 < value < 1e-4 else f"{float(f'{value:.2g}'):,.10g}"
    return f'<td class="fault">{link(finding.name) if named else ""}<b>fault</b> {words}</td>'


def _with_roles(cells: Sequence[str]) -> str:
    return "".join(cells).replace("<td", '<td role="cell"')


def _counts(findings: Sequence[Finding]) -> str:
    counts = Counter(finding.verdict for finding in findings)
    return ", ".join(
        f"{counts[verdict]}\N{NO-BREAK SPACE}{_words(verdict, 'span')}"
        for verdict in VERDICTS
        if counts[verdict]
    )


def _words(verdict: str, tag: str) -> str:
    return f'<{tag} class="{CLASSES[verdict]}"><span>{verdict}</span></{tag}>'
