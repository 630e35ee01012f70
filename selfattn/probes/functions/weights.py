"""How a function weighs keys: the scale, the softmax's axis, which head looks at which."""

import math

import torch

from selfattn.probes.functions.catalog import Verdict, near, probe
from selfattn.probes.functions.setting import Setting
from selfattn.probes.noise import LOW
from selfattn.probes.report import NOT_APPLICABLE


@probe(
    "scale",
    fault="Scores are not multiplied by the scale that is claimed.",
    causes=("the root of another size under the division, or none at all",),
    page="scale",
)
def scale(s: Setting) -> Verdict:
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
    return near(
        off if math.isfinite(off) else math.nan, 0.06 if s.subject.dtype in LOW else 0.01, said
    )


@probe(
    "softmax-axis",
    fault="The weights of a query do not sum to 1 over the keys.",
    causes=("softmax without a dimension, or over another one", "a mask after the softmax"),
    page="average",
)
def softmax_axis(s: Setting) -> Verdict:
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
    return near(off, s.slack, said)


@probe(
    "group-map",
    fault="Query heads use the wrong key heads.",
    causes=("key heads are tiled (repeat) where each must be repeated (repeat_interleave)",),
    page="pytorch",
)
def group_map(s: Setting) -> Verdict:
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
    return near(float(sum(a != b for a, b in zip(found, right, strict=True))), 0.0, said)
