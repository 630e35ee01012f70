"""Reach: who may look at whom does, and nobody looks further than the window."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import LONGER, some
from selfattn.probes.subject import Subject
from selfattn.probes.turns import in_turn, one_changed

TRIES = ((1.0, 1.0), (1.0, 4.0), (0.3, 0.3), (0.1, 1.0), (0.03, 0.03), (0.3, 3.0))
"""Spreads of a sequence and of the token that is changed in it. In small inputs the scores are
nearly equal, so that every weight is well above rounding."""

LOUD = ((1.0, 30.0), (0.3, 100.0))
"""More of them, with a token that is louder than all others."""

Tried = tuple[Tensor, float]
"""How far rows moved, `[batch, row, token]`, and how large outputs are."""

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
        yield _near(subject, blocked, form, name)
    for seq in _lengths(subject):
        found = _far(subject, seq)
        yield from [] if found.failed else [found]


def _near(subject: Subject, blocked: Tensor | None, form: Form, name: str) -> Movement:
    """Change the tokens of the subject's own length."""
    tokens = some(range(subject.seq))
    pairs = _among(tokens, _pairs(subject, blocked))

    def tried(number: int) -> Tried:
        return _tried(subject, blocked, form, tokens, number)

    return _least(f"a token that may be looked at, {name}", pairs, tried, form)


def _lengths(subject: Subject) -> list[int]:
    """Give longer lengths: one, and where a window is claimed one that is longer than it."""
    width = subject.claims.window or 1
    lengths = {subject.long, width + 4 if width <= WIDEST else 0}
    return sorted(length for length in lengths if length > subject.seq)


def _far(subject: Subject, seq: int) -> Movement:
    """Change some tokens of a longer sequence, each in a sample of its own.

    The loud ones come first: they take all of a row's weight, however many keys there are.
    """
    tokens = sorted({*some(range(seq)), seq - 2})
    pairs = _among(tokens, subject.allowed_pairs(seq).unsqueeze(0))

    def tried(number: int) -> Tried:
        spreads = (LOUD + TRIES)[number % len(LOUD + TRIES)]
        given = one_changed(subject, f"allowed-tokens {seq} {number}", seq, tokens, spreads)
        base, other = (subject.run(x) for x in given)
        moved = base.new_zeros(1, seq, seq)
        moved[0, :, tokens] = (other - base).abs().amax(-1).T
        return moved, float(base.nan_to_num(0).abs().max())

    return _least(f"a token that may be looked at, {seq} in all", pairs, tried, PLAIN)


def _among(tokens: list[int], pairs: Tensor) -> Tensor:
    """Leave the pairs `[batch, row, token]` of these tokens."""
    return pairs & torch.isin(torch.arange(pairs.shape[-1]), torch.tensor(tokens))


def _least(how: str, pairs: Tensor, tried: Callable[[int], Tried], form: Form) -> Movement:
    """Try until all pairs moved, or no more of them will; judge the one that moved least."""
    if not pairs.any():
        return Movement(how, failed="there is no pair of tokens to look at")
    farthest, size, still, before = torch.zeros(pairs.shape, dtype=torch.float64), 0.0, 1.0, 1.0
    try:
        for number in range(len(TRIES) * MORE):
            moved, largest = tried(number)
            farthest, size = torch.maximum(farthest, moved), max(size, largest)
            before, still = still, float((farthest[pairs] <= 0).double().mean())
            hopeless = number >= len(TRIES) - 1 and still > FEW and still == before
            if number >= 2 and (still == 0 or hopeless):
                break
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    # One shape and one seed: what does not arrive leaves every bit, or nearly, as it was.
    floor = size * torch.finfo(torch.float32).eps * 1e-3
    return _judged(farthest, pairs, floor, form, how)


def _tried(
    subject: Subject, blocked: Tensor | None, form: Form, tokens: list[int], number: int
) -> Tried:
    """Change each token once; give how far rows moved, `[batch, row, token]`, and their size."""
    spread, change = TRIES[number % len(TRIES)]
    generator = subject.generator(f"allowed-tokens {number}")
    x = subject.draw(generator, subject.batch, subject.seq, scale=spread)
    changed = x.repeat(len(tokens), 1, 1, 1)
    for one, token in zip(changed, tokens, strict=True):
        one[:, token] = subject.draw(generator, subject.batch, scale=change)
    base, other = in_turn(subject, x, changed, blocked, form)
    moved = base.new_zeros(subject.batch, subject.seq, subject.seq)
    moved[:, :, tokens] = (other - base).abs().amax(-1).permute(1, 2, 0)
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
    x, changed = one_changed(subject, f"window {seq}", seq, tokens, (1.0, 4.0))
    beyond = (torch.arange(seq) - torch.tensor(tokens).unsqueeze(1)).abs() >= width
    how = f"a token {width} or more places away"
    two = (x, None), (changed, None)
    found = subject.compare(how, *two, beyond, (form, form), same=True, seq=seq)
    return found if found.failed else _with_token(found, tokens)


def _with_token(movement: Movement, tokens: list[int]) -> Movement:
    return replace(movement, where={**movement.where, "token": tokens[movement.where["batch"]]})
