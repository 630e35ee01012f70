"""Decide whether a fresh output still says what the recorded one says.

Printed digits differ between processors and numbers are printed as wide as their neighbours need,
so a comparison to the letter fails for no reason, and a loose one hides faults. The rule:

- Text is equal to the letter. So are integers, booleans, nan and inf.
- Two decimals are equal within one unit of the finer of their two printed places: `1.` equals
  `1.0000`, and `0.0` does not equal `0.0020`. Two that both end in a bare point are equal only
  when equal. `-0.0` equals `0.0`.
- White space beside a number inside brackets does not count, line breaks included.
- `‹any›` in the recorded text stands for any one number, `‹0.79±0.03›` for one that is within 0.03
  of 0.79. White space beside such a mark does not count.
"""

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

MAX_DIGITS = 7
"""Significant digits that float32 holds; more in a recorded output would be noise."""

_DECIMAL = r"[-+]?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+"
_MARK = rf"‹(?:any|(?P<centre>{_DECIMAL}|[-+]?\d+)±(?P<width>\d+\.?\d*(?:[eE][-+]?\d+)?))›"
_TOKEN = re.compile(
    rf"(?P<mark>{_MARK})"
    # Not inside a word, and not a part of something like 2.13.0.
    rf"|(?<![\w.])(?P<decimal>{_DECIMAL})(?!\w|\.\d)"
    r"|(?<![\w.])(?P<integer>[-+]?\d+)(?!\w|\.\d)"
    r"|(?P<space>\s+)"
    r"|(?P<text>\w+|[^\w\s])"
)

Kind = Literal["mark", "decimal", "integer", "space", "text"]


@dataclass(frozen=True)
class Token:
    """A piece of printed text: what kind it is, its letters, and where it begins."""

    kind: Kind
    text: str
    start: int

    @property
    def number(self) -> bool:
        return self.kind in ("decimal", "integer", "mark")


def tokens(text: str) -> Iterator[Token]:
    """Cut printed text into tokens; together they are the text again."""
    for match in _TOKEN.finditer(text):
        kind = next(k for k in ("mark", "decimal", "integer", "space", "text") if match[k])
        yield Token(kind, match[0], match.start())  # type: ignore[arg-type]


def same(recorded: str, fresh: str) -> bool:
    """Tell whether a fresh output says what the recorded one says, by the rule above.

    Args:
        recorded: the output in the file; it may hold marks.
        fresh: the output of a run.
    """
    if recorded == fresh:  # nearly always, and cutting into tokens is slow
        return True
    left, right = _words(recorded), _words(fresh)
    return len(left) == len(right) and all(
        equal(old.token, new.token) and (old.gap == new.gap or old.free)
        for old, new in zip(left, right, strict=True)
    )


def equal(recorded: Token, fresh: Token) -> bool:
    """Compare two tokens by the rule above."""
    if recorded.kind == "mark":
        return fresh.number and _fits(recorded.text, fresh.text)
    if recorded.kind == fresh.kind == "decimal":
        return _near(recorded.text, fresh.text)
    return recorded.text == fresh.text


def changes(recorded: str, fresh: str) -> str:
    """Give the fresh output with every token that still holds spelled as recorded.

    What differs between this and the recorded output is what really changed.
    """
    return _rewrite(recorded, fresh, lambda old, new: old.text if equal(old, new) else new.text)


def with_marks(recorded: str, fresh: str) -> str:
    """Give the fresh output with the marks of the recorded one at their places.

    A mark that no longer fits keeps its width and gets the fresh number as its centre.
    """

    def spell(old: Token, new: Token) -> str:
        if old.kind != "mark" or not new.number:
            return new.text
        if _fits(old.text, new.text):
            return old.text
        width = _TOKEN.fullmatch(old.text)
        return f"‹{new.text}±{width['width']}›" if width else new.text

    return _rewrite(recorded, fresh, spell)


def without_marks(recorded: str) -> str:
    """Put one plain number in each mark's place: its centre, or 0 for any."""

    def plain(mark: "re.Match[str]") -> str:
        return mark["centre"] or "0"

    return re.sub(_MARK, plain, recorded)


