"""Windows that are not as wide as claimed."""

import torch
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.faulty.triangles import TriangleWithoutWeightsOnly
from selfattn.probes.sound.attention import Attention


class WindowOneTooLong(Attention):
    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window + 1)


class WindowOneTooShort(Attention):
    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window - 1)


class WindowByForm(TriangleWithoutWeightsOnly):
    """Window w in one form of call and w + 1 in the other."""

    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(1)

    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window + self.need_weights)


_WINDOW = {"causal": True, "window": 3}

FAULTS: tuple[Fault, ...] = (
    Fault(
        "window one too long",
        lambda: WindowOneTooLong(causal=True, window=3),
        _WINDOW,
        ("window",),
        "causal-mask",
    ),
    Fault(
        "window one too short",
        lambda: WindowOneTooShort(causal=True, window=3),
        _WINDOW,
        ("allowed-tokens",),
        "causal-mask",
    ),
    Fault(
        "window of 12 one too short",
        lambda: WindowOneTooShort(causal=True, window=12),
        {"causal": True, "window": 12},
        ("allowed-tokens",),
        "causal-mask",
    ),
    Fault(
        "window by form of call",
        lambda: WindowByForm(causal=True, window=3),
        _WINDOW,
        ("window", "call-forms"),
        "causal-mask",
    ),
)
