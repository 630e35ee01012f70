"""Check that every number in a page's prose was printed by one of the page's scripts.

The numbers of a page's Markdown are found in its source, where their lines are known, and marked
with private-use characters; they are judged in the HTML, where it shows what became of them. The
author types the number and nothing around it.

Not judged, by kind: numbers in fences, formulas, link addresses, the texts of links to other
sites, HTML tags and comments; the numbering of headings and lists; dates, years in brackets,
times and versions; and the numbers that the page's front matter lists under `settings`.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from selfattn.fresh.fault import UPDATE, Fault
from selfattn.fresh.number import Number, grounds, numbers
from selfattn.fresh.page import blocks

_OPEN, _SEPARATOR, _CLOSE = "\ue000", "\ue001", "\ue002"
_ZERO = 0xE010
_MARK = re.compile(f"{_OPEN}([\ue010-\ue019]+){_SEPARATOR}(.*?){_CLOSE}")

# Also in a quote, a list or a block that is set in.
_HEADING = re.compile(r"[\s>*+-]*(?:\d+\.\s+)?#{1,6} ")
_UNDERLINE = re.compile(r"\s*(?:=+|-+)\s*")
_LIST_NUMBER = re.compile(r"^[\s>]*\d+[.)](?=\s)")
_LIST_ITEM = re.compile(r"[\s>]*(?:\d+[.)]|[*+-])\s")
_SPOKEN = re.compile(r"""\b(?:alt|title)=(?:"[^"]*"|'[^']*')""")  # attributes that are prose
_UNJUDGED = re.compile(
    r"`#!math [^`]*`"
    r"|(?<!!)\[[^\]]*\]\((?:https?:)?//[^)]*\)"  # a link to another site, text and all
    r"|\]\([^)\s]*|^\s*\[[^\]]+\]:\s+\S+|\]\[[^\]]*\]|\[\^[^\]]*\]"  # addresses, references
    r"|</?[A-Za-z][^>]*>|<https?:[^>]*>|&\#?\w+;"  # tags, entities
    r"|\{\{.*?\}\}|\{:?\s*[.\#][^}]*\}|\{:?\s*[A-Za-z][\w-]*=[^}]*\}"  # filled in, attributes
    r"|^\#+ [1-9]\d?(?:\.\d\d?)*\.?(?=\s+[A-Z])"  # the numbering of headings
    r"|\b(?:19|20)\d\d-(?:0[1-9]|1[0-2])(?:-[0-3]\d)?\b"  # dates
    r"|\b[0-5]?\d:[0-5]\d(?::[0-5]\d)?\b"  # times
    r"|(?<=\()(?:19|20)\d\d(?=\))|(?<=, )(?:19|20)\d\d(?=\))"  # a year in brackets
    r"|\b\d+(?:\.\d+){2,}\w*|(?i:\b(?:python|torch|pytorch|version) )\d+(?:\.\d+)+\+?"  # versions
)
_PIECES = re.compile(
    r"(<pre[\s>].*?</pre>|<script[\s>].*?</script>|<style[\s>].*?</style>|<[^<>]*>)", re.DOTALL
)
_CODE_WITH_LANGUAGE = re.compile(r"`#![^`]*`")


@dataclass(frozen=True)
class Claim:
    """A number in the prose.

    Attributes:
        number: as written; `start` counts in its line.
        line: of the page's file.
        marked: whether it is marked in the Markdown, to be found again in the HTML.
    """

    number: Number
    line: int
    marked: bool = True


@dataclass(frozen=True)
class Source:
    """A number that may ground a claim.

    Attributes:
        number: as printed, or as it stands in the code.
        script, section: where; both empty for a setting in the front matter.
        line: where the page shows the section; -1 where it does not.
        code: whether it stands in the code, where nothing may be rounded.
        index: its place among the numbers of the same origin.
    """

    number: Number
    script: str = ""
    section: str = ""
    line: int = -1
    code: bool = False
    index: int = 0

    @property
    def origin(self) -> str:
        """The script whose output, or the section whose code; empty for a page's settings."""
        return f"{self.script}:{self.section}" if self.code else self.script

    @property
    def anchor(self) -> str:
        """The id of the block that shows it; empty when none does."""
        return anchor(self.script, self.section) if self.line >= 0 else ""

    def __str__(self) -> str:
        if not self.script:
            return "set by this page"
        verb = "in the code of" if self.code else "printed by"
        return f"{verb} {self.script}, section {self.section}"


def anchor(script: str, section: str) -> str:
    """The id of the block that shows a section."""
    return f"out-{script}-{section}"


def claims(markdown: str, above: int) -> list[Claim]:
    """Find the numbers of a page's prose.

    Args:
        markdown: the page without its front matter.
        above: the number of lines of front matter.
    """
    lines = markdown.split("\n")
    inside = {i for block in blocks(markdown) for i in range(block.first, block.last + 1)}
    found = []
    for i, text in enumerate(_without_comments(lines)):
        written = [] if i in inside else list(numbers(text))
        if not written:  # as on most lines, and the rest is slow
            continue
        apart = _spans(_CODE_WITH_LANGUAGE, text)
        heading = bool(_HEADING.match(text) or _UNDERLINE.fullmatch("".join(lines[i + 1 : i + 2])))
        spoken = _spans(_SPOKEN, text)
        skipped = [*_spans(_UNJUDGED, text), *_numbering(lines, i)]
        for number in written:
            said = _within(number.start, spoken)
            if said or not _within(number.start, skipped):
                marked = not heading and not said and not _within(number.start, apart)
                found.append(Claim(number, above + i + 1, marked))
    return found


