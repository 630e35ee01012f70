"""Calls that gave no output, and the error when none does at any size."""

import re
import traceback
from collections.abc import Sequence
from pathlib import Path

from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError

_OURS = (Path(__file__).parent, Path(__file__).parent / "functions")

_WRAP = "wrap it in a function (x, blocked) that returns [batch, seq, width_out]"


class LayerFailed(Exception):
    """A call of the layer gave no output: it raised, hung, or returned something else.

    Attributes:
        details: the layer's own traceback, or "timeout".
        shape: whether it returned something else than a tensor of the right shape.
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
    if first.shape:
        hints.append("if the output is elsewhere in it, or has other axes, " + _WRAP)
    elif first.details != "timeout":
        hints += _of_the_call(first, claims)
    hints.append(f"it was given x {tried} and blocked, bool [batch, seq] or None")
    trace = "" if first.details in ("", "timeout") else f"\n\n{first.details}"
    return ProbeError(f"{said}; {'; '.join(hints)}.{trace}")


def _of_the_call(failure: LayerFailed, claims: Claims) -> list[str]:
    """Say how else a layer that raised may be called."""
    if "Guard failed" in str(failure):
        return [
            "an exported program takes the sizes that it was exported with: export it with "
            "dynamic_shapes for batch and seq"
        ]
    hints = ["if it takes no mask, say mask=False"] if claims.mask else []
    if claims.seq is None:
        hints.append("if it takes one length only, say seq=")
    if claims.width == Claims.width and re.search("size|shape|dim", str(failure)):
        hints.append(f"if its width is not {claims.width}, say width=")
    return [*hints, "if it takes something else, " + _WRAP]
