"""The first call of a function: does it give anything, and if not, what to say instead."""

from dataclasses import replace

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions.setting import Function, Setting
from selfattn.probes.report import ProbeError
from selfattn.probes.stopping import TimeUp


def ready(s: Setting) -> Setting:
    """Give a setting that can be called without a mask.

    A function that takes no None is given a mask that blocks nothing.

    Raises:
        ProbeError: the function gives no output of the right shape.
    """
    words = s.words(s.count, s.count)
    try:
        s.out(*words)
    except TimeUp:
        raise ProbeError("the time was over before the function could run once") from None
    except LayerFailed as failure:
        other = replace(s, call=_never_none(s.call))
        if s.mask and failure.details != "timeout" and _works(other):
            s.subject.note("it takes no None for a mask: it is given one that blocks nothing")
            return other
        raise _no_output(s, failure) from failure
    return s


def _never_none(fn: Function) -> Function:
    def call(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> object:
        if blocked is None:
            blocked = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool, device=q.device)
        return fn(q, k, v, blocked)

    return call


def _works(s: Setting) -> bool:
    try:
        s.out(*s.words(s.count, s.count))
    except LayerFailed:
        return False
    return True


def _no_output(s: Setting, failure: LayerFailed) -> ProbeError:
    """Say what was given, and which claim would help."""
    q = s.draw(s.count)
    if failure.details == "timeout":
        hint = "Give budget= more seconds if it is slow."
    elif s.mask and _works(replace(s, call=without_mask(s.call), mask=False)):
        hint = "It works without: say mask=False."
    elif s.heads and _works(replace(s, heads=0, key_heads=0)):
        hint = "It works without heads: say heads=None."
    else:
        hint = "Pass a function (q, k, v, blocked) that calls yours, and see heads= and mask=."
    trace = "" if failure.details in ("", "timeout") else f"\n\n{failure.details}"
    return ProbeError(
        f"the function {failure}; it was given q, k, v {list(q.shape)} and no mask"
        f"{' (None)' if s.mask else ''}. {hint}{trace}"
    )


def without_mask(fn: Function) -> Function:
    """Give a function of `(q, k, v)` the form in which it is called."""
    return lambda q, k, v, blocked: fn(q, k, v)
