"""Break things on purpose: each fault ends in the right output or in one clear error.

Never in a wrong page, and never in a recorded output that is lost: after every fault the scripts'
files are, to the byte, what the test itself wrote.
"""

import contextlib
import dataclasses
import errno
import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import small_site
from small_site import build, page, script, spoil

from selfattn.cli import main
from selfattn.fresh import process
from selfattn.fresh.batch import Result, run_all
from selfattn.fresh.cache import Cache
from selfattn.fresh.check import judge
from selfattn.fresh.fault import Fault
from selfattn.fresh.run import run
from selfattn.fresh.settings import Settings
from selfattn.fresh.snippet import parse


class Bench:
    """A small site to break, and ways to look at what comes of it."""

    def __init__(
        self, site: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.site, self.patch, self.capsys = site, patch, capsys
        patch.setenv("PYTHONPATH", str(site))
        self.temporary = site / "temporary"  # where what is killed leaves its files
        self.temporary.mkdir()
        patch.setenv("TMPDIR", str(self.temporary))
        self.keep()

    def keep(self) -> None:
        """Note the scripts' files as they are: this is what must be there at the end."""
        self.kept = {path: path.read_bytes() for path in self.site.glob("snippets/*.md")}

    def write(self, code: str, recorded: str | None = "10\n", options: str = "") -> None:
        """Give the first script other code, which begins on line 5, or on line 7 with options."""
        text = script(code, recorded, options=options)
        (self.site / "snippets/small.md").write_text(text, encoding="utf-8")
        self.keep()

    def path(self, name: str) -> Path:
        return self.site / name

    def alone(self, name: str = "small") -> Result:
        """Run one script, without a cache."""
        snippet = parse(self.site / f"snippets/{name}.md", self.site)
        return Result(snippet, run(snippet, self.site), "run")

    def remembered(self) -> Result:
        """Get the first script's result as a build gets it: from the cache, if it is there."""
        snippet = parse(self.site / "snippets/small.md", self.site)
        settings = Settings(self.site)
        cache = Cache(self.site / settings.cache, self.site, "")
        return run_all([snippet], settings, cache)["small"]

    def entry(self) -> Path:
        """The only file in the cache."""
        (found,) = self.site.glob(".cache/fresh/*/*.json")
        return found

    def command(self, *words: str) -> tuple[int, str]:
        """Run a command of ours; give its exit status and what it wrote."""
        status = main([*words, "-f", str(self.site / "mkdocs.yml")])
        written = self.capsys.readouterr()
        return status, written.out + written.err

    def html(self, name: str = "index.html", folder: str = "site") -> str:
        return (self.site / folder / name).read_text(encoding="utf-8")

    def builds(self, *options: str) -> str:
        """Build strictly, which must succeed; give the homepage."""
        done = build(self.site, "--strict", *options)
        assert done.returncode == 0, done.stderr
        return self.html()

    def fails(self) -> str:
        """Build strictly, which must fail and publish nothing; give what it wrote."""
        done = build(self.site, "--strict", "-q")
        assert done.returncode != 0
        assert not (self.site / "site/index.html").exists()
        return done.stdout + done.stderr


TABLE: dict[str, Callable[[Bench], None]] = {}


def injected(sentence: str) -> Callable[[Callable[[Bench], None]], None]:
    """Add a fault to the table."""

    def add(case: Callable[[Bench], None]) -> None:
        assert sentence not in TABLE
        TABLE[sentence] = case

    return add


@pytest.fixture(scope="module", autouse=True)
def _servers() -> Iterator[None]:
    yield
    process.close()


def test_the_table_is_long_enough() -> None:
    assert len(TABLE) >= 30


@pytest.mark.parametrize("sentence", TABLE)
def test_fault(
    sentence: str, site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = Bench(site, monkeypatch, capsys)
    TABLE[sentence](bench)
    assert {path: path.read_bytes() for path in site.glob("snippets/*.md")} == bench.kept


# Scripts that fail: code, the line and the message of the error, the last line that it shows.

FAILING = {
    "a script hangs": (
        "print('before')\nwhile True:\n    pass",
        8,
        "still running after 0.5 s, its time limit",
        "before",
    ),
    "a script ends its process": (
        "print('before')\nimport os; os._exit(0)",
        6,
        "the process ended before the script did",
        "before",
    ),
    "a script ends in a segmentation fault": (
        "print('before')\nimport ctypes; ctypes.string_at(0)",
        6,
        "was ended by signal 11",
        "before",
    ),
    "the system ends a script for want of memory": (
        "print('before')\nimport os; os.kill(os.getpid(), 9)",
        6,
        "was ended by signal 9, as the system does when memory runs out",
        "before",
    ),
    "a script asks for more memory than there is": (
        "print('before')\nbytearray(1 << 60)",
        6,
        "MemoryError",
        "before",
    ),
    "a script leaves with an exit status that means success": (
        "print('before')\nimport sys; sys.exit(0)",
        6,
        "SystemExit: 0",
        "before",
    ),
    "a script prints without end": (
        "while True:\n    print('x' * 150)",
        5,
        "wrote more than 1,000,000 bytes to stdout, the limit",
        "x" * 150,
    ),
    "a script prints more than it may and ends at once": (
        "print('x' * 1_000_000)",
        5,
        "wrote more than 1,000,000 bytes to stdout, the limit",
        "x" * 200,
    ),
    "a script warns without end": (
        "import sys\nwhile True:\n    print('take care', file=sys.stderr)",
        6,
        "wrote more than 1,000,000 bytes to stderr, the limit",
        "take care",
    ),
    "a child holds stdout open and outlives its script": (
        "print('before', flush=True)\nimport subprocess; subprocess.Popen(['sleep', '60'])",
        6,
        "left a process running; end it, or wait for it",
        "before",
    ),
    "a script prints what is not UTF-8": (
        "import sys\nprint('before')\nsys.stdout.buffer.write(b'\\xff\\n')",
        7,
        "printed something that is not UTF-8",
        "\N{REPLACEMENT CHARACTER}",
    ),
    "a thread prints what is not UTF-8 after the last statement": (
        "import os, threading, time\n"
        "def late():\n    time.sleep(0.05)\n    os.write(1, b'late \\xff\\n')\n"
        "threading.Thread(target=late).start()",
        9,
        "printed something that is not UTF-8",
        "late \N{REPLACEMENT CHARACTER}",
    ),
    "a requirement is missing": (
        "print('before')\nimport nonexistent",
        6,
        "ModuleNotFoundError: No module named 'nonexistent'",
        "before",
    ),
    "a script has a syntax error": ("print('never'", 5, "SyntaxError: '(' was never closed", ""),
    "a script warns on stderr": (
        "import warnings\nwarnings.warn('take care')",
        6,
        "wrote to stderr; warnings must be handled, or not happen",
        "warnings.warn('take care')",
    ),
    "a child of a script warns": (
        "import subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', 'import warnings; warnings.warn(\"take care\")'])",
        6,
        "wrote to stderr; warnings must be handled, or not happen",
        "<string>:1: UserWarning: take care",
    ),
    "a thread fails after the last statement": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), 1 / 0)).start()",
        6,
        "wrote to stderr; warnings must be handled, or not happen",
        "ZeroDivisionError: division by zero",
    ),
    "an exit handler warns": (
        "import atexit, sys\natexit.register(lambda: print('take care', file=sys.stderr))",
        6,
        "wrote to stderr; warnings must be handled, or not happen",
        "take care",
    ),
    "a script calls itself without end": (
        "print('before')\ndef again():\n    again()\nagain()",
        8,
        "RecursionError: maximum recursion depth exceeded",
        "before",
    ),
    "a script fails with a text that no encoding has": (
        "print('before')\nraise ValueError(chr(0xD800))",
        6,
        "ValueError: \\ud800",
        "before",
    ),
    "a script prints something else than it records": (
        "print('before')\nprint(11)",
        14,
        "printed something else than it records; `selfattn update snippets/small.md` records",
        "",
    ),
    "a script was never recorded": (
        "print(10)",
        7,
        "has no recorded output yet; `selfattn update snippets/small.md` records it",
        "",
    ),
}


