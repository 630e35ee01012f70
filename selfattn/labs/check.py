"""Compare what a learner's file printed with what the solution prints, item by item."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Literal

from selfattn.fresh.compare import Token, equal, tokens
from selfattn.labs.answers import RIGHT
from selfattn.labs.catalog import Lab, Mistake

Verdict = Literal["holds", "differs", "missing"]

_NUMBERING = re.compile(r"^\s*\d+[.)]\s+")
_DECORATION = re.compile(r"\btensor\b|\btorch\.Size\b|\bdtype=\S+|[\[\](){},'\"]")


@dataclass(frozen=True)
class Item:
    """One printed line of the solution, and what became of it in the learner's output.

    Attributes:
        label: the text before the colon.
        verdict: whether it holds.
        reason: where the first difference is; empty when it holds.
    """

    label: str
    verdict: Verdict
    reason: str = ""


def compare(printed: str, right: str) -> list[Item]:
    """Compare two outputs, item by item.

    The order of the lines does not matter, and neither do other lines, brackets, commas, quotes,
    a step's number or capitals in a label, or decimals beyond those that are asked for.

    Args:
        printed: by the learner's file.
        right: by the solution.

    Returns:
        One item for each line of the solution.
    """
    known = items(right)
    given = items(printed)
    return [_item(label, given.get(label), value) for label, value in known.items()]


def items(printed: str) -> dict[str, str]:
    """Find the lines `label: values` of an output; of a label that is there twice, the last one."""
    found = {}
    for line in printed.splitlines():
        label, colon, value = line.partition(":")
        if colon:
            found[" ".join(_NUMBERING.sub("", label.lower()).split())] = value
    return found


def recognise(lab: Lab, printed: str, answers: dict[str, str]) -> Mistake | None:
    """Find the known mistake that explains an output best.

    A mistake explains an item that differs from the right one as the mistake's own does. At least
    one must hold decimals or nan: words and whole numbers can agree by chance.

    Args:
        lab: the lab.
        printed: by the learner's file.
        answers: of `selfattn.labs.answers`, for this lab.

    Returns:
        The mistake, or None when none explains anything.
    """
    right, given = items(answers[RIGHT]), items(printed)

    def merit(mistake: Mistake) -> tuple[int, int, int]:
        made = items(answers[mistake.name])
        explained = [
            label
            for label, value in right.items()
            if label in given
            and not _same(made.get(label, ""), value)
            and _same(given[label], made.get(label, ""))
        ]
        strong = [label for label in explained if re.search(r"\d\.\d|nan", given[label])]
        against = [
            label for label in given.keys() & made.keys() if not _same(given[label], made[label])
        ]
        return len(strong), len(explained), -len(against)

    best = max(lab.mistakes, key=merit)
    return best if merit(best)[0] else None


def _item(label: str, given: str | None, right: str) -> Item:
    if given is None:
        return Item(label, "missing", f"no line begins with `{label}:`")
    difference = _difference(given, right)
    return Item(label, "differs" if difference else "holds", difference)


def _same(given: str, right: str) -> bool:
    return not _difference(given, right)


def _difference(given: str, right: str) -> str:
    """Say where two values differ first, without the right one; empty when they do not."""
    mine, theirs = _values(given), _values(right)
    for place, (token, wanted) in enumerate(zip(mine, theirs, strict=False), start=1):
        if token.text.lower() == wanted.text.lower() or equal(wanted, _rounded(token, wanted)):
            continue
        which = f"value {place} of {len(theirs)}" if len(theirs) > 1 else "the value"
        if _rounded(wanted, token).text == token.text:
            places = len(wanted.text.partition(".")[2])
            return f"{which} is {token.text}: right so far, but {places} decimals are asked for"
        return f"{which} is {token.text}, and should not be"
    if len(mine) != len(theirs):
        return f"{_count(len(mine))} printed, {len(theirs)} asked for"
    return ""


def _values(text: str) -> list[Token]:
    found: Iterable[Token] = tokens(_DECORATION.sub(" ", text))
    return [token for token in found if token.kind != "space"]


def _rounded(token: Token, like: Token) -> Token:
    """Round a decimal to the places of another one, where it has more of them."""
    if token.kind != "decimal" or like.kind not in ("decimal", "integer"):
        return token
    places = len(like.text.partition(".")[2])
    unit = Decimal(1).scaleb(-places)
    number = Decimal(token.text)
    if number.as_tuple().exponent >= -places:  # type: ignore[operator]
        return token
    return Token(like.kind, str(number.quantize(unit, ROUND_HALF_EVEN)), token.start)


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"
