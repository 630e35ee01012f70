"""Packed documents: apart from each other, and within each as the layer claims."""

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.reach import TRIES, Tried, among, each_moved, least
from selfattn.probes.sizes import WIDEST, some
from selfattn.probes.subject import Subject
from selfattn.probes.turns import one_changed


def _unless_packed(claims: Claims) -> str:
    return "" if claims.packed else "packed documents are not claimed"


@probe(
    "packed",
    changes="the other documents in a row; then each document alone",
    fault="Documents that share a row reach each other.",
    causes=(
        "positions were reset at the border and attention was not",
        "the documents' ids do not arrive in the mask",
    ),
    page="padding-mask",
    unless=_unless_packed,
)
def packed(subject: Subject) -> Iterator[Movement]:
    """Change all documents of a row but one; that must stay, and be as it is alone."""
    generator = subject.generator("packed")
    for batch, seq, count in ((subject.batch, subject.seq, 2), (2, 3 * subject.seq, 5)):
        ids = _documents(batch, seq, count).to(subject.device)
        x = subject.draw(generator, batch, seq)
        for form in _forms(subject, ids):
            for kept in range(count):
                drawn = subject.draw(generator, batch, seq, scale=4.0)
                changed = torch.where((ids == kept).unsqueeze(-1), x, drawn)
                how = f"the others than document {kept} of {count} in a row"
                two = (x, None), (changed, None)
                yield subject.compare(how, *two, ids == kept, (form, form), same=True)
        if subject.claims.positions != "absolute":  # there later documents may go on counting
            for sample in range(batch):
                yield from _each_alone(subject, x[sample : sample + 1], ids[sample : sample + 1])


def _documents(batch: int, seq: int, count: int) -> Tensor:
    """Give ids `[batch, seq]`; where documents begin differs from sample to sample."""
    ids = torch.zeros(batch, seq, dtype=torch.int64)
    for sample in range(batch):
        first = 2 + sample % max(1, seq // (count - 1) - 3)
        for document in range(1, count):
            ids[sample, first + (document - 1) * (seq // (count - 1) - 1) :] = document
    return ids


def _each_alone(subject: Subject, x: Tensor, ids: Tensor) -> Iterator[Movement]:
    """Compare each document of one row with itself alone."""
    for document in range(int(ids.max()) + 1):
        places = ids[0] == document
        how = f"document {document} alone, or packed"
        try:
            base = subject.run(x, None, with_ids(subject, ids))[:, places.cpu()]
            alone = subject.run(x[:, places])
        except LayerFailed as failure:
            yield Movement(how, failed=str(failure))
            continue
        yield subject.still(how, base, alone)


@probe(
    "within-documents",
    changes="tokens of a document that shares a row with others",
    fault="Within a packed document, who sees whom is not as claimed.",
    causes=(
        "the documents' mask replaces the triangle or the window, where both must hold",
        "ids are taken for a padding mask, so that document 0 sees nothing",
        "every token is taken for a document of its own",
    ),
    page="padding-mask",
    unless=_unless_packed,
)
def within_documents(subject: Subject) -> Iterator[Movement]:
    """Change one token at a time: rows of its document must move or stay, as the claims say.

    The first document is in front of one that is longer than the window, so that places in the row
    and in a document differ, and the window ends within one.
    """
    window = min(subject.claims.window or 0, WIDEST)
    long = max(subject.seq, window + 4)
    ids = torch.tensor([0] * 4 + [1] * long + [2] * 3)
    tokens = sorted({*some(range(len(ids)), 8), 4, 5, 3 + long})
    together = ids == ids.unsqueeze(1)
    allowed = subject.allowed_pairs(len(ids)) & together
    hidden = (together & ~allowed).T[tokens]
    pairs = among(tokens, allowed.unsqueeze(0))
    for form in _forms(subject, ids.expand(len(tokens), -1).to(subject.device)):

        def tried(number: int, form: Form = form) -> Tried:
            return each_moved(*_changed(subject, form, tokens, len(ids), number), tokens)

        if hidden.any():
            yield _unmoved(subject, form, tokens, hidden)
        if subject.claims.full and not (form.train and subject.dropping):
            yield least("a token of its document that may be looked at", pairs, tried, form)


def _unmoved(subject: Subject, form: Form, tokens: list[int], hidden: Tensor) -> Movement:
    """Change tokens; rows must stay where they are hidden, `[changed, row]`."""
    how = "a token out of sight in its document"
    try:
        two = _changed(subject, form, tokens, hidden.shape[1], 0)
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    return subject.still(how, *two, hidden, form, same=True)


def _changed(
    subject: Subject, form: Form, tokens: list[int], seq: int, number: int
) -> tuple[Tensor, Tensor]:
    """Give the outputs of one sequence, and those with a token changed, one in each sample."""
    spread, change = TRIES[number % len(TRIES)]
    generator = subject.generator(f"within-documents {number}")
    x = subject.draw(generator, 1, seq, scale=spread)
    others = subject.draw(generator, len(tokens), scale=change)
    as_it_is, changed = one_changed(x, tokens, others)
    return subject.run(as_it_is, None, form), subject.run(changed, None, form)


def with_ids(subject: Subject, ids: Tensor) -> Form:
    """Give the form of call that hands over documents, ids `[batch, seq]`."""
    call = subject.adapted.packed
    assert call is not None
    return Form("packed, no gradients", layer=lambda x, _: call(x, ids))


def _forms(subject: Subject, ids: Tensor) -> Iterator[Form]:
    plain = with_ids(subject, ids)
    yield plain
    yield replace(plain, name="packed, with gradients", grad=True)
    if any(form.train for form in subject.forms):
        yield replace(plain, name="packed, training mode", grad=True, train=True)