def _failing(code: str, line: int, message: str, last: str) -> Callable[[Bench], None]:
    def case(bench: Bench) -> None:
        options = "timeout=0.5" if "time limit" in message else ""
        recorded = None if "no recorded output" in message else "before\n10\n"
        bench.write(code, recorded, options)
        started = time.monotonic()
        fault = judge(bench.alone(), "docs/index.md")
        assert time.monotonic() - started < 20
        assert fault is not None
        assert (str(fault.path), fault.line) == ("snippets/small.md", line)
        assert fault.page == "docs/index.md"
        assert fault.section == ("" if "record" in message else "count")
        assert message in fault.message
        if last:
            assert fault.detail.splitlines()[-1].strip() == last
        str(fault).encode()  # can be written anywhere

    return case


for _sentence, _case in FAILING.items():
    injected(_sentence)(_failing(*_case))


# Scripts that do strange things and print what they print all the same.

STRANGE = {
    "a script closes stdout": "print('right')\nimport sys\nsys.stdout.close()",
    "a script closes the descriptor of stdout": "print('right')\nimport os\nos.close(1)",
    "a script replaces stdout by nothing": "print('right')\nimport sys\nsys.stdout = None",
    "a script changes the directory": "import os\nos.chdir('/')\nprint('right')",
    "a script empties the environment": "import os\nos.environ.clear()\nprint('right')",
    "a script leaves a thread printing after its end": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.05), print('right'))).start()"
    ),
    "a script leaves a thread that never ends by itself": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\nprint('right')"
    ),
    "a script prints from an exit handler": (
        "import atexit, sys\natexit.register(lambda: print('right'))"
    ),
    "a script prints without Python's own stdout": "import os\nos.write(1, b'right\\n')",
    "a script guards its main part": "if __name__ == '__main__':\n    print('right')",
}


