"""All probes of one layer, and the assertion for a test suite."""

from collections.abc import Iterable, Sequence
from typing import Any

from selfattn.probes import (
    backward,
    caches,
    call_forms,
    causal,
    dropout,
    heads,
    mates,
    modes,
    order,
    packed,
    padding,
    precision,
    reach,
    rows,
    scores,
    shapes,
    untouched,
    widths,
    windows,
)
from selfattn.probes.calling import Layer
from selfattn.probes.catalog import CATALOG, Probe
from selfattn.probes.claims import claims_of
from selfattn.probes.report import FAULT, ClaimError, Finding, Report
from selfattn.probes.subject import Subject

MODULES = (
    padding,
    mates,
    causal,
    reach,
    windows,
    packed,
    order,
    heads,
    modes,
    call_forms,
    dropout,
    untouched,
    rows,
    backward,
    shapes,
    scores,
    widths,
    caches,
    precision,
)
"""Where the probes are, in the order in which they run."""


def catalog() -> dict[str, Probe]:
    """Give all probes by name, in the order in which they run."""
    homes = [module.__name__ for module in MODULES]
    return dict(sorted(CATALOG.items(), key=lambda item: homes.index(item[1].run.__module__)))


def probe(
    layer: Layer,
    width: int = 24,
    causal: bool = False,
    positions: bool | str = False,
    heads: int | None = None,
    seed: int = 0,
    *,
    only: Sequence[str] | None = None,
    **claims: Any,
) -> Report:
    """Change what should not matter, and what must, and look whether the outputs move.

    Args:
        layer: a callable `(x, blocked)`; x `[batch, seq, width]`, blocked a bool `[batch, seq]`,
            True where a token must not be looked at, or None. It returns `[batch, seq,
            width_out]`, or a tuple that starts with it. PyTorch's own attention modules and
            Hugging Face's models are called in their own way.
        width, causal, positions, heads, seed: claims, see `Claims`.
        only: names of the probes to run; all if None.
        claims: the other claims, see `Claims`: mask, window, full, seq, packed, cache, forms,
            sums_to_one, estimated, bare, factory, dtype, device, budget.

    Returns:
        The report, the same for a seed but for the seconds. The layer is as it was.

    Raises:
        ClaimError: a claim or a probe's name is unknown, or claims contradict each other or what
            the layer is.
        ProbeError: the layer gives no output of the right shape at any size.
    """
    given = claims_of(
        width=width, causal=causal, positions=positions, heads=heads, seed=seed, **claims
    )
    probes = chosen(only)
    with Subject(layer, given) as subject:
        findings = [entry.run(subject) for entry in probes]
        said = subject.claims.said()
        notes = [*subject.notes, *_habits(subject), *_first_of_all(findings)]
    return Report(subject.adapted.name, said, findings, notes, subject.budget.wall)


def assert_sound(layer: Layer, **claims: Any) -> Report:
    """Assert that a layer has no fault, in a test suite.

    Args:
        layer, claims: those of `probe`.

    Returns:
        The report.

    Raises:
        AssertionError: there are faults; the text says which, where and what they mean.
        ClaimError, ProbeError: those of `probe`.
    """
    __tracebackhide__ = True  # so that pytest shows the test, and not this function
    report = probe(layer, **claims)
    if not report.ok:
        raise AssertionError("\n".join([_head(report), *map(str, report.faults)]))
    return report


def chosen(only: Iterable[str] | None) -> list[Probe]:
    """Give the probes of these names, in the catalog's order.

    Raises:
        ClaimError: a name is unknown.
    """
    known = catalog()
    if only is None:
        return list(known.values())
    wanted = {only} if isinstance(only, str) else set(only)
    unknown = sorted(wanted - known.keys())
    if unknown or not wanted:
        raise ClaimError(f"no probe {', '.join(unknown)!r}; there are {', '.join(known)}")
    return [entry for name, entry in known.items() if name in wanted]


def _head(report: Report) -> str:
    count = len(report.faults)
    return f"{report.subject} has {count} fault{'s' if count > 1 else ''}:"


def _first_of_all(findings: list[Finding]) -> list[str]:
    """Say which fault to mend first."""
    faults = [finding.name for finding in findings if finding.verdict == FAULT]
    if "repetition" in faults and len(faults) > 1:
        return ["the layer does not repeat itself, and its other faults may follow from that"]
    return []


def _habits(subject: Subject) -> list[str]:
    """Say what else was seen of the layer."""
    notes = [f"it warns: {text}" for text in list(subject.warned)[:3]]
    if subject.printed:
        notes.append(f"it prints: {subject.printed} lines were held back")
    if subject.remembers and not subject.random:
        notes.append("it keeps state that changes its output; put back before every other call")
    return notes
