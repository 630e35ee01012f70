"""The verdict on a script, one for the pages, for pytest and for the command line."""

from dataclasses import replace
from pathlib import Path

from selfattn.fresh import compare
from selfattn.fresh.batch import Result
from selfattn.fresh.fault import UPDATE, Fault
from selfattn.fresh.page import fences
from selfattn.fresh.snippet import Snippet


def judge(result: Result, page: str = "", *, recorded_is_fault: bool = False) -> Fault | None:
    """Say what is wrong with a script, if anything is.

    Args:
        result: of the script.
        page: the page that shows it, for the message.
        recorded_is_fault: whether a script that could not run for want of something is at fault.
    """
    snippet, run = result.snippet, result.run
    if run.fault:
        return replace(run.fault, page=page)
    if result.missing:
        known = snippet.recorded is not None and not recorded_is_fault
        return None if known else _missing(result, page)
    command = f"`{UPDATE} {snippet.path}`"
    if snippet.recorded is None:
        message = f"has no recorded output yet; {command} records it"
        return Fault(snippet.path, snippet.recorded_line, message, page=page, detail=run.text)
    if compare.same(snippet.recorded, run.text):
        return None
    line = snippet.recorded_line + compare.first_change(snippet.recorded, run.text)
    return Fault(
        snippet.path,
        line,
        f"printed something else than it records; {command} records the new output",
        page=page,
        detail=compare.diff(snippet.recorded, run.text, str(snippet.path)),
    )


def _missing(result: Result, page: str) -> Fault:
    names = ", ".join(result.missing)
    known = "its recorded output was not checked"
    if result.snippet.recorded is None:
        known = "no output was ever recorded"
    message = f"could not run, as it needs {names}; {known}"
    return Fault(result.snippet.path, 1, message, page=page)


def order_faults(snippet: Snippet, shown: list[tuple[Path, int, str]]) -> list[Fault]:
    """Find what is wrong with how pages show a script: each section once, on one page, in order.

    Args:
        snippet: the script.
        shown: page, line and section of every block that shows it, in the order of the pages.
    """
    faults = []
    names = [section.name for section in snippet.sections]
    last = -1
    for path, line, section in shown:
        place = names.index(section)
        if path != shown[0][0]:
            message = f"{snippet.path} belongs to {shown[0][0]}; a script is shown by one page"
            faults.append(Fault(path, line, message))
        elif place <= last:
            before = names[last]
            message = f"section {section!r} of {snippet.path} must not come after {before!r}"
            faults.append(Fault(path, line, message))
        last = max(last, place)
    for unseen in snippet.shown:
        if unseen.name not in {name for _, _, name in shown}:
            message = "no page shows this section; show it, or let its name end in -check"
            faults.append(Fault(snippet.path, unseen.first, message, unseen.name))
    return faults


def owners(docs: Path, root: Path) -> dict[str, str]:
    """Find the page that shows each script, relative to the site's folder, by the script's name."""
    return {
        fence.script: str(page.relative_to(root))
        for page in sorted(docs.rglob("*.md"))
        for fence in fences(page.read_text(encoding="utf-8", errors="replace"))
        if fence.script
    }
