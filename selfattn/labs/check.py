"""Compare what a learner's file printed with what the solution prints, item by item."""

import re
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Literal

from selfattn.fresh.compare import Token, equal, tokens
from selfattn.labs.answers import RIGHT
from selfattn.labs.catalog import Lab, Mistake

Verdict = Literal["holds", "differs", "missing"]

_NUMBERING = re.compile(r"^\s*(?:\d+[.)]|[-*])\s+")
# What is printed around values by lists, tensors, numpy and terminals, and groups of digits.
_GROUPED = re.compile(r"(?<=\d)[,_](?=\d{3}(?!\d))")
_DECORATION = re.compile(
    r"\x1b\[[\d;]*m|\b(?:tensor|torch\.Size|np\.\w+|array)(?=\()"
    r"|\b(?:dtype|device|grad_fn)=[^\s,)]+|[\[\](){},'\"\u2018-\u201d]"
)


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
    given = items(printed)
    labels = [line.partition(":")[0] for line in right.splitlines()]
    return [_item(label, given.get(_key(label)), items(right)[_key(label)]) for label in labels]


def items(printed: str) -> dict[str, str]:
    """Find the lines `label: values` of an output; of a label that is there twice, the last one."""
    found = {}
    for line in printed.splitlines():
        label, colon, value = line.partition(":")
        if colon:
            found[_key(label)] = value
    return found


def _key(label: str) -> str:
    return " ".join(_NUMBERING.sub("", _DECORATION.sub("", label.lower())).split())


def recognise(lab: Lab, printed: str, answers: dict[str, str]) -> Mistake | None:
    """Find the known mistake that explains an output best.

    A mistake explains an item that is wrong as the mistake's own is. It is out of the question when
    another item is wrong where the mistake's own is wrong in another way. Words, whole numbers and
    nan can agree by chance: they count only for a mistake that explains all that is wrong.

    Args:
        lab: the lab.
        printed: by the learner's file.
        answers: of `selfattn.labs.answers`, for this lab.

    Returns:
        The mistake, or None when none fits.
    """
    right, given = items(answers[RIGHT]), items(printed)
    wrong = [label for label in right if label in given and not _same(given[label], right[label])]

    def merit(mistake: Mistake) -> tuple[int, int]:
        made = items(answers[mistake.name])
        changed = [label for label in wrong if not _same(made.get(label, ""), right[label])]
        explained = [label for label in changed if _same(given[label], made.get(label, ""))]
        strong = [label for label in explained if re.search(r"\d\.\d", given[label])]
        if explained != changed or not (strong or explained == wrong):
            return 0, 0
        unmoved = [label for label in made if not _same(made[label], given.get(label, ""))]
        return len(explained), -len(unmoved)

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
    if len(mine) != len(theirs):
        return f"{_count(len(mine))} printed, {len(theirs)} asked for"
    for place, (token, wanted) in enumerate(zip(mine, theirs, strict=True), start=1):
        if equal(wanted, _rounded(token, wanted)):
            continue
        which = f"value {place} of {len(theirs)}" if len(theirs) > 1 else "the value"
        if token.kind == "decimal" and _rounded(wanted, token).text == token.text:
            places = len(wanted.text.partition(".")[2])
            return f"{which} is {token.text}: right so far, but {places} decimals are asked for"
        return f"{which} is {token.text}, and should not be"
    return ""


def _values(text: str) -> list[Token]:
    """Cut what stands behind a label into values; what is no number is a word."""
    plain = _DECORATION.sub(" ", _GROUPED.sub("", text))
    return [_value(word) for word in plain.split()]


def _value(word: str) -> Token:
    found = list(tokens(word))
    return found[0] if len(found) == 1 else Token("text", word, 0)


def _rounded(token: Token, like: Token) -> Token:
    """Round a decimal to the places of another one, where it has more of them."""
    if token.kind != "decimal" or like.kind != "decimal":
        return token
    unit = Decimal(1).scaleb(-len(like.text.partition(".")[2]))
    try:
        number = Decimal(token.text).quantize(unit, ROUND_HALF_EVEN)
    except InvalidOperation:  # too large to have that many places
        return token
    return Token("decimal", str(number), token.start) if number != Decimal(token.text) else token


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"
