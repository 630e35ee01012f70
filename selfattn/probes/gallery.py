"""The table of faults by probes: every cell is measured when it is asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from selfattn.probes.faulty import FAULTS, Fault
from selfattn.probes.report import Finding
from selfattn.probes.run import probe
from selfattn.probes.sound import Sample


@dataclass(frozen=True)
class Row:
    """One fault.

    Attributes:
        fault: what it is, with the lesson's page that warns of it.
        cells: what each probe found, by the probe's name.
    """

    fault: Fault
    cells: dict[str, Finding]

    @property
    def found_by(self) -> list[str]:
        """Name the probes that found it, the one that saw it move most first."""
        found = [cell for cell in self.cells.values() if cell.verdict == "fault"]
        return [cell.name for cell in sorted(found, key=_moved, reverse=True)]


def table(
    faults: Iterable[Fault] = FAULTS, seed: int = 0, only: Sequence[str] | None = None
) -> list[Row]:
    """Probe every faulty layer, each made from one seed; about half a second for each.

    Args:
        faults: the rows.
        seed: of the layers and of the probes.
        only: names of the probes that become columns; all if None.
    """
    state = torch.get_rng_state()
    try:
        return [_row(fault, seed, only) for fault in faults]
    finally:
        torch.set_rng_state(state)


def claims_of_fault(fault: Fault | Sample, layer: Any) -> dict[str, Any]:
    """Give a faulty layer's claims, with the other form of its mask if it has one."""
    numbers = getattr(layer, "numbers", None)
    return {**fault.claims, **({"forms": {"mask of numbers": numbers}} if numbers else {})}


def _row(fault: Fault, seed: int, only: Sequence[str] | None) -> Row:
    torch.manual_seed(seed)
    layer = fault.make()
    report = probe(layer, seed=seed, only=only, **claims_of_fault(fault, layer))
    return Row(fault, {finding.name: finding for finding in report.findings})


def _moved(cell: Finding) -> float:
    moved = cell.moved if cell.moved is not None else 0.0
    return float("inf") if moved != moved else moved
