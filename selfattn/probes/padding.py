"""Padding: neither what stands in the pads, nor how many there are, may reach a real token."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe, without_mask
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import CROWD, LONGER
from selfattn.probes.subject import Subject

POISON = (1.0, 100.0)
"""Spreads of what is written into pads. Finite: 0 times nan is nan in any layer."""


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


def _unless_on_the_left(claims: Claims) -> str:
    return without_mask(claims) or (
        "pads are claimed on the right only" if claims.mask == "right" else ""
    )


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
    unless=_unless_on_the_left,
)
def left_pads(subject: Subject) -> Iterator[Movement]:
    """Write other numbers into left pads; then move the pads from the right to the left."""
    yield from _content(subject, "left")
    if subject.claims.positions != "absolute" and subject.claims.full:
        for form in subject.forms:
            if not (form.train and subject.dropping):  # the dropped places differ
                yield _sides(subject, form, subject.batch, subject.seq)
        for batch, seq in [*_further(subject), (2, subject.long)]:
            yield from _taken(_sides(subject, PLAIN, batch, seq))


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
    for seq in (*LONGER, subject.long):
        x = subject.draw(generator, 2, seq)
        yield from _taken(_cut(subject, x, seq // 2, PLAIN))


def _content(subject: Subject, side: str) -> Iterator[Movement]:
    generator = subject.generator(f"content {side}")
    for batch, seq in ((subject.batch, subject.seq), (subject.seq, subject.seq)):
        mixed = side == "left" and batch == seq
        for form in subject.forms:
            for scale in POISON:
                yield _poisoned(subject, generator, (batch, seq), side, scale, form, mixed)
    for form in subject.forms:
        yield from _taken(_poisoned(subject, generator, (2, subject.long), side, form=form))
    for sizes in _further(subject):
        yield from _taken(_poisoned(subject, generator, sizes, side))


def _poisoned(
    subject: Subject,
    generator: torch.Generator,
    sizes: tuple[int, int],
    side: str,
    scale: float = POISON[-1],
    form: Form = PLAIN,
    mixed: bool = False,
) -> Movement:
    """Write other numbers into the pads of one side, or of a mixture of sides."""
    x = subject.draw(generator, *sizes)
    blocked = subject.pads(*sizes, "right" if mixed else side, least=1)
    if mixed:
        blocked = _rolled(blocked, _shifts(blocked, mixed))
        side = "left, the right or both sides"
    poison = subject.draw(generator, *sizes, scale=scale)
    two = (x, blocked), (torch.where(blocked.unsqueeze(-1), poison, x), blocked)
    how = f"pads on the {side}, sizes {sizes[0]} and {sizes[1]}, a spread of {scale:g} in them"
    return subject.compare(how, *two, forms=(form, form), same=True)


def _further(subject: Subject) -> list[tuple[int, int]]:
    """Give further sizes `(batch, seq)`: longer ones, and a larger batch."""
    return [*((2, seq) for seq in LONGER), (CROWD, subject.seq)]


def _taken(movement: Movement) -> Iterator[Movement]:
    """Pass a movement on, unless the layer refused the size: that is its own affair."""
    if not movement.failed:
        yield movement


def _sides(subject: Subject, form: Form, batch: int, seq: int) -> Movement:
    """Move the pads of the right to the left; beyond the first size, some of them, by sample."""
    mixed = (batch, seq) != (subject.batch, subject.seq)
    how = (
        "pads on the left, or on both sides, not the right"
        if mixed
        else "pads on the left, not the right"
    )
    x = subject.draw(subject.generator("left-pads side"), batch, seq)
    right = subject.pads(batch, seq, least=1)
    shifts = _shifts(right, mixed)
    given = (x, right), (_rolled(x, shifts), _rolled(right, shifts))
    try:
        base, other = (subject.run(*one, form) for one in given)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    return subject.still(how, base, _rolled(other, [-n for n in shifts]), ~right, form)


def _shifts(right: Tensor, mixed: bool) -> list[int]:
    """Give how far each sample moves to have its pads on the left; mixed, on both sides, or not."""
    counts = right.sum(1).tolist()
    return [(n, n // 2, 0)[i % 3] if mixed else n for i, n in enumerate(counts)]


def _rolled(x: Tensor, shifts: list[int]) -> Tensor:
    """Shift every sample of x to the right by a number of its own."""
    return torch.stack([row.roll(n, 0) for row, n in zip(x, shifts, strict=True)])


def _cut(subject: Subject, x: Tensor, real: int, form: Form) -> Movement:
    blocked = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    blocked[:, real:] = True
    how = f"{x.shape[1] - real} pads on the right, or none"
    try:
        short = subject.run(x[:, :real], None, form)
        long = subject.run(x, blocked, form)[:, :real]
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    return subject.still(how, short, long, None, form)