def _strange(code: str) -> Callable[[Bench], None]:
    def case(bench: Bench) -> None:
        bench.write(code, "right\n")
        before = dict(os.environ), os.getcwd()
        result = bench.alone()
        assert result.run.text == "right\n"
        assert judge(result) is None
        assert (dict(os.environ), os.getcwd()) == before
        assert judge(bench.alone("other")) is None

    return case


for _sentence, _code in STRANGE.items():
    injected(_sentence)(_strange(_code))


@injected("a script deletes its own file")
def _(bench: Bench) -> None:
    bench.write("import os\nos.remove('snippets/small.md')\nprint(10)")
    assert "10" in bench.builds()
    del bench.kept[bench.path("snippets/small.md")]  # the script's own doing
    assert "docs/index.md:3: no script snippets/small.md; write it" in bench.fails()


@injected("several scripts fail, each in its own way")
def _(bench: Bench) -> None:
    codes = ["1 / 0", "import os; os._exit(0)", "import sys; sys.exit(0)", "print(11)"]
    names = ["small", "second", "third", "fourth"]
    for name, code in zip(names, codes, strict=True):
        (bench.path("snippets") / f"{name}.md").write_text(script(code, "10\n"))
    bench.path("docs/index.md").write_text(page("Small", *names))
    bench.keep()
    message = bench.fails()
    assert "4 faults" in message
    for expected in (
        "snippets/small.md:5: section 'count': ZeroDivisionError: division by zero",
        "snippets/second.md:5: section 'count': the process ended before the script did",
        "snippets/third.md:5: section 'count': SystemExit: 0",
        "snippets/fourth.md:12: printed something else than it records",
    ):
        (line,) = [line for line in message.splitlines() if expected in line]
        assert line.endswith("(shown by docs/index.md)")


