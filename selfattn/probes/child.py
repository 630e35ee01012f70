"""What `selfattn probe` runs in a process of its own: it imports a layer and probes it."""

import contextlib
import importlib
import inspect
import json
import sys
import traceback
from typing import Any

from selfattn.probes.calling import Layer
from selfattn.probes.command import COULD_NOT
from selfattn.probes.report import ClaimError, ProbeError
from selfattn.probes.run import catalog, probe

WIDTHS = ("width", "dim", "d_model", "embed_dim", "hidden_size")
"""Names of a factory's parameter that is given the width."""


def main(given: dict[str, Any]) -> int:
    """Probe the layer that the command's words name.

    Returns:
        0 without faults, 1 with faults, 2 when the probes could not run.
    """
    if given.pop("list"):
        for entry in catalog().values():
            print(f"{entry.name:<16} changes {entry.changes}")
        return 0
    target, as_json, only = given.pop("target"), given.pop("json"), given.pop("only")
    try:
        given["dtype"] = _dtype(given["dtype"])
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no part of the report
            layer = made(target, given["width"])
        report = probe(layer, only=only.split(",") if only else None, **given)
    except (ClaimError, ProbeError) as error:
        print(f"selfattn probe: {error}", file=sys.stderr)
        return COULD_NOT
    print(report.to_json() if as_json else report)
    return 0 if report.ok else 1


def made(target: str, width: int) -> Layer:
    """Import a target `package.module:name` and make the layer.

    A class, and a function without required parameters or with the width alone, are called; a
    module, or a function of an input, is the layer itself.

    Raises:
        ProbeError: it cannot be imported or made; the text ends with the traceback.
    """
    home, _, name = target.partition(":")
    if not home or not name:
        raise ProbeError(f"a target is package.module:factory; got {target!r}")
    sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(home)
        for part in name.split("."):
            found = getattr(found, part)
    except (Exception, SystemExit) as error:
        raise ProbeError(f"cannot import {target}: {_told(error)}") from error
    words = _words_for(found, width)
    if words is None:
        layer: Layer = found
        return layer
    try:
        layer = found(**words)
    except (Exception, SystemExit) as error:
        raise ProbeError(
            f"cannot make {target} with {words or 'no words'}: {_told(error)}"
        ) from error
    return layer


def _words_for(found: Any, width: int) -> dict[str, Any] | None:
    """Give the keywords for a factory; None for what is a layer already."""
    if not callable(found):
        return None
    if not inspect.isclass(found) and hasattr(found, "forward"):
        return None
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [p.name for p in parameters if p.name in WIDTHS]
    if named:
        return {named[0]: width}
    required = [
        p
        for p in parameters
        if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    return {} if inspect.isclass(found) or not required else None


def _dtype(name: str | None) -> Any:
    import torch

    found = getattr(torch, name, None) if name else None
    if name and not isinstance(found, torch.dtype):
        raise ClaimError(f"dtype must be a name such as float32 or bfloat16; got {name!r}")
    return found


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1])))
