"""Windows: nobody looks further than is claimed."""

from collections.abc import Iterator
from dataclasses import replace

import torch

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import LONGER, WIDEST, some
from selfattn.probes.subject import Subject
from selfattn.probes.turns import one_changed


@probe(
    "window",
    changes="tokens beyond the window, in every form of call",
    fault="A query looks further than the window that is claimed.",
    causes=(
        "window w means w keys in one place and w keys besides its own in another",
        "the window is not applied in this form of call",
    ),
    page="causal-mask",
    unless=lambda claims: "" if claims.window else "no window is claimed",
)
def window(subject: Subject) -> Iterator[Movement]:
    """Change tokens; rows that are a window or more away must stay."""
    width = subject.claims.window
    assert width is not None
    if width > WIDEST:
        raise CannotTell(f"a window of {width} takes too long; probe the layer with a small one")
    shortest = max(subject.seq, width + 4)
    for form in subject.forms:
        yield _beyond(subject, width, shortest, form)
        if subject.long > shortest:
            yield _beyond(subject, width, subject.long, form)
    for seq in LONGER:
        if seq > shortest:
            found = _beyond(subject, width, seq, PLAIN)
            yield from [] if found.failed else [found]


def _beyond(subject: Subject, width: int, seq: int, form: Form) -> Movement:
    """Change some tokens of one length, each in a sample of its own."""
    tokens = some([token for token in range(seq) if max(token, seq - 1 - token) >= width])
    generator = subject.generator(f"window {seq}")
    x = subject.draw(generator, 1, seq)
    x, changed = one_changed(x, tokens, subject.draw(generator, len(tokens), scale=4.0))
    beyond = (torch.arange(seq) - torch.tensor(tokens).unsqueeze(1)).abs() >= width
    how = f"a token {width} or more places away"
    two = (x, None), (changed, None)
    found = subject.compare(how, *two, beyond, (form, form), same=True, seq=seq)
    return found if found.failed else _with_token(found, tokens)


def _with_token(movement: Movement, tokens: list[int]) -> Movement:
    return replace(movement, where={**movement.where, "token": tokens[movement.where["batch"]]})
