"""What is right, in float64, and how far rounding may take a right function from it.

A score is a sum of products; a function may round q, k, the sum and the scale, so it is off by a
few rounding steps of the sum of the products' sizes. Scores that are off by d_j move the output
by sum_j w_j (e^d_j - 1) (v_j - out), by Cauchy and Schwarz no further than the root of
sum_j w_j (e^d_j - 1)^2 times the values' standard deviation under the weights. A logarithm of
their sum is as large as a score and rounded like one: that moves the whole output. To it come the
roundings of the weights and of the sum over the keys: of n summands, about the root of n steps
(Higham and Mary, A New Approach to Probabilistic Rounding Error Analysis, 2019).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from selfattn.probes.functions.setting import Setting, Words, plain
from selfattn.probes.noise import LOW

STEPS = 4.0
"""How many rounding steps a score, and a weight times a value, may be off in low precision."""


class Expected(NamedTuple):
    """The right output, how far one may be off, and where it is judged: rows that have a key."""

    right: Tensor
    allowed: Tensor
    places: Tensor


def hidden(s: Setting, queries: int, keys: int, blocked: Tensor | None) -> Tensor:
    """Give what must not be looked at `[queries, keys]`: by the mask, and by the triangle."""
    every = torch.zeros(queries, keys, dtype=torch.bool)
    if s.causal:
        every = (~every).triu(1 + keys - queries)
    return every if blocked is None else every | blocked


def expected(s: Setting, words: Words, blocked: Tensor | None = None) -> Expected:
    """Give softmax(scale q k^T) v, zero in rows without a key."""
    q, k, v = (plain(t) for t in words)
    q, k, v = repeated(s, (q, k, v))
    weights, off = weighed(s, q, k, blocked)
    right = weights @ v
    spread = (weights @ v**2 - right**2).clamp(min=0).sqrt()
    bent = (weights * off.expm1() ** 2).sum(-1, keepdim=True).sqrt()
    bent = bent / (weights * (-off).exp()).sum(-1, keepdim=True).clamp(min=1e-30)
    whole = off.masked_fill(weights == 0, 0).amax(-1, keepdim=True)
    allowed = bent * spread + whole * right.abs() + steps(s, k.shape[-2]) * (weights @ v.abs())
    return Expected(right, allowed, weights.sum(-1) > 0)


def repeated(s: Setting, words: Words) -> Words:
    """Repeat each key head for the query heads that share it."""
    q, k, v = words
    each = s.heads // s.key_heads if s.heads else 1
    return q, k.repeat_interleave(each, dim=-3), v.repeat_interleave(each, dim=-3)


def weighed(s: Setting, q: Tensor, k: Tensor, blocked: Tensor | None) -> tuple[Tensor, Tensor]:
    """Give the weights `[..., queries, keys]`, and how far each score may be off."""
    scores = q @ k.transpose(-2, -1) * s.scale
    out_of_sight = hidden(s, q.shape[-2], k.shape[-2], blocked)
    empty = out_of_sight.all(-1, keepdim=True)
    scores = scores.masked_fill(out_of_sight, -torch.inf).masked_fill(empty, 0)
    sizes = q.detach().abs() @ k.detach().abs().transpose(-2, -1) * abs(s.scale)
    off = (steps(s, 1) * sizes).clamp(max=30.0)
    return scores.softmax(-1).masked_fill(empty, 0), off


def steps(s: Setting, summands: int) -> float:
    """Give how far a sum may be off, in relation to the sum of its summands' sizes."""
    count = STEPS if s.subject.dtype in LOW else 8 * STEPS  # where faults are far from rounding
    return count * float(torch.finfo(s.subject.dtype).eps) / 2 * math.sqrt(summands)
