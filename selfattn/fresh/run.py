"""Run a script in a process of its own and collect what each of its sections gave."""

import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from selfattn.fresh import process
from selfattn.fresh.fault import Fault
from selfattn.fresh.snippet import Snippet

MAX_BYTES = 1_000_000
"""What a script may write to stdout, and to stderr."""

LAST_LINES = 12
"""Lines of output that an error shows."""


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
class Circumstances:
    """When and where a script ran.

    Attributes:
        when: the time of its start, UTC, to the minute.
        versions: of Python and of the modules the server preloads.
        machine: the system and the processor's kind.
    """

    when: str
    versions: dict[str, str]
    machine: str


@dataclass(frozen=True)
class Run:
    """What a script gave.

    Attributes:
        outputs: one for each section that finished.
        fault: why it did not come to its end, if it did not.
        files: the project's files and the data files that it read, with checksums; None for one
            that it looked for and that was not there.
        circumstances: when and where it ran.
    """

    outputs: dict[str, Output] = field(default_factory=dict)
    fault: Fault | None = None
    files: dict[str, str | None] = field(default_factory=dict)
    circumstances: Circumstances | None = None

    @property
    def text(self) -> str:
        """The whole output."""
        return "".join(output.text for output in self.outputs.values())


def run(
    snippet: Snippet, root: Path, preload: tuple[str, ...] = (), notices: tuple[str, ...] = ()
) -> Run:
    """Run a script from its first section to its last in a process of its own.

    Args:
        snippet: the script.
        root: the folder it runs in.
        preload: modules that the fork server loads once, for all scripts.
        notices: regular expressions; a line on stderr that one of them matches at its start is
            no fault.

    Returns:
        The outputs of all sections that finished. Never raises for what the script does: an
        exception, an exit, a crash, a hang or a warning is the run's `fault`.
    """
    now = circumstances(preload)
    with tempfile.TemporaryDirectory(prefix="fresh-") as folder:
        try:
            started = process.start(_request(snippet, root, folder), preload)
        except OSError as error:
            return Run(fault=Fault(snippet.path, snippet.first, f"cannot be started: {error}"))
        ended = _wait(started, Path(folder), snippet.timeout)
        return _collect(snippet, Path(folder), ended, notices, now)


def circumstances(preload: tuple[str, ...]) -> Circumstances:
    """Describe this moment and this machine; loads none of the modules."""
    versions = {"Python": platform.python_version()}
    for name in dict.fromkeys(module.partition(".")[0] for module in preload):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    when = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    return Circumstances(when, versions, f"{platform.system()} {platform.machine()}")


def _request(snippet: Snippet, root: Path, folder: str) -> dict[str, Any]:
    return {
        "path": str(snippet.path),
        "code": snippet.code,
        "first": snippet.first,
        "sections": [{"name": s.name, "first": s.first, "last": s.last} for s in snippet.sections],
        "folder": folder,
        "root": str(root),
        "environment": {**os.environ, **process.ONE_THREAD},
    }


def _wait(started: process.Process, folder: Path, timeout: float) -> str:
    """Wait for a script; say how it ended if that was not by itself."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    problem = ""
    while (code := started.poll()) is None:
        if time.monotonic() > deadline:
            problem = f"still running after {timeout:g} s, its time limit; see `timeout=`"
        if problem := problem or _too_much(folder):
            break
        time.sleep(pause)
        pause = min(pause * 1.5, 0.05)
    if code is None or (problem := _too_much(folder)):  # it may have ended before that was seen
        process.kill(started)
        gone = time.monotonic() + 5.0
        while started.poll() is None and time.monotonic() < gone:
            time.sleep(pause)
        return problem
    if process.end(started):
        return "left a process running; end it, or wait for it"
    if code < 0:
        hint = ", as the system does when memory runs out" if code == -9 else ""
        return f"was ended by signal {-code}{hint}"
    return f"the process ended with exit status {code}" if code else ""


def _too_much(folder: Path) -> str:
    for name in ("stdout", "stderr", "figures"):
        file = folder / name
        if file.exists() and file.stat().st_size > MAX_BYTES:
            return f"wrote more than {MAX_BYTES:,} bytes to {name}, the limit"
    return ""


def _collect(
    snippet: Snippet, folder: Path, ended: str, notices: tuple[str, ...], now: Circumstances
) -> Run:
    stdout, stderr = _read(folder / "stdout"), _read(folder / "stderr")
    figures = _read(folder / "figures")
    outputs: dict[str, Output] = {}
    files: dict[str, str | None] | None = None
    section, line = snippet.sections[0].name, snippet.first
    fault: Fault | None = None
    printed = pictured = 0
    for event in _events(folder / "events"):
        if event["event"] == "ended":
            files = event["files"]
            continue
        section, line = event["section"], event.get("line", line)
        if event["event"] == "failed":
            detail = f"{event['trace']}{_last_lines(stdout)}"
            fault = Fault(snippet.path, line, event["message"], section, detail=detail)
        elif event["event"] == "warned":
            text = stderr[event["start"] : event["end"]].decode("utf-8", "replace")
            if unexpected := _unexpected(text, notices):
                message = "wrote to stderr; warnings must be handled, or not happen"
                detail = _last_lines(unexpected.encode(), "its last lines:")
                fault = fault or Fault(snippet.path, line, message, section, detail=detail)
        elif event["event"] == "finished":
            try:
                text = stdout[printed : event["stdout"]].decode("utf-8")
            except UnicodeDecodeError as error:
                fault = fault or _not_utf8(snippet.path, line, section, error, stdout)
                break
            outputs[section] = Output(text, _figures(figures[pictured : event["figures"]]))
            printed, pictured = event["stdout"], event["figures"]
    if fault is None and (ended or files is None):
        problem = ended or "the process ended before the script did"
        tail = stdout + _unexpected(stderr.decode("utf-8", "replace"), notices).encode()
        fault = Fault(snippet.path, line, problem, section, detail=_last_lines(tail))
    if fault is None and len(stdout) > printed:  # printed by a thread that outlived the sections
        try:
            late = stdout[printed:].decode("utf-8")
            outputs[section] = Output(outputs[section].text + late, outputs[section].figures)
        except UnicodeDecodeError as error:
            fault = _not_utf8(snippet.path, line, section, error, stdout)
    return Run(outputs, fault, files or {}, now)


def _events(path: Path) -> Iterator[dict[str, Any]]:
    for line in _read(path).splitlines():
        try:
            yield json.loads(line)
        except ValueError:  # cut off, as the process was killed or the disk is full
            return


def _not_utf8(
    path: Path, line: int, section: str, error: UnicodeDecodeError, stdout: bytes
) -> Fault:
    message = f"printed something that is not UTF-8: {error}"
    return Fault(path, line, message, section, detail=_last_lines(stdout))


def _unexpected(stderr: str, notices: tuple[str, ...]) -> str:
    lines = stderr.splitlines(keepends=True)
    return "".join(line for line in lines if not any(re.match(n, line) for n in notices)).strip()


def _last_lines(data: bytes, title: str = "the last lines printed:") -> str:
    lines = data.decode("utf-8", "replace").splitlines()[-LAST_LINES:]
    return "\n".join([title, *(f"    {line[:200]}" for line in lines)] if lines else [])


def _figures(lines: bytes) -> tuple[Figure, ...]:
    return tuple(Figure(**json.loads(line)) for line in lines.splitlines())


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""
