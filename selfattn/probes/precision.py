"""Low precision: what holds in float32 must hold in bfloat16."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.calling import Layer
from selfattn.probes.catalog import CannotTell, NotApplicable, probe
from selfattn.probes.copies import copy_in
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.hiding import Hiding, hidings
from selfattn.probes.movement import Movement
from selfattn.probes.noise import largest
from selfattn.probes.rows import finite_gradients
from selfattn.probes.subject import Subject

Wrap = Callable[[Layer], Layer]


@probe(
    "precision",
    changes="the precision: under autocast, and as a copy in bfloat16; then what is blocked",
    fault="In bfloat16 an output or a gradient is not finite, or what is hidden comes through.",
    causes=(
        "a fill that bfloat16 or float16 rounds or cannot hold",
        "the mask is applied in full precision only",
    ),
    page="padding-mask",
)
def precision(subject: Subject) -> Iterator[Movement]:
    """Write other numbers into what is blocked; real outputs must stay, and be finite."""
    if subject.dtype not in (torch.float32, torch.float64):
        raise NotApplicable(f"all probes ran in {str(subject.dtype).removeprefix('torch.')}")
    yield from _low(subject, subject, "under autocast to bfloat16", _autocast(subject))
    try:
        with copy_in(subject, torch.bfloat16) as low:
            yield from _low(subject, low, "a copy in bfloat16", lambda layer: layer)
    except LayerFailed as failure:
        yield Movement("a copy", failed=str(failure))


def _autocast(subject: Subject) -> Wrap:
    def wrap(layer: Layer) -> Layer:
        def call(x: Tensor, blocked: Tensor | None) -> Any:
            with torch.autocast(subject.device.type, dtype=torch.bfloat16):
                return layer(x, blocked)

        return call

    return wrap


def _low(subject: Subject, low: Subject, name: str, wrap: Wrap) -> Iterator[Movement]:
    """Compare a layer with itself in low precision: as another subject, or called within `wrap`."""
    for hiding in _hidings(subject):
        yield _two(subject, low, hiding, Form(name, layer=wrap(hiding.call(low))))
    yield from _gradients(subject, low, Form(name, layer=wrap(low.adapted.call), grad=True))


def _gradients(subject: Subject, low: Subject, form: Form) -> Iterator[Movement]:
    """Look whether gradients are finite in full precision only."""
    x = subject.draw(subject.generator("precision gradients"), subject.batch, subject.seq)
    blocked = subject.pads(subject.batch, subject.seq) if subject.claims.mask else None
    how = "nothing; the gradients"
    found = finite_gradients(low, low.cast(x), blocked, form, how)
    if found.failed:
        return  # a layer that passes none
    full = finite_gradients(subject, x, blocked, Form("gradients", grad=True), how)
    yield from [] if full.failed or full.fault else [found]


def _hidings(subject: Subject) -> Iterator[Hiding]:
    """Give all masks, and all that hides tokens without one; a triangle with pads too."""
    masks = subject.masks(subject.batch, subject.seq)
    if subject.claims.mask:
        empty = subject.pads(subject.batch, subject.seq)
        empty[subject.batch // 2] = True
        masks["one sample blocked throughout"] = empty
    for name, blocked in masks.items():
        hidden = torch.zeros(subject.batch, subject.seq, dtype=torch.bool, device=subject.device)
        hidden = hidden if blocked is None else blocked
        yield Hiding(name, hidden, ~hidden, blocked)
    for hiding in hidings(subject, subject.batch, most=subject.seq // 2):
        if hiding.blocked is None:
            yield hiding
        if hiding.name == "later tokens" and subject.claims.mask:
            blocked = masks["pads on the right"]
            yield replace(hiding, name="later tokens, with pads", blocked=blocked)


def _two(subject: Subject, low: Subject, hiding: Hiding, form: Form) -> Movement:
    """Call with two inputs and one mask; what full precision keeps, low precision must."""
    how, blocked, places = hiding.name, hiding.blocked, hiding.places
    generator, shape = subject.generator("precision"), hiding.hidden.shape
    x, other = (subject.draw(generator, *shape, scale=scale) for scale in (1.0, 100.0))
    changed = torch.where(hiding.hidden.unsqueeze(-1), other, x)
    plain = Form("eval, no gradients", layer=hiding.call(subject))
    try:
        base, other = (subject.run(t, blocked, plain) for t in (x, changed))
        if subject.still(how, base, other, places, same=True).fault:
            raise CannotTell("what is blocked comes through in full precision already")
        full = base
        base, other = (low.run(low.cast(t), blocked, form) for t in (x, changed))
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    judged = places.cpu() | ~places.cpu().any(1, keepdim=True)  # and samples that are all pads
    lost = full.isfinite().all(-1) & ~base.isfinite().all(-1) & judged
    if lost.any():
        batch, row = (int(i) for i in lost.nonzero()[0])
        where = {"form": form.name, "changed": how, "batch": batch, "row": row}
        return Movement(how, float("nan"), 0.0, where=where)
    found = low.still(how, base, other, places, form)
    rounding = 4 * torch.finfo(torch.bfloat16).eps * largest(base[places.cpu()])
    return replace(found, allowed=max(found.allowed, rounding))
