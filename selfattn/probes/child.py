"""What `selfattn probe` runs in a process of its own: it imports a layer and probes it."""

import contextlib
import importlib
import inspect
import json
import os
import re
import sys
import traceback
from typing import Any, TextIO

from selfattn.probes.calling import Layer
from selfattn.probes.command import INTERRUPT, INTERRUPTED, could_not
from selfattn.probes.report import ClaimError, ProbeError
from selfattn.probes.run import catalog, probe

WIDTHS = (
    "width",
    "dim",
    "d_model",
    "n_embd",
    "embed_dim",
    "hidden_dim",
    "hidden_size",
    "embedding_dim",
    "model_dim",
)
"""Names of a factory's parameter that is given the width."""

_WITH_A_VALUE = "width|heads|window|seq|dtype|budget|seed"
IN_A_TERMINAL = (
    (r"\bmask=False", "--no-mask"),
    (r"\b(causal|cache|packed)=True", r"--\1"),
    (rf"\b({_WITH_A_VALUE})=(?=\w)", r"--\1 "),
    (rf"\b({_WITH_A_VALUE})=", r"--\1"),
)
"""How a claim of Python's is made in a terminal: patterns and what stands for them."""


def main(given: dict[str, Any], out: TextIO | None = None) -> int:
    """Probe the layer that the command's words name, and print the report to `out`, or stdout.

    Returns:
        0 without faults, 1 with faults, 2 when the probes could not run, 130 when interrupted.
    """
    target, as_json, only = given.pop("target"), given.pop("json"), given.pop("only")
    if given.pop("list"):
        print(_listed(as_json), file=out)
        return 0
    layer: Any = None
    try:
        given["dtype"] = _dtype(given["dtype"])
        with contextlib.redirect_stdout(sys.stderr):  # what it prints is no part of the report
            layer = made(target, given["width"])
        names = None if only is None else [name.strip() for name in only.split(",")]
        report = probe(layer, only=names, **given)
    except (ClaimError, ProbeError) as error:
        text = _taken(layer) + _in_a_terminal(str(error))
        return could_not(text, as_json=as_json, out=out)
    except KeyboardInterrupt:
        return could_not(INTERRUPT, as_json=as_json, out=out, status=INTERRUPTED)
    except Exception as error:
        return could_not(f"the probes failed: {_told(error)}", as_json=as_json, out=out)
    print(report.to_json() if as_json else report, file=out)
    return 0 if report.ok else 1


def _listed(as_json: bool) -> str:
    entries = catalog().values()
    if as_json:
        probes = [{"name": e.name, "changes": e.changes, "page": e.page} for e in entries]
        return json.dumps({"probes": probes}, indent=2)
    return "\n".join(f"{entry.name:<16} changes {entry.changes}" for entry in entries)


def _taken(layer: Any) -> str:
    """Say of a function that it was taken for a layer: it may have been meant for a factory."""
    if not inspect.isfunction(layer) or "<" in layer.__qualname__:  # made by a factory
        return ""
    return (
        f"{layer.__name__}{inspect.signature(layer)} was taken for a layer, since a factory "
        f"requires nothing but the width, as one of {', '.join(WIDTHS)}; "
    )


def _in_a_terminal(text: str) -> str:
    """Put the hints of an error into the command's words; a traceback stays."""
    said, *trace = text.split("\n\n", 1)
    for claim, option in IN_A_TERMINAL:
        said = re.sub(claim, option, said)
    return "\n\n".join([said, *trace])


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
    """Give the keywords for a factory; None for what is a layer already.

    Raises:
        ProbeError: it is a factory by its name for the width, or a class, with unknown words.
    """
    if not callable(found):
        return None
    if not inspect.isclass(found) and hasattr(found, "forward"):
        return None
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return None
    named = [p.name for p in parameters if p.name in WIDTHS][:1]
    unknown = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and p.name not in named
    ]
    if not (named or inspect.isclass(found) or not unknown):
        return None
    if unknown:
        raise ProbeError(
            f"{found.__name__} requires {', '.join(unknown)}, which is not known; a factory "
            f"requires nothing but the width, as one of {', '.join(WIDTHS)}"
        )
    return dict.fromkeys(named, width)


def _dtype(name: str | None) -> Any:
    import torch

    found = getattr(torch, name, None) if name else None
    if name and not isinstance(found, torch.dtype):
        raise ClaimError(f"dtype must be a name such as float32 or bfloat16; got {name!r}")
    return found


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}\n\n{traceback.format_exc()}"


if __name__ == "__main__":
    # Whatever else is written, also behind Python's back, is no part of the report.
    with os.fdopen(os.dup(1), "w") as report_to:
        os.dup2(2, 1)
        status = main(json.loads(sys.argv[1]), report_to)
    sys.exit(status)
