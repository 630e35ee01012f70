"""Run scripts, each in a process of its own. Started by file path, never imported.

Standard library only, beside what it is asked to preload: whatever else this file imported would
stay as it was when it was imported, and an edit to it would not show.

    worker.py REQUEST              run one script, named by a JSON file
    worker.py --serve FD MODULE…   preload modules, then fork a process for each request

A request gives the path of the snippet, its code and sections, the folder to run in, the folder
for the results, and the environment. Output goes straight to files, so that what child processes
write and what was printed before a crash is kept, and no pipe can be held open.
"""

import __future__

import ast
import atexit
import contextlib
import gc
import hashlib
import importlib
import importlib.machinery
import json
import os
import select
import signal
import socket
import sys
import sysconfig
import tempfile
import threading
import traceback
from types import ModuleType
from typing import Any

FUTURE = 0
for _name in __future__.all_feature_names:
    FUTURE |= getattr(__future__, _name).compiler_flag


def main(request: dict[str, Any]) -> None:
    """Run one script in this process."""
    folder = request["folder"]
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["root"])
    figures = os.path.join(folder, "figures")
    os.environ["SELFATTN_FRESH_FIGURES"] = figures
    _redirect(0, os.devnull, os.O_RDONLY)
    _redirect(1, os.path.join(folder, "stdout"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    _redirect(2, os.path.join(folder, "stderr"), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = open(  # noqa: SIM115
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    sys.argv = [request["path"]]
    trace = Trace(request)
    trace.start()
    with open(os.path.join(folder, "events"), "w", encoding="utf-8", buffering=1) as events:
        report = Report(events, folder)
        execute(request, report)
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        last = request["sections"][-1]
        report.left(last["name"], last["last"])  # threads and exit handlers may warn too
        _flush()
        report.ended(trace.files())


def _redirect(descriptor: int, path: str, flags: int) -> None:
    target = os.open(path, flags)
    if target != descriptor:
        os.dup2(target, descriptor)
        os.close(target)


class Report:
    """Writes what happened, one JSON object a line, as it happens: a crash loses nothing."""

    def __init__(self, events: Any, folder: str) -> None:
        self._events = events
        self._folder = folder
        self._warned = 0

    def reached(self, section: str, line: int) -> None:
        self._write(event="reached", section=section, line=line)

    def left(self, section: str, line: int) -> None:
        """Say so if the statement that was just left wrote to stderr."""
        _flush()
        size = self._size("stderr")
        if size > self._warned:
            self._write(event="warned", section=section, line=line, start=self._warned, end=size)
        self._warned = size

    def finished(self, section: str) -> None:
        _flush()
        stdout, figures = self._size("stdout"), self._size("figures")
        self._write(event="finished", section=section, stdout=stdout, figures=figures)

    def failed(self, section: str, line: int, error: BaseException) -> None:
        _flush()
        if isinstance(error, SyntaxError):
            message = f"SyntaxError: {error.msg}"
        else:
            message = "".join(traceback.format_exception_only(error)).strip()
        # Without this file's own frame on top.
        frames = error.__traceback__.tb_next if error.__traceback__ else None
        trace = "".join(traceback.format_exception(type(error), error, frames))
        message, trace = (s.encode("utf-8", "backslashreplace").decode() for s in (message, trace))
        self._write(event="failed", section=section, line=line, message=message, trace=trace)

    def ended(self, files: dict[str, str | None]) -> None:
        self._write(event="ended", files=files)

    def _size(self, name: str) -> int:
        """Of the file, since the script may have closed the descriptor."""
        path = os.path.join(self._folder, name)
        return os.path.getsize(path) if os.path.exists(path) else 0

    def _write(self, **event: object) -> None:
        self._events.write(json.dumps(event) + "\n")


def _flush() -> None:
    """Write out what is printed; a script may have closed or replaced the streams."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.flush()


def execute(request: dict[str, Any], report: Report) -> None:
    """Run the sections in order, statement by statement; stop at the first exception."""
    path, sections = request["path"], request["sections"]
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    try:
        # Newlines in front give every statement the line number it has in the snippet file.
        tree = ast.parse("\n" * (request["first"] - 1) + request["code"], path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or request["first"]
        name = next((s["name"] for s in sections if s["first"] <= line <= s["last"]), "")
        report.failed(name, line, error)
        return
    flags = 0
    for section in sections:
        for statement in tree.body:
            if not section["first"] <= statement.lineno <= section["last"]:
                continue
            report.reached(section["name"], statement.lineno)
            try:
                single = ast.Module([statement], [])
                code = compile(single, path, "exec", flags=flags, dont_inherit=True)
                flags |= code.co_flags & FUTURE
                exec(code, module.__dict__)
            except BaseException as error:  # sys.exit must not pass for success
                report.failed(section["name"], statement.lineno, error)
                return
            report.left(section["name"], statement.lineno)
        report.finished(section["name"])


class Trace:
    """Notes which of the project's files and data files a run reads, with their checksums.

    Checksums are taken when a file is opened, so that an edit during the run cannot pair old
    results with new contents. A file that was looked for and is not there has none.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self._root = os.path.realpath(request["root"])
        self._snippet = os.path.realpath(os.path.join(self._root, request["path"]))
        paths = sysconfig.get_paths()
        own = [request["folder"], sys.prefix, sys.base_prefix, paths["stdlib"], paths["purelib"]]
        system = ["/proc", "/sys", "/dev", "/etc", "/usr", tempfile.gettempdir()]
        self._inside = tuple(os.path.realpath(p) + os.sep for p in own)
        self._outside = tuple(os.path.realpath(p) + os.sep for p in system)
        self._files: dict[str, str | None] = {}
        self._written: set[str] = set()
        self._busy = threading.local()
        self._preloaded = frozenset(sys.modules)  # none of the project's

    def start(self) -> None:
        sys.addaudithook(self._audit)
        # A compiled file is trusted when time stamp and size of its source agree, so an edit
        # within the same second would be missed. The project's sources are read every time.
        loader = importlib.machinery.SourceFileLoader
        known = loader.path_stats

        def path_stats(this: Any, path: str) -> Any:
            if self._counts(os.path.realpath(path)):
                raise OSError("read the source")
            return known(this, path)

        loader.path_stats = path_stats  # type: ignore[method-assign, assignment]

    def files(self) -> dict[str, str | None]:
        """Every file that counts, relative to the root where it lies inside."""
        for name, module in list(sys.modules.items()):
            path = getattr(module, "__file__", None) if name not in self._preloaded else None
            # Some modules carry a made-up file name.
            if isinstance(path, str) and os.path.isabs(path) and os.path.isfile(path):
                self._note(path)
        return {
            os.path.relpath(p, self._root) if p.startswith(self._root + os.sep) else p: checksum
            for p, checksum in sorted(self._files.items())
        }

    def _audit(self, event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or getattr(self._busy, "now", False):
            return
        path, _, flags = args
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if not isinstance(path, str):
            return  # an open descriptor
        self._busy.now = True
        try:
            if (flags or 0) & (os.O_WRONLY | os.O_RDWR):
                self._written.add(os.path.realpath(path))
            else:
                self._note(path)
        finally:
            self._busy.now = False

    def _note(self, path: str) -> None:
        real = os.path.realpath(path)
        if real not in self._files and real not in self._written and self._counts(real):
            self._files[real] = _checksum(real)

    def _counts(self, real: str) -> bool:
        if real == self._snippet or real.startswith(self._inside):
            return False
        return real.startswith(self._root + os.sep) or not real.startswith(self._outside)


def _checksum(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def serve(control: socket.socket, preload: list[str]) -> None:
    """Fork a process for each connection handed over on `control`, until that is closed.

    Each connection carries one request and gets back the process id at the start and the wait
    status at the end, a line each.
    """
    for name in preload:
        try:
            importlib.import_module(name)
        except ImportError:
            continue  # the script that needs it says so
    gc.freeze()  # or each child's garbage collector would touch, and so copy, all that is preloaded
    wake, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker)
    running: dict[int, socket.socket] = {}
    while True:
        watched: list[Any] = [control, wake]
        ready, _, _ = select.select(watched, [], [])
        if wake in ready:
            os.read(wake, 4096)
            _reap(running)
        if control in ready:
            data, descriptors, _, _ = socket.recv_fds(control, 1, 1)
            if not data:
                break
            connection = socket.socket(fileno=descriptors[0])
            request = json.loads(_line(connection))
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for other in [control, connection, *running.values()]:
                    other.close()
                os.close(wake)
                os.close(waker)
                _child(request)
            running[pid] = connection
            _tell(connection, pid)
    for pid in running:
        _kill(pid)


def _child(request: dict[str, Any]) -> None:
    status = 1
    try:
        os.setsid()  # so that all it starts can be ended with it
        if "numpy" in sys.modules:  # a fresh process would have a random state of its own
            sys.modules["numpy"].random.seed()
        main(request)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _reap(running: dict[int, socket.socket]) -> None:
    while running:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        connection = running.pop(pid, None)
        if connection:
            _tell(connection, status)
            connection.close()


def _line(connection: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        more = connection.recv(1 << 16)
        if not more:
            break
        data += more
    return data


def _tell(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # nobody waits any more
        connection.sendall(b"%d\n" % number)


def _kill(pid: int) -> None:
    with contextlib.suppress(OSError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(socket.socket(fileno=int(sys.argv[2])), sys.argv[3:])
    else:
        with open(sys.argv[1], encoding="utf-8") as file:
            main(json.load(file))
