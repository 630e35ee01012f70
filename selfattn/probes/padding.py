"""Padding and batch mates: nothing of them may reach a real token."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe, without_mask
from selfattn.probes.subject import PLAIN, Form, LayerFailed, Movement, Subject

POISON = (1.0, 100.0)
"""Spreads of what is written into pads and mates. Finite: 0 times nan is nan in any layer."""


def compare(
    subject: Subject,
    how: str,
    first: tuple[Tensor, Tensor | None],
    second: tuple[Tensor, Tensor | None],
    places: Tensor | None = None,
    form: Form = PLAIN,
) -> Movement:
    """Compare the outputs for two inputs of one shape."""
    try:
        base, other = subject.run(*first, form), subject.run(*second, form)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure), shape=failure.shape)
    return subject.still(how, base, other, places, form, same=True)


@probe(
    "pad-content",
    changes="what stands in the pads on the right, in every form of call",
    fault="Pads take part: what stands in them reaches the real tokens.",
    causes=(
        "the mask is not applied to the keys, or its sense is turned round",
        "the fill is a number near zero instead of minus infinity",
        "the mask is on the wrong axis, or applied after the softmax",
    ),
    page="padding-mask",
    unless=without_mask,
)
def pad_content(subject: Subject) -> Iterator[Movement]:
    """Write other numbers into the pads on the right; real outputs must stay."""
    yield from _content(subject, "right")


@probe(
    "left-pads",
    changes="what stands in pads on the left; then left padding against right padding",
    fault="Padding on the left changes the real tokens.",
    causes=(
        "positions are counted from the first place and not from the first real token",
        "the mask is on the query axis, which right padding under a causal mask hides",
        "two finite fills were added, or the mask is taken for a length",
    ),
    page="padding-mask",
    unless=lambda claims: (
        "no mask is claimed"
        if not claims.mask
        else "pads are claimed on the right only"
        if claims.mask == "right"
        else ""
    ),
)
def left_pads(subject: Subject) -> Iterator[Movement]:
    """Write other numbers into left pads; then move the pads from the right to the left."""
    yield from _content(subject, "left")
    if subject.claims.positions == "absolute":
        return
    generator = subject.generator("left-pads side")
    x = subject.draw(generator, subject.batch, subject.seq)
    right = subject.pads(subject.batch, subject.seq, least=1)
    shifts = right.sum(1).tolist()
    moved = torch.stack([row.roll(int(n), 0) for row, n in zip(x, shifts, strict=True)])
    left = subject.pads(subject.batch, subject.seq, "left", least=1)
    for form in subject.forms:
        try:
            base, other = subject.run(x, right, form), subject.run(moved, left, form)
        except LayerFailed as failure:
            yield Movement("side", failed=str(failure), shape=failure.shape)
            continue
        if form.train and subject.dropping:
            continue  # the dropped places differ
        back = torch.stack([row.roll(-int(n), 0) for row, n in zip(other, shifts, strict=True)])
        yield subject.still("pads on the left, not the right", base, back, ~right, form)


@probe(
    "pad-count",
    changes="the number of pads on the right, none among them",
    fault="The number of pads changes the real tokens.",
    causes=(
        "pads keep a weight in the softmax, or are counted in a mean or a length",
        "the mask is applied after the softmax, so rows sum to less than 1",
    ),
    page="padding-mask",
    unless=without_mask,
)
def pad_count(subject: Subject) -> Iterator[Movement]:
    """Cut pads off, or where the layer refuses that, add some; real outputs must stay."""
    generator = subject.generator("pad-count")
    seq = subject.seq
    x = subject.draw(generator, subject.batch, 2 * seq + 4)
    for form in subject.forms:
        if form.train and subject.dropping:
            continue
        cuts = [(seq - pads, seq) for pads in range(1, seq)] + [(seq, 2 * seq), (seq, seq + 4)]
        compared = 0
        for real, total in cuts:
            movement = _cut(subject, x[:, :total], real, form)
            yield movement
            compared += not movement.failed
            if compared == 3:
                break


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
    for form in subject.forms:
        for name, blocked in subject.masks(subject.batch, subject.seq).items():
            for sample in {0, subject.batch - 1, subject.batch // 2}:
                mates = subject.draw(generator, subject.batch, subject.seq, scale=POISON[1])
                mates[sample] = x[sample]
                yield compare(
                    subject,
                    f"the other samples, {name}",
                    (x, blocked),
                    (mates, blocked),
                    _only(x, sample, blocked),
                    form,
                )
    yield from _alone(subject, x)


@probe(
    "mates-masks",
    changes="the masks of the other samples of the batch",
    fault="Samples wear each other's padding.",
    causes=(
        "a mask repeated for the heads in the wrong order (tiled where each sample's must repeat)",
        "a [batch, seq] mask taken for [seq, seq]",
        "a mask without its middle dimension",
    ),
    page="padding-mask",
    unless=without_mask,
)
def mates_masks(subject: Subject) -> Iterator[Movement]:
    """Change the masks of all samples but one, in turn."""
    generator = subject.generator("mates-masks")
    if subject.batch == 1:
        yield Movement("masks", failed="the layer takes one sample at a time")
        return
    for form in subject.forms:
        x = subject.draw(generator, subject.batch, subject.seq)
        for batch in sorted({subject.batch, 2, 3}):
            yield from _masks(subject, x[:batch], form)


def _masks(subject: Subject, x: Tensor, form: Form) -> Iterator[Movement]:
    batch, seq = x.shape[:2]
    first = subject.pads(batch, seq)
    second = subject.pads(batch, seq, least=1).roll(1, 0)
    for sample in range(batch):
        for own in (first, second):
            other = (second if own is first else first).clone()
            other[sample] = own[sample]
            if not torch.equal(own, other):
                places = _only(x, sample, own)
                how = "the masks of the other samples"
                yield compare(subject, how, (x, own), (x, other), places, form)


def _content(subject: Subject, side: str) -> Iterator[Movement]:
    generator = subject.generator(f"content {side}")
    for batch, seq in ((subject.batch, subject.seq), (subject.seq, subject.seq)):
        x = subject.draw(generator, batch, seq)
        blocked = subject.pads(batch, seq, side)
        for form in subject.forms:
            for scale in POISON:
                poison = subject.draw(generator, batch, seq, scale=scale)
                poisoned = torch.where(blocked.unsqueeze(-1), poison, x)
                how = f"pads on the {side}, a spread of {scale:g} written into them"
                yield compare(subject, how, (x, blocked), (poisoned, blocked), ~blocked, form)


def _cut(subject: Subject, x: Tensor, real: int, form: Form) -> Movement:
    blocked = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    blocked[:, real:] = True
    how = f"{x.shape[1] - real} pads on the right, or none"
    try:
        short = subject.run(x[:, :real], None, form)
        long = subject.run(x, blocked, form)[:, :real]
    except LayerFailed as failure:
        return Movement(how, failed=str(failure), shape=failure.shape)
    return subject.still(how, short, long, None, form)


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


def _only(x: Tensor, sample: int, blocked: Tensor | None) -> Tensor:
    places = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    places[sample] = True
    return places if blocked is None else places & ~blocked
