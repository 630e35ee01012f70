"""Reach: who may look at whom does, and nobody looks further than the window."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject

TRIES = ((1.0, 1.0), (1.0, 4.0), (0.3, 0.3), (0.1, 1.0), (0.03, 0.03), (0.3, 3.0))
"""Spreads of a sequence and of the token that is changed in it. In small inputs the scores are
nearly equal, so that every weight is well above rounding."""


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
)
def allowed_tokens(subject: Subject) -> Iterator[Movement]:
    """Change one token at a time, several times; the least that a pair moved is what counts."""
    for form, name, blocked in subject.ways(dropping=False):
        if form.grad and not form.options and form.layer is None and not form.train:
            continue  # the same code without gradients was looked at
        yield _least(subject, blocked, form, name)


def _least(subject: Subject, blocked: Tensor | None, form: Form, name: str) -> Movement:
    how = f"a token that may be looked at, {name}"
    batch, seq = subject.batch, subject.seq
    farthest = torch.zeros(batch, seq, seq, dtype=torch.float64)  # [batch, row, token]
    size = 0.0
    try:
        for number, (spread, change) in enumerate(TRIES):
            generator = subject.generator(f"allowed-tokens {number}")
            x = subject.draw(generator, batch, seq, scale=spread)
            base = subject.run(x, blocked, form)
            size = max(size, float(base.nan_to_num(0).abs().max()))
            for token in range(seq):
                changed = x.clone()
                changed[:, token] = subject.draw(generator, batch, scale=change)
                moved = (subject.run(changed, blocked, form) - base).abs().amax(-1)
                farthest[:, :, token] = torch.maximum(farthest[:, :, token], moved)
            if float(farthest[_pairs(subject, blocked)].min()) > 0 and number >= 2:
                break
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    pairs = _pairs(subject, blocked)
    if not pairs.any():
        return Movement(how, failed="there is no pair of tokens to look at")
    return _judged(subject, farthest, pairs, size, form, how)


def _judged(
    subject: Subject, farthest: Tensor, pairs: Tensor, size: float, form: Form, how: str
) -> Movement:
    least = farthest.masked_fill(~pairs, float("inf"))
    if not least.isfinite().any() or least.isnan().any():
        return Movement(how, failed="an output was not finite")
    at = int(least.flatten().argmin())
    batch, rest = divmod(at, pairs.shape[1] * pairs.shape[2])
    row, token = divmod(rest, pairs.shape[2])
    # One shape and one seed: what does not arrive leaves every bit, or nearly, as it was.
    floor = size * torch.finfo(torch.float32).eps * 1e-3
    apart = pairs & ~torch.eye(pairs.shape[1], dtype=torch.bool)
    if float(least.min()) <= floor and not (farthest[apart] > floor).any() and zeroed(subject):
        raise CannotTell("no token reaches another, and a weight matrix is zero throughout")
    where = {"form": form.name, "changed": how, "batch": batch, "row": row, "token": token}
    return Movement(how, float(least.min()), floor, must=True, where=where)


def _pairs(subject: Subject, blocked: Tensor | None) -> Tensor:
    """Give `[batch, row, token]`, True where the row may look at the token and both are real."""
    pairs = subject.allowed_pairs(subject.seq).expand(subject.batch, -1, -1)
    if blocked is None:
        return pairs
    real = ~blocked.cpu()
    return pairs & real.unsqueeze(1) & real.unsqueeze(2)


def zeroed(subject: Subject) -> bool:
    """Tell whether a weight matrix is zero throughout, as some are before training."""
    return any(t.dim() >= 2 and not t.any() for t in subject.state.parameters)


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
    """Change each token; rows that are a window or more away must stay."""
    claims = subject.claims
    assert claims.window is not None
    generator = subject.generator("window")
    seq = max(subject.seq, claims.window + 4)
    x = subject.draw(generator, 2, seq)
    for form in subject.forms:
        for token in range(seq):
            changed = x.clone()
            changed[:, token] = subject.draw(generator, 2, scale=4.0)
            beyond = torch.tensor([abs(row - token) >= claims.window for row in range(seq)])
            if beyond.any():
                how = f"a token {claims.window} or more places away"
                where = (beyond.expand(2, -1), (form, form))
                yield subject.compare(
                    how, (x, None), (changed, None), *where, same=True, token=token
                )
