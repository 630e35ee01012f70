"""Functions that weigh or block keys wrongly, at any size and in any mode."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.probes.functions.faulty.fault import Function, FunctionFault, attend


def _with(**words: Any) -> Function:
    return lambda q, k, v, blocked: attend(q, k, v, blocked, **words)


def _after(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-1)
    return (weights if blocked is None else weights.masked_fill(blocked, 0)) @ v


def _keep(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=blocked)


def _flag(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    if blocked is not None:
        blocked = blocked | torch.ones_like(blocked).triu(1)
        return attend(q, k, v, blocked)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _tiled(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    each = q.shape[1] // k.shape[1]
    return attend(q, k.repeat(1, each, 1, 1), v.repeat(1, each, 1, 1), blocked)


def _dropping(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    keep = None if blocked is None else ~blocked
    return F.scaled_dot_product_attention(q, k, v, attn_mask=keep, dropout_p=0.2)


WEIGHTS: tuple[FunctionFault, ...] = (
    FunctionFault("function: no scale", _with(scale=1.0), ("scale",)),
    FunctionFault("function: scale multiplied", _with(scale=math.sqrt(8)), ("scale",)),
    FunctionFault("function: root of all heads' width", _with(scale=32**-0.5), ("scale",)),
    FunctionFault("function: softmax over queries", _with(axes=-2), ("softmax-axis",)),
    FunctionFault("function: softmax over heads", _with(axes=1), ("softmax-axis",)),
    FunctionFault("function: True means keep", _keep, ("mask-sense",)),
    FunctionFault("function: mask after the softmax", _after, ("formula",)),
    FunctionFault("function: corner at the first key", _flag, ("corner",), {"causal": True}),
    FunctionFault(
        "function: key heads tiled", _tiled, ("group-map",), {"heads": 6, "key_heads": 2}
    ),
    FunctionFault("function: fill of -1e4", _with(fill=-1e4), ("fill",)),
    FunctionFault("function: fill of 0", _with(fill=0.0), ("mask-sense",)),
    FunctionFault("function: empty rows nan", _with(empty=None), ("empty-row",)),
    FunctionFault(
        "function: empty rows average",
        _with(fill=torch.finfo(torch.bfloat16).min, empty=None),
        ("empty-row",),
    ),
    FunctionFault("function: dropout always on", _dropping, ("repetition",)),
)
"""At any size, in any mode."""
