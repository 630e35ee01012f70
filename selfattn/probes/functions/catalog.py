"""What makes a probe out of a function that measures a `Setting`, and a finding out of that."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions.setting import Setting
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK, Finding
from selfattn.probes.stopping import TimeUp


class Verdict(NamedTuple):
    """What was measured.

    Attributes:
        verdict: as in a finding.
        moved, allowed: how far something is off, and how far it may be.
        said: what was found, in words.
        where: at which sizes, with which mask, in which mode.
    """

    verdict: str
    moved: float | None = None
    allowed: float | None = None
    said: str = ""
    where: Mapping[str, Any] = {}


Measure = Callable[[Setting], Verdict]

NO_MASK = Verdict(NOT_APPLICABLE, said="no mask is claimed")


@dataclass(frozen=True)
class FunctionProbe:
    """A probe of attention functions.

    Attributes:
        name: as in reports.
        fault: what a fault means, in one sentence.
        causes: the likely causes, the most likely first.
        page: the lesson's page, by its file name without the ending.
        measure: what measures it.
        after: the probes whose fault would be seen here again; beside one, nothing is judged.
    """

    name: str
    fault: str
    causes: tuple[str, ...]
    page: str
    measure: Measure
    after: tuple[str, ...] = field(default=())

    def run(self, setting: Setting, faults: set[str]) -> Finding:
        """Run it, where no fault that is known already would be seen again."""
        known = [name for name in self.after if name in faults]
        if known:
            meaning = f"not judged beside the fault of {known[0]}, which would be seen here too"
            return Finding(self.name, CANNOT_TELL, meaning=meaning, page=self.page)
        try:
            verdict, moved, allowed, said, where = self.measure(setting)
        except LayerFailed as failure:
            return Finding(self.name, CANNOT_TELL, meaning=str(failure), page=self.page)
        except TimeUp:
            return Finding(self.name, CANNOT_TELL, meaning="no time was left", page=self.page)
        if verdict != FAULT:
            return Finding(self.name, verdict, moved, allowed, meaning=said, page=self.page)
        place = {"found": said, **where}
        return Finding(self.name, FAULT, moved, allowed, place, self.fault, self.causes, self.page)


def probe(
    name: str, *, fault: str, causes: tuple[str, ...], page: str, after: tuple[str, ...] = ()
) -> Callable[[Measure], FunctionProbe]:
    """Make a probe of the function that measures."""
    return lambda measure: FunctionProbe(name, fault, causes, page, measure, after)


def near(moved: float, allowed: float, said: str, **where: Any) -> Verdict:
    """Judge by how far something is off; `said` is what was found if that is too far."""
    if moved <= allowed:
        return Verdict(OK, moved, allowed)
    return Verdict(FAULT, moved, allowed, said, where)


def first_fault(verdicts: list[Verdict]) -> Verdict | None:
    """Give the first of some verdicts that is a fault, if any is."""
    return next((v for v in verdicts if v.verdict == FAULT), None)
