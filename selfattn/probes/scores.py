"""Scores, turned up until a finite fill leaks."""

import contextlib
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from selfattn.probes.catalog import CannotTell, probe
from selfattn.probes.causal import later_tokens
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.hiding import Hiding, hidings
from selfattn.probes.movement import Movement
from selfattn.probes.packed import packed
from selfattn.probes.padding import pad_content
from selfattn.probes.report import FAULT
from selfattn.probes.subject import Subject
from selfattn.probes.watch import scores_given, scores_seen
from selfattn.probes.windows import window

HIGHEST = 1e5
"""The largest score that inputs are turned up to; a fill of -1e4 leaks well before."""

ORDINARY = {
    "pads": pad_content,
    "later tokens": later_tokens,
    "other documents": packed,
    "tokens beyond the window": window,
}
"""The probes that tell what comes through at ordinary scores, by what is hidden."""

FEW = 2
"""So many keys are left to a query, where that can be chosen: all of them may score low."""

STEPS = 12


@probe(
    "high-scores",
    changes="the size of the scores, up to about 100,000, and then what is blocked",
    fault="A finite fill leaks once scores are high: blocked tokens come back.",
    causes=(
        "a fill such as -1e4 instead of minus infinity",
        "two finite fills that are added",
    ),
    page="padding-mask",
    unless=lambda claims: (
        ""
        if claims.mask or claims.causal or claims.window or claims.packed
        else "nothing is hidden"
    ),
)
def high_scores(subject: Subject) -> Iterator[Movement]:
    """Turn inputs up until a blocked token moves a real output; then find where that begins.

    Norms pass the size of their input on while this probe runs: their gains are turned up with
    it, and put back. A norm without gains keeps scores as they are.
    """
    for hiding in hidings(subject, batch=24, most=FEW):
        good: Movement | None = None
        for scale in _scales(subject):
            found = _leak(subject, hiding, scale)
            if found.fault and scale == 1 and ORDINARY[hiding.name](subject).verdict == FAULT:
                raise CannotTell(f"{hiding.name} come through at ordinary scores already")
            if found.failed or found.fault:
                break
            good = found
        if found.fault:
            yield _located(subject, hiding, scale)
        else:
            yield good or found


def _scales(subject: Subject) -> list[float]:
    """Give growing factors for the input; the last one makes scores of about `HIGHEST`."""
    last = max(1.0, min((HIGHEST / max(_size(subject), 1e-6)) ** 0.5, 3e4))
    # Between a leak and an overflow float16 has little room: fine steps, not to miss it.
    steps = 24 if subject.dtype == torch.float16 else 4
    return [last ** (step / steps) for step in range(steps + 1)]


def _size(subject: Subject) -> float:
    """Give the size of the largest score, as far as it grows with the input: a fill does not.

    Twice the input makes scores of four times the size.
    """
    x = subject.draw(subject.generator("seen"), subject.batch, subject.seq)
    plain = scores_given(subject, x)
    with _gains(subject, 2.0):
        loud = scores_given(subject, 2 * x)
    pairs = zip(plain, loud, strict=False)
    grown = [(b - a).abs().float() / 3 for a, b in pairs if a.shape == b.shape]
    return (
        max([float(g[g.isfinite()].max()) for g in grown if g.isfinite().any()], default=0) or 4.0
    )


def _leak(subject: Subject, hiding: Hiding, scale: float) -> Movement:
    """Change what is hidden, at one size of the input."""
    generator, hidden = subject.generator("high-scores"), hiding.hidden
    x = _drawn(subject, generator, hiding, scale)
    other = subject.draw(generator, *hidden.shape, scale=scale)
    louder = 1 if subject.dtype == torch.float16 else 30  # there it would overflow first
    low, high = (torch.where(hidden.unsqueeze(-1), t, x) for t in (x * 0, other * louder))
    form = Form(f"eval, inputs times {scale:.3g}", layer=hiding.call(subject))
    try:
        with _gains(subject, scale):
            first, second = (subject.run(t, hiding.blocked, form) for t in (low, high))
    except LayerFailed as failure:
        return Movement(hiding.name, failed=str(failure))
    places = hiding.places
    if not torch.stack([first, second])[:, places.cpu()].isfinite().all():
        failed = f"outputs are not finite with inputs times {scale:.3g}"
        return Movement(hiding.name, failed=failed)
    how = f"{hiding.name}, scores turned up"
    return subject.still(how, first, second, places, form, same=True)


def _drawn(subject: Subject, generator: torch.Generator, hiding: Hiding, scale: float) -> Tensor:
    """Draw an input; where many keys are left, as copies: all may score low together."""
    x = subject.draw(generator, *hiding.hidden.shape, scale=scale)
    return x if (~hiding.hidden).sum(1).max() <= FEW else x[:, -1:].expand_as(x)


def _located(subject: Subject, hiding: Hiding, high: float) -> Movement:
    """Halve the range in which the leak begins, and say which scores were seen there."""
    low, found = 1.0, _leak(subject, hiding, high)
    for _ in range(STEPS):
        middle = (low * high) ** 0.5
        tried = _leak(subject, hiding, middle)
        if tried.fault:
            high, found = middle, tried
        else:
            low = middle
    x = _drawn(subject, subject.generator("high-scores"), hiding, high)
    with _gains(subject, high):
        seen = scores_seen(subject, x)
    found.where["score"] = f"{seen[0]:.3g} to {seen[1]:.3g}" if seen else "not seen from outside"
    return found


@contextlib.contextmanager
def _gains(subject: Subject, scale: float) -> Iterator[None]:
    """Multiply the gains of all norms, for a while."""
    norms = [module for module in subject.state.modules if "norm" in _type(module).lower()]
    gains = [getattr(module, "weight", None) for module in norms]
    with subject.state.numbers([(g, g.detach() * scale) for g in gains if isinstance(g, Tensor)]):
        yield


def _type(module: nn.Module) -> str:
    return str(getattr(module, "original_name", type(module).__name__))
