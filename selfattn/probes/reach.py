"""Reach: who may look at whom does, and nobody looks further than the window or the document."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.subject import PLAIN, Form, LayerFailed, Movement, Subject

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
    for form in subject.forms:
        if form.grad and not form.options and form.layer is None and not form.train:
            continue  # the same code without gradients was looked at
        for name, blocked in subject.masks(subject.batch, subject.seq).items():
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
        return Movement(how, failed=str(failure), shape=failure.shape)
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
    if float(least.min()) <= floor and not (farthest[apart] > floor).any() and _zeroed(subject):
        raise CannotTell("no token reaches another, and a weight matrix is zero throughout")
    where = {"form": form.name, "changed": how, "batch": batch, "row": row, "token": token}
    return Movement(how, float(least.min()), floor, must=True, where=where)


def _pairs(subject: Subject, blocked: Tensor | None) -> Tensor:
    """Give `[batch, row, token]`, True where the row may look at the token and both are real."""
    seq = range(subject.seq)
    allowed = torch.tensor([[subject.claims.allows(i, j) for j in seq] for i in seq])
    pairs = allowed.expand(subject.batch, -1, -1)
    if blocked is None:
        return pairs
    real = ~blocked.cpu()
    return pairs & real.unsqueeze(1) & real.unsqueeze(2)


def _zeroed(subject: Subject) -> bool:
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
        try:
            base = subject.run(x, None, form)
            for token in range(seq):
                changed = x.clone()
                changed[:, token] = subject.draw(generator, 2, scale=4.0)
                beyond = [abs(row - token) >= claims.window for row in range(seq)]
                other = subject.run(changed, None, form)
                places = torch.tensor(beyond).expand(2, -1)
                if places.any():
                    how = f"a token {claims.window} or more places away"
                    yield subject.still(how, base, other, places, form, same=True, token=token)
        except LayerFailed as failure:
            yield Movement("beyond", failed=str(failure), shape=failure.shape)


@probe(
    "packed",
    changes="the other document in a row; then each document alone",
    fault="Documents that share a row reach each other.",
    causes=(
        "positions were reset at the border and attention was not",
        "the documents' ids do not arrive in the mask",
    ),
    page="padding-mask",
    unless=lambda claims: "" if claims.packed else "packed documents are not claimed",
)
def packed(subject: Subject) -> Iterator[Movement]:
    """Change one document of a row of two; the other must stay, and be as it is alone."""
    call = subject.adapted.packed
    assert call is not None
    generator = subject.generator("packed")
    batch, seq = subject.batch, subject.seq
    x = subject.draw(generator, batch, seq)
    ids = torch.zeros(batch, seq, dtype=torch.int64, device=x.device)
    for sample in range(batch):
        ids[sample, 2 + sample % max(1, seq - 3) :] = 1
    for grad in (False, True):
        form = Form(f"packed, {'with' if grad else 'no'} gradients", grad=grad)
        for kept in (0, 1):
            drawn = subject.draw(generator, batch, seq, scale=4.0)
            changed = torch.where((ids == kept).unsqueeze(-1), x, drawn)
            how = f"document {1 - kept} of two in a row"
            try:
                base, other = (_call(subject, t, ids, form) for t in (x, changed))
            except LayerFailed as failure:
                yield Movement(how, failed=str(failure), shape=failure.shape)
                continue
            yield subject.still(how, base, other, ids == kept, form, same=True)
    yield from _each_alone(subject, x, ids)


def _call(subject: Subject, x: Tensor, ids: Tensor, form: Form) -> Tensor:
    call = subject.adapted.packed
    return subject.run(x, None, Form(form.name, layer=lambda x, _: call(x, ids), grad=form.grad))  # type: ignore[misc]


def _each_alone(subject: Subject, x: Tensor, ids: Tensor) -> Iterator[Movement]:
    if subject.claims.positions == "absolute":
        return  # the second document may go on counting
    for sample in range(x.shape[0]):
        one = slice(sample, sample + 1)
        for document in (0, 1):
            places = ids[sample] == document
            how = f"document {document} alone, or packed"
            try:
                base = _call(subject, x[one], ids[one], PLAIN)[:, places.cpu()]
                alone = subject.run(x[one][:, places])
            except LayerFailed as failure:
                yield Movement(how, failed=str(failure), shape=failure.shape)
                continue
            yield subject.still(how, base, alone)
