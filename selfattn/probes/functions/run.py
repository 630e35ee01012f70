"""All probes of one attention function."""

from typing import Any

import torch
from torch import Tensor

from selfattn.probes.budget import Budget
from selfattn.probes.calling import name_of
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions import masks, outputs, weights
from selfattn.probes.functions.adapters import adapt
from selfattn.probes.functions.catalog import FunctionProbe
from selfattn.probes.functions.setting import Function, Setting
from selfattn.probes.report import ClaimError, ProbeError, Report
from selfattn.probes.state import State
from selfattn.probes.subject import Subject

PROBES: tuple[FunctionProbe, ...] = (
    weights.scale,
    weights.softmax_axis,
    masks.mask_sense,
    masks.corner,
    weights.group_map,
    masks.empty_row,
    masks.fill,
    outputs.apart,
    outputs.formula,
    outputs.repetition,
)
"""All probes of functions, in the order in which they run."""


def probe_attention(
    fn: Function,
    *,
    heads: int | None = 4,
    key_heads: int | None = None,
    dim: int = 8,
    scale: float | None = None,
    causal: bool = False,
    mask: bool = True,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
    device: Any = "cpu",
    budget: float = 30.0,
) -> Report:
    """Probe a function of queries, keys and values.

    Args:
        fn: `(q, k, v, blocked)`, blocked a bool `[queries, keys]`, True where a query must not
            look, or None; it returns the output, or a tuple that starts with it. PyTorch's
            `scaled_dot_product_attention` and `flex_attention` are called in their own way.
        heads: the heads of the queries; None for a function of `[batch, seq, dim]`.
        key_heads: the heads of keys and values, if fewer: grouped, neighbours share.
        dim: the last dimension, at least 8.
        scale: what scores must be multiplied by; 1 / sqrt(dim) if None.
        causal: it blocks later keys by itself, the last query seeing all keys.
        mask: it takes a mask; if not, it is called as `(q, k, v)`.
        seed, dtype, device, budget: as for `probe`.

    Raises:
        ClaimError: heads and key_heads do not fit, or dim is below 8.
        ProbeError: the function gives no output of the right shape.
    """
    if dim < 8:
        raise ClaimError(f"dim must be at least 8, so that one-hot values fit; got {dim}")
    if (heads or 1) % (key_heads or heads or 1):
        raise ClaimError(f"{heads} query heads cannot share {key_heads} key heads evenly")
    adapted, note = adapt(fn, causal, grouped=bool(key_heads and key_heads != heads))
    if not mask and adapted is fn:
        adapted = lambda q, k, v, blocked: fn(q, k, v)  # noqa: E731
    claims = Claims(width=dim, seed=seed, dtype=dtype, device=device, budget=budget, mask=False)
    sizes = (heads or 0, key_heads or heads or 0, dim, dim**-0.5 if scale is None else scale)
    with Subject(_identity, claims) as subject:
        subject.state = State(fn)
        subject.budget = Budget(budget)  # how long the identity took says nothing of the function
        setting = Setting(adapted, *sizes, causal, mask, subject)
        _try(setting)
        findings = [one.run(setting) for one in PROBES]
        said = {"heads": heads, "key_heads": key_heads, "dim": dim, "causal": causal}
        return Report(name_of(fn), said, findings, [note] * bool(note), subject.budget.wall)


def _try(setting: Setting) -> None:
    q, k, v = setting.draw(5), setting.draw(5, True), setting.draw(5, True, seed=1)
    try:
        setting.out(q, k, v)
    except LayerFailed as failure:
        raise ProbeError(
            f"the function {failure}; it was given q, k, v {list(q.shape)} and no mask. "
            f"Say heads=None if it takes [batch, seq, dim].\n\n{failure.details}"
        ) from failure


def _identity(x: Tensor) -> Tensor:
    return x
