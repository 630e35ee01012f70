"""Later tokens: under a causal claim nothing of them may reach an earlier output."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import some
from selfattn.probes.subject import Subject

LONG = (17, 37, 70, 131)
"""Further lengths, for leaks by blocks that a short sequence does not fill, and for triangles that
are too small. In the longest, some tokens stand for all."""


@probe(
    "later-tokens",
    changes="each later token in turn, with every mask and in every form of call",
    fault="The future leaks: a later token moves an earlier output.",
    causes=(
        "the triangle is missing, in this form of call or with this mask",
        "the triangle starts one diagonal too far (triu(diagonal=2))",
        "heads merged without transposing back, or a mean, norm or convolution over later tokens",
    ),
    page="causal-mask",
    unless=lambda claims: "" if claims.causal else "the layer does not claim to be causal",
)
def later_tokens(subject: Subject) -> Iterator[Movement]:
    """Change one token at a time; all rows before it must stay."""
    generator = subject.generator("later-tokens")
    x = subject.draw(generator, subject.batch, subject.seq)
    for form, name, blocked in subject.ways():
        yield from _each(subject, x, blocked, form, name, generator)
    for seq in LONG:
        yield from _long(subject, seq, generator)


def _each(
    subject: Subject,
    x: Tensor,
    blocked: Tensor | None,
    form: Form,
    name: str,
    generator: torch.Generator,
) -> Iterator[Movement]:
    how = f"a later token, {name}"
    try:
        base = subject.run(x, blocked, form)
    except LayerFailed as failure:
        yield Movement(how, failed=str(failure))
        return
    for token in some(range(1, x.shape[1])):
        changed = x.clone()
        scale = 1.0 if token % 2 else 30.0
        changed[:, token] = subject.draw(generator, x.shape[0], scale=scale)
        places = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        places[:, :token] = True
        if blocked is not None:
            places &= ~blocked
        try:
            other = subject.run(changed, blocked, form)
        except LayerFailed as failure:
            yield Movement(how, failed=str(failure))
            continue
        if places.any():
            yield subject.still(how, base, other, places, form, same=True, token=token)


def _long(subject: Subject, seq: int, generator: torch.Generator) -> Iterator[Movement]:
    """Change tokens of one long sequence, each in a sample of its own."""
    tokens = torch.tensor(some(range(seq), seq if seq < 40 else 12))
    x = subject.draw(generator, 1, seq).expand(len(tokens), -1, -1).clone()
    changed = x.clone()
    changed[torch.arange(len(tokens)), tokens] = subject.draw(generator, len(tokens))
    try:
        base, other = subject.run(x), subject.run(changed)
    except LayerFailed:
        return  # this length is more than was found that the layer takes
    places = torch.arange(seq).unsqueeze(0) < tokens.unsqueeze(1)
    yield subject.still(
        "a later token of a longer sequence", base, other, places, PLAIN, same=True, seq=seq
    )
