"""Faulty positions."""

import torch
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.positions import Learned, Rotary


class PlacesFromFirst(Learned):
    """Positions count from the first place, pads and all."""

    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])


class PlacesFromEnd(Learned):
    """Positions count back from the last place, so that every further token moves all."""

    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return super().places(x, blocked).flip(1)


class PlacesAllAlike(Learned):
    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.zeros(x.shape[:2], dtype=torch.int64, device=x.device)


FAULTS: tuple[Fault, ...] = (
    Fault(
        "positions from the first place",
        PlacesFromFirst,
        {"positions": True},
        ("left-pads",),
        "padding-mask",
    ),
    Fault(
        "positions from the end, causal",
        lambda: PlacesFromEnd(causal=True),
        {"positions": "absolute", "causal": True, "mask": False},
        ("later-tokens",),
        "causal-mask",
    ),
    Fault("positions all alike", PlacesAllAlike, {"positions": True}, ("positions",), "order"),
    Fault("positions not claimed", Rotary, {}, ("order",), "order"),
)
