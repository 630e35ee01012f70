"""Faulty fills of masked scores, and rows in which everything is masked."""

import math

import torch
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention
from selfattn.probes.sound.blocks import Block


class FillZero(Attention):
    fill = 0.0

    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores.masked_fill(hidden, self.fill), hidden.all(-1, keepdim=True)


class FillSmall(FillZero):
    fill = -1e-9


class FillTenThousand(FillZero):
    fill = -1e4


class FillTwenty(FillZero):
    fill = -20.0


class FillTenThousandAdded(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores + hidden.to(scores) * -1e4, hidden.all(-1, keepdim=True)


class EmptyRowsNan(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores.masked_fill(hidden, -math.inf), torch.zeros_like(hidden[..., :1])


class EmptyRowsZeroedLate(Attention):
    """Zeroed after the softmax, whose way back multiplies 0 by nan."""

    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        added = torch.zeros_like(scores).masked_fill(hidden, -math.inf)
        return scores + added, hidden.all(-1, keepdim=True)


_CAUSAL = {"causal": True}

FAULTS: tuple[Fault, ...] = (
    Fault("fill of 0", FillZero, {}, ("pad-content",), "padding-mask"),
    Fault("fill of -1e-9", FillSmall, {}, ("pad-content",), "padding-mask"),
    Fault(
        "fill of 0, causal",
        lambda: FillZero(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault("fill of -1e4", FillTenThousand, {}, ("high-scores",), "padding-mask"),
    Fault("fill of -1e4 added", FillTenThousandAdded, {}, ("high-scores",), "padding-mask"),
    Fault(
        "fill of -1e4, causal",
        lambda: FillTenThousand(causal=True),
        _CAUSAL,
        ("high-scores",),
        "causal-mask",
    ),
    Fault(
        "fill of -20, window",
        lambda: FillTwenty(window=3),
        {"window": 3, "mask": False},
        ("high-scores",),
        "causal-mask",
    ),
    Fault(
        "fill of -1e4, block",
        lambda: Block(FillTenThousand()),
        {},
        ("high-scores",),
        "padding-mask",
    ),
    Fault("empty rows nan", EmptyRowsNan, {}, ("empty-rows", "empty-gradients"), "causal-mask"),
    Fault(
        "empty rows zeroed too late", EmptyRowsZeroedLate, {}, ("empty-gradients",), "causal-mask"
    ),
)
