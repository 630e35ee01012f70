"""How far an output moved."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Movement:
    """How far an output moved when something was changed, or why that is not known.

    Attributes:
        how: what was changed, or how it was called.
        moved, allowed: see `Finding`; the smaller of the two decides.
        must: the output must move by more than `allowed`, and not at most.
        where: the place.
        failed: why there was no output to compare.
    """

    how: str
    moved: float = 0.0
    allowed: float = 0.0
    must: bool = False
    where: dict[str, Any] = field(default_factory=dict)
    failed: str = ""

    @property
    def fault(self) -> bool:
        if self.failed:
            return False
        return self.moved <= self.allowed if self.must else not self.moved <= self.allowed

    @property
    def badness(self) -> float:
        """Order movements from good to bad; what is not finite is worst."""
        ratio = self.moved / self.allowed if self.allowed else self.moved * 1e30
        return float("inf") if ratio != ratio else -ratio if self.must else ratio


def farthest(base: Tensor, other: Tensor, places: Tensor) -> tuple[float, int, int]:
    """Find where two outputs are furthest apart.

    Args:
        base, other: `[batch, seq, width_out]`.
        places: boolean `[batch, seq]`, True where they are compared.

    Returns:
        The largest difference, nan if it is not finite, and its batch and row.
    """
    distance = (base - other).abs().amax(-1)
    distance = distance.masked_fill(~distance.isfinite(), float("inf")).masked_fill(~places, -1)
    batch, row = divmod(int(distance.flatten().argmax()), base.shape[1])
    moved = float(distance[batch, row])
    return (float("nan") if moved == float("inf") else moved), batch, row


def everywhere(out: Tensor) -> Tensor:
    """Give `[batch, seq]`, True throughout."""
    return torch.ones(out.shape[:2], dtype=torch.bool)
