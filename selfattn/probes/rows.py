"""Rows and samples with nothing to attend: finite outputs, and finite gradients for the others."""

from collections.abc import Iterator

from torch import Tensor

from selfattn.probes.catalog import CannotTell, probe, without_mask
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.gradients import gradients_of
from selfattn.probes.movement import Movement, everywhere
from selfattn.probes.report import FAULT
from selfattn.probes.subject import Subject


@probe(
    "finite",
    changes="nothing: ordinary inputs, with every mask and in every form of call",
    fault="An output is not finite, for an ordinary input and a place that is real.",
    causes=(
        "a softmax over minus infinity alone: the mask hides every key of a row that has some",
        "an overflow, or a division by 0",
    ),
    page="causal-mask",
)
def finite(subject: Subject) -> Iterator[Movement]:
    """Call; every output of a real token must be finite."""
    x = subject.draw(subject.generator("finite"), subject.batch, subject.seq)
    for form, how, blocked in subject.ways():
        real = everywhere(x) if blocked is None else ~blocked.cpu()
        yield _finite(subject, x, blocked, form, how, real)
    x, blocked = _long(subject)
    real = everywhere(x) if blocked is None else ~blocked.cpu()
    for form in subject.forms:
        found = _finite(subject, x, blocked, form, f"length {subject.long}", real)
        yield from [] if found.failed else [found]


@probe(
    "empty-rows",
    changes="one sample that is blocked throughout; under a triangle, pads on the left",
    fault="A row with nothing to attend is not finite.",
    causes=(
        "a softmax over minus infinity alone, which is nan; zero such rows afterwards",
        "a kernel or a form of call that treats empty rows otherwise",
    ),
    page="causal-mask",
    unless=without_mask,
)
def empty_rows(subject: Subject) -> Iterator[Movement]:
    """Block one sample; every output must be finite, also where nothing is real."""
    x = subject.draw(subject.generator("empty-rows"), subject.batch, subject.seq)
    for how, blocked in _masks(subject).items():
        judged = _without_key(subject, blocked) | ~blocked.cpu()
        for form in subject.forms:
            yield _finite(subject, x, blocked, form, how, judged)


@probe(
    "gradients",
    changes="nothing; then what stands in the pads, to vectors of zeros",
    fault="A gradient is not finite, for an ordinary input.",
    causes=(
        "a root, a norm or a division whose derivative at 0 is not finite, such as sqrt(0)",
        "a branch of torch.where that is not taken, and not finite on the way back",
        "an overflow",
    ),
    page="causal-mask",
)
def gradients(subject: Subject) -> Iterator[Movement]:
    """Sum the real outputs; the gradients of the input and of all parameters must be finite."""
    x = subject.draw(subject.generator("gradients"), subject.batch, subject.seq)
    for form, how, blocked in subject.ways():
        empty = blocked is not None and bool(_without_key(subject, blocked).any())
        if form.grad and not empty:  # rows without a key are for the next probe
            yield finite_gradients(subject, x, blocked, form, how)
            if blocked is not None:
                zeros = x.masked_fill(blocked.unsqueeze(-1), 0)
                yield finite_gradients(subject, zeros, blocked, form, f"{how}, of zeros")
    for form in (form for form in subject.forms if form.grad):
        found = finite_gradients(subject, *_long(subject), form, f"length {subject.long}")
        yield from [] if found.failed else [found]


@probe(
    "empty-gradients",
    changes="one sample that is blocked throughout, and a loss on the others",
    fault="A sample with nothing to attend makes the others' gradients not finite.",
    causes=(
        "nan rows, whose gradient is nan even where the loss leaves them out",
        "rows zeroed after the softmax: 0 times nan is nan on the way back",
    ),
    page="causal-mask",
    unless=without_mask,
)
def empty_gradients(subject: Subject) -> Iterator[Movement]:
    """Sum the real outputs; the gradients of the input and of all parameters must be finite."""
    x = subject.draw(subject.generator("empty-gradients"), subject.batch, subject.seq)
    if gradients(subject).verdict == FAULT:
        raise CannotTell("gradients are not finite without an empty sample already")
    for how, blocked in _masks(subject).items():
        for form in (form for form in subject.forms if form.grad):
            yield finite_gradients(subject, x, blocked, form, how)


def finite_gradients(
    subject: Subject, x: Tensor, blocked: Tensor | None, form: Form, how: str
) -> Movement:
    """Take the gradients of all real outputs, for x `[batch, seq, width]`: each must be finite."""
    try:
        found = gradients_of(subject, x, blocked, form, lambda out: out.float().square().sum())
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    wrong = [i for i, g in enumerate(found) if g is not None and not g.isfinite().all()]
    where = {"form": form.name, "changed": how}
    if not wrong:
        return Movement(how, 0.0, 0.0, where=where)
    of = "the input" if wrong[0] == 0 else f"{sum(i > 0 for i in wrong)} parameters"
    return Movement(how, float("nan"), 0.0, where={**where, "gradient": of})


def _long(subject: Subject) -> tuple[Tensor, Tensor | None]:
    """Give a long input, with pads on the right if there is a mask."""
    x = subject.draw(subject.generator("rows, long"), 2, subject.long)
    return x, subject.pads(2, subject.long, least=1) if subject.claims.mask else None


def _masks(subject: Subject) -> dict[str, Tensor]:
    batch, seq = subject.batch, subject.seq
    empty = subject.pads(batch, seq)
    empty[batch // 2] = True
    masks = {"one sample blocked throughout": empty}
    if subject.claims.mask is True and (subject.claims.causal or subject.claims.window):
        masks["rows before the first real token"] = subject.pads(batch, seq, "left", least=1)
    return masks


def _without_key(subject: Subject, blocked: Tensor) -> Tensor:
    """Give `[batch, row]`, True where every key is blocked or not allowed."""
    allowed = subject.allowed_pairs(blocked.shape[1])
    return ~(allowed & ~blocked.cpu().unsqueeze(1)).any(-1)


def _finite(
    subject: Subject, x: Tensor, blocked: Tensor | None, form: Form, how: str, judged: Tensor
) -> Movement:
    """Call; the output must be finite at the places `[batch, seq]` that are judged."""
    try:
        bad = (~subject.run(x, blocked, form).isfinite()).any(-1) & judged
    except LayerFailed as failure:
        return Movement(how, failed=str(failure))
    where = {"form": form.name, "changed": how}
    if not bad.any():
        return Movement(how, 0.0, 0.0, where=where)
    batch, row = (int(i) for i in bad.nonzero()[0])
    return Movement(how, float("nan"), 0.0, where={**where, "batch": batch, "row": row})
