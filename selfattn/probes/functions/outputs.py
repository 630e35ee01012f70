"""The outputs as a whole: apart, as the formula says, and the same twice."""

import math

import torch
from torch import Tensor

from selfattn.probes.calling import first_tensor
from selfattn.probes.forms import PLAIN
from selfattn.probes.functions.catalog import Verdict, near, probe
from selfattn.probes.functions.setting import Setting


@probe(
    "apart",
    fault="Samples or heads reach each other.",
    causes=("a softmax or a reshape over the batch or the heads",),
    page="average",
)
def apart(s: Setting) -> Verdict:
    """Change one sample, then one head; the others must stay."""
    words = [s.draw(5), s.draw(5, True), s.draw(5, True, seed=1)]
    fresh = [s.draw(5, seed=3), s.draw(5, True, seed=4), s.draw(5, True, seed=5)]
    base, moved = s.out(*words), 0.0
    for axis in (0, 1) if s.heads > 1 and s.heads == s.key_heads else (0,):
        changed = [t.clone() for t in words]
        for t, other in zip(changed, fresh, strict=True):
            t.select(axis, 0).copy_(other.select(axis, 0))
        distance = (base - s.out(*changed)).abs()
        moved = max(moved, float(distance.narrow(axis, 1, base.shape[axis] - 1).max()))
    return near(moved, s.slack, "another sample or head moves the output")


@probe(
    "formula",
    fault="The output is not softmax(scale q k^T) v.",
    causes=("any of the other faults, or another formula",),
    page="pytorch",
)
def formula(s: Setting) -> Verdict:
    """Compare with softmax(scale q k^T) v in float64."""
    q, k, v = s.draw(5), s.draw(5, True), s.draw(5, True, seed=1)
    wide = [t.double().cpu() for t in (q, k, v)]
    if s.heads and s.heads != s.key_heads:
        each = s.heads // s.key_heads
        wide[1:] = [t.repeat_interleave(each, dim=1) for t in wide[1:]]
    scores = wide[0] @ wide[1].transpose(-2, -1) * s.scale
    if s.causal:
        scores = scores.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -math.inf)
    allowed = s.slack * float(wide[2].abs().max())
    moved = float((scores.softmax(-1) @ wide[2] - s.out(q, k, v)).abs().max())
    if not s.mask or not moved <= allowed:
        return near(moved, allowed, "the output is another")
    blocked = torch.zeros(5, 5, dtype=torch.bool)
    blocked[1:, 0] = True  # every row keeps its own key
    right = scores.masked_fill(blocked, -math.inf).softmax(-1) @ wide[2]
    moved = float((right - s.out(q, k, v, blocked)).abs().max())
    return near(moved, allowed, "the output is another when a key is blocked")


@probe(
    "repetition",
    fault="The same call gives another output the second time.",
    causes=("dropout that is always on",),
    page="pytorch",
)
def repetition(s: Setting) -> Verdict:
    q, k, v = s.draw(5), s.draw(5, True), s.draw(5, True, seed=1)

    def twice() -> list[Tensor]:
        return [first_tensor(s.call(q, k, v, None)).double() for _ in range(2)]

    first, second = s.subject.call(twice, PLAIN, q)
    return near(float((first - second).abs().max()), s.slack, "the second call differs")
