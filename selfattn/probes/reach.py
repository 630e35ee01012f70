"""Reach: who may look at whom does."""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.movement import Movement
from selfattn.probes.sizes import WIDEST, some
from selfattn.probes.subject import Subject
from selfattn.probes.turns import in_turn, one_changed

TRIES = ((1.0, 1.0), (1.0, 4.0), (0.3, 0.3), (0.1, 1.0), (0.03, 0.03), (0.3, 3.0))
"""Spreads of a sequence and of the token that is changed in it. In small inputs the scores are
nearly equal, so that every weight is well above rounding."""

LOUD = (30.0, 1.0, 100.0)
"""Spreads of a token that is changed among many."""

SUDDEN = 1e-4
"""How far, in relation to outputs, a token must have moved the row before one that it does not
reach: weights that fade with the distance are lost in rounding at the end."""

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
    pairs = among(tokens, _pairs(subject, blocked))

    def tried(number: int) -> Tried:
        return _tried(subject, blocked, form, tokens, number)

    return least(f"a token that may be looked at, {name}", pairs, tried, form)


def _lengths(subject: Subject) -> list[int]:
    """Give longer lengths: one, and where a window is claimed one that is longer than it."""
    width = subject.claims.window or 1
    lengths = {subject.long, width + 4 if width <= WIDEST else 0}
    return sorted(length for length in lengths if length > subject.seq)


def _far(subject: Subject, seq: int) -> Movement:
    """Change some tokens of a longer sequence, each in a sample of its own.

    All others are copies of one token, so that one that is changed stands out, however many keys
    there are. A row that it hardly reaches on the way may lose it by rounding.
    """
    tokens = sorted({*some(range(seq)), seq - 2})
    pairs = among(tokens, subject.allowed_pairs(seq).unsqueeze(0))

    def tried(number: int) -> Tried:
        generator = subject.generator(f"allowed-tokens {seq} {number}")
        x = subject.draw(generator, 1, 1).expand(-1, seq, -1)
        others = subject.draw(generator, len(tokens), scale=LOUD[number % len(LOUD)])
        base, other = (subject.run(given) for given in one_changed(x, tokens, others))
        return each_moved(base, other, tokens)

    return least(f"a token that may be looked at, {seq} in all", pairs, tried, PLAIN, fades=True)


def each_moved(base: Tensor, other: Tensor, tokens: list[int]) -> Tried:
    """Give how far rows moved, `[1, row, token]`, and how large outputs are.

    Args:
        base, other: outputs `[tokens, seq, width_out]` of `one_changed`.
        tokens: those that were changed, one in each sample.
    """
    moved = base.new_zeros(1, base.shape[1], base.shape[1])
    moved[0, :, tokens] = (other - base).abs().amax(-1).T
    return moved, float(base.nan_to_num(0).abs().max())


def among(tokens: list[int], pairs: Tensor) -> Tensor:
    """Leave the pairs `[batch, row, token]` of these tokens."""
    return pairs & torch.isin(torch.arange(pairs.shape[-1]), torch.tensor(tokens))


def least(
    how: str, pairs: Tensor, tried: Callable[[int], Tried], form: Form, fades: bool = False
) -> Movement:
    """Try until all pairs moved, or no more of them will; judge the one that moved least.

    Args:
        how: what is changed, in words.
        pairs: boolean `[batch, row, token]`, True where changing the token must move the row.
        tried: from the number of a try to how far rows moved in it; see `TRIES`.
        form: how the layer is called.
        fades: whether a row that a token hardly reached on the way may lose it by rounding.
    """
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
    if fades:
        pairs = pairs & ~_faded(farthest, size)
    # One shape and one seed: what does not arrive leaves every bit, or nearly, as it was.
    floor = size * torch.finfo(torch.float32).eps * 1e-3
    return _judged(farthest, pairs, floor, form, how)


def _faded(farthest: Tensor, size: float) -> Tensor:
    """Tell of `[1, row, token]` where the row before, as seen from the token, hardly moved."""
    place = torch.arange(farthest.shape[-1])
    behind = place.unsqueeze(1) > place
    before = torch.where(behind, farthest.roll(1, 1), farthest.roll(-1, 1))
    return (before < SUDDEN * size) & ~torch.eye(len(place), dtype=torch.bool)


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
