"""Bind each number of the prose to the one printed number that it quotes.

A page prints many numbers, so a wrong one in a sentence may well equal another that was printed.
Therefore `update` notes which printed number each number of the prose quotes, in `numbers.json`
beside the scripts; from then on no other grounds it. Sentences are known again by the words around
their numbers: one that was reworded is bound to nothing until `update` runs again.
"""

import difflib
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from selfattn.fresh.fault import UPDATE, Fault
from selfattn.fresh.prose import Claim

FILE = "numbers.json"

BEFORE, AFTER = 6, 3
"""Words on either side by which a number is known again."""

_WORD = re.compile(r"\d[\d,.]*|\w+|[^\w\s]")


@dataclass(frozen=True)
class Binding:
    """What a number of the prose quotes.

    Attributes:
        context: the words around it, other numbers left out.
        text: the number as it was written.
        origin, index: of the source; see `selfattn.fresh.prose.Source`.
    """

    context: str
    text: str
    origin: str
    index: int


Bindings = Mapping[str, Sequence[Binding]]
"""By page."""


def load(folder: Path, root: Path) -> tuple[dict[str, list[Binding]], list[Fault]]:
    """Read the bindings of a site; a file that cannot be read is a fault and binds nothing."""
    path = folder / FILE
    try:
        pages = json.loads(path.read_text(encoding="utf-8"))
        return {page: [Binding(*entry) for entry in found] for page, found in pages.items()}, []
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, TypeError, AttributeError) as error:
        message = f"cannot be read ({error}); remove it, and `{UPDATE}` makes it anew"
        return {}, [Fault(path.relative_to(root), 1, message)]


def dump(pages: Bindings) -> str:
    """Write bindings as JSON, one to a line, so that a change of one is a change of its line."""
    parts = []
    for page in sorted(filter(pages.get, pages)):
        lines = [json.dumps(astuple(binding), ensure_ascii=False) for binding in pages[page]]
        parts.append(f"{json.dumps(page)}: [\n  " + ",\n  ".join(lines) + "\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def contexts(lines: Sequence[str], claims: Sequence[Claim]) -> list[str]:
    """Give the words around each claim.

    Args:
        lines: of the page's file.
        claims: of the page.
    """
    return [_context(lines, claim) for claim in claims]


def match(found: Sequence[str], bindings: Sequence[Binding]) -> list[Binding | None]:
    """Find the binding of each context; contexts that occur more than once are told by order."""
    known = [binding.context for binding in bindings]
    matched: list[Binding | None] = [None] * len(found)
    for block in difflib.SequenceMatcher(None, found, known, False).get_matching_blocks():
        for i in range(block.size):
            matched[block.a + i] = bindings[block.b + i]
    return matched


def _context(lines: Sequence[str], claim: Claim) -> str:
    at, number = claim.line - 1, claim.number
    line = lines[at] if at < len(lines) else ""
    # Within its paragraph, so that one written above or below it changes nothing.
    above = " ".join(reversed(list(itertools.takewhile(str.strip, reversed(lines[:at])))))
    below = " ".join(itertools.takewhile(str.strip, lines[at + 1 :]))
    before = _words(f"{above} {line[: number.start]}")[-BEFORE:]
    after = _words(f"{line[number.end :]} {below}")[:AFTER]
    return " ".join([*before, "#", *after])


def _words(text: str) -> list[str]:
    return ["#" if word[0].isdigit() else word for word in _WORD.findall(text)]