# The cache.


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """Let no file grow, as on a full disk."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _still_right(bench: Bench, origin: str = "run") -> None:
    result = bench.remembered()
    assert (result.run.text, result.origin) == ("10\n", origin)
    assert judge(result) is None


@injected("the disk of the cache is full")
def _(bench: Bench) -> None:
    put = Cache.put

    def put_on_a_full_disk(cache: Cache, *args: object) -> None:
        with full_disk():
            put(cache, *args)  # type: ignore[arg-type]

    bench.patch.setattr(Cache, "put", put_on_a_full_disk)
    _still_right(bench)
    assert [p for p in bench.site.glob(".cache/fresh/*/*") if p.is_file()] == []
    bench.patch.setattr(Cache, "put", put)
    _still_right(bench)
    _still_right(bench, "cache")
    assert bench.path(".cache/fresh/.gitignore").read_text() == "*\n"


@injected("the cache cannot be written, as a file is in its place")
def _(bench: Bench) -> None:
    bench.path(".cache").write_text("no folder")
    assert "10" in bench.builds()
    assert bench.path(".cache").read_text() == "no folder"


@injected("the cache is read-only")
def _(bench: Bench) -> None:
    def refuse(*_: object, **__: object) -> None:  # root may write even to a read-only folder
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    _still_right(bench)
    bench.write("print(10)")
    bench.patch.setattr(Path, "mkdir", refuse)
    _still_right(bench)
    _still_right(bench)


@injected("the cache is deleted between two builds")
def _(bench: Bench) -> None:
    _still_right(bench)
    _still_right(bench, "cache")
    shutil.rmtree(bench.path(".cache"))
    _still_right(bench)


@injected("the cache is deleted while a script runs")
def _(bench: Bench) -> None:
    _still_right(bench)
    bench.write("import shutil\nshutil.rmtree('.cache')\nprint(10)")
    _still_right(bench)
    _still_right(bench, "cache")


def _damaged(change: Callable[[bytes], bytes]) -> Callable[[Bench], None]:
    def case(bench: Bench) -> None:
        _still_right(bench)
        entry = bench.entry()
        entry.write_bytes(change(entry.read_bytes()))
        _still_right(bench)
        _still_right(bench, "cache")

    return case


def _other_shape(data: bytes) -> bytes:
    """An entry of another version: its checksum is right, and it has other parts."""
    body = {"text": json.loads(data)["outputs"]["count"]["text"], "version": 2}
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return json.dumps({**body, "checksum": digest}).encode()


injected("a file in the cache is cut off")(_damaged(lambda data: data[: len(data) // 2]))
injected("a file in the cache is empty")(_damaged(lambda data: b""))
injected("a digit in the cache is another one")(_damaged(lambda data: data.replace(b"10", b"11")))
injected("a byte in the cache is flipped")(
    _damaged(lambda data: data[:20] + bytes([data[20] ^ 0x80]) + data[21:])
)
injected("a file in the cache has the shape of another version")(_damaged(_other_shape))


@injected("the clock jumps years ahead and back between builds")
def _(bench: Bench) -> None:
    _still_right(bench)
    for seconds in (2**31, 0):
        os.utime(bench.entry(), (seconds, seconds))
        _still_right(bench, "cache")


# What a script reads.


def _edited(name: str, code: str, stamp: int | None) -> Callable[[Bench], None]:
    """Change a digit in a file that the script reads, which keeps its size."""

    def case(bench: Bench) -> None:
        bench.path("data.txt").write_text("10\n")
        bench.path("helper.py").write_text("from deeper import value\n\nlimit = 10\n")
        bench.path("deeper.py").write_text("value = 10\n")
        bench.write(code)
        _still_right(bench)
        _still_right(bench, "cache")
        file = bench.path(name)
        before = file.stat().st_mtime_ns
        spoil(file, "10", "11")
        when = before if stamp is None else stamp * 10**9
        os.utime(file, ns=(when, when))
        result = bench.remembered()
        assert (result.run.text, result.origin) == ("11\n", "run")
        fault = judge(result)
        assert fault is not None
        assert "-10\n+11" in fault.detail

    return case


READ = "print(open('data.txt').read().strip())"
injected("a data file is edited within the same second")(_edited("data.txt", READ, None))
injected("a data file is edited and dated into the past")(_edited("data.txt", READ, 0))
injected("a data file is edited and dated into the future")(_edited("data.txt", READ, 2**31))
injected("a helper module is edited within the same second")(
    _edited("helper.py", "import helper\nprint(helper.limit)", None)
)
injected("a helper's helper is edited within the same second")(
    _edited("deeper.py", "import helper\nprint(helper.value)", None)
)
injected("a helper's helper is edited and dated into the past")(
    _edited("deeper.py", "import helper\nprint(helper.value)", 0)
)


@injected("a data file is deleted")
def _(bench: Bench) -> None:
    bench.path("data.txt").write_text("10\n")
    bench.write(READ)
    _still_right(bench)
    bench.path("data.txt").unlink()
    fault = judge(bench.remembered(), "docs/index.md")
    assert fault is not None
    start = "snippets/small.md:5: section 'count': FileNotFoundError: "
    assert str(fault).startswith(start)


@injected("a data file that was missing appears")
def _(bench: Bench) -> None:
    bench.write(
        "try:\n    print(open('data.txt').read())\nexcept FileNotFoundError:\n    print(10)"
    )
    _still_right(bench)
    _still_right(bench, "cache")
    bench.path("data.txt").write_text("11")
    result = bench.remembered()
    assert (result.run.text, result.origin) == ("11\n", "run")


@injected("a data file is edited while the script that read it runs")
def _(bench: Bench) -> None:
    bench.path("data.txt").write_text("10\n")
    bench.write(f"{READ}\nopen('data.txt', 'w').write('11\\n')")
    _still_right(bench)
    result = bench.remembered()
    assert (result.run.text, result.origin) == ("11\n", "run")


@injected("a notice on stderr is no longer let pass")
def _(bench: Bench) -> None:
    config = bench.path("mkdocs.yml")
    spoil(config, "preload: []", "preload: []\n      notices: [take care]")
    bench.write("import sys\nprint('take care', file=sys.stderr)\nprint(10)")
    bench.builds()
    spoil(config, "notices: [take care]", "notices: []")
    assert "snippets/small.md:6: section 'count': wrote to stderr" in bench.fails()


# Builds.

WAITS = """import os, time
with open('started', 'w') as file:
    file.write(str(os.getpid()))
