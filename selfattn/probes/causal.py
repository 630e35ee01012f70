"""Later tokens: under a causal claim nothing of them may reach an earlier output."""

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import some
from selfattn.probes.subject import Subject
from selfattn.probes.turns import all_changed_from, in_turn

LONG = (17, 37, 131)
"""Further lengths, for leaks by blocks that a short sequence does not fill, and for triangles that
are too small. In the longest, some tokens stand for all."""


@probe(
    "later-tokens",
    changes="each later token in turn, with every mask and in every form of call; their number",
    fault="The future leaks: a later token, or how many there are, moves an earlier output.",
    causes=(
        "the triangle is missing, in this form of call or with this mask",
        "the triangle starts one diagonal too far (triu(diagonal=2))",
        "heads merged without transposing back, or a mean, norm or convolution over later tokens",
        "the whole length is counted: in a scale, a mean, or positions from the end",
    ),
    page="causal-mask",
    unless=lambda claims: "" if claims.causal else "the layer does not claim to be causal",
)
def later_tokens(subject: Subject) -> Iterator[Movement]:
    """Change one token at a time, then many; all rows before it must stay. Then cut them off."""
    generator = subject.generator("later-tokens")
    x = subject.draw(generator, subject.batch, subject.seq)
    for form, name, blocked in subject.ways():
        yield from _each(subject, x, blocked, form, name, generator)
    for seq in LONG:
        yield from _long(subject, seq, PLAIN)
    for form in subject.forms:
        yield from _long(subject, subject.long, form)
        if not (form.train and subject.dropping):  # what is dropped differs between lengths
            yield from _prefixes(subject, subject.long, [subject.long // 2], form)
    yield from _prefixes(subject, subject.seq, range(1, subject.seq), PLAIN)


def _each(
    subject: Subject,
    x: Tensor,
    blocked: Tensor | None,
    form: Form,
    name: str,
    generator: torch.Generator,
) -> Iterator[Movement]:
    how = f"a later token, {name}"
    tokens = some(range(1, x.shape[1]))
    changed = x.repeat(len(tokens), 1, 1, 1)
    for one, token in zip(changed, tokens, strict=True):
        one[:, token] = subject.draw(generator, x.shape[0], scale=1.0 if token % 2 else 30.0)
    try:
        base, other = in_turn(subject, x, changed, blocked, form)
    except LayerFailed as failure:
        yield Movement(how, failed=str(failure))
        return
    for number, token in enumerate(tokens):
        places = (torch.arange(x.shape[1]) < token).expand(x.shape[:2])
        if blocked is not None:
            places = places & ~blocked.cpu()
        if places.any():
            two = base[number], other[number]
            yield subject.still(how, *two, places, form, same=True, token=token)


def _long(subject: Subject, seq: int, form: Form) -> Iterator[Movement]:
    """Change a token of a long sequence and all that follow, from another one on in each sample."""
    tokens = _borders(seq)
    how = "all tokens from one on, in a longer sequence"
    try:
        given = all_changed_from(subject, f"later-tokens {seq}", seq, tokens)
        base, other = (subject.run(x, None, form) for x in given)
    except LayerFailed:
        return  # this length is more than was found that the layer takes
    places = torch.arange(seq) < torch.tensor(tokens).unsqueeze(1)
    yield subject.still(how, base, other, places, form, same=True, seq=seq)


def _borders(seq: int) -> list[int]:
    """Give tokens to begin a change with: all, or some, with all where a chunk may begin."""
    every = range(1, seq)
    return list(every) if seq < 40 else sorted({*some(every, 8), *range(16, seq, 16)})


def _prefixes(subject: Subject, seq: int, cuts: Iterable[int], form: Form) -> Iterator[Movement]:
    """Cut a sequence; what is left must be as it was, since nothing later may be counted."""
    x = subject.draw(subject.generator(f"prefixes {seq}"), 2, seq)
    for cut in cuts:
        try:
            base, alone = subject.run(x, None, form)[:, :cut], subject.run(x[:, :cut], None, form)
        except LayerFailed:
            continue  # a length that a layer refuses is its own affair
        how = f"the number of later tokens, {seq - cut} or none"
        yield subject.still(how, base, alone, None, form, seq=cut)
