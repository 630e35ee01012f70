"""Caches: however a sequence is cut into chunks, the outputs must be those of all at once."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.calling import first_tensor
from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import LONGER
from selfattn.probes.subject import Subject


@probe(
    "cache",
    changes="how a sequence is cut into chunks: at once, prefill and one, twos, one by one",
    fault="Decoding with the cache gives another output than all at once.",
    causes=(
        "the triangle is anchored at the first key and not at the last (is_causal with a cache)",
        "no triangle within a chunk, or one for prefill only",
        "empty slots of the cache are not blocked, or positions start again with each chunk",
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
            form = Form(f"{name}, {'with' if grad else 'no'} gradients", grad=grad)
            try:
                out = _decode(subject, x, sizes, form)
            except LayerFailed as failure:
                yield Movement(name, failed=str(failure))
                continue
            yield subject.still(f"chunks: {name}", base, out, None, form)


def _long(subject: Subject) -> Iterator[Movement]:
    """Decode a longer sequence one by one, for caches that are too small."""
    form = Form("a longer sequence, no gradients")
    x = subject.draw(subject.generator("cache long"), 2, LONGER[1])
    try:
        base, out = subject.run(x), _decode(subject, x, [2] + [1] * (x.shape[1] - 2), form)
    except LayerFailed:
        return  # a length that a layer refuses is its own affair
    yield subject.still("chunks: a longer sequence one by one", base, out, None, form)


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


def _decode(subject: Subject, x: Tensor, sizes: list[int], form: Form) -> Tensor:
    step = subject.adapted.cache
    assert step is not None

    def decode() -> Tensor:
        past, outputs = None, []
        for chunk in x.split(sizes, dim=1):
            result = step(chunk.clone(), past)
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise TypeError(f"a step must return (output, cache); got {type(result).__name__}")
            outputs.append(first_tensor(result[0]))
            past = result[1]
        return torch.cat(outputs, dim=1)

    out = subject.call(decode, form, x)
    return subject.checked(out, x)
