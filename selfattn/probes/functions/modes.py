"""Calls that must give the same: again, in other modes, with other memory; inputs stay."""

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.functions.cases import ONE, Case, compared, masked, masks
from selfattn.probes.functions.catalog import Verdict, first_fault, near, probe
from selfattn.probes.functions.reference import Expected, expected
from selfattn.probes.functions.setting import ORDINARY, Setting, Way, plain
from selfattn.probes.report import CANNOT_TELL, FAULT, OK

GRADIENTS = Form("gradients on", grad=True)


@probe(
    "inputs",
    fault="The function writes into what it is given: the caller's own tensor is changed.",
    causes=("an operation in place on q, k, v or on the mask, such as |=, mul_ or masked_fill_",),
    page="pytorch",
)
def inputs(s: Setting) -> Verdict:
    """Call; q, k, v and the mask must be what they were."""
    words = s.words(s.count, s.count)
    for blocked in _some_masks(s)[:2]:
        before = [*words, *([] if blocked is None else [blocked.to(words[0].device)])]
        after = [t.clone() for t in before]
        given = after if blocked is not None else [*after, None]
        s.subject.call(lambda: s.call(*given), PLAIN, words[0])  # noqa: B023
        for name, old, new in zip(("q", "k", "v", "the mask"), before, after, strict=False):
            moved = (plain(new) - plain(old)).abs()
            if bool((moved != 0).any()):
                return Verdict(FAULT, float(moved.max()), 0.0, f"{name} is changed")
    return Verdict(OK, 0.0, 0.0)


def _some_masks(s: Setting) -> list[Tensor | None]:
    return [None, *(masks(s, s.count, s.count).values() if s.mask else ())]


@probe(
    "repetition",
    fault="The same call gives another output the second time.",
    causes=("dropout that is always on", "a mask that is kept from an earlier call"),
    page="pytorch",
)
def repetition(s: Setting) -> Verdict:
    """Call with several masks and sizes in one go, then again the other way round."""
    words, longer = s.words(s.count, s.count), s.words(s.count + 3, s.count + 3, seed=1)
    calls = [Case(s, words, f"mask {i}", blocked) for i, blocked in enumerate(_some_masks(s))]
    calls += [Case(s, longer)]

    def twice() -> list[Tensor]:
        order = [*calls, *reversed(calls)]
        return [plain(s.result(one.words, one.blocked)) for one in order]

    outs = s.subject.call(twice, PLAIN, words[0])
    first, second = outs[: len(calls)], outs[len(calls) :][::-1]
    verdicts = [_again(case, *both) for case, *both in zip(calls, first, second, strict=True)]
    stale = _stale(calls[1:-1], first[1:-1])
    return first_fault(verdicts) or stale or verdicts[0]


def _again(case: Case, first: Tensor, second: Tensor) -> Verdict:
    beside = " with a mask" if case.blocked is not None else ""
    off = (first - second).abs().masked_fill(first.isnan() & second.isnan(), 0)
    return near(
        float(off[case.expected.places].max()),
        case.setting.slack,
        f"the second call{beside} differs",
    )


def _stale(calls: list[Case], outs: list[Tensor]) -> Verdict | None:
    """Tell whether a call gives what would be right for the mask of the call before it."""
    for before, call, out in zip(calls, calls[1:], outs[1:], strict=False):
        own, earlier = call.expected, expected(call.setting, call.words, before.blocked)
        both = own.places & earlier.places
        right = compared(out, own._replace(places=both), "", {})
        if right.verdict == FAULT and compared(out, earlier, "", {}).verdict == OK:
            return right._replace(said="the mask of an earlier call is used, and not its own")
    return None


@probe(
    "modes",
    fault="The output is another when gradients are on, or asked for.",
    causes=("a branch on the mode, or on requires_grad, that computes something else",),
    page="pytorch",
    after=("repetition",),
)
def modes(s: Setting) -> Verdict:
    """Call with gradients on, with gradients asked for, and in inference mode."""
    ways = [
        Way(GRADIENTS),
        Way(Form("gradients asked for", grad=True), lambda t: t.clone().requires_grad_()),
        Way(Form("inference mode"), context=torch.inference_mode),
    ]
    return _same(s, ways, "mode")


@probe(
    "layout",
    fault="The output is another for the same numbers laid out otherwise in memory.",
    causes=("a view, or a kernel, that takes memory to be contiguous",),
    page="pytorch",
    after=("repetition",),
)
def layout(s: Setting) -> Verdict:
    """Call with transposed tensors, and with slices of larger ones."""
    ways = [
        Way(Form("last two axes transposed"), lambda t: _copied(t.mT).mT),
        Way(
            Form("[batch, seq, heads, dim]"), lambda t: _copied(t.transpose(1, -2)).transpose(1, -2)
        ),
        Way(Form("every other entry"), lambda t: t.repeat_interleave(2, dim=-1)[..., ::2]),
    ]
    return _same(s, ways, "memory")


def _copied(t: Tensor) -> Tensor:
    return t.clone(memory_format=torch.contiguous_format)


def _same(s: Setting, ways: list[Way], axis: str) -> Verdict:
    """Compare ways to call with the ordinary one; one that is refused is left out."""
    verdict, failed = None, ""
    for case in masked(s, s.words(s.count, s.count), ONE):
        allowed, places = case.expected[1:]
        base = case.out(ORDINARY)
        for way in ways:
            try:
                out = case.out(way)
            except LayerFailed as failure:
                failed = str(failure)
                continue
            places = places & base.isfinite().all(-1)
            twice = Expected(base, 2 * allowed, places)
            verdict = compared(
                out, twice, "the output is another", {axis: way.form.name, **case.where}
            )
            if verdict.verdict == FAULT:
                return verdict
    return verdict or Verdict(CANNOT_TELL, said=failed)
