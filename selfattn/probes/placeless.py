"""A layer without its places: as if all tokens stood at one place, and all could be seen.

Positions that act on scores alone, such as rotary ones or a bias by distance, leave nothing behind
then: the layer is blind to order, and it does not matter which place it is. That is tried before
anything is believed of such a layer. Positions that are added to tokens, convolutions and shifts
fail it, and so does what cannot be seen: compiled layers, and places out of plain numbers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.subject import Subject
from selfattn.probes.watch import Instead


def _at(place: int) -> Instead:
    """Let numbers that are counted up all be one number, and a triangle hide nothing."""

    def call(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name, words = getattr(func, "__name__", ""), dict(kwargs)
        if words.get("is_causal"):
            words["is_causal"] = False
        out = func(*args, **words)
        if name == "arange":
            return torch.full_like(out, place)
        if name == "triu":
            return torch.zeros_like(out)
        return args[0] if name == "tril" else out

    return Instead(call)


@contextmanager
def at_one_place(subject: Subject, place: int = 0) -> Iterator[Form]:
    """Give the form of call in which all tokens stand at one place, for a while.

    Tables that take no gradients, such as those of sines or a triangle, hold one of their rows
    throughout: the middle one for place 0, the last one for any other.
    """
    call = subject.adapted.call

    def placeless(x: Tensor, blocked: Tensor | None) -> Any:
        with _at(place):
            return call(x, blocked)

    tables = [t for t in subject.state.tensors if not t.requires_grad and t.dim() > 1]
    with subject.state.numbers([(table, _one_row(table, place)) for table in tables]):
        yield Form("all at one place", layer=placeless)


def _one_row(table: Tensor, place: int) -> Tensor:
    axis = table.shape.index(max(table.shape))
    row = table.shape[axis] // 2 if place == 0 else table.shape[axis] - 1
    return table.select(axis, row).unsqueeze(axis).expand_as(table).clone()


def acts_on_scores_alone(subject: Subject) -> bool:
    """Tell whether positions are known to act on nothing but scores, and by distance alone.

    Then a layer without places is blind to order, and alike at whatever place that is.
    """
    if subject.budget.compiles:
        return False
    generator = subject.generator("placeless")
    x = subject.draw(generator, subject.batch, subject.seq)
    places = torch.randperm(subject.seq, generator=generator)
    try:
        subject.run(x)  # what a layer keeps from its first call is then of the right one
        with at_one_place(subject, 0) as form:
            base, mixed = subject.run(x, None, form), subject.run(x[:, places], None, form)
        with at_one_place(subject, 3) as form:
            elsewhere = subject.run(x, None, form)
    except LayerFailed:
        return False
    pairs = ((base[:, places], mixed), (base, elsewhere))
    return all(not m.fault and not m.failed for m in (subject.still("places", *p) for p in pairs))
