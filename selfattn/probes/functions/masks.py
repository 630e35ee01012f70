"""Blocked keys: the mask's sense, the triangle's corner, rows without a key."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.functions.catalog import NO_MASK, Verdict, first_fault, near, probe
from selfattn.probes.functions.setting import Setting, plain
from selfattn.probes.report import FAULT, NOT_APPLICABLE, OK


@probe(
    "mask-sense",
    fault="A key that is blocked is looked at.",
    causes=(
        "True means keep in this function",
        "a fill near zero, or a mask that is not applied",
        "the mask of another row, axis or shape",
    ),
    page="pytorch",
)
def mask_sense(s: Setting) -> Verdict:
    if not s.mask:
        return NO_MASK
    n = s.count
    verdicts = [_sense(s, queries, keys) for queries, keys in ((n, n), (n, n + 1), (1, n + 1))]
    return first_fault(verdicts) or verdicts[0]


def _sense(s: Setting, queries: int, keys: int) -> Verdict:
    blocked = torch.zeros(queries, keys, dtype=torch.bool)
    blocked[:, 1] = True
    if not s.causal:
        blocked = _random_mask(s, queries, keys)
    weights = s.weights(s.draw(queries), s.draw(keys, True), blocked)
    inside = float(weights.masked_fill(~blocked, 0).abs().max())
    outside = float(weights.masked_fill(blocked, 0).nan_to_num(0).abs().max())
    said = f"a blocked key has a weight of {inside:.3g}"
    if outside == 0:
        said += ", and every key that is not blocked 0: True means keep here"
    where = {"queries": queries, "keys": keys}
    if not weights.isfinite().all():
        said = "weights are not finite though every row has a key"
        return Verdict(FAULT, math.nan, s.slack, said, where)
    return near(inside, 1e-3 * s.slack, said, **where)


def _random_mask(s: Setting, queries: int, keys: int) -> Tensor:
    """Give a mask in which every row has a key that is blocked and one that is not."""
    generator = s.subject.generator("mask sense")
    blocked = torch.rand(queries, keys, generator=generator) < 0.5
    blocked[:, 0] = torch.arange(queries) % 2 == 1
    blocked[:, 1] = True
    blocked[:, 2] &= ~blocked[:, 0]
    return blocked


@probe(
    "corner",
    fault="The triangle is anchored at the wrong corner.",
    causes=("is_causal anchors it at the first key, which is wrong with cached keys",),
    page="causal-mask",
)
def corner(s: Setting) -> Verdict:
    """Two queries and five keys: the last query must see all keys, the first all but the last."""
    if not s.causal:
        return Verdict(NOT_APPLICABLE, said="the function does not claim to be causal")
    for queries, keys in ((5, 5), (2, 5), (1, 5), (4, 6)):
        every = torch.ones(queries, keys, dtype=torch.bool)
        right = every.tril(keys - queries)
        for name, blocked in _triangle_masks(s, every):
            seen = _seen(s, queries, keys, blocked)
            shown = ~blocked if blocked is not None else every  # a blocked key is another matter
            wrong = float(((seen != right) & shown).sum())
            if wrong:
                said = _in_words(seen, right, shown)
                size = f"with {queries} quer{'ies' if queries > 1 else 'y'} and {keys} keys, "
                return Verdict(FAULT, wrong, 0.0, size + said, {"mask": name})
    return Verdict(OK, 0.0, 0.0)


def _triangle_masks(s: Setting, every: Tensor) -> Iterator[tuple[str, Tensor | None]]:
    yield "none", None
    if s.mask:
        yield "the second key", (torch.arange(every.shape[1]) == 1).expand_as(every)


def _seen(s: Setting, queries: int, keys: int, blocked: Tensor | None) -> Tensor:
    """Tell which keys are seen, by scores so near to one another that none is lost."""
    q = s.cast(plain(s.draw(queries)) / 8)
    return s.weights(q, s.draw(keys, True), blocked) > 1e-3 * s.slack


def _in_words(seen: Tensor, right: Tensor, shown: Tensor) -> str:
    if bool((seen == torch.ones_like(right).tril())[..., shown].all()):
        return "the triangle is anchored at the first key and not at the last"
    if bool((seen & ~right & shown).any()):
        return "a query sees keys after its own place"
    return "a query does not see all keys up to its own place"


@probe(
    "empty-row",
    fault="A row without any key is neither zero nor independent of what is blocked.",
    causes=("a softmax over minus infinity alone", "a finite fill, which averages all values"),
    page="causal-mask",
    after=("mask-sense",),
)
def empty_row(s: Setting) -> Verdict:
    if not s.mask:
        return NO_MASK
    one = torch.zeros(s.count, s.count, dtype=torch.bool)
    one[2] = True
    every = torch.ones_like(one)
    verdicts = [_empty(s, one, "one row"), _empty(s, every, "all rows")]
    return first_fault(verdicts) or verdicts[0]


def _empty(s: Setting, blocked: Tensor, name: str) -> Verdict:
    """Change the values; what a row without a key gives must be finite and must stay."""
    q, k, v = s.words(s.count, s.count)
    rows = blocked.all(-1)
    row = s.out(q, k, v, blocked)[..., rows, :]
    where = {"blocked": name}
    if not row.isfinite().all():
        return Verdict(FAULT, math.nan, 0.0, "it is not finite", where)
    other = s.out(q, k, s.draw(s.count, True, seed=2), blocked)[..., rows, :]
    moved = float((row - other).abs().max())
    mean = plain(v).mean(-2, keepdim=True)
    is_mean = s.heads == s.key_heads and float((row - mean).abs().max()) < s.slack * 4
    said = "it is the mean of all values" if is_mean else "it depends on blocked values"
    return near(moved, 1e-3 * s.slack, said, **where)
