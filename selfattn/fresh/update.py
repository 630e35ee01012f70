"""Record what scripts printed, and rewrite the numbers in the prose that came from it.

Nothing else in a file is touched, to the byte. A second run right after changes nothing.
"""

import contextlib
import difflib
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from selfattn.fresh import compare, prose
from selfattn.fresh.batch import Result
from selfattn.fresh.bindings import Binding
from selfattn.fresh.fault import Fault
from selfattn.fresh.number import Number, grounds, numbers, spell
from selfattn.fresh.printed import Pair, aligned
from selfattn.fresh.prose import Claim, Source
from selfattn.fresh.sheet import Sheet, rewritten
from selfattn.fresh.snippet import EXPECTED, Snippet, SnippetError, parse


@dataclass(frozen=True)
class Change:
    """What becomes of one file.

    Attributes:
        path: the file.
        before, after: its whole text, line ends as they are.
    """

    path: Path
    before: str
    after: str

    def diff(self, root: Path) -> str:
        """A unified diff without a final line break, its names relative to the site's folder."""
        before, after = self.before.splitlines(), self.after.splitlines()
        name = str(self.path.relative_to(root))
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def record(result: Result, root: Path) -> Change | Fault | None:
    """Put a script's fresh output into its file.

    Returns:
        The change; None when the recorded output still holds; a fault when it must not be recorded.
    """
    snippet, run = result.snippet, result.run
    if run.fault:
        return run.fault
    if snippet.recorded is not None and compare.same(snippet.recorded, run.text):
        return None
    text = compare.with_marks(snippet.recorded or "", run.text)
    if problem := _unfit(text):
        return Fault(snippet.path, snippet.recorded_line, problem, detail=run.text)
    if not _unedited(snippet, root):
        message = "was edited while it ran, and is left as it is; run the command again"
        return Fault(snippet.path, 1, message)
    before = read(root / snippet.path)
    return Change(root / snippet.path, before, _with_output(before, snippet, text))


def _unedited(snippet: Snippet, root: Path) -> bool:
    try:
        return parse(root / snippet.path, root) == snippet
    except (OSError, SnippetError):
        return False


def _unfit(text: str) -> str:
    if precise := compare.too_precise(text):
        return (
            f"{precise[0].text} has more than {compare.MAX_DIGITS} significant digits, on which no "
            "two machines agree; print fewer"
        )
    if any(line.startswith("```") for line in text.splitlines()):
        return "prints a line that begins with three backticks, which would end its own record"
    if len(text.splitlines()) > text.count("\n") + (not text.endswith("\n")):
        return "breaks a line with another character than \\n, which a record cannot show"
    if text and not text.endswith("\n"):
        return "does not end its output with a line break, which a record cannot show"
    return ""


def _with_output(before: str, snippet: Snippet, text: str) -> str:
    end = "\r\n" if "\r\n" in before else "\n"
    fresh = text.replace("\n", end)
    if snippet.recorded is None:
        gap = "" if before.endswith("\n") else end
        return f"{before}{gap}{end}{EXPECTED}{end}{end}```{end}{fresh}```{end}"
    lines = before.splitlines(keepends=True)
    first = snippet.recorded_line - 1
    last = first + len(snippet.recorded.splitlines())
    return "".join([*lines[:first], fresh, *lines[last:]])


def rewrite(sheet: Sheet, root: Path) -> tuple[Change | None, list[Binding]]:
    """Let the numbers of a page follow what they quote, and bind them all to it.

    A number that is bound becomes what now stands where its source stood, unless the author has
    changed it. One that is not is rewritten when everything its scripts used to print that could
    have grounded it has become one and the same other number. Where neither is clear, number and
    binding are left, for the check to complain of.

    Args:
        sheet: the page; its scripts' files are not yet updated.
        root: the site's folder.

    Returns:
        The change of the page, if there is any, and its new bindings.
    """
    results = [sheet.results[script] for script in sheet.scripts]
    if not sheet.complete or any(result.missing for result in results):
        return None, list(sheet.known)  # what its numbers would be is not known
    moved = {result.snippet.name: aligned(result) for result in results if _changes(result)}
    followed = [
        _follow(sheet, claim, binding, moved)
        for claim, binding in zip(sheet.claims, sheet.bound, strict=True)
    ]
    before = read(root / sheet.path)
    after = _respelled(before, sheet.claims, [claim for claim, _ in followed])
    bound = sheet.bind([claim for claim, _ in followed], [source for _, source in followed])
    return Change(root / sheet.path, before, after) if after != before else None, bound


def _changes(result: Result) -> bool:
    recorded = result.snippet.recorded
    return recorded is None or not compare.same(recorded, result.run.text)


def _follow(
    sheet: Sheet, claim: Claim, binding: Binding | None, moved: dict[str, list[Pair]]
) -> tuple[Claim, Source | None]:
    """Give a claim as it should be written now, and what it quotes."""
    number = claim.number
    if binding and binding.text == number.text and binding.origin in moved:
        pairs = moved[binding.origin]
        pair = next((p for p in pairs if p.old_index == binding.index), None)
        if pair is None or not grounds(pair.old, number):
            return claim, None  # what it quoted is gone
        source = sheet.sources[binding.origin, pair.new_index]
        became = {_spelled(p.new, number) for p in pairs if p.old.text == pair.old.text}
        if prose.fits(source, claim):
            return claim, source
        if len(became) > 1:  # it may as well have quoted another that was the same
            return claim, None
        return rewritten(claim, spell(source.number, number)), source
    if binding and (quoted := sheet.choose(claim, binding)):
        return claim, quoted
    constant = any(s.code or not s.script for s in sheet.distinct if prose.fits(s, claim))
    pairs = [p for found in moved.values() for p in found if not p.marked]
    still = [s for s in sheet.distinct if s.script not in moved and prose.fits(s, claim)]
    became = {_spelled(p.new, number) for p in pairs if grounds(p.old, number)}
    if len(became) == 1 and not constant and not still:
        claim = rewritten(claim, became.pop())
    return claim, prose.choose(claim, sheet.distinct)


def _respelled(text: str, old: Iterable[Claim], new: Iterable[Claim]) -> str:
    lines = text.splitlines(keepends=True)
    pairs = zip(old, new, strict=True)
    for claim, now in sorted(pairs, key=lambda pair: pair[0].number.start, reverse=True):
        line = "".join(lines[claim.line - 1 : claim.line])
        number = claim.number
        # Not if the line was edited since it was read.
        there = any((n.start, n.text) == (number.start, number.text) for n in numbers(line))
        if there and now.number.text != number.text:
            lines[claim.line - 1] = line[: number.start] + now.number.text + line[number.end :]
    return "".join(lines)


def _spelled(new: Number, like: Number) -> str:
    return like.text if grounds(new, like) else spell(new, like)


def read(path: Path) -> str:
    """Read a file with its line ends as they are."""
    with open(path, encoding="utf-8", newline="") as file:
        return file.read()


def write(change: Change) -> None:
    """Put the new text in place whole or not at all, with the file's own mode."""
    path = change.path.resolve()  # what a link names, not the link
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            file.write(change.after)
        os.chmod(temporary, path.stat().st_mode & 0o7777 if path.exists() else 0o644)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
