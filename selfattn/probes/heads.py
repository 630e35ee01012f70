"""Weights that sum to 1: seen from outside with equal tokens, and with one token."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from selfattn.probes.catalog import NotApplicable, probe
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.noise import largest
from selfattn.probes.placeless import acts_on_scores_alone, at_one_place
from selfattn.probes.subject import Subject
from selfattn.probes.watch import is_bare

SLIGHT = 1 / 256
"""How far weights may be from a sum of 1: a small number is often added to what they are divided
by, and some forms of weights cancel."""

SMALL = 1 / 128
"""The size of the second inputs: a small branch beside a sum is not lost in its rounding."""


def _unless_summing(claims: Claims) -> str:
    return "" if claims.sums_to_one else "weights are not claimed to sum to 1"


@probe(
    "equal-tokens",
    changes="how many copies of one token the sequence holds",
    fault="Copies of one token give more, or less, than the token alone: weights do not sum to 1.",
    causes=(
        "the softmax runs over another dimension than the keys, such as the heads",
        "there is no softmax, or it is divided by a length or masked afterwards",
        "a row without its own key (the triangle at diagonal 0)",
    ),
    page="average",
    unless=_unless_summing,
)
def equal_tokens(subject: Subject) -> Iterator[Movement]:
    """Repeat one token; all rows must be equal, and as many copies must give as one."""
    if subject.claims.positions:
        yield from _at_places(subject)
        return
    for form in subject.forms:
        if not (form.train and subject.dropping):
            yield from _copies(subject, form)


def _at_places(subject: Subject) -> Iterator[Movement]:
    """Believe a layer with positions if, without places, sums are wrong as well."""
    if not acts_on_scores_alone(subject):
        raise NotApplicable("positions make equal tokens different, if more than scores has them")
    placed = _worst(_copies(subject, PLAIN))
    with at_one_place(subject) as form:
        alike = _worst(_copies(subject, form))
    yield placed if alike.fault else alike


def _worst(movements: Iterator[Movement]) -> Movement:
    return max(movements, key=lambda movement: (not movement.failed, movement.badness))


def _copies(subject: Subject, form: Form) -> Iterator[Movement]:
    """Compare several numbers of copies of one token, one copy among them."""
    generator = subject.generator("equal-tokens")
    for spread in (1.0, 4.0):
        token = subject.draw(generator, 2, 1, scale=spread)
        first = None
        for copies in (subject.seq, 1, 2, 3, 5, 13):
            how = f"{subject.seq} copies of one token, or {copies}"
            try:
                out = subject.run(token.expand(-1, copies, -1).contiguous(), None, form)
            except LayerFailed as failure:
                if copies == subject.seq:
                    yield Movement(how, failed=str(failure))
                continue
            first = out[:, -1:] if first is None else first
            found = subject.still(how, out, first.expand_as(out), None, form)
            yield replace(found, allowed=max(found.allowed, SLIGHT * largest(out)))


@probe(
    "one-token",
    changes="the only token there is",
    fault="With one token its weight is not 1.",
    causes=(
        "the softmax runs over heads and keys together, or over the heads",
        "the token cannot see itself (the triangle at diagonal 0)",
        "the output is not linear in the values",
    ),
    page="average",
    unless=_unless_summing,
)
def one_token(subject: Subject) -> Iterator[Movement]:
    """Give one token: it must arrive, and if all around is linear, so must be the layer."""
    generator = subject.generator("one-token")
    x, y = (subject.draw(generator, 32, 1, scale=4.0) for _ in range(2))
    try:
        fx, fy, both, zero = (subject.run(t) for t in (x, y, x + y, torch.zeros_like(x)))
    except LayerFailed as failure:
        yield Movement("one token", failed=str(failure))
        return
    arrived = [_arrives(subject, fx, fy, (x - y).to("cpu", torch.float64))]
    if arrived[0].fault:
        x, y = x * SMALL, y * SMALL
        step = (x - y).to("cpu", torch.float64)
        arrived.append(_arrives(subject, subject.run(x), subject.run(y), step))
    yield min(arrived, key=lambda movement: movement.badness)
    bare = is_bare(subject) if subject.claims.bare is None else subject.claims.bare
    if bare:
        sizes = torch.cat([fx, fy, both])
        allowed = 4 * subject.allowed(sizes)
        found = subject.still("the only token", both + zero, fx + fy)
        yield Movement(found.how, found.moved, allowed, where=found.where)


def _arrives(subject: Subject, fx: torch.Tensor, fy: torch.Tensor, step: torch.Tensor) -> Movement:
    """Compare two tokens: their outputs may neither be equal nor differ by the tokens alone."""
    moved = fx - fy
    apart = [moved] if moved.shape != step.shape else [moved, moved - step]
    least = min(float(difference.abs().max()) for difference in apart)
    where = {"form": PLAIN.name, "changed": "the only token"}
    allowed = subject.allowed(torch.cat([fx, fy]))
    return Movement("the only token arrives", least, allowed, must=True, where=where)
