"""Functions that are right in some modes, or once, or without gradients."""

import math

import torch
from torch import Tensor

from selfattn.probes.functions.faulty.fault import (
    FunctionFault,
    attend,
    attend_causally,
    triangle,
)


def _triangle_lost(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    call = attend if torch.is_grad_enabled() else attend_causally
    return call(q, k, v, blocked)


def _contiguous(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    q = q.as_strided(q.shape, torch.empty(q.shape).stride())
    return attend(q, k, v, blocked)


def _writing(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is None:
        return attend_causally(q, k, v, None)
    blocked |= triangle(q, k)
    return attend(q, k, v, blocked)


class _Keeping:
    """Keeps the mask of an earlier call for a call without one."""

    def __init__(self) -> None:
        self.mask: Tensor | None = None

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
        if blocked is not None:
            self.mask = blocked
        elif self.mask is not None and self.mask.shape == (q.shape[-2], k.shape[-2]):
            blocked = self.mask
        return attend(q, k, v, blocked)


def _detached(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return attend(q, k.detach(), v, blocked)


def _added(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is None:
        return attend(q, k, v, None)
    added = torch.zeros(blocked.shape, dtype=q.dtype).masked_fill(blocked, -math.inf)
    weights = (q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5 + added).softmax(-1)
    out: Tensor = weights.masked_fill(blocked.all(-1, keepdim=True), 0) @ v
    return out


MODES: tuple[FunctionFault, ...] = (
    FunctionFault(
        "function: triangle lost with gradients", _triangle_lost, ("modes",), {"causal": True}
    ),
    FunctionFault("function: memory taken as contiguous", _contiguous, ("layout",)),
    FunctionFault("function: writes into the mask", _writing, ("inputs",), {"causal": True}),
    FunctionFault("function: earlier mask kept", _Keeping(), ("repetition",)),
    FunctionFault("function: keys detached", _detached, ("backward",)),
    FunctionFault("function: infinity added, then zeroed", _added, ("empty-gradients",)),
)
"""Wrong in some modes, the second time, or on the way back."""
