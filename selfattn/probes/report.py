"""What a probe says: one finding each, and the report that holds them all."""

import json
import math
import textwrap
from dataclasses import asdict, dataclass, field
from typing import Any

OK = "ok"
FAULT = "fault"
NOT_APPLICABLE = "not applicable"
CANNOT_TELL = "cannot tell"
VERDICTS = (OK, FAULT, NOT_APPLICABLE, CANNOT_TELL)

_WIDTH = 74


class ProbeError(Exception):
    """The layer could not be probed: the text says what was tried and what happened."""


class ClaimError(ValueError):
    """A claim is unknown, has a wrong value, or contradicts another."""


@dataclass(frozen=True)
class Finding:
    """What one probe found.

    Attributes:
        name: the probe's name.
        verdict: one of `VERDICTS`.
        moved: the largest absolute difference of outputs that was seen, in the layer's own
            units; of a probe in which outputs must move, the smallest. None if nothing was
            compared, nan if an output was not finite.
        allowed: how far the output may move, or must at least.
        where: the place: `form` (how the layer was called) and what else is known of `batch`,
            `row` (the query whose output it is) and `token` (the one that was changed).
        meaning: one sentence on what it means.
        causes: the likely causes of a fault, the most likely first.
        page: the lesson's page, by its file name without the ending.
    """

    name: str
    verdict: str
    moved: float | None = None
    allowed: float | None = None
    where: dict[str, Any] = field(default_factory=dict)
    meaning: str = ""
    causes: tuple[str, ...] = ()
    page: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Give plain values that strict JSON can hold: numbers that are not finite as text."""
        plain = asdict(self)
        plain["causes"] = list(self.causes)
        for name in ("moved", "allowed"):
            plain[name] = _plain(plain[name])
        return plain

    def __str__(self) -> str:
        lines = [f"{self.name}: {self.verdict}"]
        if self.moved is not None:
            lines[0] += f", moved {_short(self.moved)} (allowed {_short(self.allowed)})"
        if self.where:
            lines.append("where: " + ", ".join(f"{k} {v}" for k, v in self.where.items()))
        lines += [self.meaning] if self.meaning else []
        lines += [f"likely cause: {cause}" for cause in self.causes]
        lines += [f"lesson: {self.page}; this probe: probe-list#{self.name}"] if self.page else []
        wrapped = [textwrap.fill(line, _WIDTH - 4, subsequent_indent="  ") for line in lines]
        return textwrap.indent("\n".join(wrapped), "    ")[4:]


@dataclass(frozen=True)
class Report:
    """All findings for one layer.

    Attributes:
        subject: what was probed, in words.
        claims: what was claimed of it.
        findings: one for each probe, in the catalog's order.
        notes: what else was seen, such as that the layer prints.
        seconds: how long it took; the only thing in a report that a second run may change.
    """

    subject: str
    claims: dict[str, Any]
    findings: list[Finding]
    notes: list[str]
    seconds: float

    @property
    def faults(self) -> list[Finding]:
        """The findings whose verdict is `fault`; `repetition` first: others follow from it."""
        faults = [finding for finding in self.findings if finding.verdict == FAULT]
        return sorted(faults, key=lambda finding: finding.name != "repetition")

    @property
    def ok(self) -> bool:
        """Whether there is no fault; what no probe can tell is none."""
        return not self.faults

    def __getitem__(self, name: str) -> Finding:
        """Give the finding of one probe by its name."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        known = ", ".join(finding.name for finding in self.findings)
        raise KeyError(f"no finding {name!r}; this report has {known}")

    def to_dict(self) -> dict[str, Any]:
        """Give plain values that `json.dumps` takes."""
        return {
            "subject": self.subject,
            "ok": self.ok,
            "claims": dict(self.claims),
            "faults": [finding.name for finding in self.faults],
            "findings": [finding.to_dict() for finding in self.findings],
            "notes": list(self.notes),
            "seconds": round(self.seconds, 3),
        }

    def to_json(self) -> str:
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    def __str__(self) -> str:
        claimed = ", ".join(f"{name}={value}" for name, value in self.claims.items())
        lines = [f"{self.subject}: {self._summary()}", f"claims: {claimed or 'none'}", ""]
        lines.append(f"{'probe':<18} {'verdict':<14} {'moved':>9} {'allowed':>9}  where or why")
        lines += [_row(finding) for finding in self.findings]
        if self.faults:
            lines += ["", *(f"{finding}\n" for finding in self.faults)]
            lines.pop() if not lines[-1] else None
        lines += [textwrap.fill(f"note: {n}", _WIDTH, subsequent_indent="  ") for n in self.notes]
        return "\n".join(line.rstrip() for line in "\n".join(lines).splitlines())

    def _summary(self) -> str:
        counts = {v: sum(f.verdict == v for f in self.findings) for v in VERDICTS}
        said = f"{counts[FAULT]} fault{'s' if counts[FAULT] != 1 else ''}" if self.faults else "ok"
        return (
            f"{said} ({counts[OK]} of {len(self.findings)} probes ok, {counts[CANNOT_TELL]} cannot "
            f"tell, {counts[NOT_APPLICABLE]} not applicable) in {self.seconds:.1f} s"
        )


def _row(finding: Finding) -> str:
    if finding.verdict == FAULT:
        reason = ", ".join(f"{k} {v}" for k, v in finding.where.items())
    else:
        reason = "" if finding.verdict == OK else finding.meaning
    head = (
        f"{finding.name:<18} {finding.verdict:<14} {_short(finding.moved):>9} "
        f"{_short(finding.allowed):>9}"
    )
    return f"{head}  {textwrap.shorten(reason, _WIDTH - len(head) + 20, placeholder=' ...')}"


def _short(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2g}" if math.isfinite(value) and 0 < abs(value) < 0.01 else f"{value:.4g}"


def _plain(value: float | None) -> float | str | None:
    return value if value is None or math.isfinite(value) else str(value)
