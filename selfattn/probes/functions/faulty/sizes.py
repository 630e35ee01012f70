"""Functions that are right at some sizes only."""

import torch
from torch import Tensor

from selfattn.probes.functions.faulty.fault import FunctionFault, attend, triangle


def _online(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is None:
        blocked = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool)
    total, out = torch.zeros_like(q[..., :1]), 0.0
    for i in range(0, k.shape[-2], 8):
        scores = q @ k[..., i : i + 8, :].mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(blocked[:, i : i + 8], -torch.inf)
        largest = scores.amax(-1, keepdim=True).nan_to_num(neginf=0.0)
        weights = (scores - largest).exp()  # another maximum in each block
        total, out = total + weights.sum(-1, keepdim=True), out + weights @ v[..., i : i + 8, :]
    return out / total.masked_fill(total == 0, 1)


def _short_triangle(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    later = triangle(q, k)
    later[16:] = False
    return attend(q, k, v, later if blocked is None else later | blocked)


def _first_slice(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    parts = q.split(8, dim=-2)
    masks = [None if blocked is None else blocked[: part.shape[-2]] for part in parts]
    return torch.cat([attend(p, k, v, m) for p, m in zip(parts, masks, strict=True)], dim=-2)


def _square(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    n = q.shape[-2]
    return attend(q, k[..., :n, :], v[..., :n, :], None if blocked is None else blocked[:, :n])


def _one_query(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return attend(q, k, v, blocked, scale=1.0 if q.shape[-2] == 1 else None)


def _width_of_8(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return attend(q, k, v, blocked, scale=8**-0.5)


def _width_of_values(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return attend(q, k, v, blocked, scale=v.shape[-1] ** -0.5)


def _corner_beside_a_mask(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is None:
        return attend(q, k, v, triangle(q, k))
    return attend(q, k, v, blocked | torch.ones_like(blocked).triu(1))


def _mixing(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    out = attend(q, k, v, blocked)
    return out if len(out) < 3 else out + out.mean(0, keepdim=True)


def _mask_by_sample(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is not None and len(blocked) == len(q):
        blocked = blocked[:, None, None, :]
    return attend(q, k, v, blocked)


def _all_blocked(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is not None and blocked.all():
        blocked = None
    return attend(q, k, v, blocked)


CAUSAL = {"causal": True}

SIZES: tuple[FunctionFault, ...] = (
    FunctionFault("function: online softmax not rescaled", _online, ("blocks",)),
    FunctionFault("function: triangle of 16", _short_triangle, ("blocks",), CAUSAL),
    FunctionFault("function: mask's first slice for each chunk", _first_slice, ("blocks",)),
    FunctionFault("function: as many keys as queries", _square, ("shapes",)),
    FunctionFault("function: one query without scale", _one_query, ("scale",)),
    FunctionFault("function: scale of width 8", _width_of_8, ("scale",)),
    FunctionFault("function: scale of the values' width", _width_of_values, ("scale",)),
    FunctionFault("function: corner beside a mask", _corner_beside_a_mask, ("corner",), CAUSAL),
    FunctionFault("function: samples mixed from three on", _mixing, ("shapes",)),
    FunctionFault("function: mask taken by sample", _mask_by_sample, ("shapes",)),
    FunctionFault("function: all rows blocked, none is", _all_blocked, ("empty-row",)),
)
"""Wrong at some sizes."""