while not os.path.exists('go'):
    time.sleep(0.01)
print(10)"""


def until(check: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something that must happen soon."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.02)


def runs(pid: int) -> bool:
    """Whether a process is there; one that nobody has collected is not."""
    stat = Path(f"/proc/{pid}/stat")
    with contextlib.suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def _interrupted(number: signal.Signals) -> Callable[[Bench], None]:
    def case(bench: Bench) -> None:
        bench.write(WAITS)
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        with subprocess.Popen(
            command,
            cwd=bench.site,
            env=small_site.environment(bench.site),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as started:
            pid = bench.path("started")
            until(lambda: pid.exists() and pid.read_text() != "")
            started.send_signal(number)
            assert started.wait(10) != 0
        until(lambda: not runs(int(pid.read_text())))  # nothing is left running
        assert number == signal.SIGKILL or list(bench.temporary.iterdir()) == []
        assert not bench.path("site/index.html").exists()
        bench.path("go").touch()
        assert "10" in bench.builds()

    return case


injected("a build is killed in the middle of a script, then built again")(
    _interrupted(signal.SIGKILL)
)
injected("a build is interrupted from the keyboard, then built again")(_interrupted(signal.SIGINT))


@injected("two builds run at once")
def _(bench: Bench) -> None:
    bench.write("import time\ntime.sleep(0.3)\nprint(10)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d"]
    env = small_site.environment(bench.site)
    both = [
        subprocess.Popen([*command, folder], cwd=bench.site, env=env, stderr=subprocess.DEVNULL)
        for folder in ("one", "two")
    ]
    assert [started.wait(30) for started in both] == [0, 0]
    for folder in ("one", "two"):
        assert "10" in bench.html(folder=folder)
        assert "a word" in bench.html("more/index.html", folder)
    assert "10" in bench.builds()
    assert list(bench.site.glob(".cache/fresh/*/*.part")) == []


@injected("a script's file is not UTF-8")
def _(bench: Bench) -> None:
    bench.path("snippets/small.md").write_bytes(b"# A count \xff\n")
    bench.keep()
    message = bench.fails()
    assert "snippets/small.md:1: expected UTF-8" in message
    assert "docs/index.md:3: snippets/small.md cannot be read; see its own error" in message


@injected("a recorded output has the line ends of Windows")
def _(bench: Bench) -> None:
    file = bench.path("snippets/small.md")
    code = "print(10)\nprint('words')"
    text = script(code, "10\nwords\n").replace("\n", "\r\n")
    file.write_bytes(text.encode())
    bench.keep()
    assert judge(bench.alone()) is None
    stale = text.replace("10\r\nwords\r\n`", "9\r\nwords\r\n`").encode()
    assert stale != text.encode()
    file.write_bytes(stale)
    status, _ = bench.command("update")
    assert status == 0
    assert file.read_bytes() == text.encode()


@injected("a page has no scripts")
def _(bench: Bench) -> None:
    bench.path("docs/more.md").write_text("# More\n\nWords alone.\n")
    bench.path("snippets/other.md").unlink()
    bench.keep()
    bench.builds()
    assert "Words alone." in bench.html("more/index.html")


@injected("the scripts' folder is empty")
def _(bench: Bench) -> None:
    for name in ("index", "more"):
        bench.path(f"docs/{name}.md").write_text("# Words\n\nWords alone.\n")
    for path in bench.site.glob("snippets/*.md"):
        path.unlink()
    bench.keep()
    assert "Words alone." in bench.builds()
    bench.path("snippets").rmdir()
    assert "Words alone." in bench.builds()


@injected("the site's folder is a link")
def _(bench: Bench) -> None:
    bench.path("data.txt").write_text("10\n")
    bench.write(f"open('runs', 'a').write('x')\n{READ}")
    link = bench.site.with_name(f"{bench.site.name}-link")
    link.symlink_to(bench.site)
    for _ in range(2):
        assert "10" in bench.builds("-f", str(link / "mkdocs.yml"))
    assert bench.path("runs").read_text() == "x"


@injected("the site's path has spaces and letters beyond ASCII")
def _(bench: Bench) -> None:
    moved = bench.site / "ein Ordner, größer ‹数›"
    small_site.make(moved)
    (moved / "data ü.txt").write_text("10\n")
    code = "open('runs', 'a').write('x')\nprint(open('data ü.txt').read().strip())"
    (moved / "snippets/small.md").write_text(script(code, "10\n"), encoding="utf-8")
    for _ in range(2):
        done = build(moved, "--strict")
        assert done.returncode == 0, done.stderr
    assert "10" in (moved / "site/index.html").read_text()
    assert (moved / "runs").read_text() == "x"


# The process that starts the scripts.


@injected("the fork server is killed between two scripts")
def _(bench: Bench) -> None:
    bench.write("import os\nopen('parent', 'w').write(str(os.getppid()))\nprint(10)")
    for _ in range(3):
        assert bench.alone().run.text == "10\n"
        os.kill(int(bench.path("parent").read_text()), signal.SIGKILL)


@injected("the fork server is killed while a script runs")
def _(bench: Bench) -> None:
    bench.write("print('before')\nimport os, time\nos.kill(os.getppid(), 9); time.sleep(60)")
    fault = judge(bench.alone(), "docs/index.md")
    assert fault is not None
    assert str(fault).startswith("snippets/small.md:7: section 'count': was ended by signal 9")
    assert fault.detail.endswith("before")
    assert judge(bench.alone("other")) is None


@injected("there is no fork")
def _(bench: Bench) -> None:
    bench.patch.delattr(os, "fork")
    bench.patch.setattr(tempfile, "tempdir", str(bench.temporary))
    assert judge(bench.alone()) is None
    for sentence in ("a script hangs", "a script ends its process", "a script warns on stderr"):
        _failing(*FAILING[sentence])(bench)
    _strange(STRANGE["a script closes stdout"])(bench)
    assert list(bench.temporary.iterdir()) == []


@injected("the executor loses a script")
def _(bench: Bench) -> None:
    bench.path("losing.py").write_text(
        "from concurrent.futures import Future, ThreadPoolExecutor\n\n"
        "class Losing(ThreadPoolExecutor):\n"
        "    def submit(self, *_):\n"
        "        future = Future()\n"
        "        future.set_exception(ConnectionError('the worker is gone'))\n"
        "        return future\n"
    )
    spoil(bench.path("mkdocs.yml"), "preload: []", "executor: losing:Losing")
    message = bench.fails()
    assert "2 faults" in message
    assert (
        "snippets/small.md:4: did not come back: ConnectionError: the worker is gone "
        "(shown by docs/index.md)"
    ) in message


# What a script needs and what may not be there.


def _needs(bench: Bench, check: str, more: str = "", recorded: str | None = "10\n") -> None:
    bench.path("needed.py").write_text(f"def there():\n    {check}\n")
    options = (
        "preload: []\n      needs: {data: {check: 'needed:there', hint: a download brings it}}"
    )
    spoil(bench.path("mkdocs.yml"), "preload: []", f"{options}\n      {more}")
    bench.write("print(11)", recorded, "needs=data")


@injected("what a script needs is not there")
def _(bench: Bench) -> None:
    _needs(bench, "return False")
    html = bench.builds()
    note = "Recorded earlier and not run in this build, which lacks data: a download brings it."
    assert note in html
    assert "10" in html
    bench.path("needed.py").write_text("def there():\n    return True\n")
    assert "printed something else than it records" in bench.fails()


@injected("what a script needs is not there where it must be")
def _(bench: Bench) -> None:
    _needs(bench, "return False", "recorded: fault")
    message = bench.fails()
    assert (
        "snippets/small.md:1: could not run, as it needs data; its recorded output was" in message
    )
    assert "(shown by docs/index.md)" in message


@injected("what a script needs is not there, and nothing is recorded")
def _(bench: Bench) -> None:
    _needs(bench, "return False", recorded=None)
    expected = "snippets/small.md:1: could not run, as it needs data; no output was ever recorded"
    assert expected in bench.fails()


@injected("asking for what a script needs fails")
def _(bench: Bench) -> None:
    _needs(bench, "raise RuntimeError('no answer')")
    assert (
        "snippets/small.md:1: cannot tell whether what it needs is there: RuntimeError: no answer "
        "(shown by docs/index.md)"
    ) in bench.fails()


@injected("a script needs what the site does not know")
def _(bench: Bench) -> None:
    bench.write("print(10)", options="needs=dat")
    assert "unknown need 'dat'; mkdocs.yml lists: none" in bench.fails()


# Recording.


@injected("recording is killed while it writes")
def _(bench: Bench) -> None:
    bench.write("print(11)")
    code = (
        "import os, signal\nfrom selfattn.cli import main\n"
        "from selfattn.fresh import update\n"
        "update.os.chmod = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\nmain(['update'])"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=bench.site, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert "-10\n+11\n" in done.stdout


def _refused(target: object, name: str) -> Callable[[Bench], None]:
    def case(bench: Bench) -> None:
        def refuse(*_: object, **__: object) -> None:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        bench.write("print(11)")
        replace = getattr(target, name)
        bench.patch.setattr(target, name, refuse)
        status, written = bench.command("update")
        bench.patch.setattr(target, name, replace)
        assert status == 1
        assert "snippets/small.md:1: could not be written and is as it was" in written
        assert "snippets/small.md: unchanged" in written
        assert sorted(p.name for p in bench.path("snippets").iterdir()) == ["other.md", "small.md"]

    return case


injected("recording meets a read-only folder")(_refused(tempfile, "mkstemp"))
injected("recording fails at its last step")(_refused(os, "replace"))


@injected("recording meets a full disk")
def _(bench: Bench) -> None:
    from selfattn.fresh import update

    write = update.write

    def write_to_a_full_disk(change: update.Change) -> None:
        with full_disk():
            write(change)

    bench.write("print(11)")
    bench.patch.setattr(update, "write", write_to_a_full_disk)
    status, written = bench.command("update")
    assert status == 1
    assert "snippets/small.md:1: could not be written and is as it was" in written
    assert sorted(p.name for p in bench.path("snippets").iterdir()) == ["other.md", "small.md"]


@injected("recording meets a read-only file behind a link")
def _(bench: Bench) -> None:
    file, real = bench.path("snippets/small.md"), bench.path("real.md")
    bench.write("print(11)")
    file.rename(real)
    real.chmod(0o444)
    file.symlink_to(real)
    assert bench.command("update")[0] == 0
    assert file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o444
    assert real.read_text() == script("print(11)", "11\n")
    bench.keep()


@injected("a script that fails is recorded")
def _(bench: Bench) -> None:
    bench.write("print(11)\n1 / 0")
    status, written = bench.command("update")
    assert status == 1
    assert "snippets/small.md:6: section 'count': ZeroDivisionError" in written
    assert "snippets/small.md: unchanged" in written


@injected("what a script prints is recorded twice")
def _(bench: Bench) -> None:
    spoil(bench.path("docs/index.md"), "# Small", "# Small\n\nThe sum is 10.\n")
    bench.write("print(11)")
    assert bench.command("update")[0] == 0
    after = script("print(11)", "11\n")
    assert bench.path("snippets/small.md").read_text() == after
    assert "The sum is 11.\n" in bench.path("docs/index.md").read_text()
    bench.keep()
    stamps = [path.stat().st_mtime_ns for path in bench.site.glob("*/*.md")]
    status, written = bench.command("update")
    assert status == 0
    assert "updated" not in written
    assert [path.stat().st_mtime_ns for path in bench.site.glob("*/*.md")] == stamps


@injected("a script is edited while it is being recorded")
def _(bench: Bench) -> None:
    code = (
        "path = 'snippets/small.md'\ntext = open(path).read()\n"
        "open(path, 'w').write('# Edited\\n\\n' + text[9:])\nprint(11)"
    )
    bench.write(code)
    text = script(code, "10\n")
    status, written = bench.command("update")
    spoil(bench.path("snippets/small.md"), f"# Edited\n\n{text[9:]}", text)  # and nothing else
    assert status == 1
    assert "snippets/small.md:1: was edited while it ran, and is left as it is" in written


@injected("a script deletes its own file while it is being recorded")
def _(bench: Bench) -> None:
    bench.write("import os\nos.remove('snippets/small.md')\nprint(11)")
    del bench.kept[bench.path("snippets/small.md")]  # the script's own doing
    status, written = bench.command("update")
    assert status == 1
    assert "snippets/small.md:1: was edited while it ran" in written


@injected("a script prints a carriage return, which no record can show")
def _(bench: Bench) -> None:
    bench.write("print('1\\r2')")
    status, written = bench.command("update")
    assert status == 1
    assert "breaks a line with another character than" in written


# While serving.


@dataclasses.dataclass
class Served:
    port: int
    log: Path

    def get(self, path: str) -> tuple[int, str]:
        """Ask for a page; 0 when nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        with contextlib.closing(connection):
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                return response.status, response.read().decode()
            except OSError:
                return 0, ""

    def shows(self, path: str, text: str) -> None:
        """Wait until a page shows a text."""
        until(lambda: text in self.get(path)[1])


