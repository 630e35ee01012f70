"""Modes and forms of call: the same layer, asked in another way, must answer the same."""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfattn.probes.calling import Layer
from selfattn.probes.catalog import CannotTell, NotApplicable, probe
from selfattn.probes.subject import PLAIN, Form, LayerFailed, Movement, Subject
from selfattn.probes.watch import drops_late, is_bare

BACKENDS = (SDPBackend.MATH, SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION)


@probe(
    "repetition",
    changes="nothing: the same call twice, in eval mode",
    fault="The same call gives another output the second time, in eval mode.",
    causes=(
        "dropout that goes on in eval (scaled_dot_product_attention drops whenever it is told to)",
        "the layer keeps something between calls, such as a cache, and uses it",
        "an output buffer that is not initialised",
    ),
    page="pytorch",
)
def repetition(subject: Subject) -> Iterator[Movement]:
    """Call twice, neither random states nor the layer's own put back in between."""
    x = subject.draw(subject.generator("repetition"), subject.batch, subject.seq)
    for form in (form for form in subject.forms if not form.train):
        for name, blocked in subject.masks(subject.batch, subject.seq).items():
            how = f"nothing, {name}"
            subject.state.restore(everything=subject.remembers)
            subject.reseed()
            try:
                base = subject.run(x, blocked, form, afresh=False)
                kept = subject.state.changed()
                others = [subject.run(x, blocked, form, afresh=False) for _ in range(2)]
            except LayerFailed as failure:
                yield Movement(how, failed=str(failure), shape=failure.shape)
                continue
            for other in others:
                places = None if blocked is None else ~blocked
                found = subject.still(how, base, other, places, form, same=True)
                if found.fault and kept:
                    found.where["kept"] = kept[0]
                yield found


@probe(
    "modes",
    changes="gradients on or off, and training mode with dropout 0",
    fault="The output depends on the mode: on gradients, or on training with dropout 0.",
    causes=(
        "two code paths that treat the mask differently (a fast path taken in one mode only)",
        "a float mask that is added in one mode and read as a bool in another",
        "something besides dropout that differs between training and eval",
    ),
    page="pytorch",
)
def modes(subject: Subject) -> Iterator[Movement]:
    """Call with gradients, in inference mode, and in training with dropout set to 0."""
    for form in subject.forms:
        if form.grad or form.train:
            continue
        with_grad = replace(form, name=f"{form.name}, with gradients", grad=True)
        yield from _against(subject, form, with_grad)
    if subject.adapted.biased:
        biased = Form("a bias added to the scores", layer=subject.adapted.biased)
        yield from _against(subject, biased, replace(biased, grad=True))
    train = next((form for form in subject.forms if form.train), None)
    if train is not None:
        with _no_dropout(subject.state.modules):
            if _draws(subject, train):
                return  # random in a way that no dropout probability switches off
            name = "training mode, dropout 0"
            yield from _against(subject, PLAIN, Form(name, train=True, grad=True))
            yield from _against(subject, PLAIN, Form(f"{name}, no gradients", train=True))


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
            yield from _against(subject, base, form)
    generator = subject.generator("call-forms")
    x = subject.draw(generator, subject.batch, subject.seq)
    for name, blocked in subject.masks(subject.batch, subject.seq).items():
        spread = x.transpose(0, 1).contiguous().transpose(0, 1)
        mask = None if blocked is None else blocked.t().contiguous().t()
        yield _one(subject, f"strides, {name}", (x, blocked), (spread, mask))
    if subject.claims.mask and subject.none_taken:
        for form in subject.forms:
            nothing = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
            how = "no mask, or one that blocks nothing"
            yield _one(subject, how, (x, None), (x, nothing), form)


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
            try:
                base, other = subject.run(x, blocked), subject.run(x, blocked, form)
            except LayerFailed:
                continue  # this kernel cannot do it, and says so
            places = None if blocked is None else ~blocked
            yield subject.still(f"the kernel, {name}", base, other, places, form)