def described(meta: Mapping[str, Any], front: str) -> list[Claim]:
    """Find the numbers of a page's title and description in its front matter.

    Args:
        meta: the front matter as read.
        front: its text, for the lines.
    """
    found = []
    for key in ("title", "description"):
        at = max(front.find(f"{key}:"), 0)
        for number in numbers(str(meta.get(key, ""))):
            at = max(front.find(number.text, at), at)
            start = at - (front.rfind("\n", 0, at) + 1)
            here = Number(number.text, start, number.percent)
            found.append(Claim(here, front.count("\n", 0, at) + 1, marked=False))
            at += len(number.text)
    return found


def mark(markdown: str, above: int, found: list[Claim]) -> str:
    """Mark the claims in the Markdown, so that they are found again in the HTML."""
    lines = markdown.split("\n")
    for index, claim in reversed(list(enumerate(found))):
        if claim.marked:
            at, number = claim.line - above - 1, claim.number
            code = "".join(chr(_ZERO + int(digit)) for digit in str(index))
            marked = f"{_OPEN}{code}{_SEPARATOR}{number.text}{_CLOSE}"
            lines[at] = lines[at][: number.start] + marked + lines[at][number.end :]
    return "\n".join(lines)


def place(html: str, show: Callable[[int, str], str]) -> tuple[str, set[int]]:
    """Put what `show` gives for a claim's index and text where its mark stands.

    In attributes, where no element can stand, the text stays; in blocks of code too.

    Returns:
        The HTML without marks, and the indices of claims that turned out to be code.
    """
    in_code: set[int] = set()
    pieces = []
    for piece in _PIECES.split(html):
        if _OPEN not in piece:  # as in most
            pieces.append(piece)
        elif piece.startswith(("<pre", "<script", "<style")):
            in_code |= {_index(found) for found in _MARK.finditer(piece)}
            pieces.append(strip(piece))
        elif piece.startswith("<"):
            pieces.append(strip(piece))
        else:
            pieces.append(_MARK.sub(lambda found: show(_index(found), found[2]), piece))
    # A number and its percent sign stay on one line.
    return "".join(pieces).replace("</data> %", "</data>\u00a0%"), in_code


def strip(text: str) -> str:
    """Take the marks away and leave the numbers."""
    return _MARK.sub(lambda found: found[2], text)


def choose(claim: Claim, sources: Iterable[Source]) -> Source | None:
    """Find what grounds a claim: the nearest printed before it, then after it, then the rest."""
    fitting = [source for source in sources if fits(source, claim)]

    def distance(source: Source) -> tuple[bool, bool, bool, int]:
        hidden = source.line < 0
        below = source.line > claim.line
        return (source.code, hidden, below, abs(claim.line - source.line))

    return min(fitting, key=distance, default=None)


def fits(source: Source, claim: Claim) -> bool:
    """Tell whether a source grounds a claim."""
    if source.code or not source.script:
        number, written = source.number, claim.number
        return number.value == written.value and number.percent == written.percent
    return grounds(source.number, claim.number)


def ungrounded(claim: Claim, sources: Iterable[Source], path: Path) -> Fault:
    """Say that nothing grounds a claim, and what comes nearest."""
    number = claim.number
    near = min(sources, key=lambda source: abs(source.number.value - number.value), default=None)
    nearest = f"; the nearest is {near.number.text}, {near}" if near else ""
    written = number.text + (" %" if number.percent else "")
    return Fault(
        path,
        claim.line,
        f"no script of this page printed {written}{nearest}. Correct the number, or print it; "
        f"`{UPDATE}` rewrites those whose source is unambiguous",
    )


def settings(meta: Mapping[str, Any]) -> Iterator[Source]:
    """Give the numbers that a page's front matter lists under `settings`."""
    values = dict(meta.get("settings") or {}).values()
    found = (number for value in values for number in numbers(str(value)))
    return (Source(number, index=i) for i, number in enumerate(found))


def element(text: str, source: Source) -> str:
    """The HTML of a grounded number: where it comes from shows on hover."""
    title = escape(f"{source.number.text}, {source}")
    value = escape(str(source.number.value))
    return f'<data value="{value}" title="{title}">{text}</data>'


def _index(found: "re.Match[str]") -> int:
    return int("".join(str(ord(digit) - _ZERO) for digit in found[1]))


def _without_comments(lines: list[str]) -> list[str]:
    """Blank out HTML comments; every other letter keeps its place."""
    text = "\n".join(lines)
    blank = re.sub(r"<!--.*?-->", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.DOTALL)
    return blank.split("\n")


def _numbering(lines: list[str], i: int) -> list[tuple[int, int]]:
    """The number of a list item; a sentence that happens to break before a number has none."""
    first = i
    while first > 0 and lines[first - 1].strip():
        first -= 1  # Markdown tells a list from a sentence by the first line without a gap
    begins = first == i or _LIST_ITEM.match(lines[first])
    return _spans(_LIST_NUMBER, lines[i]) if begins else []


def _spans(pattern: "re.Pattern[str]", text: str) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text)]


def _within(position: int, spans: list[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)
