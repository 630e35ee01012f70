"""Start the worker's processes: forked by a server that has the heavy modules loaded, or plain."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Protocol

WORKER = Path(__file__).with_name("worker.py")

# One thread a script: digits and timings must not depend on the load.
ONE_THREAD = {
    name: "1"
    for name in (
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "MKL_NUM_THREADS",
        "VECLIB_MAXIMUM_THREADS",
    )
}


class Process(Protocol):
    """A started script."""

    pid: int

    def poll(self) -> int | None:
        """Give its exit code once it has ended, negative for a signal; None before."""


def start(request: dict[str, Any], preload: tuple[str, ...]) -> Process:
    """Start a script.

    Args:
        request: what worker.py takes.
        preload: modules the fork server has loaded before it forks.
    """
    if not _can_fork():
        return _plain(request)
    try:
        return _server(preload).start(request)
    except OSError:  # the server was ended from outside since it started the last script
        return _server(preload, afresh=True).start(request)


def prepare(preload: tuple[str, ...]) -> None:
    """Let the server load its modules now, so that the first script need not wait for them."""
    if _can_fork():
        _server(preload)


def _can_fork() -> bool:
    return hasattr(os, "fork") and hasattr(socket, "send_fds")


def end(process: Process) -> bool:
    """End whatever the script left running.

    Returns:
        Whether there was anything, a moment after the script's own end.
    """
    deadline = time.monotonic() + 1.0  # helpers of multiprocessing take a moment to go
    while _alive(process.pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    if not _alive(process.pid):
        return False
    kill(process)
    return True


def kill(process: Process) -> None:
    """End a script and all it started, at once."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        return  # it has ended by itself


def _alive(group: int) -> bool:
    """Whether a process group has a member that runs; one that only waits to be reaped does not."""
    try:
        os.killpg(group, 0)
    except OSError:
        return False
    if not os.path.isdir("/proc/self"):
        return True
    return any(_runs_in(entry, group) for entry in os.listdir("/proc") if entry.isdigit())


def _runs_in(pid: str, group: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, _, its_group = file.read().rpartition(")")[2].split()[:3]
    except (OSError, ValueError):
        return False
    return int(its_group) == group and state not in "ZX"


class _Plain:
    def __init__(self, started: "subprocess.Popen[bytes]", request: str) -> None:
        self.pid = started.pid
        self._started = started
        self._request = request

    def poll(self) -> int | None:
        code = self._started.poll()
        if code is not None and os.path.exists(self._request):
            os.unlink(self._request)
        return code


def _plain(request: dict[str, Any]) -> _Plain:
    """Start a script in a Python process of its own, where there is no fork."""
    descriptor, name = tempfile.mkstemp(suffix=".json", prefix="fresh-")
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(request, file)
    # -P: the worker's own folder must not be where the script's imports are looked up.
    command = [sys.executable, "-P", str(WORKER), name]
    environment = {**os.environ, **ONE_THREAD}
    return _Plain(subprocess.Popen(command, env=environment, start_new_session=True), name)


class _Forked:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._code: int | None = None
        # Letter by letter: the exit status may be there already, and must not be read with it.
        line = b""
        while not line.endswith(b"\n"):
            letter = connection.recv(1)
            if not letter:
                raise ServerGone("the process that starts the scripts has ended")
            line += letter
        self.pid = int(line)
        connection.setblocking(False)

    def poll(self) -> int | None:
        if self._code is None:
            try:
                line = self._connection.recv(64)
            except BlockingIOError:
                return None
            self._connection.close()
            if not line:  # the server itself was ended: nobody waits for the script any more
                kill(self)
            self._code = os.waitstatus_to_exitcode(int(line)) if line else -signal.SIGKILL
        return self._code


class ServerGone(OSError):
    """The fork server ended before it could start the script."""


class _Server:
    def __init__(self, preload: tuple[str, ...]) -> None:
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair()
        descriptor = theirs.fileno()
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(WORKER), "--serve", str(descriptor), *preload],
            env={**os.environ, **ONE_THREAD},
            pass_fds=[descriptor],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C goes to the build, which then closes the control
        )
        theirs.close()

    @property
    def gone(self) -> bool:
        return self._process.poll() is not None

    def ends(self) -> bool:
        """Whether it ends within a second."""
        try:
            self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            return False
        return True

    def start(self, request: dict[str, Any]) -> _Forked:
        ours, theirs = socket.socketpair()
        try:
            with theirs, self._lock:
                socket.send_fds(self._control, [b"x"], [theirs.fileno()])
            ours.sendall(json.dumps(request).encode() + b"\n")
            return _Forked(ours)
        except BaseException:
            ours.close()
            raise

    def close(self) -> None:
        self._control.close()
        self._process.wait()


_servers: dict[tuple[object, ...], _Server] = {}
_servers_lock = threading.Lock()


def _server(preload: tuple[str, ...], *, afresh: bool = False) -> _Server:
    """The server of this process; another one after a fork, a change of paths, or its end.

    Args:
        preload: modules it has loaded.
        afresh: whether the one at hand did not answer, and may not have ended quite yet.
    """
    key = (os.getpid(), preload, os.environ.get("PYTHONPATH"))
    with _servers_lock:
        server = _servers.get(key)
        if server and (server.gone or (afresh and server.ends())):
            server.close()
            server = None
        if server is None:
            server = _servers[key] = _Server(preload)
        return server


@atexit.register
def close() -> None:
    """End the servers of this process."""
    with _servers_lock:
        for key in [key for key in _servers if key[0] == os.getpid()]:
            _servers.pop(key).close()
