"""A faulty softmax, over another axis than the keys, and a faulty scale under it."""

import math

import torch.nn.functional as F
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention, OneHead
from selfattn.probes.sound.blocks import Block
from selfattn.probes.sound.positions import Rotary


class SoftmaxOverHeads(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(1).nan_to_num(0).masked_fill(empty, 0)


class SoftmaxOverHeadsAndKeys(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        together = scores.transpose(1, 2).flatten(2).softmax(-1)
        apart: Tensor = together.unflatten(2, (self.heads, -1)).transpose(1, 2)
        return apart.masked_fill(empty, 0)


class SoftmaxOverQueries(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(-2).nan_to_num(0).masked_fill(empty, 0)


class SoftmaxWithoutDimension(OneHead):
    """Of scores with three axes, F.softmax takes the first: the batch."""

    def softmax(self, scores: Tensor) -> Tensor:
        return F.softmax(scores).nan_to_num(0)


class DividedByLength(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.exp() / scores.shape[-1]


class DividedByLargest(Rotary):
    """The largest weight becomes 1, and not their sum; rotary positions are no reason for that."""

    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        weights = super().softmax(scores, empty)
        return weights / weights.amax(-1, keepdim=True).clamp_min(1e-9)


class SoftmaxOverHeadsRotary(Rotary):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(1).nan_to_num(0).masked_fill(empty, 0)


class NoScale(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class ScaleMultiplied(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) * math.sqrt(self.dim)


_CAUSAL = {"causal": True}

FAULTS: tuple[Fault, ...] = (
    Fault("softmax over heads", SoftmaxOverHeads, {}, ("equal-tokens", "one-token"), "average"),
    Fault(
        "softmax over heads, no mask",
        SoftmaxOverHeads,
        {"mask": False},
        ("equal-tokens", "one-token"),
        "average",
    ),
    Fault(
        "softmax over heads and keys",
        SoftmaxOverHeadsAndKeys,
        {"mask": False},
        ("one-token",),
        "average",
    ),
    Fault("softmax over queries", SoftmaxOverQueries, {}, ("pad-count",), "average"),
    Fault(
        "softmax over queries, causal",
        lambda: SoftmaxOverQueries(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "average",
    ),
    Fault(
        "softmax without a dimension", SoftmaxWithoutDimension, {}, ("mates-content",), "average"
    ),
    Fault("divided by the length", DividedByLength, {"mask": False}, ("one-token",), "average"),
    Fault(
        "divided by the largest weight, rotary",
        DividedByLargest,
        {"positions": True},
        ("equal-tokens",),
        "average",
    ),
    Fault(
        "softmax over heads, rotary causal block",
        lambda: Block(SoftmaxOverHeadsRotary(causal=True)),
        {"positions": True, "causal": True},
        ("equal-tokens",),
        "average",
    ),
    Fault("no scale", NoScale, {"factory": NoScale}, ("scale",), "scale"),
    Fault("scale multiplied", ScaleMultiplied, {"factory": ScaleMultiplied}, ("scale",), "scale"),
)
