"""Scores over widths: level when they are scaled."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from selfattn.probes import random_states
from selfattn.probes.calling import first_tensor
from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject

WIDTHS = (8, 64, 256)
LEVEL = 0.75
"""The share of the effective number of keys that must be left from the first width to the last.
A layer with a scale keeps all of it, one without 0.5 to 0.6."""


@probe(
    "scale",
    changes="the width of fresh layers from the factory",
    fault="The wider the layer, the fewer keys a query attends to: scores grow with the width.",
    causes=("scores are not divided by the root of the head's width, or multiplied by it",),
    page="scale",
    unless=lambda claims: "" if claims.factory else "it needs factory=, from a width to a layer",
)
def scale(subject: Subject) -> Iterator[Movement]:
    """Compare the effective number of keys at several widths; it must stay level."""
    factory = subject.claims.factory
    assert factory is not None
    numbers = []
    for width in WIDTHS:
        random_states.reseed(subject.claims.seed)
        claims = replace(subject.claims, width=width, heads=None, forms={}, factory=None)
        with Subject(factory(width), replace(claims, budget=max(subject.budget.left, 1e-3))) as one:
            numbers.append(_effective_keys(one))
    random_states.reseed(subject.claims.seed)
    if min(numbers) <= 0:
        raise CannotTell("no token reaches another")
    where = {
        "keys": ", ".join(f"{n:.1f} at width {w}" for n, w in zip(numbers, WIDTHS, strict=True))
    }
    yield Movement("the width", numbers[-1] / numbers[0], LEVEL, must=True, where=where)


def _effective_keys(subject: Subject) -> float:
    """Give 1 / sum of squared shares, averaged over rows; shares from the gradients' norms.

    One sample for each row, with a random direction of its output.
    """
    generator = subject.generator("effective keys")
    seq = 24
    x = subject.draw(generator, 1, seq).expand(seq, -1, -1).clone().requires_grad_()
    each = torch.arange(seq)
    squares = torch.zeros(seq, seq, dtype=torch.float64)

    def gradient() -> Tensor:
        out = first_tensor(subject.adapted.call(x, None))[each, each]
        direction = torch.randn(out.shape, generator=generator).to(out)
        return torch.autograd.grad((out * direction).sum(), x)[0]

    for _ in range(4):
        squares += (
            subject.call(gradient, Form("gradients", grad=True), x).double().cpu().square().sum(-1)
        )
    reach = squares.sqrt().fill_diagonal_(0)
    if subject.claims.causal:
        reach = reach[seq // 2 :]
    reach = reach[reach.sum(-1) > 0]  # a first row may see nothing but itself
    share = reach / reach.sum(-1, keepdim=True)
    return float((1 / share.square().sum(-1)).mean()) if len(reach) else 0.0
