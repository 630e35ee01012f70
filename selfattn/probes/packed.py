"""Packed documents: those that share a row must not reach each other."""

from collections.abc import Iterator

import torch
from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject


@probe(
    "packed",
    changes="the other documents in a row; then each document alone",
    fault="Documents that share a row reach each other.",
    causes=(
        "positions were reset at the border and attention was not",
        "the documents' ids do not arrive in the mask",
    ),
    page="padding-mask",
    unless=lambda claims: "" if claims.packed else "packed documents are not claimed",
)
def packed(subject: Subject) -> Iterator[Movement]:
    """Change all documents of a row but one; that must stay, and be as it is alone."""
    generator = subject.generator("packed")
    for batch, seq, count in ((subject.batch, subject.seq, 2), (2, 3 * subject.seq, 5)):
        ids = _documents(batch, seq, count).to(subject.device)
        x = subject.draw(generator, batch, seq)
        for grad in (False, True):
            form = _form(subject, ids, grad)
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
            base = subject.run(x, None, _form(subject, ids, grad=False))[:, places.cpu()]
            alone = subject.run(x[:, places])
        except LayerFailed as failure:
            yield Movement(how, failed=str(failure))
            continue
        yield subject.still(how, base, alone)


def _form(subject: Subject, ids: Tensor, grad: bool) -> Form:
    call = subject.adapted.packed
    assert call is not None
    name = f"packed, {'with' if grad else 'no'} gradients"
    return Form(name, layer=lambda x, _: call(x, ids), grad=grad)