@probe(
    "dropout",
    changes="the draws of dropout, 1024 of them, against eval",
    fault="The mean over dropout's draws is not the output in eval.",
    causes=(
        "what remains is not scaled up by 1 / (1 - p)",
        "dropout on the scores and not on the weights",
    ),
    page="pytorch",
)
def dropout(subject: Subject) -> Iterator[Movement]:
    """Average many draws in training mode. Exact only where all around is linear."""
    if not subject.dropping:
        raise NotApplicable("training mode draws nothing")
    if not (is_bare(subject) if subject.claims.bare is None else subject.claims.bare):
        raise CannotTell("the layer is not linear around its attention, so means do not carry over")
    if not drops_late(subject):
        raise CannotTell("something is dropped before the weights, so means do not carry over")
    x = subject.draw(subject.generator("dropout"), 1, subject.seq)
    train = Form("training mode", train=True)
    try:
        base = subject.run(x)
        draws = subject.run(x.expand(1024, -1, -1).contiguous(), None, train)
    except LayerFailed as failure:
        yield Movement("draws", failed=str(failure), shape=failure.shape)
        return
    mean, error = draws.mean(0, keepdim=True), draws.std(0, keepdim=True) / 32
    at = int(((mean - base).abs() / (error + 1e-12)).flatten().argmax())
    moved = float((mean - base).abs().flatten()[at])
    allowed = 6 * float(error.flatten()[at]) + 4 * subject.allowed(base)
    row = at // base.shape[2]
    yield Movement("draws", moved, allowed, where={"form": train.name, "batch": 0, "row": row})


def _against(subject: Subject, first: Form, second: Form) -> Iterator[Movement]:
    generator = subject.generator("against")
    for spread in (1.0, 3.0):
        x = subject.draw(generator, subject.batch, subject.seq, scale=spread)
        for name, blocked in subject.masks(subject.batch, subject.seq).items():
            how = f"{first.name}, or {second.name}; {name}"
            try:
                base, other = subject.run(x, blocked, first), subject.run(x, blocked, second)
            except LayerFailed as failure:
                yield Movement(how, failed=str(failure), shape=failure.shape)
                continue
            places = None if blocked is None else ~blocked
            yield subject.still(how, base, other, places, second)


def _one(
    subject: Subject,
    how: str,
    first: tuple[Tensor, Tensor | None],
    second: tuple[Tensor, Tensor | None],
    form: Form = PLAIN,
) -> Movement:
    try:
        base, other = subject.run(*first, form), subject.run(*second, form)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure), shape=failure.shape)
    if form.train and subject.dropping:
        return Movement(how, failed="dropout draws in training mode")
    places = None if first[1] is None else ~first[1]
    return subject.still(how, base, other, places, form)


def _on(subject: Subject, backend: SDPBackend) -> Layer:
    def call(x: Tensor, blocked: Tensor | None) -> Any:
        with sdpa_kernel(backend):
            return subject.adapted.call(x, blocked)

    return call


def _draws(subject: Subject, train: Form) -> bool:
    """Tell whether training mode is still random."""
    x = subject.draw(subject.generator("draws"), subject.batch, subject.seq)
    first, second = subject.run(x, None, train), subject.run(x, None, train, afresh=False)
    return subject.still("draws", first, second).fault


@contextlib.contextmanager
def _no_dropout(modules: list[nn.Module]) -> Iterator[None]:
    """Set every probability of dropout to 0, for a while."""
    before: list[tuple[nn.Module, str, float]] = []
    for module in modules:
        if isinstance(module, torch.jit.ScriptModule):
            continue
        for name, value in vars(module).items():
            named = "drop" in name.lower() or (name == "p" and "Dropout" in type(module).__name__)
            if named and isinstance(value, float):
                before.append((module, name, value))
    for module, name, _ in before:
        setattr(module, name, 0.0)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