@contextlib.contextmanager
def serving(bench: Bench) -> Iterator[Served]:
    """Serve the site until the end of the block, whatever happens in it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = bench.path("serve.log")
    command = [sys.executable, "-m", "mkdocs", "serve", "-a", f"127.0.0.1:{port}"]
    env = small_site.environment(bench.site)
    with (
        log.open("w") as file,
        subprocess.Popen(command, cwd=bench.site, env=env, stdout=file, stderr=file) as started,
    ):
        served = Served(port, log)
        try:
            served.shows("/", "10")
            yield served
        finally:
            started.kill()


@injected("a script is deleted while its site is served")
def _(bench: Bench) -> None:
    file = bench.path("snippets/small.md")
    with serving(bench) as served:
        file.rename(bench.path("away.md"))
        served.shows("/", "docs/index.md:3: no script snippets/small.md")
        assert "a word" in served.get("/more/")[1]
        bench.path("away.md").rename(file)
        until(lambda: "no script" not in served.get("/")[1])
        assert "10" in served.get("/")[1]


@injected("a script is added while its site is served")
def _(bench: Bench) -> None:
    with serving(bench) as served:
        bench.path("snippets/third.md").write_text(script("print(6 * 7)", None))
        bench.path("docs/index.md").write_text(page("Small", "small", "third"))
        bench.keep()
        served.shows("/", "Not recorded yet: selfattn update snippets/third.md")
        assert "\n42\n" in served.get("/")[1].replace(">42", ">\n42")


@injected("a page is deleted while its site is served")
def _(bench: Bench) -> None:
    file = bench.path("docs/more.md")
    with serving(bench) as served:
        text = file.read_text()
        file.unlink()
        until(lambda: served.get("/more/")[0] == 404)
        assert "10" in served.get("/")[1]
        assert "snippets/other.md:1: no page shows this script" in served.log.read_text()
        file.write_text(text)
        served.shows("/more/", "a word")


@injected("a script stops working while its site is served")
def _(bench: Bench) -> None:
    with serving(bench) as served:
        spoil(bench.path("snippets/small.md"), "print(total)", "print(totl)")
        served.shows("/", "snippets/small.md:6: section 'count': NameError")
        spoil(bench.path("snippets/small.md"), "print(totl)", "print(total)")
        until(lambda: "NameError" not in served.get("/")[1])


def test_a_fault_says_where_it_is() -> None:
    text = str(Fault(Path("a.md"), 3, "went wrong", "count", "docs/a.md", "the last lines"))
    assert text == "a.md:3: section 'count': went wrong (shown by docs/a.md)\nthe last lines"
