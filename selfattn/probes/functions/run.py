"""All probes of one attention function."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.budget import Budget
from selfattn.probes.calling import name_of
from selfattn.probes.claims import Claims
from selfattn.probes.functions import gradients, groups, masks, modes, outputs, scores, weights
from selfattn.probes.functions.adapters import adapt
from selfattn.probes.functions.catalog import FunctionProbe
from selfattn.probes.functions.claims import check
from selfattn.probes.functions.first_call import ready, without_mask
from selfattn.probes.functions.setting import Function, Setting
from selfattn.probes.report import FAULT, Finding, Report
from selfattn.probes.signatures import inside
from selfattn.probes.state import State
from selfattn.probes.subject import Subject

PROBES: tuple[FunctionProbe, ...] = (
    modes.repetition,
    modes.inputs,
    weights.scale,
    weights.softmax_axis,
    masks.mask_sense,
    masks.corner,
    groups.group_map,
    masks.empty_row,
    scores.fill,
    outputs.apart,
    outputs.formula,
    scores.high_scores,
    outputs.shapes,
    outputs.blocks,
    modes.modes,
    modes.layout,
    gradients.backward,
    gradients.empty_gradients,
)
"""All probes of functions, in the order in which they run: those that name one thing come first."""


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
        ClaimError: a claim makes no sense, such as heads that cannot share key_heads evenly, a
            scale of 0, a dim below 8, or an integer dtype.
        ProbeError: the function gives no output of the right shape.
    """
    check(fn, heads, key_heads, dim, scale, causal, mask, dtype)
    adapted, note = adapt(fn, causal, grouped=bool(key_heads and key_heads != heads))
    if not mask and adapted is fn:
        adapted = without_mask(fn)
    claims = Claims(width=dim, seed=seed, dtype=dtype, device=device, budget=budget, mask=False)
    factor = dim**-0.5 if scale is None else scale
    sizes = (heads or 0, key_heads or heads or 0, dim, factor, scale is None)
    with Subject(_identity, claims) as subject:
        subject.state = State(fn)
        # How long the identity took says nothing of the function.
        subject.budget = Budget(budget, compiles=inside(fn) is not fn)
        setting = ready(Setting(adapted, *sizes, causal, mask, subject))
        findings = list(_findings(setting))
        said = {"heads": heads, "key_heads": key_heads, "dim": dim, "causal": causal}
        notes = [note] * bool(note) + subject.notes
        return Report(name_of(fn), said, findings, notes, subject.budget.wall)


def _findings(setting: Setting) -> Iterator[Finding]:
    faults: set[str] = set()
    for one in PROBES:
        finding = one.run(setting, faults)
        if finding.verdict == FAULT:
            faults.add(finding.name)
        yield finding


def _identity(x: Tensor) -> Tensor:
    return x
