"""A second look at outputs that should have moved: what may have hidden that they do.

Two things hide it in right layers: a parameter that is zero throughout, as before training, such
as the gain of a branch or a table of positions; and the rounding of low precision.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator

import torch

from selfattn.probes.copies import copy_in
from selfattn.probes.failures import LayerFailed
from selfattn.probes.movement import Movement
from selfattn.probes.noise import LOW
from selfattn.probes.subject import Subject

Measure = Callable[[Subject], Iterable[Movement]]


def hidden_by(subject: Subject, measure: Measure) -> str:
    """Say what hid that the outputs move, "" if nothing is known to.

    Args:
        subject: a layer whose outputs should have moved, and did not.
        measure: the probe's own measurement, which is repeated.
    """
    with _filled(subject) as any_filled:
        if any_filled and _moves(subject, measure):
            return "it does not arrive, and a parameter is zero throughout, as before training"
    if subject.dtype in LOW and _moves_in_float32(subject, measure):
        name = str(subject.dtype).removeprefix("torch.")
        return f"it arrives in float32; in {name} rounding may hide it"
    return ""


def _moves(subject: Subject, measure: Measure) -> bool:
    return not any(movement.fault for movement in measure(subject))


def _moves_in_float32(subject: Subject, measure: Measure) -> bool:
    try:
        with copy_in(subject, torch.float32) as wide:
            return _moves(wide, measure) or bool(hidden_by(wide, measure))
    except LayerFailed:
        return False


@contextlib.contextmanager
def _filled(subject: Subject) -> Iterator[bool]:
    """Fill the parameters that are zero throughout, for a while; tell whether there are any."""
    zeros = [t for t in subject.state.parameters if not t.any()]
    generator = subject.generator("filled")
    drawn = [torch.randn(zero.shape, generator=generator) * 0.5 for zero in zeros]
    others = [(zero, d + d.sign() * 0.1) for zero, d in zip(zeros, drawn, strict=True)]
    with subject.state.numbers(others):
        yield bool(zeros)
