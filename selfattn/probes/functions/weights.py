"""How a function weighs keys: the scale, and the softmax's axis."""

import math
from collections.abc import Iterator

import torch

from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions.catalog import Verdict, first_fault, near, probe
from selfattn.probes.functions.setting import Setting
from selfattn.probes.noise import LOW
from selfattn.probes.report import CANNOT_TELL


@probe(
    "scale",
    fault="Scores are not multiplied by the scale that is claimed.",
    causes=("the root of another size under the division, or none at all",),
    page="scale",
)
def scale(s: Setting) -> Verdict:
    """Read the scale off two tokens; with one query, beside a mask, and at other widths too."""
    ways = [_scale(s)]
    for other, sizes, value in _others(s):
        try:
            ways.append(_scale(other, *sizes, value=value))
        except LayerFailed:  # a size that it refuses
            continue
    fault = first_fault(ways)
    return fault or ways[0]


def _others(s: Setting) -> Iterator[tuple[Setting, tuple[int, int, int], int]]:
    """Give settings, the numbers of queries, keys and pads, and widths of values."""
    if s.mask:
        yield s, (3, 3, 1), 0
    if not s.causal:  # where the corner is wrong, the scale cannot be read off
        yield s, (1, 2, 0), 0
        yield s, (2, 3, 0), 0
    yield s, (2, 2, 0), 2 * s.dim
    if s.any_width:
        for width in (2 * s.dim, s.dim + 4):
            yield s.of_width(width), (2, 2, 0), 0


def _scale(s: Setting, queries: int = 2, keys: int = 2, pads: int = 0, value: int = 0) -> Verdict:
    """Two tokens, a times a unit vector and zero: the log of their odds / a^2 is the scale."""
    a = s.scale**-0.5
    token = torch.zeros(keys, s.dim, dtype=torch.float64)
    token[0, 0] = a
    k = s.cast(token.expand(s.shape(keys, True)).contiguous())
    q = s.cast(token[:1].expand(s.shape(queries, False)).contiguous())
    hot = torch.eye(keys, value or s.dim, dtype=torch.float64)
    v = s.cast(hot.expand(s.shape(keys, True, width=value)).contiguous())
    blocked = (torch.arange(keys) >= keys - pads).expand(queries, keys) if pads else None
    weight = s.out(q, k, v, blocked)[..., -1, :]  # the last query sees all
    where: dict[str, object] = {"q": list(q.shape), "k": list(k.shape), "v": list(v.shape)}
    where["mask"] = f"the last {pads} keys" if pads else "none"
    roots = {"the root of the number of keys": keys, "the root of the values' width": value}
    return _judged(s, weight, where, {n: size**-0.5 for n, size in roots.items() if size})


def _judged(
    s: Setting, weight: torch.Tensor, where: dict[str, object], roots: dict[str, float]
) -> Verdict:
    if not bool((weight[..., :2] > 0).all() & weight.isfinite().all()):
        return Verdict(CANNOT_TELL, said="a key that is in sight has no weight")
    found = float(torch.log(weight[..., 0] / weight[..., 1]).mean()) * s.scale
    off = abs(found / s.scale - 1)
    named = {
        "no scale": 1.0,
        "multiplied by the root and not divided": 1 / s.scale,
        "the root of all heads' width": s.scale / max(1, s.heads) ** 0.5,
        "divided by the width": s.scale**2,
        **roots,
    }
    like = [name for name, value in named.items() if abs(found / value - 1) < 0.02]
    said = f"the scale is {found:.4f} and not {s.scale:.4f}" + (f": {like[0]}" if like else "")
    off = off if math.isfinite(off) else math.nan
    return near(off, 0.06 if s.subject.dtype in LOW else 0.01, said, **where)


@probe(
    "softmax-axis",
    fault="The weights of a query do not sum to 1 over the keys.",
    causes=("softmax without a dimension, or over another one", "a mask after the softmax"),
    page="average",
)
def softmax_axis(s: Setting) -> Verdict:
    """Sum the weights over the keys; if that is not 1, find the axis over which it is."""
    weights = s.weights(s.draw(s.count), s.draw(s.count, True))
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