def diff(recorded: str, fresh: str, name: str) -> str:
    """Give a unified diff, without a final line break, of what really changed."""
    old, new = _old_and_new(recorded, fresh)
    lines = difflib.unified_diff(old, new, f"{name} (recorded)", f"{name} (fresh)", lineterm="")
    return "\n".join(lines)


def first_change(recorded: str, fresh: str) -> int:
    """Give the index of the first recorded line that really changed."""
    old, new = _old_and_new(recorded, fresh)
    unchanged = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    return len(list(unchanged))


def _old_and_new(recorded: str, fresh: str) -> tuple[list[str], list[str]]:
    old = recorded.splitlines()
    known = {"".join(line.split()): line for line in old}  # spaces that do not count are no change
    new = [known.get("".join(line.split()), line) for line in changes(recorded, fresh).splitlines()]
    if new == old:
        new = fresh.splitlines()  # a space that does count
    return old, new


def too_precise(text: str) -> list[Token]:
    """Find the decimals that claim more significant digits than float32 holds."""
    return [t for t in tokens(text) if t.kind == "decimal" and _digits(t.text) > MAX_DIGITS]


def _digits(decimal: str) -> int:
    mantissa = re.split("[eE]", decimal)[0]
    return len(re.sub(r"\D", "", mantissa).lstrip("0"))


@dataclass(frozen=True)
class _Word:
    """A token that is no space, the space before it, and whether that space does not count."""

    token: Token
    gap: str
    free: bool


def _words(text: str) -> list[_Word]:
    words: list[_Word] = []
    gap, depth, before = "", 0, Token("text", "", 0)
    for token in [*tokens(text), Token("text", "", len(text))]:  # the end closes the last gap
        if token.kind == "space":
            gap = token.text
            continue
        beside = (before, token)
        inside = depth > 0 and any(t.number for t in beside)
        words.append(_Word(token, gap, inside or any(t.kind == "mark" for t in beside)))
        depth = max(0, depth + (token.text in _OPEN) - (token.text in _CLOSE))
        gap, before = "", token
    return words


_OPEN, _CLOSE = ("(", "[", "{"), (")", "]", "}")


def _rewrite(recorded: str, fresh: str, spell: Callable[[Token, Token], str]) -> str:
    """Spell each token of the fresh text that has a counterpart in the recorded one anew."""
    pieces, end = [], 0
    for old, new in pairs(recorded, fresh):
        pieces += [fresh[end : new.start], spell(old, new)]
        end = new.start + len(new.text)
    return "".join(pieces) + fresh[end:]


def pairs(recorded: str, fresh: str) -> list[tuple[Token, Token]]:
    """Pair the tokens of two texts of the same shape; of others, those of their equal lines."""
    left, right = ([word.token for word in _words(text)] for text in (recorded, fresh))
    if _shape(left) == _shape(right):
        return list(zip(left, right, strict=True))
    old, new = _lines(recorded, left), _lines(fresh, right)
    matcher = difflib.SequenceMatcher(
        None, [_shape(x) for x in old], [_shape(x) for x in new], False
    )
    return [
        pair
        for block in matcher.get_matching_blocks()
        for i in range(block.size)
        for pair in zip(old[block.a + i], new[block.b + i], strict=True)
    ]


def _shape(line: Iterable[Token]) -> tuple[str, ...]:
    return tuple("number" if token.number else token.text for token in line)


def _lines(text: str, found: list[Token]) -> list[list[Token]]:
    lines: list[list[Token]] = [[] for _ in range(text.count("\n") + 1)]
    for token in found:
        lines[text.count("\n", 0, token.start)].append(token)
    return lines


def _near(recorded: str, fresh: str) -> bool:
    a, b = Decimal(recorded), Decimal(fresh)
    if recorded.endswith(".") and fresh.endswith("."):
        return a == b
    return abs(a - b) <= min(_unit(recorded), _unit(fresh))


def _unit(decimal: str) -> Decimal:
    """One unit of the last printed place: 0.01 for `1.25`, 0.1 for `1.25e1`."""
    exponent = Decimal(decimal).as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


def _fits(mark: str, number: str) -> bool:
    parts = _TOKEN.fullmatch(mark)
    if parts is None or parts["centre"] is None:
        return True  # ‹any›
    if "±" in number:
        return False
    return abs(Decimal(number) - Decimal(parts["centre"])) <= Decimal(parts["width"])
