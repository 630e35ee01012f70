"""Gradients of q, k and v: those of the formula, also beside a row without a key."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.functions.cases import ONE, Case, compared, masked
from selfattn.probes.functions.catalog import NO_MASK, Verdict, probe
from selfattn.probes.functions.modes import GRADIENTS
from selfattn.probes.functions.reference import Expected, repeated, steps, weighed
from selfattn.probes.functions.setting import Setting, Words, plain
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE


@probe(
    "backward",
    fault="The gradients are not those of softmax(scale q k^T) v, and the output is.",
    causes=("detach, or no_grad, on a part", "an operation whose derivative is not finite"),
    page="projections",
    after=("repetition", "inputs", "formula", "high-scores", "modes"),
)
def backward(s: Setting) -> Verdict:
    """Compare the gradients of q, k and v with those of the formula in float64."""
    return _judged(masked(s, s.words(s.count, s.count), ONE))


@probe(
    "empty-gradients",
    fault="A row with nothing to attend makes gradients wrong for the others.",
    causes=("rows zeroed after the softmax: 0 times nan is nan on the way back",),
    page="causal-mask",
    after=("repetition", "inputs", "formula", "modes", "backward"),
)
def empty_gradients(s: Setting) -> Verdict:
    """Block a row throughout, with a loss on the others."""
    if not s.mask:
        return NO_MASK
    blocked = torch.zeros(s.count, s.count, dtype=torch.bool)
    blocked[2] = True
    return _judged(iter([Case(s, s.words(s.count, s.count), "one row throughout", blocked)]))


def _judged(cases: Iterator[Case]) -> Verdict:
    verdict = Verdict(CANNOT_TELL, said="there is nothing to compare")
    for case in cases:
        found = _gradients(case)
        if not any(float(t.abs().nan_to_num(1).max()) for t in found):
            return Verdict(NOT_APPLICABLE, said="the function passes no gradients")
        for name, gradient, right in zip("qkv", found, _right(case), strict=True):
            said = f"the gradient of {name} is another"
            if not gradient.isfinite().all():
                said = f"the gradient of {name} is not finite"
            elif not gradient.any():
                said = f"{name} gets no gradient"
            verdict = compared(gradient, right, said, case.where)
            if verdict.verdict == FAULT:
                return verdict
    return verdict


def _upstream(case: Case) -> Tensor:
    """Draw the loss's gradient of the output, zero in rows without a key."""
    s, (q, _, v) = case.setting, case.words
    drawn = s.draw(q.shape[-2], seed=7, width=v.shape[-1])
    return drawn * case.expected.places.unsqueeze(-1).to(drawn)


def _gradients(case: Case) -> Words:
    s = case.setting

    def found() -> Words:
        q, k, v = (t.clone().requires_grad_() for t in case.words)
        out = s.result((q, k, v), case.blocked, arrange=lambda t: t)
        if out.requires_grad:
            (out * _upstream(case).to(out)).sum().backward()
        q, k, v = (plain(torch.zeros_like(t) if t.grad is None else t.grad) for t in (q, k, v))
        return q, k, v

    gradients: Words = s.subject.call(found, GRADIENTS, case.words[0])
    return gradients


def _right(case: Case) -> Iterator[Expected]:
    """Give the right gradients, and how far rounding may move each of their sums."""
    s = case.setting
    q, k, v = (plain(t).requires_grad_() for t in case.words)
    leaves = (q, k, v)
    with torch.enable_grad():
        q, k, v = repeated(s, leaves)
        weights, _ = weighed(s, q, k, case.blocked)
        (weights @ v * plain(_upstream(case))).sum().backward()
    for leaf, allowed in zip(leaves, _allowed(case), strict=True):
        assert leaf.grad is not None
        yield Expected(leaf.grad, allowed, torch.ones(leaf.shape[:-1], dtype=torch.bool))


def _allowed(case: Case) -> Iterator[Tensor]:
    """Give the sums of the sizes of what the gradients are sums of, each times its roundings."""
    s, upstream = case.setting, plain(_upstream(case)).abs()
    q, k, v = (plain(t) for t in case.words)
    q, k, v = repeated(s, (q, k, v))
    weights, off = weighed(s, q, k, case.blocked)
    off = off.masked_fill(weights == 0, 0).amax(-1, keepdim=True)
    share = (2 * off).expm1() + 2 * steps(s, k.shape[-2])
    back = upstream @ v.abs().mT + (upstream * (weights @ v.abs())).sum(-1, keepdim=True)
    scores = share * weights * back * s.scale
    yield scores @ k.abs()
    yield _summed(s, scores.mT @ q.abs())
    yield _summed(s, (share * weights).mT @ upstream)


def _summed(s: Setting, of_heads: Tensor) -> Tensor:
    """Add what the query heads give to the key head that they share."""
    if s.heads == s.key_heads:
        return of_heads
    shared: Tensor = of_heads.unflatten(1, (s.key_heads, -1)).sum(2)
    return shared
