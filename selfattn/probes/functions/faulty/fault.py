"""The right function, and what is said of a faulty one."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

Function = Callable[..., Tensor]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    blocked: Tensor | None,
    scale: float | None = None,
    axes: int = -1,
    fill: float = -math.inf,
    empty: float | None = 0.0,
) -> Tensor:
    """Attend by the formula; every default is right."""
    scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if blocked is None:
        return scores.softmax(axes) @ v
    weights = scores.masked_fill(blocked, fill).softmax(axes)
    if empty is not None:
        weights = weights.masked_fill(blocked.all(-1, keepdim=True), empty)
    return weights @ v


def attend_causally(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    """Attend under a triangle whose last query sees all keys."""
    later = triangle(q, k)
    return attend(q, k, v, later if blocked is None else later | blocked)


def triangle(q: Tensor, k: Tensor) -> Tensor:
    """Give `[queries, keys]`, True at later keys."""
    queries, keys = q.shape[-2], k.shape[-2]
    return torch.ones(queries, keys, dtype=torch.bool).triu(1 + keys - queries)


@dataclass(frozen=True)
class FunctionFault:
    """A faulty function: what is wrong, the function, what it claims, and who must find it."""

    what: str
    function: Function
    found_by: tuple[str, ...]
    claims: dict[str, Any] = field(default_factory=dict)
