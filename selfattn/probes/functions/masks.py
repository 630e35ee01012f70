"""Blocked keys: the mask's sense, the triangle's corner, rows without a key, the fill."""

import math

import torch

from selfattn.probes.functions.catalog import NO_MASK, Verdict, near, probe
from selfattn.probes.functions.setting import Setting
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK


@probe(
    "mask-sense",
    fault="A key that is blocked is looked at.",
    causes=("True means keep in this function", "a fill near zero, or a mask that is not applied"),
    page="pytorch",
)
def mask_sense(s: Setting) -> Verdict:
    if not s.mask:
        return NO_MASK
    generator = s.subject.generator("mask sense")
    blocked = torch.rand(5, 6, generator=generator) < 0.5
    blocked[:, 0], blocked[:, 1] = False, True
    blocked[:, 0] |= torch.tensor([False, True, False, True, False])
    blocked[:, 2] &= ~blocked[:, 0]
    if s.causal:
        blocked = torch.zeros(5, 6, dtype=torch.bool)
        blocked[:, 1] = True
    weights = s.weights(s.draw(5), s.draw(6, True), blocked)
    inside = float(weights.masked_fill(~blocked, 0).abs().max())
    outside = float(weights.masked_fill(blocked, 0).nan_to_num(0).abs().max())
    said = f"a blocked key has a weight of {inside:.3g}"
    if outside == 0:
        said += ", and every key that is not blocked 0: True means keep here"
    if not weights.isfinite().all():
        return FAULT, math.nan, s.slack, "weights are not finite though every row has a key"
    return near(inside, 1e-3 * s.slack, said)


@probe(
    "corner",
    fault="The triangle is anchored at the wrong corner.",
    causes=("is_causal anchors it at the first key, which is wrong with cached keys",),
    page="causal-mask",
)
def corner(s: Setting) -> Verdict:
    """Two queries and five keys: the last query must see all keys, the first all but the last."""
    if not s.causal:
        return NOT_APPLICABLE, None, None, "the function does not claim to be causal"
    for queries, keys in ((5, 5), (2, 5), (1, 5)):
        seen = s.weights(s.draw(queries), s.draw(keys, True)) > 1e-3 * s.slack
        every = torch.ones(queries, keys, dtype=torch.bool)
        right = every.tril(keys - queries)
        if not torch.equal(seen, right.expand_as(seen)):
            said = "the keys seen are not those up to the query's own place"
            if torch.equal(seen, every.tril().expand_as(seen)):
                said = "the triangle is anchored at the first key and not at the last"
            said = f"with {queries} queries and {keys} keys, {said}"
            return FAULT, float((seen != right).sum()), 0.0, said
    return OK, 0.0, 0.0, ""


@probe(
    "empty-row",
    fault="A row without any key is neither zero nor independent of what is blocked.",
    causes=("a softmax over minus infinity alone", "a finite fill, which averages all values"),
    page="causal-mask",
)
def empty_row(s: Setting) -> Verdict:
    if not s.mask:
        return NO_MASK
    q, k, v = s.draw(5), s.draw(5, True), s.draw(5, True, seed=1)
    blocked = torch.zeros(5, 5, dtype=torch.bool)
    blocked[2] = True
    out = s.out(q, k, v, blocked)
    row = out[..., 2, :]
    if not row.isfinite().all():
        return FAULT, math.nan, 0.0, "it is not finite"
    other = s.out(q, k, s.draw(5, True, seed=2), blocked)[..., 2, :]
    moved = float((row - other).abs().max())
    mean = v.double().cpu().mean(-2)
    is_mean = s.heads == s.key_heads and float((row - mean).abs().max()) < s.slack * 4
    said = "it is the mean of all values" if is_mean else "it depends on blocked values"
    return near(moved, 1e-3 * s.slack, said)


@probe(
    "fill",
    fault="The fill is finite and leaks once real scores are below it.",
    causes=("a fill such as -1e4 instead of minus infinity",),
    page="padding-mask",
)
def fill(s: Setting) -> Verdict:
    """Push the real scores down until a blocked key gets weight; halve the range where it does."""
    if not s.mask:
        return NO_MASK
    low, high = 1.0, 1e5
    while not math.isfinite(weight := _leaked(s, high)):
        if high < 1e2:
            return CANNOT_TELL, None, None, "weights are not finite at any score that is tried"
        high /= 1.5  # an overflow of float16 is no leak
    if weight <= 1e-3 * s.slack:
        return OK, weight, 1e-3 * s.slack, ""
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _leaked(s, middle) > 1e-3 * s.slack else (middle, high)
    return FAULT, weight, 1e-3 * s.slack, f"it begins where real scores are below -{high:.4g}"


def _leaked(s: Setting, score: float) -> float:
    """Give the weight of a blocked key of score 0 beside a real one of `score` below 0."""
    a = (score / s.scale) ** 0.5
    token = torch.zeros(2, s.dim, dtype=torch.float64)
    token[0, 0] = -a
    k = s.cast(token.expand(*s.draw(2, True).shape).contiguous())
    q = s.cast((-token[:1]).expand(*s.draw(2).shape).contiguous())
    blocked = torch.tensor([[False, True], [False, True]])
    return float(s.weights(q, k, blocked)[..., -1, 1].abs().max())
