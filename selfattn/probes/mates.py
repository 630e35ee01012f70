"""Batch mates: neither the other samples of a batch nor their masks may reach a sample."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe, without_mask
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject

POISON = 100.0
"""The spread of what mates are changed to."""


@probe(
    "mates-content",
    changes="the other samples of the batch, and whether there are any",
    fault="Samples of one batch reach each other.",
    causes=(
        "batch-first data in a layer that expects the sequence first",
        "the batch and another axis are mixed in a reshape",
        "statistics over the batch",
    ),
    page="pytorch",
)
def mates_content(subject: Subject) -> Iterator[Movement]:
    """Change all samples but one, in turn; then take each out of its batch."""
    generator = subject.generator("mates-content")
    if subject.batch == 1:
        yield Movement("mates", failed="the layer takes one sample at a time")
        return
    x = subject.draw(generator, subject.batch, subject.seq)
    for form, name, blocked in subject.ways():
        for sample in {0, subject.batch - 1, subject.batch // 2}:
            mates = subject.draw(generator, subject.batch, subject.seq, scale=POISON)
            mates[sample] = x[sample]
            how = f"the other samples, {name}"
            yield _same(subject, how, sample, (x, blocked), (mates, blocked), form)
    yield from _alone(subject, x)


@probe(
    "mates-masks",
    changes="the masks of the other samples of the batch",
    fault="Samples wear each other's padding.",
    causes=(
        "a mask repeated for the heads in the wrong order (tiled where each sample's must repeat)",
        "a [batch, seq] mask taken for [seq, seq]",
        "a mask without its middle dimension",
        "one sample of pads alone, or with pads on the other side, decides for all",
    ),
    page="padding-mask",
    unless=without_mask,
)
def mates_masks(subject: Subject) -> Iterator[Movement]:
    """Change the masks of all samples but one, in turn; then block some samples throughout."""
    generator = subject.generator("mates-masks")
    if subject.batch == 1:
        yield Movement("masks", failed="the layer takes one sample at a time")
        return
    for form in subject.forms:
        x = subject.draw(generator, subject.batch, subject.seq)
        batches = sorted({subject.batch, 2, 3})
        found = [m for batch in batches for m in _masks(subject, x[:batch], form)]
        yield from found
        if not any(movement.fault for movement in found):  # that says more than nan would
            yield from _empty(subject, x, form)


def _masks(subject: Subject, x: Tensor, form: Form) -> Iterator[Movement]:
    """Change the mates' masks, and where a layer takes pads on both sides, their sides."""
    batch, seq = x.shape[:2]
    first = subject.pads(batch, seq)
    side = "left" if subject.claims.mask is True else "right"
    second = subject.pads(batch, seq, side, least=1).roll(1, 0)
    for sample in range(batch):
        for own in (first, second):
            other = (second if own is first else first).clone()
            other[sample] = own[sample]
            if not torch.equal(own, other):
                how = "the masks of the other samples"
                yield _same(subject, how, sample, (x, own), (x, other), form)


def _empty(subject: Subject, x: Tensor, form: Form) -> Iterator[Movement]:
    """Leave a mate nothing that is real, and then all mates but one."""
    own = subject.pads(*x.shape[:2])
    middle = torch.arange(len(x), device=x.device) == len(x) // 2
    for how, empty in (("a mate of pads alone", middle), ("mates of pads alone", ~middle)):
        other = own | empty.unsqueeze(1)
        yield subject.compare(how, (x, own), (x, other), ~other, (form, form), same=True)


def _same(
    subject: Subject,
    how: str,
    sample: int,
    first: tuple[Tensor, Tensor | None],
    second: tuple[Tensor, Tensor | None],
    form: Form,
) -> Movement:
    """Compare one sample of two batches."""
    x, blocked = first
    places = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    places[sample] = True
    if blocked is not None:
        places &= ~blocked
    return subject.compare(how, first, second, places, (form, form), same=True)


def _alone(subject: Subject, x: Tensor) -> Iterator[Movement]:
    for name, blocked in subject.masks(subject.batch, subject.seq).items():
        for sample in (0, subject.batch - 1):
            one = slice(sample, sample + 1)
            how = f"alone or in a batch, {name}"
            try:
                base = subject.run(x, blocked)[one]
                alone = subject.run(x[one], None if blocked is None else blocked[one])
            except LayerFailed as failure:
                yield Movement(how, failed=str(failure))
                continue
            yield subject.still(how, base, alone, None if blocked is None else ~blocked[one])
