"""Numbers as written in prose, in printed output and in code, and when one grounds another."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from functools import cached_property

# A unit may follow without a space, as in 77ms or 0.5x; any other letter makes it part of a word.
_UNIT = r"(?=(?:x|s|ms|[kMGT]?i?B|[kKMGT]|px|d)\b)"
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>(?<![)\]])[-+])?"
    r"(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)?|\.\d+)"
    rf"(?P<exponent>[eE][-+]?\d+)?(?:(?!\w)|{_UNIT})(?!\.\d)(?P<percent>[ \u00a0\u202f]?%)?"
)


@dataclass(frozen=True)
class Number:
    """A number as it is written.

    Attributes:
        text: its letters, without a percent sign.
        start: where it begins.
        percent: whether a percent sign follows.
    """

    text: str
    start: int
    percent: bool = False

    @cached_property  # each number is held against many others
    def value(self) -> Decimal:
        return Decimal(self.text.replace(",", ""))

    @cached_property
    def places(self) -> int:
        """Decimals after the point; 0 for one with an exponent, which is never rounded."""
        if "e" in self.text.lower():
            return 0
        return len(self.text.partition(".")[2])

    @property
    def end(self) -> int:
        return self.start + len(self.text)


def numbers(text: str) -> Iterator[Number]:
    """Find the numbers in a text; parts of words and of things like 2.13.0 are none."""
    for match in _NUMBER.finditer(text):
        sign, exponent = match["sign"] or "", match["exponent"] or ""
        written = sign + match["digits"] + exponent
        yield Number(written, match.start(), match["percent"] is not None)


def grounds(source: Number, claim: Number) -> bool:
    """Tell whether a printed number is the one that a sentence quotes.

    It is when the two are equal, when the sentence rounds it to two decimals or more, or when the
    sentence gives it as a percentage, to the whole or to two decimals or more.
    """
    if source.percent == claim.percent and source.value == claim.value:
        return True
    if claim.percent:
        value = source.value if source.percent else source.value * 100
        return value == claim.value or (claim.places != 1 and _rounds(value, claim))
    if source.percent:
        return False
    return claim.places >= 2 and _rounds(source.value, claim)


def spell(value: Number, like: Number) -> str:
    """Write a printed number the way a sentence wrote the one before it."""
    number = value.value
    if like.percent and not value.percent:
        number *= 100
    if like.percent or 2 <= like.places < value.places:
        number = _round(number, like.places, ROUND_HALF_EVEN)
        text = f"{number:,}" if "," in like.text else f"{number}"
    elif "," in like.text and "," not in value.text:
        text = f"{number:,}"
    elif "," in value.text and "," not in like.text:
        text = f"{number}"
    else:
        text = value.text
    return f"+{text}" if like.text.startswith("+") and text[0] not in "+-" else text


def _rounds(value: Decimal, claim: Number) -> bool:
    """Tell whether a value rounds to what the sentence says, a half to either side."""
    if abs(value - claim.value) >= 1:  # as most are, and rounding is slow
        return False
    rules = (ROUND_HALF_EVEN, ROUND_HALF_UP)
    return any(claim.value == _round(value, claim.places, rule) for rule in rules)


def _round(value: Decimal, places: int, rule: str) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-places), rounding=rule)
