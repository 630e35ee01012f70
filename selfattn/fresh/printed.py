"""The numbers that scripts printed, each with its place, and where they stood when recorded."""

import itertools
from dataclasses import dataclass

from selfattn.fresh import compare
from selfattn.fresh.batch import Result
from selfattn.fresh.number import Number, numbers
from selfattn.fresh.snippet import Section


def printed(result: Result, section: Section) -> str:
    """What a section printed, or what is recorded where it could not run."""
    if result.missing:  # which section printed what is not known
        last = section == result.snippet.shown[-1]
        return compare.without_marks(result.snippet.recorded or "") if last else ""
    output = result.run.outputs.get(section.name)
    return output.text if output else ""


def spelled(result: Result) -> list[list[Number]]:
    """The numbers that each section printed, spelled as they are recorded where they still hold.

    The prose quotes the record, and another machine may print another last digit.
    """
    fresh = [list(numbers(printed(result, section))) for section in result.snippet.sections]
    if result.missing or result.snippet.recorded == result.run.text:
        return fresh
    recorded = {pair.new_index: pair.old for pair in aligned(result) if pair.holds}
    index = itertools.count()
    return [[recorded.get(next(index), number) for number in section] for section in fresh]


@dataclass(frozen=True)
class Pair:
    """A number of the recorded output and the one that stands at its place now.

    Attributes:
        old, new: the two; of a mark, its centre or 0.
        old_index, new_index: their places among the numbers of the two outputs.
        marked: whether the old one is a mark.
        holds: whether the new one is what is recorded, by the rule for outputs.
    """

    old: Number
    new: Number
    old_index: int
    new_index: int
    marked: bool
    holds: bool


def aligned(result: Result) -> list[Pair]:
    """Pair the numbers of a script's recorded and fresh outputs by their places."""
    recorded, fresh = result.snippet.recorded, result.run.text
    if recorded is None or result.run.fault or result.missing:
        return []
    plain = compare.without_marks(recorded)
    marks = [t for t in compare.tokens(recorded) if t.number]
    starts, ends, holds, marked = {}, {}, {}, {}
    slots = [t for t in compare.tokens(plain) if t.number]
    originals = {slot.start: mark for slot, mark in zip(slots, marks, strict=False)}
    for before, after in compare.pairs(plain, fresh):
        starts[before.start] = after.start
        ends[before.start + len(before.text)] = after.start + len(after.text)
        original = originals.get(before.start, before)
        holds[before.start] = compare.equal(original, after)
        marked[before.start] = original.kind == "mark"
    now = {(n.start, n.end): (i, n) for i, n in enumerate(numbers(fresh))}
    found = []
    for i, old in enumerate(numbers(plain)):
        at = now.get((starts.get(old.start, -1), ends.get(old.end, -1)))
        if at:
            index, new = at
            start = old.start
            found.append(
                Pair(old, new, i, index, marked.get(start, False), holds.get(start, False))
            )
    return found
