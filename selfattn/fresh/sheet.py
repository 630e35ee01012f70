"""What is known of one page while it is built: its numbers, and what they may come from."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from selfattn.fresh import bindings, prose
from selfattn.fresh.batch import Result
from selfattn.fresh.bindings import Binding
from selfattn.fresh.fault import UPDATE, Fault
from selfattn.fresh.number import numbers
from selfattn.fresh.printed import spelled
from selfattn.fresh.prose import Claim, Source


@dataclass
class Sheet:
    """One page.

    Attributes:
        path: its file.
        text: the whole of it.
        above: the number of lines of front matter.
        meta: the front matter as read.
        shown: script, section and line of each block that shows a section.
        results: of the scripts, by name.
        known: the page's bindings.
        broken: whether it has a fence that cannot be executed.
        faults: what is wrong with it.
    """

    path: Path
    text: str
    above: int
    meta: Mapping[str, Any]
    shown: list[tuple[str, str, int]] = field(default_factory=list)
    results: Mapping[str, Result] = field(default_factory=dict)
    known: Sequence[Binding] = ()
    broken: bool = False
    faults: list[Fault] = field(default_factory=list)

    @property
    def scripts(self) -> list[str]:
        return list(dict.fromkeys(script for script, _, _ in self.shown))

    @property
    def complete(self) -> bool:
        """Whether all its scripts came to their end, so that all they print is known."""
        failed = any(self.results[script].run.fault for script in self.scripts)
        return not failed and not self.broken

    @cached_property
    def claims(self) -> list[Claim]:
        """The numbers of the prose, then those of title and description."""
        lines = self.text.split("\n")
        markdown, front = "\n".join(lines[self.above :]), "\n".join(lines[: self.above])
        return [*prose.claims(markdown, self.above), *prose.described(self.meta, front)]

    @cached_property
    def contexts(self) -> list[str]:
        return bindings.contexts(self.text.split("\n"), self.claims)

    @cached_property
    def bound(self) -> list[Binding | None]:
        """The binding of each claim, if it has one."""
        return bindings.match(self.contexts, self.known)

    @cached_property
    def sources(self) -> dict[tuple[str, int], Source]:
        """The numbers that may ground a claim, by origin and index."""
        found = [*prose.settings(self.meta)]
        lines = {(script, section): line for script, section, line in self.shown}
        for script in self.scripts:
            result = self.results[script]
            index = itertools.count()
            for section, written in zip(result.snippet.sections, spelled(result), strict=True):
                line = lines.get((script, section.name), -1)
                found += [
                    Source(number, script, section.name, line, index=next(index))
                    for number in written
                ]
                if line >= 0:
                    found += [
                        Source(number, script, section.name, line, code=True, index=i)
                        for i, number in enumerate(numbers(section.code))
                    ]
        return {(source.origin, source.index): source for source in found}

    @cached_property
    def distinct(self) -> list[Source]:
        """The sources without those that say the same again: tables repeat many numbers."""
        same = {
            (s.script, s.section, s.code, s.number.text, s.number.percent): s
            for s in reversed(self.sources.values())
        }
        return list(same.values())

    def choose(self, claim: Claim, binding: Binding | None) -> Source | None:
        """Find what grounds a claim: the number it is bound to, or else the nearest."""
        if binding is None:
            return prose.choose(claim, self.distinct)
        source = self.sources.get((binding.origin, binding.index))
        if source and prose.fits(source, claim):
            return source
        if source is None or (source.script and not source.code):
            return None
        # Code is quoted by what it says; a number that is new in it moves the others.
        same = (s for s in self.distinct if s.origin == binding.origin)
        return prose.choose(claim, same)

    def ungrounded(self, claim: Claim, binding: Binding | None) -> Fault:
        """Say that nothing grounds a claim, or not the number that it is bound to."""
        other = prose.choose(claim, self.distinct) if binding else None
        if binding is None or other is None:
            return prose.ungrounded(claim, self.distinct, self.path)
        quoted = self.sources.get((binding.origin, binding.index))
        was = f"{quoted.number.text}, {quoted}" if quoted else "a number that is gone"
        return Fault(
            self.path,
            claim.line,
            f"{claim.number.text} is not what stood here: {binding.text}, which quotes {was}. "
            f"Correct it; or, if {other.number.text}, {other}, is meant, "
            f"`{UPDATE} {self.path}` takes it",
        )

    def alt_faults(self) -> list[Fault]:
        """Judge the numbers in the words that stand for pictures."""
        found = []
        for script, name, _ in self.shown:
            result = self.results[script]
            section, output = result.snippet.section(name), result.run.outputs.get(name)
            for figure in output.figures if section and output else ():
                for number in numbers(figure.alt):
                    claim = Claim(number, section.first if section else 1)
                    # The words stand in the code themselves, so that is no ground for them.
                    if not prose.choose(claim, [s for s in self.distinct if not s.code]):
                        path = result.snippet.path
                        found.append(prose.ungrounded(claim, self.distinct, path))
        return found

    def bind(self, claims: Sequence[Claim], sources: Sequence[Source | None]) -> list[Binding]:
        """Bind claims, as many as the page has and in their order, to their sources.

        One without a source keeps the binding it had.
        """
        found = []
        for context, claim, source, known in zip(
            self.contexts, claims, sources, self.bound, strict=True
        ):
            if source:
                found.append(Binding(context, claim.number.text, source.origin, source.index))
            elif known:
                found.append(known)
        return found


def rewritten(claim: Claim, text: str) -> Claim:
    """The same claim with another number in its place."""
    return replace(claim, number=replace(claim.number, text=text))
