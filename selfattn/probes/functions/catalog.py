"""What makes a probe out of a function that measures a `Setting`, and a finding out of that."""

from collections.abc import Callable
from dataclasses import dataclass

from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions.setting import Setting
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK, Finding
from selfattn.probes.stopping import TimeUp

Verdict = tuple[str, float | None, float | None, str]
"""The verdict, how far something is off, how far it may be, and in words what was found."""

Measure = Callable[[Setting], Verdict]

NO_MASK: Verdict = (NOT_APPLICABLE, None, None, "no mask is claimed")


@dataclass(frozen=True)
class FunctionProbe:
    """A probe of attention functions.

    Attributes:
        name: as in reports.
        fault: what a fault means, in one sentence.
        causes: the likely causes, the most likely first.
        page: the lesson's page, by its file name without the ending.
        measure: what measures it.
    """

    name: str
    fault: str
    causes: tuple[str, ...]
    page: str
    measure: Measure

    def run(self, setting: Setting) -> Finding:
        try:
            verdict, moved, allowed, said = self.measure(setting)
        except LayerFailed as failure:
            return Finding(self.name, CANNOT_TELL, meaning=str(failure), page=self.page)
        except TimeUp:
            return Finding(self.name, CANNOT_TELL, meaning="no time was left", page=self.page)
        if verdict != FAULT:
            return Finding(self.name, verdict, moved, allowed, meaning=said, page=self.page)
        where = {"found": said}
        return Finding(self.name, FAULT, moved, allowed, where, self.fault, self.causes, self.page)


def probe(
    name: str, *, fault: str, causes: tuple[str, ...], page: str
) -> Callable[[Measure], FunctionProbe]:
    """Make a probe of the function that measures."""
    return lambda measure: FunctionProbe(name, fault, causes, page, measure)


def near(moved: float, allowed: float, said: str) -> Verdict:
    """Judge by how far something is off; `said` is what was found if that is too far."""
    return (OK, moved, allowed, "") if moved <= allowed else (FAULT, moved, allowed, said)
