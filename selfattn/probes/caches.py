"""Caches: however a sequence is cut into chunks, the outputs must be those of all at once."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.calling import Layer, first_tensor
from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import LONGER, WIDEST
from selfattn.probes.subject import Subject

CHUNK = 33
"""A long chunk, for faults that short ones do not show."""


@probe(
    "cache",
    changes="how a sequence is cut into chunks: at once, prefill and one, twos, one by one, long",
    fault="Decoding with the cache gives another output than all at once.",
    causes=(
        "the triangle is anchored at the first key and not at the last (is_causal with a cache)",
        "no triangle within a chunk, or one for prefill only",
        "empty slots of the cache are not blocked, or positions start again with each chunk",
        "old keys are dropped too early, or at the wrong end",
    ),
    page="causal-mask",
    unless=lambda claims: "" if claims.cache else "no cache is claimed",
)
def cache(subject: Subject) -> Iterator[Movement]:
    """Decode in several chunkings; each against the layer without a cache."""
    x = subject.draw(subject.generator("cache"), subject.batch, subject.seq)
    try:
        base = subject.run(x)
    except LayerFailed as failure:
        yield Movement("at once", failed=str(failure))
        return
    yield from _long(subject)
    for grad in (False, True):
        for name, sizes in _chunkings(subject.seq).items():
            yield _compared(subject, x, base, name, sizes, grad)


def _long(subject: Subject) -> Iterator[Movement]:
    """Decode longer sequences, for caches that are too small and chunks that are larger.

    A length that a layer refuses is its own affair; of those in one row, the first that it takes.
    """
    for name, lengths in _longer(subject.claims.window or 0).items():
        for sizes in lengths:
            x = subject.draw(subject.generator("cache long"), 2, sum(sizes))
            try:
                base = subject.run(x)
            except LayerFailed:
                continue
            found = _compared(subject, x, base, name, sizes, grad=False)
            if not found.failed:
                yield found
                break


def _longer(window: int) -> dict[str, list[list[int]]]:
    """Give sizes of chunks, by name: the prefill is longer than the window, if that can be.

    Shorter ones follow, for tables of 128, 64 and fewer positions. A long chunk has few keys
    before it, so that what its rows see wrongly is not lost among what they see rightly.
    """
    prefill = min(max(112, window + 4), WIDEST)
    return {
        "a longer sequence one by one": [[2] + [1] * (LONGER[1] - 2)],
        "two, and a long chunk": [[2, CHUNK], [2, 9]],
        "a long prefill, one, and a chunk": [
            [prefill, 1, 9, 1],
            [48, 1, 9, 1],
            [16, 1, 9, 1],
        ],
    }


def _chunkings(seq: int) -> dict[str, list[int]]:
    half = seq // 2
    return {
        "all at once": [seq],
        "prefill and one by one": [seq - half, *[1] * half],
        "prefill and one": [seq - 1, 1],
        "twos": [2] * (seq // 2) + [1] * (seq % 2),
        "one by one": [1] * seq,
        "one and the rest": [1, seq - 1],
        "prefill and threes": [seq - 3, 3] if seq > 3 else [seq],
    }


def _compared(
    subject: Subject, x: Tensor, base: Tensor, name: str, sizes: list[int], grad: bool
) -> Movement:
    """Decode in chunks and compare with the output at once."""
    form = Form(
        f"{name}, {'with' if grad else 'no'} gradients", layer=decoding(subject, sizes), grad=grad
    )
    how = f"chunks: {name}"
    try:
        out = subject.run(x, None, form)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    return subject.still(how, base, out, None, form)


def decoding(subject: Subject, sizes: list[int]) -> Layer:
    """Give a function `(x, blocked)` that decodes x in chunks of some sizes, without a mask."""
    step = subject.adapted.cache
    assert step is not None

    def decode(x: Tensor, _: Tensor | None) -> Tensor:
        past, outputs = None, []
        for chunk in x.split(sizes, dim=1):
            result = step(chunk.clone(), past)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise TypeError(f"a step must return (output, cache); got {type(result).__name__}")
            outputs.append(first_tensor(result[0]))
            past = result[1]
        return torch.cat(outputs, dim=1)

    return decode
