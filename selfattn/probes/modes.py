"""Modes: the same layer, called again, or in another mode, must answer the same."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.caches import decoding
from selfattn.probes.calling import Layer
from selfattn.probes.catalog import probe
from selfattn.probes.dropout import no_dropout, still_draws
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.packed import with_ids
from selfattn.probes.subject import Given, Subject

Call = tuple[Tensor, Tensor | None, Form]
"""What is given, and in which form."""


@probe(
    "repetition",
    changes="nothing: the same call twice, and after calls with other inputs, in eval mode",
    fault="The same call gives another output the second time, in eval mode.",
    causes=(
        "dropout that goes on in eval (scaled_dot_product_attention drops whenever it is told to)",
        "the layer keeps something between calls, such as a mask, ids or a cache, and uses it",
        "an output buffer that is not initialised",
    ),
    page="pytorch",
)
def repetition(subject: Subject) -> Iterator[Movement]:
    """Call twice, neither random states nor the layer's own put back in between."""
    x = subject.draw(subject.generator("repetition"), subject.batch, subject.seq)
    for form, name, blocked in subject.ways():
        if form.train:
            continue
        try:
            base = subject.run(x, blocked, form)
        except LayerFailed as failure:
            yield Movement(f"nothing, {name}", failed=str(failure))
            continue
        for how, given in _before(subject, x, blocked).items():
            subject.start_afresh()
            before = [(*one, form) for one in given]
            found = _again(subject, f"{how}, {name}", (x, blocked, form), base, before)
            yield from [found] if found else []
    yield from _after_shorter(subject, x)
    yield from _after_another_sequence(subject, x)


def _after_shorter(subject: Subject, x: Tensor) -> Iterator[Movement]:
    """Call with a longer input after a shorter one, for which a table may have been made."""
    longer = subject.draw(subject.generator("repetition, longer"), x.shape[0], 2 * x.shape[1])
    try:
        base = subject.run(longer)
    except LayerFailed:
        return  # a length that is not taken
    subject.start_afresh()
    how = "nothing, after a shorter input"
    found = _again(subject, how, (longer, None, PLAIN), base, [(x, None, PLAIN)])
    yield from [found] if found else []


def _after_another_sequence(subject: Subject, x: Tensor) -> Iterator[Movement]:
    """Call with what belongs to one sequence, documents or a cache, or without, after another."""
    other = subject.draw(subject.generator("repetition, another"), *x.shape[:2])
    for now, before in _of_sequences(subject):
        how = f"{now.name}, after {before.name}"
        try:
            base = subject.run(x, None, now)
        except LayerFailed as failure:
            yield Movement(how, failed=str(failure))
            continue
        subject.start_afresh()
        found = _again(subject, how, (x, None, now), base, [(other, None, before)])
        yield from [found] if found else []


def _of_sequences(subject: Subject) -> Iterator[tuple[Form, Form]]:
    """Give forms in which one sequence follows another: now, and before."""
    seq = subject.seq
    if subject.adapted.packed:
        place = torch.arange(seq, device=subject.device).expand(subject.batch, -1)
        two, three = (with_ids(subject, place * n // seq) for n in (2, 3))
        yield from ((two, three), (PLAIN, two), (two, PLAIN))
    if subject.adapted.cache:
        decoded = Form("with a cache, no gradients", layer=decoding(subject, [1] * seq))
        yield from ((decoded, decoded), (PLAIN, decoded), (decoded, PLAIN))


def _before(subject: Subject, x: Tensor, blocked: Tensor | None) -> dict[str, list[Given]]:
    """Give the calls that are made before one, by name."""
    generator = subject.generator("repetition, before")
    batch, seq = subject.batch, subject.seq
    other = subject.draw(generator, batch, seq)
    masks = subject.masks(batch, seq).values()
    return {
        "nothing": [(x, blocked)],
        "nothing, the third time": [(x, blocked)] * 2,
        "after other inputs and pads": [(other, m if m is None else m.flip(0)) for m in masks],
        "after a longer input": [(subject.draw(generator, batch, 2 * seq), None)],
    }


def _again(
    subject: Subject, how: str, given: Call, base: Tensor, before: list[Call]
) -> Movement | None:
    """Call after other calls; None if one of these fails, as at a length that is not taken."""
    try:
        for call in before:
            subject.run(*call, afresh=False)
        kept = subject.state.changed()
    except LayerFailed:
        return None
    try:
        out = subject.run(*given, afresh=False)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    _, blocked, form = given
    places = None if blocked is None else ~blocked
    found = subject.still(how, base, out, places, form, same=True)
    if found.fault and kept:
        found.where["kept"] = kept[0]
    return found


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
        yield from against(subject, form, with_grad)
    yield from against(subject, PLAIN, Form("inference mode", layer=_inferring(subject)))
    if subject.adapted.biased:
        biased = Form("a bias added to the scores", layer=subject.adapted.biased)
        yield from against(subject, biased, replace(biased, grad=True))
    train = next((form for form in subject.forms if form.train), None)
    if train is not None:
        with no_dropout(subject.state):
            if still_draws(subject, train):
                return  # random in a way that no dropout probability switches off
            name = "training mode, dropout 0"
            yield from against(subject, PLAIN, Form(name, train=True, grad=True))
            yield from against(subject, PLAIN, Form(f"{name}, no gradients", train=True))


def _inferring(subject: Subject) -> Layer:
    def call(x: Tensor, blocked: Tensor | None) -> Any:
        with torch.inference_mode():
            return subject.adapted.call(x, blocked)

    return call


def against(subject: Subject, first: Form, second: Form) -> Iterator[Movement]:
    """Call in two forms, with every mask, with ordinary and with larger inputs."""
    generator = subject.generator("against")
    for spread in (1.0, 3.0):
        x = subject.draw(generator, subject.batch, subject.seq, scale=spread)
        for name, blocked in subject.masks(subject.batch, subject.seq).items():
            how = f"{first.name}, or {second.name}; {name}"
            yield subject.compare(how, (x, blocked), (x, blocked), forms=(first, second))
