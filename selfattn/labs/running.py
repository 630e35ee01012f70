"""Run a Python file in a process of its own, and collect what it printed, whatever it does."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from selfattn.fresh.process import ONE_THREAD

MAX_BYTES = 1_000_000
"""What a file may print."""


@dataclass(frozen=True)
class Ended:
    """How a file's run ended.

    Attributes:
        printed: what it wrote to stdout, decoded as UTF-8.
        errors: what it wrote to stderr.
        problem: why it did not come to its end, in a sentence; empty when it did.
    """

    printed: str
    errors: str
    problem: str


def run(words: list[str], folder: Path, seconds: float) -> Ended:
    """Run Python with the given words on its command line.

    The process has no input, so that a prompt ends at once, and one thread, as the lesson's scripts
    have. It and all it started are ended when the time or the room for its output is used up.

    Args:
        words: what follows `python`.
        folder: where it runs.
        seconds: the time it has.
    """
    environment = {**os.environ, **ONE_THREAD, "PYTHONUTF8": "1", "PYTHONUNBUFFERED": "1"}
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        started = subprocess.Popen(
            [sys.executable, *words],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            problem = _wait(started, [out.fileno(), err.fileno()], seconds)
        finally:
            _end(started)
        return Ended(_read(out.fileno()), _read(err.fileno()), problem)


def _wait(started: "subprocess.Popen[bytes]", files: list[int], seconds: float) -> str:
    deadline = time.monotonic() + seconds
    while started.poll() is None:
        if time.monotonic() > deadline:
            return f"it was still running after {seconds:g} s, its time limit"
        if any(os.fstat(file).st_size > MAX_BYTES for file in files):
            return f"it printed more than {MAX_BYTES:,} bytes, the limit"
        time.sleep(0.02)
    if started.returncode < 0:
        return f"it was ended by signal {-started.returncode}"
    return f"it ended with exit status {started.returncode}" if started.returncode else ""


def _end(started: "subprocess.Popen[bytes]") -> None:
    """End the process and, where there are process groups, all that it started."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(OSError):  # nothing is left of it
            os.killpg(started.pid, signal.SIGKILL)
    started.kill()
    started.wait()


def _read(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, MAX_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
