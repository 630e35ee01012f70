"""Low precision: what holds in float32 must hold in bfloat16."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.casts import cast
from selfattn.probes.catalog import CannotTell, NotApplicable, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.noise import largest
from selfattn.probes.subject import Subject


@probe(
    "precision",
    changes="the precision: under autocast, and as a copy in bfloat16; then what is blocked",
    fault="In bfloat16 an output is not finite, or what is blocked comes through.",
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
    autocast = Form("under autocast to bfloat16", layer=_autocast(subject))
    yield from _blocked(subject, subject, autocast)
    try:
        with cast(subject, torch.bfloat16) as low:
            yield from _blocked(subject, low, Form("a copy in bfloat16"))
    except LayerFailed as failure:
        yield Movement("a copy", failed=str(failure))


def _autocast(subject: Subject) -> Any:
    def call(x: Tensor, blocked: Tensor | None) -> Any:
        with torch.autocast(subject.device.type, dtype=torch.bfloat16):
            return subject.adapted.call(x, blocked)

    return call


def _blocked(subject: Subject, low: Subject, form: Form) -> Iterator[Movement]:
    """Compare a layer with itself in low precision, as another subject or another form of call."""
    generator = subject.generator("precision")
    x = subject.draw(generator, subject.batch, subject.seq)
    other = subject.draw(generator, subject.batch, subject.seq, scale=100.0)
    masks = subject.masks(subject.batch, subject.seq)
    if subject.claims.mask:
        empty = subject.pads(subject.batch, subject.seq)
        empty[subject.batch // 2] = True
        masks["one sample blocked throughout"] = empty
    for name, blocked in masks.items():
        hidden = torch.zeros_like(x[..., 0], dtype=torch.bool) if blocked is None else blocked
        changed = torch.where(hidden.unsqueeze(-1), other, x)
        yield _two(subject, low, name, (x, changed, blocked), ~hidden, form)
    if subject.claims.causal:
        half = torch.arange(subject.seq) < subject.seq // 2
        places = half.expand(subject.batch, -1).to(x.device)
        changed = torch.where(places.unsqueeze(-1), x, other)
        yield _two(subject, low, "later tokens", (x, changed, None), places, form)


def _two(
    subject: Subject,
    low: Subject,
    how: str,
    given: tuple[Tensor, Tensor, Tensor | None],
    places: Tensor,
    form: Form,
) -> Movement:
    """Call with two inputs and one mask; what full precision keeps, low precision must."""
    x, changed, blocked = given
    try:
        base, other = subject.run(x, blocked), subject.run(changed, blocked)
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
