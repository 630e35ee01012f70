"""Reach: who may look at whom does, and nobody looks further than the window."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import LONGER, some
from selfattn.probes.subject import Subject

TRIES = ((1.0, 1.0), (1.0, 4.0), (0.3, 0.3), (0.1, 1.0), (0.03, 0.03), (0.3, 3.0))
"""Spreads of a sequence and of the token that is changed in it. In small inputs the scores are
nearly equal, so that every weight is well above rounding."""

MORE = 3
"""How often all tries are made for a few pairs that do not move: weights such as those of squared
ReLU are exactly 0 for half of all scores."""

FEW = 0.05
"""The share of pairs that are few."""


@probe(
    "allowed-tokens",
    changes="each token in turn; every row that may look at it must move",
    fault="A token that may be looked at does not arrive.",
    causes=(
        "a triangle in a layer that should see both ways",
        "the triangle starts at diagonal 0, so a token cannot see itself",
        "a mask given in the opposite sense, or a window that is too short",
    ),
    page="causal-mask",
    unless=lambda claims: "" if claims.full else "tokens that are hidden by place are claimed",
)
def allowed_tokens(subject: Subject) -> Iterator[Movement]:
    """Change one token at a time, several times; the least that a pair moved is what counts."""
    for form, name, blocked in subject.ways(dropping=False):
        if form.grad and not form.options and form.layer is None and not form.train:
            continue  # the same code without gradients was looked at
        yield _least(subject, blocked, form, name)


def _least(subject: Subject, blocked: Tensor | None, form: Form, name: str) -> Movement:
    how = f"a token that may be looked at, {name}"
    tokens = some(range(subject.seq))
    pairs = _pairs(subject, blocked)
    pairs[:, :, [token not in tokens for token in range(subject.seq)]] = False
    if not pairs.any():
        return Movement(how, failed="there is no pair of tokens to look at")
    farthest, size = torch.zeros(pairs.shape, dtype=torch.float64), 0.0
    try:
        for number in range(len(TRIES) * MORE):
            moved, largest = _tried(subject, blocked, form, tokens, number)
            farthest, size = torch.maximum(farthest, moved), max(size, largest)
            still = (farthest[pairs] <= 0).double().mean()
            if number >= 2 and (still == 0 or (number >= len(TRIES) - 1 and still > FEW)):
                break
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    # One shape and one seed: what does not arrive leaves every bit, or nearly, as it was.
    floor = size * torch.finfo(torch.float32).eps * 1e-3
    return _judged(farthest, pairs, floor, form, how)


def _tried(
    subject: Subject, blocked: Tensor | None, form: Form, tokens: list[int], number: int
) -> tuple[Tensor, float]:
    """Change each token once; give how far rows moved, `[batch, row, token]`, and their size."""
    spread, change = TRIES[number % len(TRIES)]
    generator = subject.generator(f"allowed-tokens {number}")
    x = subject.draw(generator, subject.batch, subject.seq, scale=spread)
    base = subject.run(x, blocked, form)
    moved = base.new_zeros(subject.batch, subject.seq, subject.seq)
    for token in tokens:
        changed = x.clone()
        changed[:, token] = subject.draw(generator, subject.batch, scale=change)
        moved[:, :, token] = (subject.run(changed, blocked, form) - base).abs().amax(-1)
    return moved, float(base.nan_to_num(0).abs().max())


def _judged(farthest: Tensor, pairs: Tensor, floor: float, form: Form, how: str) -> Movement:
    least = farthest.masked_fill(~pairs, float("inf"))
    if not least.isfinite().any() or least.isnan().any():
        return Movement(how, failed="an output was not finite")
    at = int(least.flatten().argmin())
    batch, rest = divmod(at, pairs.shape[1] * pairs.shape[2])
    row, token = divmod(rest, pairs.shape[2])
    where = {"form": form.name, "changed": how, "batch": batch, "row": row, "token": token}
    return Movement(how, float(least.min()), floor, must=True, where=where)


def _pairs(subject: Subject, blocked: Tensor | None) -> Tensor:
    """Give `[batch, row, token]`, True where the row may look at the token and both are real."""
    pairs = subject.allowed_pairs(subject.seq).repeat(subject.batch, 1, 1)
    if blocked is None:
        return pairs
    real = ~blocked.cpu()
    return pairs & real.unsqueeze(1) & real.unsqueeze(2)


WIDEST = 512
"""The widest window that is looked at."""


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
        yield from _beyond(subject, width, shortest, form)
    for seq in LONGER:
        if seq > shortest:
            yield from (m for m in _beyond(subject, width, seq, PLAIN) if not m.failed)


def _beyond(subject: Subject, width: int, seq: int, form: Form) -> Iterator[Movement]:
    """Change some tokens of one length that are a window or more away from a row."""
    generator = subject.generator(f"window {seq}")
    x = subject.draw(generator, 2, seq)
    far = [token for token in range(seq) if max(token, seq - 1 - token) >= width]
    for token in some(far):
        changed = x.clone()
        changed[:, token] = subject.draw(generator, 2, scale=4.0)
        beyond = torch.tensor([abs(row - token) >= width for row in range(seq)]).expand(2, -1)
        how = f"a token {width} or more places away"
        two = (x, None), (changed, None)
        yield subject.compare(how, *two, beyond, (form, form), same=True, token=token)
