"""Attention functions: with queries, keys and values in hand, more can be seen than from outside.

With one-hot values the output *is* the weights, so the function itself tells what it weighs how.
Axes: queries `[batch, heads, queries, dim]`, keys and values `[batch, key_heads, keys, dim]`; for
a function without heads, all without the second axis.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.probes.budget import Budget, TimeUp
from selfattn.probes.calling import first_tensor, name_of
from selfattn.probes.claims import Claims
from selfattn.probes.report import (
    CANNOT_TELL,
    FAULT,
    NOT_APPLICABLE,
    OK,
    ClaimError,
    Finding,
    ProbeError,
    Report,
)
from selfattn.probes.state import State
from selfattn.probes.subject import LOW, Form, LayerFailed, Subject

Function = Callable[..., Any]
Verdict = tuple[str, float | None, float | None, str]


@dataclass(frozen=True)
class Setting:
    """A function under the probes, with what it claims.

    Attributes:
        call: `(q, k, v, blocked)`; blocked a bool `[queries, keys]`, True = must not look, or None.
        heads, key_heads: of queries, and of keys and values; 0 for a function without heads.
        dim: the last dimension.
        scale: what scores are multiplied by.
        causal: the function blocks later keys by itself; the last query sees all keys.
        mask: whether it takes a mask.
    """

    call: Function
    heads: int
    key_heads: int
    dim: int
    scale: float
    causal: bool
    mask: bool
    subject: Subject

    def draw(self, count: int, keys: bool = False, batch: int = 2, seed: int = 0) -> Tensor:
        generator = self.subject.generator(f"function {seed} {keys}")
        heads = self.key_heads if keys else self.heads
        shape = (batch, heads, count, self.dim) if heads else (batch, count, self.dim)
        return self.cast(torch.randn(shape, generator=generator, dtype=torch.float64))

    def cast(self, t: Tensor) -> Tensor:
        return t.to(dtype=self.subject.dtype, device=self.subject.device)

    def out(self, q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None = None) -> Tensor:
        form = Form("eval, no gradients")
        words = (q.clone(), k.clone(), v.clone())
        mask = None if blocked is None else blocked.to(q.device)
        result = first_tensor(self.subject.call(lambda: self.call(*words, mask), form, q))
        expected = [*q.shape[:-1], v.shape[-1]]
        if not isinstance(result, Tensor) or list(result.shape) != expected:
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise LayerFailed(f"returned {got} instead of {expected}", shape=True)
        return result.detach().to("cpu", torch.float64)

    def weights(self, q: Tensor, k: Tensor, blocked: Tensor | None = None) -> Tensor:
        """Give the weights `[..., queries, keys]`: the output for one-hot values."""
        keys = k.shape[-2]
        hot = torch.eye(keys, self.dim, dtype=torch.float64).expand(*k.shape[:-1], self.dim)
        return self.out(q, k, self.cast(hot.contiguous()), blocked)[..., :keys]

    @property
    def slack(self) -> float:
        """How far a weight may be off: weights are at most 1."""
        low = self.subject.dtype in LOW
        return (6 if low else 64) * float(torch.finfo(self.subject.dtype).eps)


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
    adapted, note = _adapt(fn, causal, grouped=bool(key_heads and key_heads != heads))
    if not mask and adapted is fn:
        adapted = lambda q, k, v, blocked: fn(q, k, v)  # noqa: E731
    claims = Claims(width=dim, seed=seed, dtype=dtype, device=device, budget=budget, mask=False)
    with Subject(_identity, claims) as subject:
        subject.state = State(fn)
        subject.budget = Budget(budget)  # how long the identity took says nothing of the function
        setting = Setting(
            adapted,
            heads or 0,
            key_heads or heads or 0,
            dim,
            dim**-0.5 if scale is None else scale,
            causal,
            mask,
            subject,
        )
        try:
            setting.out(setting.draw(5), setting.draw(5, True), setting.draw(5, True, seed=1))
        except LayerFailed as failure:
            shape = list(setting.draw(5).shape)
            raise ProbeError(
                f"the function {failure}; it was given q, k, v {shape} and no mask. "
                f"Say heads=None if it takes [batch, seq, dim].\n\n{failure.details}"
            ) from failure
        findings = [_found(name, setting) for name in PROBES]
        said = {"heads": heads, "key_heads": key_heads, "dim": dim, "causal": causal}
        return Report(name_of(fn), said, findings, [note] * bool(note), subject.budget.spent)


def _identity(x: Tensor) -> Tensor:
    return x


def _adapt(fn: Function, causal: bool, grouped: bool) -> tuple[Function, str]:
    """Call PyTorch's own functions in their own sense of a mask."""
    if fn is F.scaled_dot_product_attention:

        def own(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
            keep = None if blocked is None else ~blocked
            if causal and keep is not None:  # it refuses a mask beside the flag
                keep = keep & torch.ones_like(keep).tril(keep.shape[-1] - keep.shape[-2])
            return F.scaled_dot_product_attention(
                q, k, v, attn_mask=keep, is_causal=causal and keep is None, enable_gqa=grouped
            )

        return own, "scaled_dot_product_attention wants attn_mask, True = may look (keep)"
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if fn is flex_attention:

        def flex(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Any:
            block = None
            if blocked is not None or causal:
                size = (q.shape[-2], k.shape[-2])
                hidden = blocked if blocked is not None else torch.zeros(size, dtype=torch.bool)
                if causal:
                    hidden = hidden | torch.ones(size, dtype=torch.bool).triu(1 + size[1] - size[0])
                block = create_block_mask(
                    lambda b, h, i, j: ~hidden[i, j], None, None, *size, device=str(q.device)
                )
            return flex_attention(q, k, v, block_mask=block, enable_gqa=grouped)

        return flex, "flex_attention wants a block mask whose function is True = may look (keep)"
    return fn, ""


def _found(name: str, setting: Setting) -> Finding:
    measure, fault, causes, page = PROBES[name]
    try:
        verdict, moved, allowed, said = measure(setting)
    except LayerFailed as failure:
        verdict, moved, allowed, said = CANNOT_TELL, None, None, str(failure)
    except TimeUp:
        verdict, moved, allowed, said = CANNOT_TELL, None, None, "no time was left"
    if verdict == FAULT:
        return Finding(name, FAULT, moved, allowed, {"found": said}, fault, causes, page)
    return Finding(name, verdict, moved, allowed, meaning=said, page=page)


def _near(moved: float, allowed: float, said: str) -> Verdict:
    return (OK, moved, allowed, "") if moved <= allowed else (FAULT, moved, allowed, said)


def _scale(s: Setting) -> Verdict:
    """Two tokens, a times a unit vector and zero: the log of their odds / a^2 is the scale."""
    a = s.scale**-0.5
    token = torch.zeros(2, s.dim, dtype=torch.float64)
    token[0, 0] = a
    k = s.cast(token.expand(*s.draw(2, True).shape).contiguous())
    q = s.cast(token[:1].expand(*s.draw(2).shape).contiguous())
    weight = s.weights(q, k)[..., -1, :]  # the last query sees both
    found = float(torch.log(weight[..., 0] / weight[..., 1]).mean()) / a**2
    off = abs(found / s.scale - 1)
    named = {
        "no scale": 1.0,
        "multiplied by the root and not divided": 1 / s.scale,
        "the root of all heads' width": s.scale / max(1, s.heads) ** 0.5,
        "divided by the width": s.scale**2,
    }
    like = [name for name, value in named.items() if abs(found / value - 1) < 0.02]
    said = f"the scale is {found:.4f} and not {s.scale:.4f}" + (f": {like[0]}" if like else "")
    return _near(
        off if math.isfinite(off) else math.nan, 0.06 if s.subject.dtype in LOW else 0.01, said
    )


def _softmax_axis(s: Setting) -> Verdict:
    """Sum the weights over the keys; if that is not 1, find the axis over which it is."""
    queries = keys = 5
    weights = s.weights(s.draw(queries), s.draw(keys, True))
    off = float((weights.sum(-1) - 1).abs().max())
    axes = {"queries": (-2,), "heads": (1,), "heads and keys together": (1, -1), "batch": (0,)}
    over = [
        name
        for name, axis in axes.items()
        if ("heads" not in name or s.heads)
        and float((weights.sum(axis) - 1).abs().max()) <= 8 * s.slack
    ]
    said = f"they sum to 1 over the {over[0]}" if over else "they sum to 1 over no axis"
    return _near(off, s.slack, said)


def _mask_sense(s: Setting) -> Verdict:
    if not s.mask:
        return NOT_APPLICABLE, None, None, "no mask is claimed"
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
    return _near(inside, 1e-3 * s.slack, said)


def _corner(s: Setting) -> Verdict:
    """Two queries and five keys: the last query must see all keys, the first all but the last."""
    if not s.causal:
        return NOT_APPLICABLE, None, None, "the function does not claim to be causal"
    for queries, keys in ((5, 5), (2, 5), (1, 5)):
        seen = s.weights(s.draw(queries), s.draw(keys, True)) > 1e-3 * s.slack
        all_seen = torch.ones(queries, keys, dtype=torch.bool)
        right = all_seen.tril(keys - queries)
        if not torch.equal(seen, right.expand_as(seen)):
            first = torch.equal(
                seen, torch.ones(queries, keys, dtype=torch.bool).tril().expand_as(seen)
            )
            said = f"with {queries} queries and {keys} keys, " + (
                "the triangle is anchored at the first key and not at the last"
                if first
                else "the keys seen are not those up to the query's own place"
            )
            return FAULT, float((seen != right).sum()), 0.0, said
    return OK, 0.0, 0.0, ""


def _group_map(s: Setting) -> Verdict:
    """Give each key head a value of its own; the output of a query head names it."""
    if not s.heads or s.key_heads == s.heads:
        return NOT_APPLICABLE, None, None, "the heads are not grouped"
    k = s.draw(3, True)
    hot = torch.eye(s.key_heads, s.dim, dtype=torch.float64).unsqueeze(1)
    v = s.cast(hot.expand(2, s.key_heads, 3, s.dim).contiguous())
    found = s.out(s.draw(3), k, v)[0, :, -1, : s.key_heads].argmax(-1).tolist()
    each = s.heads // s.key_heads
    right = [head // each for head in range(s.heads)]
    said = f"query heads use key heads {found}, and not {right}"
    return _near(float(sum(a != b for a, b in zip(found, right, strict=True))), 0.0, said)


def _empty_row(s: Setting) -> Verdict:
    if not s.mask:
        return NOT_APPLICABLE, None, None, "no mask is claimed"
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
    return _near(moved, 1e-3 * s.slack, said)


def _fill(s: Setting) -> Verdict:
    """Push the real scores down until a blocked key gets weight; halve the range where it does."""
    if not s.mask:
        return NOT_APPLICABLE, None, None, "no mask is claimed"

    def leaked(score: float) -> float:
        a = (score / s.scale) ** 0.5
        token = torch.zeros(2, s.dim, dtype=torch.float64)
        token[0, 0] = -a
        k = s.cast(token.expand(*s.draw(2, True).shape).contiguous())
        q = s.cast((-token[:1]).expand(*s.draw(2).shape).contiguous())
        blocked = torch.tensor([[False, True], [False, True]])
        return float(s.weights(q, k, blocked)[..., -1, 1].abs().max())

    low, high = 1.0, 1e5 if s.subject.dtype != torch.float16 else 3e4
    weight = leaked(high)
    if weight <= 1e-3 * s.slack:
        return OK, weight, 1e-3 * s.slack, ""
    for _ in range(20):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if leaked(middle) > 1e-3 * s.slack else (middle, high)
    return FAULT, weight, 1e-3 * s.slack, f"it begins where real scores are below -{high:.4g}"


def _batch_and_heads(s: Setting) -> Verdict:
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
    return _near(moved, s.slack, "another sample or head moves the output")


def _against_formula(s: Setting) -> Verdict:
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
        return _near(moved, allowed, "the output is another")
    blocked = torch.zeros(5, 5, dtype=torch.bool)
    blocked[1:, 0] = True  # every row keeps its own key
    right = scores.masked_fill(blocked, -math.inf).softmax(-1) @ wide[2]
    moved = float((right - s.out(q, k, v, blocked)).abs().max())
    return _near(moved, allowed, "the output is another when a key is blocked")


def _repeats(s: Setting) -> Verdict:
    q, k, v = s.draw(5), s.draw(5, True), s.draw(5, True, seed=1)
    form = Form("eval, no gradients")

    def twice() -> list[Tensor]:
        return [first_tensor(s.call(q, k, v, None)).double() for _ in range(2)]

    first, second = s.subject.call(twice, form, q)
    return _near(float((first - second).abs().max()), s.slack, "the second call differs")


PROBES: dict[str, tuple[Callable[[Setting], Verdict], str, tuple[str, ...], str]] = {
    "scale": (
        _scale,
        "Scores are not multiplied by the scale that is claimed.",
        ("the root of another size under the division, or none at all",),
        "scale",
    ),
    "softmax-axis": (
        _softmax_axis,
        "The weights of a query do not sum to 1 over the keys.",
        ("softmax without a dimension, or over another one", "a mask after the softmax"),
        "average",
    ),
    "mask-sense": (
        _mask_sense,
        "A key that is blocked is looked at.",
        ("True means keep in this function", "a fill near zero, or a mask that is not applied"),
        "pytorch",
    ),
    "corner": (
        _corner,
        "The triangle is anchored at the wrong corner.",
        ("is_causal anchors it at the first key, which is wrong with cached keys",),
        "causal-mask",
    ),
    "group-map": (
        _group_map,
        "Query heads use the wrong key heads.",
        ("key heads are tiled (repeat) where each must be repeated (repeat_interleave)",),
        "pytorch",
    ),
    "empty-row": (
        _empty_row,
        "A row without any key is neither zero nor independent of what is blocked.",
        ("a softmax over minus infinity alone", "a finite fill, which averages all values"),
        "causal-mask",
    ),
    "fill": (
        _fill,
        "The fill is finite and leaks once real scores are below it.",
        ("a fill such as -1e4 instead of minus infinity",),
        "padding-mask",
    ),
    "apart": (
        _batch_and_heads,
        "Samples or heads reach each other.",
        ("a softmax or a reshape over the batch or the heads",),
        "average",
    ),
    "formula": (
        _against_formula,
        "The output is not softmax(scale q k^T) v.",
        ("any of the other faults, or another formula",),
        "pytorch",
    ),
    "repetition": (
        _repeats,
        "The same call gives another output the second time.",
        ("dropout that is always on",),
        "pytorch",
    ),
}
"""By name: what measures it, what a fault means, its likely causes, the lesson's page."""
