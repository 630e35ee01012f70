"""The outputs as a whole: apart, and as the formula says at every size."""

from torch import Tensor

from selfattn.probes.functions.cases import ONE, Case, against, masked
from selfattn.probes.functions.catalog import Verdict, near, probe
from selfattn.probes.functions.setting import Setting

SEEN_AGAIN = ("repetition", "scale", "mask-sense", "corner", "group-map", "formula")
"""Probes whose faults a comparison at another size would show again, under another name."""


@probe(
    "apart",
    fault="Samples or heads reach each other.",
    causes=(
        "a softmax or a reshape over the batch or the heads",
        "axes in another order, such as [batch, seq, heads, dim]",
    ),
    page="average",
)
def apart(s: Setting) -> Verdict:
    """Change one sample, then one head; the others must stay."""
    words, fresh = s.words(s.count, s.count), s.words(s.count, s.count, seed=1)
    base, moved = s.out(*words), 0.0
    for axis in (0, 1) if s.heads > 1 and s.heads == s.key_heads else (0,):
        q, k, v = (t.clone() for t in words)
        for t, other in zip((q, k, v), fresh, strict=True):
            t.select(axis, 0).copy_(other.select(axis, 0))
        distance = (base - s.out(q, k, v)).abs()
        moved = max(moved, float(distance.narrow(axis, 1, base.shape[axis] - 1).max()))
    return near(moved, s.slack, "another sample or head moves the output")


@probe(
    "formula",
    fault="The output is not softmax(scale q k^T) v.",
    causes=("any of the other faults, or another formula",),
    page="pytorch",
)
def formula(s: Setting) -> Verdict:
    """Compare with the formula in float64, at one ordinary size, without and with masks."""
    return against(masked(s, s.words(s.count, s.count)), "the output is another")


@probe(
    "shapes",
    fault="The output is not softmax(scale q k^T) v at some sizes, and is at others.",
    causes=(
        "an axis that is found by its size, or a mask that fits by chance",
        "one query, or other numbers of queries and keys, that are treated otherwise",
        "a number in the code that fits one size only",
    ),
    page="padding-mask",
    after=SEEN_AGAIN,
)
def shapes(s: Setting) -> Verdict:
    """Compare with the formula at sizes that are all different, and some that are equal."""
    heads = {n for n in (s.heads, s.key_heads) if n > 1}
    square = [(1, 5), (3, 6), (5, 2), (2, 1), (5, 5), *((2, n) for n in heads)]
    square += [(n, 6) for n in heads if n <= 8]
    sizes = [(batch, n, n) for batch, n in square]
    sizes += [(2, 5, 6), (3, 1, 6), (5, 5, 6)]
    if not s.causal:  # where there are more queries than keys, the first ones see none
        sizes += [(2, 6, 5), (1, 6, 1), (2, s.dim, 6), (2, 2, s.dim)]
    cases = [c for b, q, k in sizes for c in masked(s, s.words(q, k, batch=b), ONE)]
    widths = [s.of_width(w) for w in (s.dim + 4, 2 * s.dim)] if s.any_width else []
    cases += [c for other in widths for c in masked(other, other.words(5, 5), ONE)]
    cases += [Case(s, s.words(5, 5, value=s.dim + 4)), Case(s, s.words(5, 5, value=1))]
    return against(cases, "the output is another")


@probe(
    "blocks",
    fault="The output is not softmax(scale q k^T) v for longer sequences.",
    causes=(
        "an online softmax that does not rescale what it has when a new maximum comes",
        "blocks of queries or keys with the wrong part of the mask, or a last one that is lost",
        "a triangle that is too small, or a window that nobody claims",
    ),
    page="causal-mask",
    after=(*SEEN_AGAIN, "high-scores", "shapes"),
)
def blocks(s: Setting) -> Verdict:
    """Compare with the formula where blocks of 8, 16 and 64 begin and end in the midst."""
    sizes = [(20, 20), (70, 70), (130, 130), (3, 130), (1, 70)]
    if not s.causal:
        sizes += [(130, 3)]
    return against(
        (case for q, k in sizes for case in masked(s, _steep(s, q, k))), "the output is another"
    )


def _steep(s: Setting, queries: int, keys: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw so that few keys have most of the weight, which keeps a long sum from levelling."""
    q, k, v = s.words(queries, keys)
    return 3 * q, k, v
