"""Forms of call: whatever else is asked for, and whichever kernel answers, outputs must agree."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfattn.probes.calling import Layer
from selfattn.probes.catalog import probe
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.modes import against
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject

BACKENDS = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


@probe(
    "call-forms",
    changes="the form of the call: weights asked for, strides, an empty mask, other masks",
    fault="Two forms of one call disagree.",
    causes=(
        "the mask is applied in one of two code paths only",
        "a mask as numbers and as booleans, or True meaning keep in one and block in another",
        "a view of memory that assumes contiguous inputs",
    ),
    page="pytorch",
)
def call_forms(subject: Subject) -> Iterator[Movement]:
    """Ask in every other form, with memory laid out otherwise, and with a mask of no pads."""
    for form in subject.forms:
        if form.options or form.layer:
            base = PLAIN if not form.grad else Form("eval with gradients", grad=True)
            yield from against(subject, base, form)
    x = subject.draw(subject.generator("call-forms"), subject.batch, subject.seq)
    for name, blocked in subject.masks(subject.batch, subject.seq).items():
        spread = x.transpose(0, 1).contiguous().transpose(0, 1)
        mask = None if blocked is None else blocked.t().contiguous().t()
        yield subject.compare(f"strides, {name}", (x, blocked), (spread, mask))
    if subject.claims.mask and subject.none_taken:
        for form in subject.forms:
            yield _empty_mask(subject, x, form)


@probe(
    "backends",
    changes="the kernel behind scaled_dot_product_attention",
    fault="Two kernels of scaled_dot_product_attention disagree.",
    causes=("rows without a key, or a mask that one kernel reads otherwise",),
    page="pytorch",
)
def backends(subject: Subject) -> Iterator[Movement]:
    """Allow one kernel at a time; real outputs must stay."""
    x = subject.draw(subject.generator("backends"), subject.batch, subject.seq)
    for name, blocked in subject.masks(subject.batch, subject.seq).items():
        for backend in BACKENDS:
            form = Form(f"kernel {backend.name.lower()}", layer=_on(subject, backend))
            two = (x, blocked), (x, blocked)
            found = subject.compare(f"the kernel, {name}", *two, forms=(PLAIN, form))
            if not found.failed:  # a kernel that cannot do it says so
                yield found


def _empty_mask(subject: Subject, x: Tensor, form: Form) -> Movement:
    how = "no mask, or one that blocks nothing"
    if form.train and subject.dropping:
        return Movement(how, failed="dropout draws in training mode")
    nothing = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
    return subject.compare(how, (x, None), (x, nothing), forms=(form, form))


def _on(subject: Subject, backend: SDPBackend) -> Layer:
    def call(x: Tensor, blocked: Tensor | None) -> Any:
        with sdpa_kernel(backend):
            return subject.adapted.call(x, blocked)

    return call
