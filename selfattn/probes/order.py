"""Order: a layer without positions must not see it, one with positions must."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.noise import LOW
from selfattn.probes.sizes import LONGER
from selfattn.probes.subject import Subject


def _unless_blind(claims: Claims) -> str:
    if claims.positions:
        return "the layer claims positions"
    if claims.causal or claims.window or claims.packed:
        return "a triangle, a window or documents depend on places"
    if not claims.full:
        return "tokens are hidden by place"
    return ""


@probe(
    "order",
    changes="the order of the tokens of a layer that claims no positions",
    fault="The order of the tokens matters, though no positions are claimed.",
    causes=(
        "heads are merged without transposing back, so outputs hold pieces of other tokens",
        "the layer has positions: say positions=True",
        "a mask or bias by place that should not be there",
    ),
    page="order",
    unless=_unless_blind,
)
def order(subject: Subject) -> Iterator[Movement]:
    """Permute the tokens; outputs must be permuted alike."""
    generator = subject.generator("order")
    for _ in range(2):
        x = subject.draw(generator, subject.batch, subject.seq)
        places = torch.randperm(subject.seq, generator=generator)
        if torch.equal(places, torch.arange(subject.seq)):
            places = places.flip(0)
        for form, name, blocked in subject.ways(dropping=False):
            # Permuted, pads stand anywhere: on the left too, so one side is enough.
            if blocked is None or (name == "pads on the right" and subject.claims.mask is True):
                yield _permuted(subject, x, blocked, places, form, name)
    for seq in LONGER:
        x, places = subject.draw(generator, 2, seq), torch.arange(seq).flip(0)
        found = _permuted(subject, x, None, places, PLAIN, f"length {seq}")
        if not found.failed:  # lengths that a layer refuses are its own affair
            yield found


def _permuted(
    subject: Subject, x: Tensor, blocked: Tensor | None, places: Tensor, form: Form, name: str
) -> Movement:
    mixed = None if blocked is None else blocked[:, places]
    try:
        base = subject.run(x, blocked, form)[:, places]
        other = subject.run(x[:, places], mixed, form)
    except LayerFailed as failure:
        return Movement(name, failed=str(failure))
    judged = None if mixed is None else ~mixed
    return subject.still(f"the order of the tokens, {name}", base, other, judged, form)


@probe(
    "positions",
    changes="the order of the tokens of a layer that claims positions",
    fault="The order of the tokens does not matter, though positions are claimed.",
    causes=("positions are not added, are all alike, or are added after the attention",),
    page="order",
    unless=lambda claims: "" if claims.positions else "no positions are claimed",
)
def positions(subject: Subject) -> Iterator[Movement]:
    """Permute tokens; an output must move that a mask by place alone would leave.

    Under a causal mask that is the last row, when earlier tokens change places. Small inputs show
    positions that are added, large ones those that act on scores; one that moves is enough.
    """
    generator = subject.generator("positions")
    claims, seq = subject.claims, subject.seq
    reach = min(seq, claims.window or seq)
    if reach < 3:
        raise CannotTell("too few tokens in a window to change places")
    by_place = claims.causal or claims.window or claims.packed
    judged = torch.zeros(subject.batch, seq, dtype=torch.bool)
    judged[:, -1 if by_place else 0 :] = True
    found: list[Movement] = []
    for places in _permutations(seq, reach, generator):
        for spread in (0.03, 1.0, 3.0, 10.0):
            x = subject.draw(generator, subject.batch, seq, scale=spread)
            found.append(_moved(subject, x, places, judged))
            if not found[-1].fault:
                yield found[-1]
                return
    yield min(found, key=lambda movement: movement.badness)


def _permutations(seq: int, reach: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Let all but the last of the tokens within reach change places, in several ways.

    A layer may be blind to some of them, as one that pools in twos is to those that keep pairs.
    """
    place, near = torch.arange(seq), torch.arange(seq - reach, seq - 1)
    for order in (near.flip(0), near.roll(1), near[torch.randperm(len(near), generator=generator)]):
        yield place.scatter(0, near, order)


def _moved(subject: Subject, x: Tensor, places: Tensor, judged: Tensor) -> Movement:
    """Permute x; the judged rows must move."""
    how = "the order of the tokens"
    try:
        base, other = subject.run(x)[:, places], subject.run(x[:, places])
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    moved = subject.still(how, base, other, judged)
    allowed = moved.allowed * (1 if subject.dtype in LOW else 3 / 16)
    return replace(moved, must=True, allowed=allowed)
