"""Dropout: on average, what is drawn in training must be the output in eval."""

import contextlib
from collections.abc import Iterator

import torch
from torch import nn

from selfattn.probes.catalog import CannotTell, NotApplicable, probe
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.movement import Movement
from selfattn.probes.state import State
from selfattn.probes.subject import Subject
from selfattn.probes.watch import drops_late, is_bare


@probe(
    "dropout",
    changes="the draws of dropout, 1024 of them, against eval",
    fault="The mean over dropout's draws is not the output in eval.",
    causes=(
        "what remains is not scaled up by 1 / (1 - p)",
        "dropout on the scores and not on the weights",
    ),
    page="pytorch",
)
def dropout(subject: Subject) -> Iterator[Movement]:
    """Average many draws in training mode. Exact only where all around is linear."""
    if not subject.dropping:
        raise NotApplicable("training mode draws nothing")
    if not (is_bare(subject) if subject.claims.bare is None else subject.claims.bare):
        raise CannotTell("the layer is not linear around its attention, so means do not carry over")
    if not drops_late(subject):
        raise CannotTell("something is dropped before the weights, so means do not carry over")
    x = subject.draw(subject.generator("dropout"), 1, subject.seq)
    train = Form("training mode", train=True)
    try:
        base = subject.run(x)
        draws = subject.run(x.expand(1024, -1, -1).contiguous(), None, train)
    except LayerFailed as failure:
        yield Movement("draws", failed=str(failure))
        return
    mean, error = draws.mean(0, keepdim=True), draws.std(0, keepdim=True) / 32
    at = int(((mean - base).abs() / (error + 1e-12)).flatten().argmax())
    moved = float((mean - base).abs().flatten()[at])
    allowed = 6 * float(error.flatten()[at]) + 4 * subject.allowed(base)
    row = at // base.shape[2]
    yield Movement("draws", moved, allowed, where={"form": train.name, "batch": 0, "row": row})


def still_draws(subject: Subject, train: Form) -> bool:
    """Tell whether training mode is still random."""
    x = subject.draw(subject.generator("draws"), subject.batch, subject.seq)
    first, second = subject.run(x, None, train), subject.run(x, None, train, afresh=False)
    return subject.still("draws", first, second).fault


@contextlib.contextmanager
def no_dropout(state: State) -> Iterator[None]:
    """Set every probability of dropout to 0, for a while."""
    state.hold(
        [
            (module, name, 0.0)
            for module in state.modules
            if not isinstance(module, torch.jit.ScriptModule)
            for name, value in vars(module).items()
            if isinstance(value, float) and _drops(module, name)
        ]
    )
    try:
        yield
    finally:
        state.hold([])


def _drops(module: nn.Module, name: str) -> bool:
    kind = type(module).__name__.lower()
    return "drop" in name.lower() or (name in ("p", "prob") and "drop" in kind)
