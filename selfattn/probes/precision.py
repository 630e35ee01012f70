"""Low precision: what holds in float32 must hold in bfloat16."""

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes.catalog import CannotTell, NotApplicable, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.report import ProbeError
from selfattn.probes.subject import Subject


@probe(
    "precision",
    changes="the precision: under autocast, and as a copy in bfloat16; then what is blocked",
    fault="In bfloat16 an output is not finite, or what is blocked comes through.",
    causes=("a fill that bfloat16 or float16 rounds or cannot hold",),
    page="padding-mask",
    unless=lambda claims: "" if claims.mask or claims.causal else "nothing is blocked",
)
def precision(subject: Subject) -> Iterator[Movement]:
    """Write other numbers into what is blocked; real outputs must stay, and be finite."""
    if subject.dtype not in (torch.float32, torch.float64):
        raise NotApplicable(f"all probes ran in {str(subject.dtype).removeprefix('torch.')}")
    yield from _blocked(subject, Form("under autocast to bfloat16", layer=_autocast(subject)))
    layer = subject.layer
    if isinstance(layer, nn.Module) and not isinstance(layer, torch.jit.ScriptModule):
        try:
            low = copy.deepcopy(layer).to(torch.bfloat16)
            claims = replace(subject.claims, dtype=torch.bfloat16, forms={}, cache=False)
            with Subject(low, replace(claims, budget=max(subject.budget.left, 1e-3))) as copied:
                yield from _blocked(copied, Form("a copy in bfloat16"))
        except (ProbeError, RuntimeError, TypeError) as error:
            first = str(error).split("\n")[0]
            yield Movement("a copy", failed=f"no copy in bfloat16 runs: {first}")


def _autocast(subject: Subject) -> Any:
    def call(x: Tensor, blocked: Tensor | None) -> Any:
        with torch.autocast(subject.device.type, dtype=torch.bfloat16):
            return subject.adapted.call(x, blocked)

    return call


def _blocked(subject: Subject, form: Form) -> Iterator[Movement]:
    generator = subject.generator("precision")
    x = subject.draw(generator, subject.batch, subject.seq)
    other = subject.draw(generator, subject.batch, subject.seq, scale=100.0)
    for name, blocked in subject.masks(subject.batch, subject.seq).items():
        if blocked is None:
            continue
        changed = torch.where(blocked.unsqueeze(-1), other, x)
        yield _two(subject, name, x, changed, blocked, ~blocked, form)
    if subject.claims.causal:
        half = torch.arange(subject.seq) < subject.seq // 2
        places = half.expand(subject.batch, -1).to(x.device)
        changed = torch.where(places.unsqueeze(-1), x, other)
        yield _two(subject, "later tokens", x, changed, None, places, form)


def _two(
    subject: Subject,
    how: str,
    x: Tensor,
    changed: Tensor,
    blocked: Tensor | None,
    places: Tensor,
    form: Form,
) -> Movement:
    try:
        base, other = subject.run(x, blocked), subject.run(changed, blocked)
        if subject.still(how, base, other, places, same=True).fault:
            raise CannotTell("what is blocked comes through in full precision already")
        base, other = subject.run(x, blocked, form), subject.run(changed, blocked, form)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    found = subject.still(how, base, other, places, form)
    judged = base[places.cpu()]
    rounding = 4 * torch.finfo(torch.bfloat16).eps * float(judged.abs().nan_to_num(0).max())
    return replace(found, allowed=max(found.allowed, rounding))
