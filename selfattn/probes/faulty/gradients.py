"""Layers with right outputs that learn wrongly, or write into what they are given."""

from typing import Any

import torch
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention
from selfattn.probes.sound.blocks import Residual


class KeysDetached(Attention):
    def split(self, x: Tensor) -> list[Tensor]:
        q, k, v = super().split(x)
        return [q, k.detach(), v]


class WeightsDetached(Attention):
    def drop(self, weights: Tensor) -> Tensor:
        return weights.detach()


class _HalfSoftmax(torch.autograd.Function):
    """The slope of a softmax is weights * (gradient - sum of weights * gradient)."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights: Tensor = scores.softmax(-1).nan_to_num(0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        weights: Tensor = ctx.saved_tensors[0]
        return weights * gradient


class HalfBackward(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        weights: Tensor = _HalfSoftmax.apply(scores)  # type: ignore[no-untyped-call]
        return weights.masked_fill(empty, 0)


class RootOfZero(Attention):
    """Of a vector of zeros the root's slope is infinite, and infinity times zero is nan."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        length = x.square().sum(-1, keepdim=True).sqrt()
        return super().forward(x / length.clamp_min(1e-3), blocked)


class AddsInPlace(Residual):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        x += self.layer(x, blocked)
        return x


FAULTS: tuple[Fault, ...] = (
    Fault("keys detached", KeysDetached, {}, ("backward",), "projections"),
    Fault("weights detached", WeightsDetached, {}, ("backward",), "projections"),
    Fault("half of the softmax's way back", HalfBackward, {}, ("backward",), "projections"),
    Fault("root of zero in a norm", RootOfZero, {}, ("gradients",), "projections"),
    Fault("sum in place", lambda: AddsInPlace(Attention()), {}, ("inputs",), "projections"),
)
