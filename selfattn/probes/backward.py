"""The way back: gradients must be the slopes of what the layer computes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.claims import Claims
from selfattn.probes.copies import copy_in
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.gradients import gradients_of, real_of
from selfattn.probes.movement import Movement
from selfattn.probes.noise import LOW
from selfattn.probes.subject import Subject
from selfattn.probes.watch import rounds

DIRECTIONS = 2
"""In how many random directions the input, and then the parameters, take a step."""

STEPS = {1e-7: 0.003, 1e-3: 0.06}
"""How long steps are, and how far gradients may be from the slopes then, as a share of them.

The first is for what is float64 throughout, the second for what is float32 in places. A longer step
crosses more kinks, as of ReLU: of a thousand units about one, whose slope is then half wrong.
"""

UNSTEADY = 0.02
"""How far slopes over a step and over one twice as long may be apart, as a share of them."""

FAR = 5e-3
"""A long step. Where slopes over it are others, the output jumps, as from rounding, or is bent."""


@dataclass(frozen=True)
class Walk:
    """Tensors that may take a step, all at once.

    Attributes:
        what: their name.
        start: where they are; `gradients`: of a loss, there.
        loss: the same loss, elsewhere.
    """

    what: str
    start: list[Tensor]
    gradients: list[Tensor]
    loss: Callable[[list[Tensor]], Tensor]

    def way(self, generator: torch.Generator) -> list[Tensor]:
        """Draw a direction, in float64; each tensor's part is as large as its entries are."""
        return [
            torch.randn(t.shape, generator=generator, dtype=torch.float64) * (_size(t) or 0.1)
            for t in self.start
        ]

    def slopes(self, ways: list[list[Tensor]], step: float) -> Tensor:
        """Give how steep the loss is along each way: `[2, ways]`, as told and as seen."""
        return torch.stack([self._slope(way, step) for way in ways], 1)

    def _slope(self, way: list[Tensor], step: float) -> Tensor:
        plus, minus = (self._at(way, side * step) for side in (1, -1))
        ends = zip(self.gradients, plus, minus, strict=True)
        told = sum((g * (p - m)).sum().cpu().double() for g, p, m in ends)
        return torch.stack([torch.as_tensor(told), self.loss(plus) - self.loss(minus)]) / (2 * step)

    def _at(self, way: list[Tensor], step: float) -> list[Tensor]:
        pairs = zip(self.start, way, strict=True)
        return [(t.cpu().double() + step * w).to(t.device, t.dtype) for t, w in pairs]


def _estimated(claims: Claims) -> str:
    return "its gradients are claimed to be estimates" if claims.estimated else ""


@probe(
    "backward",
    changes="the input, and then the parameters, by small steps",
    fault="The gradients are not the slopes of what the layer computes, so it learns wrongly.",
    causes=(
        "a detach, a .data or a no_grad between the input and the output",
        "an autograd function whose backward leaves out the mask, the scale, or a term",
    ),
    page="projections",
    unless=_estimated,
)
def backward(subject: Subject) -> Iterator[Movement]:
    """Step to both sides; the outputs must move as far as the gradients tell."""
    try:
        if subject.budget.compiles:
            raise LayerFailed("a copy would be compiled once more")
        with copy_in(subject, torch.float64) as fine:
            yield from _forms(fine)
        return
    except LayerFailed as failure:
        if subject.dtype in LOW:
            raise CannotTell(f"rounding hides small steps, and {failure}") from None
    yield from _forms(subject)


def _forms(subject: Subject) -> Iterator[Movement]:
    generator = subject.generator("backward")
    x = subject.draw(generator, subject.batch, subject.seq)
    if subject.state.sly:
        raise CannotTell("it writes into its own numbers, which takes them out of the gradients")
    if rounds(subject):
        raise CannotTell("it rounds, or computes something in low precision, on the way")
    ways = [way for way in subject.ways(dropping=False) if way[0].grad]
    for i, (form, how, blocked) in enumerate(ways):
        try:
            # The way back to the input leads past all parameters, so these are stepped but once.
            for walk in islice(_walks(subject, x, blocked, form, generator), 1 if i else 2):
                where = {"form": form.name, "changed": f"{walk.what}, {how}"}
                yield _judged(walk, generator, where)
        except LayerFailed as failure:
            yield Movement(how, failed=str(failure))


def _walks(
    subject: Subject, x: Tensor, blocked: Tensor | None, form: Form, generator: torch.Generator
) -> Iterator[Walk]:
    """Give the input, and the parameters that gradients reach, with one random loss."""
    real = real_of(subject.run(x, blocked, form), blocked)
    weigh = torch.randn(real.shape, generator=generator, dtype=torch.float64)

    def loss(real: Tensor) -> Tensor:
        return (real.to("cpu", torch.float64) * weigh).sum()

    def of_input(given: list[Tensor]) -> Tensor:
        return loss(real_of(subject.run(given[0], blocked, form), blocked))

    of_x, *others = gradients_of(subject, x, blocked, form, loss)
    yield Walk("the input", [x], [torch.zeros_like(x) if of_x is None else of_x], of_input)
    pairs = zip(subject.state.parameters, others, strict=True)
    reached = [(parameter, g) for parameter, g in pairs if g is not None]
    if reached:
        parameters, gradients = map(list, zip(*reached, strict=True))

        def of_parameters(numbers: list[Tensor]) -> Tensor:
            with subject.state.numbers(list(zip(parameters, numbers, strict=True))):
                return of_input([x])

        start = [parameter.detach().clone() for parameter in parameters]
        yield Walk("the parameters", start, gradients, of_parameters)


def _judged(walk: Walk, generator: torch.Generator, where: dict[str, Any]) -> Movement:
    """Compare gradients with slopes in some directions, over the first steps that tell."""
    ways = [walk.way(generator) for _ in range(DIRECTIONS)]
    _, far = walk.slopes(ways, FAR)
    for step, share in STEPS.items():
        told, seen = walk.slopes(ways, step)
        _, twice = walk.slopes(ways, 2 * step)
        size = max(float(told.norm()), float(seen.norm())) or 1.0
        unsteady = float((seen - twice).norm()) / size
        if unsteady <= UNSTEADY:
            moved = float((told - seen).norm()) / size
            bent = float((seen - far).norm()) / size
            return Movement(where["changed"], moved, share + 4 * unsteady + 2 * bent, where=where)
    return Movement(where["changed"], failed="the output does not move steadily with small steps")


def _size(tensor: Tensor) -> float:
    return float(tensor.double().square().mean().sqrt()) if tensor.numel() else 0.0
