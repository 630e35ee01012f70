"""The probes by name, and what makes a probe out of a function that measures movements.

A probe is a function from a `Subject` to the `Movement`s it saw. `@probe` turns it into one that
takes a subject, or a layer and its claims, and returns a `Finding`.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from selfattn.probes.claims import Claims, claims_of
from selfattn.probes.failures import LayerFailed
from selfattn.probes.hidden import Measure, hidden_by
from selfattn.probes.movement import Movement
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK, Finding
from selfattn.probes.stopping import TimeUp
from selfattn.probes.subject import Subject


class CannotTell(Exception):
    """Raised in a probe that has no way to know; the text says why."""

    verdict = CANNOT_TELL


class NotApplicable(CannotTell):
    """Raised in a probe that has nothing to look at; the text says why."""

    verdict = NOT_APPLICABLE


@dataclass(frozen=True)
class Probe:
    """A probe in the catalog.

    Attributes:
        name: as in reports and after `--only`.
        changes: what it changes, or turns up, in a few words.
        fault: what a fault means, in one sentence.
        causes: the likely causes, the most likely first.
        page: the lesson's page, by its file name without the ending.
        unless: from the claims to the reason why it does not apply; "" when it does.
        run: the probe itself.
    """

    name: str
    changes: str
    fault: str
    causes: tuple[str, ...]
    page: str
    unless: Callable[[Claims], str]
    run: Callable[..., Finding]


CATALOG: dict[str, Probe] = {}


def probe(
    name: str,
    *,
    changes: str,
    fault: str,
    causes: tuple[str, ...],
    page: str,
    unless: Callable[[Claims], str] = lambda claims: "",
) -> Callable[[Measure], Callable[..., Finding]]:
    """Enter a function into the catalog and make a probe of it."""

    def enter(measure: Measure) -> Callable[..., Finding]:
        @functools.wraps(measure)
        def run(layer: Any, **claims: Any) -> Finding:
            if isinstance(layer, Subject):
                return _judge(entry, measure, layer)
            with Subject(layer, claims_of(**claims)) as subject:
                return _judge(entry, measure, subject)

        entry = Probe(name, changes, fault, causes, page, unless, run)
        CATALOG[name] = entry
        return run

    return enter


def without_mask(claims: Claims) -> str:
    """The reason of probes that need a mask."""
    return "" if claims.mask else "no mask is claimed"


def _judge(entry: Probe, measure: Measure, subject: Subject) -> Finding:
    reason = entry.unless(subject.claims)
    if reason:
        return Finding(entry.name, NOT_APPLICABLE, meaning=reason, page=entry.page)
    try:
        movements = list(measure(subject))
        if any(m.fault and m.must for m in movements) and (hidden := hidden_by(subject, measure)):
            raise CannotTell(hidden)
    except CannotTell as why:
        return Finding(entry.name, why.verdict, meaning=str(why), page=entry.page)
    except LayerFailed as failure:
        return Finding(entry.name, CANNOT_TELL, meaning=str(failure), page=entry.page)
    except TimeUp:
        late = f"no time was left of the {subject.claims.budget:g} s"
        return Finding(entry.name, CANNOT_TELL, meaning=late, page=entry.page)
    return _finding(entry, movements, subject)


def _finding(entry: Probe, movements: list[Movement], subject: Subject) -> Finding:
    failed = [m.failed for m in movements if m.failed]
    measured = [m for m in movements if not m.failed]
    if not measured:
        reason = failed[0] if failed else "nothing could be measured"
        return Finding(entry.name, CANNOT_TELL, meaning=reason, page=entry.page)
    worst = max(measured, key=lambda m: (m.fault, m.badness))
    found = Finding(entry.name, OK, worst.moved, worst.allowed, worst.where, page=entry.page)
    if not worst.fault:
        note = f"not judged where it gave no output: {failed[0]}" if failed else ""
        return _with(found, meaning=note)
    if subject.random and entry.name != "repetition":
        return _with(found, CANNOT_TELL, "one input and one seed give different outputs")
    return _with(found, FAULT, entry.fault, entry.causes)


def _with(
    found: Finding, verdict: str = OK, meaning: str = "", causes: tuple[str, ...] = ()
) -> Finding:
    return Finding(
        found.name, verdict, found.moved, found.allowed, found.where, meaning, causes, found.page
    )
