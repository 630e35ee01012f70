"""What a page says about itself: its faults, and where its outputs and numbers come from."""

from collections.abc import Iterable
from html import escape

from selfattn.fresh.batch import Result
from selfattn.fresh.fault import Fault
from selfattn.fresh.prose import Source
from selfattn.fresh.run import Figure, Output
from selfattn.fresh.settings import Settings


def executed(html: str, anchor: str, output: Output, notes: Iterable[str]) -> str:
    """Put a rendered fence, its notes and its figures into one block that can be linked to."""
    below = "".join(f'<p class="fresh-note">{escape(note)}</p>' for note in notes)
    figures = "".join(map(placed, output.figures))
    return f'<div class="executed" id="{anchor}">{html}{below}{figures}</div>'


def placed(figure: Figure) -> str:
    """Put a figure on the page, named by its alternative text."""
    label = escape(figure.alt)
    return f'<div class="shown" role="group" aria-label="{label}">{figure.html}</div>'


def banner(faults: Iterable[Fault]) -> str:
    """Tell a reader of a page under `mkdocs serve` what is wrong with it."""
    return "".join(
        '<div class="admonition failure fresh-banner" role="alert">'
        f'<p class="admonition-title">{escape(f"{fault.path}:{fault.line}")}</p>'
        f"<pre><code>{escape(str(fault))}</code></pre></div>"
        for fault in faults
    )


def missing(result: Result, settings: Settings) -> str:
    """Say on the page that a script's output is the recorded one, and what would make it run."""
    hints = "; ".join(settings.needs[name].hint for name in result.missing)
    return f"Recorded earlier and not run in this build, which lacks {_list(result)}: {hints}."


def provenance(
    results: Iterable[Result],
    grounded: Iterable[tuple[str, Source]],
    shown: Iterable[str],
    corpus: str,
) -> str:
    """Make the end of a page: what ran, when and where, and which output each number is from.

    Args:
        results: of the page's scripts.
        grounded: the numbers of the prose as written, each with its source.
        shown: the script of each block of code that the page shows.
        corpus: the site's fingerprint.
    """
    scripts, claims = list(results), list(grounded)
    if not scripts and not claims:
        return ""
    outputs = [output for result in scripts for output in result.run.outputs.values()]
    ran = {result.snippet.name for result in scripts if not result.missing}
    blocks = sum(script in ran for script in shown)
    numbers = sum(source.script in ran or not source.script for _, source in claims)
    printed = sum(1 for output in outputs if output.text)
    figures = sum(len(output.figures) for output in outputs)
    rows = "".join(map(_row, scripts))
    where = f"<p>{escape(corpus)}</p>" if corpus else ""
    return (
        '<details class="provenance" data-search-exclude><summary>How this page was made</summary>'
        f"<p>{_count(blocks, 'block')} of code, {_count(printed, 'output')}, "
        f"{_count(figures, 'figure')} and {_count(numbers, 'number')} "
        "in the text were checked against a run.</p>"
        '<table class="provenance-scripts"><thead><tr><th>Script</th><th>Ran</th><th>With</th>'
        f"</tr></thead><tbody>{rows}</tbody></table>{where}{_numbers(claims)}</details>"
    )


def _numbers(claims: list[tuple[str, Source]]) -> str:
    """List the numbers under their sources: one link for each output, none for each number."""
    groups: dict[tuple[str, str], list[str]] = {}
    for text, source in claims:
        label = source.script and f"{source.script}, {source.section}"
        written = groups.setdefault((label or "settings of this page", source.anchor), [])
        if text not in written:
            written.append(text)
    if not groups:
        return ""
    items = "".join(
        f"<li>{_link(label, anchor)}: {escape(', '.join(written))}</li>"
        for (label, anchor), written in groups.items()
    )
    return f"<p>The numbers in the text, by the output that printed them:</p><ul>{items}</ul>"


def _link(label: str, anchor: str) -> str:
    return f'<a href="#{anchor}">{escape(label)}</a>' if anchor else escape(label)


def _row(result: Result) -> str:
    known = result.run.circumstances
    if known is None:
        ran, with_ = f"not here: needs {_list(result)}", ""
    else:
        versions = ", ".join(f"{name} {version}" for name, version in known.versions.items())
        ran, with_ = known.when, f"{versions}; {known.machine}"
    name = escape(result.snippet.name)
    return f"<tr><td>{name}</td><td>{escape(ran)}</td><td>{escape(with_)}</td></tr>"


def _list(result: Result) -> str:
    return ", ".join(result.missing)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
