"""Calls that gave no output, and the error when none does at any size."""

import traceback
from collections.abc import Sequence
from pathlib import Path

from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError

_OURS = (Path(__file__).parent, Path(__file__).parent / "functions")


class LayerFailed(Exception):
    """A call of the layer gave no output: it raised, hung, or returned something else.

    Attributes:
        details: the layer's own traceback, or "timeout".
        shape: whether it returned a tensor of a wrong shape.
    """

    def __init__(self, what: str, details: str = "", *, shape: bool = False) -> None:
        super().__init__(what)
        self.details = details
        self.shape = shape


def trace_of(error: BaseException) -> str:
    """Give the traceback from the layer's own first line on."""
    trace = error.__traceback__
    while trace and Path(trace.tb_frame.f_code.co_filename).parent in _OURS:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def no_output(failures: Sequence[LayerFailed], claims: Claims) -> ProbeError:
    """Make the error for a layer that gave no output at any size."""
    shapes = [f for f in failures if f.shape]
    first = (shapes or list(failures))[0]
    tried = f"[batch, seq, {claims.width}] in {len(failures)} sizes"
    said = "the layer " + (f"{first}".replace("\n", " "))
    hints = []
    if claims.mask and not first.shape and first.details != "timeout":
        hints.append("if it takes no mask, say mask=False")
    if claims.seq is None and first.details != "timeout":
        hints.append("if it takes one length only, say seq=")
    hints.append(f"it was given x {tried} and blocked, bool [batch, seq] or None")
    trace = "" if first.details in ("", "timeout") else f"\n\n{first.details}"
    return ProbeError(f"{said}; {'; '.join(hints)}.{trace}")
