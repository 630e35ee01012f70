"""Inputs: what a layer is given belongs to the caller, and must stay as it was."""

from collections.abc import Iterator

from torch import Tensor

from selfattn.probes.catalog import probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.subject import Subject


@probe(
    "inputs",
    changes="nothing: it looks at x and the mask after the call",
    fault="The layer writes into what it is given: the caller's own tensor is changed.",
    causes=(
        "an operation in place on x or on the mask, such as masked_fill_, mul_ or +=",
        "a residual sum in place (x += ...)",
    ),
    page="pytorch",
)
def inputs(subject: Subject) -> Iterator[Movement]:
    """Call; x and the mask must be what they were."""
    x = subject.draw(subject.generator("inputs"), subject.batch, subject.seq)
    for form, name, blocked in subject.ways():
        layer = form.layer or subject.adapted.call
        given = x.clone()
        taken = subject.mask_for(x, blocked)
        mask = None if taken is None else taken.clone()
        try:
            subject.call(lambda: layer(given, mask, **form.options), form, x)  # noqa: B023
        except LayerFailed as failure:
            yield Movement(name, failed=str(failure))
            continue
        yield _changed("x", x, given, form)
        if taken is not None and mask is not None:
            yield _changed("the mask", taken, mask, form)


def _changed(what: str, before: Tensor, after: Tensor, form: Form) -> Movement:
    moved = float((after.detach().double() - before.double()).abs().max())
    return Movement(what, moved, 0.0, where={"form": form.name, "written into": what})
