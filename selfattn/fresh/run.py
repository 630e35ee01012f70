"""Run a script in a process of its own and collect what each of its sections gave."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selfattn.fresh.snippet import Snippet

WORKER = Path(__file__).with_name("worker.py")

TIME_LIMIT = 300.0
"""Seconds a script may take."""


@dataclass(frozen=True)
class Figure:
    """A picture that a section handed over: its HTML, and what it shows in words."""

    html: str
    alt: str


@dataclass(frozen=True)
class Output:
    """What one section gave: all it wrote to stdout, and its figures in order."""

    text: str
    figures: tuple[Figure, ...] = ()


@dataclass(frozen=True)
class Fault:
    """Why a script did not come to its end.

    Attributes:
        path, section, line: the snippet file, the section, and the line of the statement.
        message: what happened, in one line.
        detail: the traceback or the last lines printed.
    """

    path: Path
    section: str
    line: int
    message: str
    detail: str = ""

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}: section {self.section!r}: {self.message}"
        return f"{where}\n{self.detail}".rstrip()


@dataclass(frozen=True)
class Run:
    """What a script gave: an output for each section that finished, and a fault or None."""

    outputs: dict[str, Output] = field(default_factory=dict)
    fault: Fault | None = None


def run(snippet: Snippet, root: Path, time_limit: float = TIME_LIMIT) -> Run:
    """Run a script from its first section to its last in a fresh Python process.

    Args:
        snippet: the script.
        root: the folder it runs in.
        time_limit: seconds after which it is stopped.

    Returns:
        The outputs of all sections that finished. Never raises for what the script does: an
        exception, an exit, a crash or a hang is the run's `fault`.
    """
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        request = Path(folder, "request")
        request.write_text(json.dumps(_request(snippet, folder)), encoding="utf-8")
        ended = _start(request, root, time_limit)
        return _collect(snippet, Path(folder), ended)


def _request(snippet: Snippet, folder: str) -> dict[str, Any]:
    return {
        "path": str(snippet.path),
        "code": snippet.code,
        "first": snippet.first,
        "sections": [{"name": s.name, "first": s.first, "last": s.last} for s in snippet.sections],
        "folder": folder,
    }


def _start(request: Path, root: Path, time_limit: float) -> str:
    """Run the worker to its end; say how it ended if that was not by itself."""
    # One thread a script: digits and timings must not depend on the load.
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # -P: the worker's own folder must not be where the script's imports are looked up.
    command = [sys.executable, "-P", str(WORKER), str(request)]
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, stdin=subprocess.DEVNULL, timeout=time_limit
        )
    except subprocess.TimeoutExpired:
        return f"still running after {time_limit:g} s, the time limit"
    return "" if done.returncode == 0 else f"the process ended with exit status {done.returncode}"


def _collect(snippet: Snippet, folder: Path, ended: str) -> Run:
    stdout = _read(folder / "stdout")
    figures = _read(folder / "figures")
    outputs: dict[str, Output] = {}
    section, line = snippet.sections[0].name, snippet.first
    printed = pictured = 0
    for event in map(json.loads, _read(folder / "events").splitlines()):
        if "failed" in event:
            fault = Fault(
                snippet.path, event["failed"], event["line"], event["message"], event["trace"]
            )
            return Run(outputs, fault)
        if "reached" in event:
            section, line = event["reached"], event["line"]
            continue
        outputs[event["finished"]] = Output(
            stdout[printed : event["stdout"]].decode("utf-8"),
            _figures(figures[pictured : event["figures"]]),
        )
        printed, pictured = event["stdout"], event["figures"]
    if ended or len(outputs) < len(snippet.sections):
        problem = ended or "the process ended before the script did"
        detail = (stdout[printed:] + _read(folder / "stderr")).decode("utf-8", "replace")
        return Run(outputs, Fault(snippet.path, section, line, problem, detail))
    return Run(outputs)


def _figures(lines: bytes) -> tuple[Figure, ...]:
    return tuple(Figure(**json.loads(line)) for line in lines.splitlines())


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
