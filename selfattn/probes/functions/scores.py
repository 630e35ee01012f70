"""Scores that are far from zero: a fill that they pass, and numbers that they overflow."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.functions.cases import compared
from selfattn.probes.functions.catalog import NO_MASK, Verdict, near, probe
from selfattn.probes.functions.reference import Expected, repeated, steps
from selfattn.probes.functions.setting import Setting, plain
from selfattn.probes.report import CANNOT_TELL, FAULT


@probe(
    "fill",
    fault="The fill is finite and leaks once real scores are below it.",
    causes=("a fill such as -1e4 instead of minus infinity",),
    page="padding-mask",
    after=("mask-sense",),
)
def fill(s: Setting) -> Verdict:
    """Push the real scores down until a blocked key gets weight; halve the range where it does."""
    if not s.mask:
        return NO_MASK
    low, high = 1.0, highest(s)
    weight = _leaked(s, high)
    if not math.isfinite(weight):
        return Verdict(CANNOT_TELL, said=f"weights are not finite at scores of -{high:.4g}")
    if weight <= 1e-3 * s.slack:
        return near(weight, 1e-3 * s.slack, "")
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if _leaked(s, middle) > 1e-3 * s.slack else (middle, high)
    return near(weight, 1e-3 * s.slack, f"it begins where real scores are below -{high:.4g}")


def highest(s: Setting) -> float:
    """Give a score of up to 1e5 that does not overflow, nor does it before it is scaled."""
    return min(1e5, 0.9 * float(torch.finfo(s.subject.dtype).max) * min(1.0, s.scale))


def _leaked(s: Setting, score: float) -> float:
    """Give the weight of a blocked key of score 0 beside a real one of `score` below 0."""
    q, k = _scored(s, [-score] * 2, [1.0, 0.0])
    blocked = torch.tensor([[False, True]] * 2)
    return float(s.weights(q, k, blocked)[..., -1, 1].abs().max())


def _scored(s: Setting, rows: list[float], keys: list[float]) -> tuple[Tensor, Tensor]:
    """Give queries and keys whose scores are the products of `rows` and `keys`, in every head."""
    a = (max(map(abs, rows)) / s.scale) ** 0.5
    q = torch.zeros(s.shape(len(rows), False), dtype=torch.float64)
    k = torch.zeros(s.shape(len(keys), True), dtype=torch.float64)
    q[..., 0] = torch.tensor(rows, dtype=torch.float64) / (a * s.scale)
    k[..., 0] = torch.tensor(keys, dtype=torch.float64) * a
    return s.cast(q), s.cast(k)


@probe(
    "high-scores",
    fault="The output is wrong where scores are high.",
    causes=(
        "a softmax without the row's own maximum subtracted, which overflows",
        "scores that are clamped",
        "blocked keys that are taken out after the softmax, when they have all the weight",
    ),
    page="padding-mask",
    after=("repetition", "fill", "formula"),
)
def high_scores(s: Setting) -> Verdict:
    """Give some rows very high and others very low scores, and a blocked key the highest."""
    verdict = None
    for score in (overflowing(s), highest(s)):
        for said, out, right, off in _high(s, min(score, highest(s))):
            rows = torch.ones(out.shape[:-1], dtype=torch.bool)
            allowed = torch.full_like(out, off * float(right.abs().max()))
            verdict = compared(out, Expected(right.expand_as(out), allowed, rows), said, {})
            if verdict.verdict == FAULT:
                return verdict
    assert verdict
    return verdict


def overflowing(s: Setting) -> float:
    """Give a score whose exponential is too large, in float32 for lower precision as well."""
    largest = max(torch.finfo(s.subject.dtype).max, torch.finfo(torch.float32).max)
    return 2 * math.log(largest)


def _high(s: Setting, score: float) -> Iterator[tuple[str, Tensor, Tensor, float]]:
    """Give what would be wrong, the outputs, the right ones, and the share they may be off.

    Rounding cannot tell equal scores apart, nor bring two near to each other that are far apart;
    but a logarithm of the sum of exponentials is as large as the scores, and rounded so.
    """
    wide = repeated(s, (v := s.draw(3, True, seed=1),) * 3)[2]
    wide, few = plain(wide), steps(s, 3)
    said = f"scores of {score:.4g}, 0 and -{score:.4g} in three rows, alike in each"
    rounded = math.expm1(min(30.0, score * float(torch.finfo(s.subject.dtype).eps) / 2))
    for last in (score, -score):
        q, k = _scored(s, [-last, 0.0, last], [1.0, 1.0, 1.0])
        yield said, _last(s, s.out(q, k, v)), wide.mean(-2, keepdim=True), few + rounded
    q, k = _scored(s, [score] * 3, [1.0, 0.5, 0.5])
    said = f"a score of {score:.4g} beside two of {score / 2:.4g}"
    yield said, _last(s, s.out(q, k, v)), wide[..., :1, :], few
    if s.mask:
        q, k = _scored(s, [score] * 3, [0.0, 1.0, 0.0])
        blocked = torch.tensor([False, True, False]).expand(3, 3)
        said = f"the score of a blocked key is {score:.4g}, and of the others 0"
        out = _last(s, s.out(q, k, v, blocked))
        yield said, out, wide[..., [0, 2], :].mean(-2, keepdim=True), few


def _last(s: Setting, out: Tensor) -> Tensor:
    """Under a triangle the last query alone sees all keys, so its output is looked at."""
    return out[..., -1:, :] if s.causal else out
