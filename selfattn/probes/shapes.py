"""Sizes: all different, and equal on purpose, where masks of the wrong shape fit by chance."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject


@probe(
    "shapes",
    changes="the sizes: batch equal to seq, to the heads, to 1; seq of 1; primes",
    fault="At some sizes the output has another shape, or a sample is not what it is alone.",
    causes=(
        "a mask without its middle dimension, which fits when batch equals seq or heads",
        "broadcasting that grows the result, or a reshape that mixes axes of equal size",
    ),
    page="padding-mask",
)
def shapes(subject: Subject) -> Iterator[Movement]:
    """At every size, each sample in the batch must be what it is alone."""
    for batch, seq in _sizes(subject):
        x = subject.draw(subject.generator(f"shapes {batch} {seq}"), batch, seq)
        for name, blocked in subject.masks(batch, seq).items():
            how = f"sizes {batch} and {seq}, {name}"
            try:
                out = subject.run(x, blocked)
                alone = torch.cat([_alone(subject, x, blocked, i) for i in range(batch)])
            except LayerFailed as failure:
                if failure.shape:
                    where = {"changed": how, "returned": str(failure)}
                    yield Movement(how, float("nan"), 0.0, where=where)
                elif batch == subject.batch and seq == subject.seq:
                    yield Movement(how, failed=str(failure))
                continue  # sizes that a layer refuses are its own affair
            yield subject.still(how, alone, out, None if blocked is None else ~blocked)


def _sizes(subject: Subject) -> list[tuple[int, int]]:
    seq, heads = subject.seq, subject.claims.heads
    sizes = [(subject.batch, seq), (seq, seq), (5, 5), (1, seq), (2, seq), (3, 11), (2, 13), (3, 1)]
    sizes += [(heads, seq), (heads, heads)] if heads else [(4, seq), (6, seq), (8, seq)]
    return list(dict.fromkeys(sizes))


def _alone(subject: Subject, x: Tensor, blocked: Tensor | None, sample: int) -> Tensor:
    one = slice(sample, sample + 1)
    return subject.run(x[one], None if blocked is None else blocked[one])
