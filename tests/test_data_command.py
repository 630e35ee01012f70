"""`selfattn data` against a server on this machine: what it says, returns and leaves behind."""

import errno
import hashlib
import io
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import platformdirs
import pooch
import pytest

from selfattn.cli import main
from selfattn.corpora import banking77

GOOD = b'text,category\r\n"Where\nis it?",card_arrival\r\n' + b"Still?,card_arrival\r\n" * 200
WRONG = b"<html>Please log in to this network</html>"
EARLIER = b"text,category\r\nAn earlier file,card_arrival\r\n"

Capture = pytest.CaptureFixture[str]


class Server(ThreadingHTTPServer):
    """Answers `/200` with its payload, `/short` with half of it, `/404` and `/500` with those."""

    payload = GOOD
    asked = 0

    def url(self, page: str) -> str:
        return f"http://127.0.0.1:{self.server_port}/{page}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self.server.asked += 1
        page = self.path.strip("/")
        body = self.server.payload
        self.send_response(200 if page == "short" else int(page))
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if page == "short" else body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: stderr belongs to the command."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A running server, whose payload is the published file and whose `/200` is its address."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        monkeypatch.setattr(banking77, "URL", server.url("200"))
        monkeypatch.setattr(banking77, "SHA256", hashlib.sha256(GOOD).hexdigest())
        yield server
        server.shutdown()


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def failure(capsys: Capture, *words: str) -> str:
    """Run `selfattn data`, which must fail with one paragraph on stderr, and return that."""
    assert main(["data"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("selfattn data: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    for word in words:
        assert word in err
    return err


# What goes well


def test_a_download_lands_in_the_named_folder(
    server: Server, folder: Path, capsys: Capture
) -> None:
    assert main(["data"]) == 0
    assert capsys.readouterr() == (f"Banking77 is now at {folder / 'train.csv'}, checksum ok\n", "")
    assert (folder / "train.csv").read_bytes() == GOOD
    assert names(folder) == ["train.csv"]


def test_a_download_makes_its_folder_in_the_cache(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SELFATTN_BANKING77", raising=False)
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda name: str(tmp_path / "new" / name))
    assert main(["data"]) == 0
    assert names(tmp_path / "new" / "selfattn" / "banking77") == ["train.csv"]


def test_a_verified_file_is_not_downloaded_again(
    server: Server, folder: Path, capsys: Capture
) -> None:
    (folder / "train.csv").write_bytes(GOOD)
    assert main(["data"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"Banking77 is already at {folder / 'train.csv'}")
    assert err == ""
    assert server.asked == 0


def test_a_wrong_file_is_replaced(server: Server, folder: Path) -> None:
    (folder / "train.csv").write_bytes(EARLIER)
    assert main(["data"]) == 0
    assert (folder / "train.csv").read_bytes() == GOOD
    assert server.asked == 1


def test_the_address_can_be_given(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(banking77, "URL", server.url("404"))
    assert banking77.download(server.url("200")) == folder / "train.csv"
    assert (folder / "train.csv").read_bytes() == GOOD


def test_the_published_bytes_pass_as_they_are(
    published: Path, server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    server.payload = published.read_bytes()
    monkeypatch.setattr(
        banking77, "SHA256", "b06e26ac675513959a63135f11b94ea7786ed02da65db93a5650d8838cbc664b"
    )
    assert main(["data"]) == 0
    assert main(["data", "--check"]) == 0
    assert server.asked == 1
    assert (folder / "train.csv").read_bytes() == server.payload
    checked = capsys.readouterr().out.splitlines()[1]
    assert checked == f"{folder / 'train.csv'}: 10,003 rows, checksum ok"


def test_pooch_reports_nothing_beside_us(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (handler,) = pooch.get_logger().handlers
    monkeypatch.setattr(handler, "stream", io.StringIO())
    pooch.get_logger().setLevel("INFO")
    assert main(["data"]) == 0
    assert handler.stream.getvalue() == ""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("page", "status"), [("200", 0), ("short", 1)])
def test_on_a_terminal_a_bar_shows_and_goes(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, page: str, status: int
) -> None:
    monkeypatch.setattr(banking77, "URL", server.url(page))
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert main(["data"]) == status
    drawn = terminal.getvalue().split("\r")
    assert any("0%|" in frame for frame in drawn)
    assert drawn[-2].strip() == ""  # the last frame wipes the line
    assert drawn[-1].startswith("selfattn data: ") if status else drawn[-1] == ""


def test_the_address_is_the_published_one() -> None:
    assert banking77.URL == (
        "https://raw.githubusercontent.com/PolyAI-LDN/task-specific-datasets/"
        "57ec275d8078af65b7731c2a98be812d844a6d6b/banking_data/train.csv"
    )


# What goes wrong. Every case runs twice: into an empty folder, which stays empty, and into one
# with an earlier file, which stays as it was.


@pytest.fixture(params=[None, EARLIER], ids=["empty", "earlier"])
def before(request: pytest.FixtureRequest, folder: Path) -> Iterator[None]:
    """The folder as it is before the command, and as it must be after it has failed."""
    earlier: bytes | None = request.param
    if earlier is not None:
        (folder / "train.csv").write_bytes(earlier)
    yield
    assert names(folder) == ([] if earlier is None else ["train.csv"])
    assert earlier is None or (folder / "train.csv").read_bytes() == earlier


@pytest.mark.usefixtures("before")
def test_wrong_bytes(server: Server, capsys: Capture) -> None:
    server.payload = WRONG
    failure(
        capsys,
        f"what {banking77.URL} sent is not the published train.csv",
        f"expected {banking77.SHA256} but got {hashlib.sha256(WRONG).hexdigest()}",
        "Try again",
    )


@pytest.mark.usefixtures("before")
@pytest.mark.parametrize(
    ("page", "cause"),
    [
        ("short", f"{len(GOOD) // 2} bytes read, {len(GOOD) - len(GOOD) // 2} more expected"),
        ("404", "404 Client Error: Not Found"),
        ("500", "500 Server Error: Internal Server Error"),
    ],
)
def test_a_bad_answer(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Capture, page: str, cause: str
) -> None:
    monkeypatch.setattr(banking77, "URL", server.url(page))
    failure(
        capsys,
        f"could not be downloaded from {server.url(page)}. ",
        "try again",
        "SELFATTN_BANKING77",
        cause,
    )
    assert server.asked == 1


@pytest.mark.usefixtures("before")
def test_a_refused_connection(
    server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    with socket.socket() as closed:  # bound and not listening: nobody else can take its port
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/200"
        monkeypatch.setattr(banking77, "URL", url)
        failure(capsys, f"could not be downloaded from {url}. ", "Check the network", "refused")
    assert server.asked == 0


@pytest.mark.usefixtures("before")
def test_a_full_disk(server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    class FullDisk(io.FileIO):
        def write(self, data: object) -> int:
            super().write(b"the last bytes that fitted")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    # Where pooch opens its temporary file.
    monkeypatch.setattr(pooch.downloaders, "open", FullDisk, raising=False)
    failure(capsys, "could not be saved in", "disk has room", os.strerror(errno.ENOSPC))
    assert server.asked == 1


def denied(*args: object, **options: object) -> None:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


@pytest.mark.usefixtures("before")
def test_a_folder_that_cannot_be_written(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    # The mode of a folder does not stop root, so the refusal is forged where pooch meets it.
    monkeypatch.setattr("tempfile.NamedTemporaryFile", denied)
    failure(
        capsys,
        f"could not be saved in {folder}. ",
        "written to",
        "name another folder in SELFATTN_BANKING77",
        os.strerror(errno.EACCES),
    )
    assert server.asked == 0


def test_a_folder_that_cannot_be_created(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("SELFATTN_BANKING77", str(folder / "new"))
    monkeypatch.setattr(os, "makedirs", denied)
    failure(
        capsys,
        f"could not be saved in {folder / 'new'}. ",
        "can be created",
        os.strerror(errno.EACCES),
    )
    assert names(folder) == []


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_where_the_folder_should_be(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, below: str
) -> None:
    (folder / "taken").write_text("a file")
    monkeypatch.setenv("SELFATTN_BANKING77", str(folder / "taken" / below))
    failure(capsys, f"could not be saved in {folder / 'taken' / below}. ", "can be created")
    assert names(folder) == ["taken"]
    assert (folder / "taken").read_text() == "a file"


def test_a_folder_where_the_file_should_be(server: Server, folder: Path, capsys: Capture) -> None:
    (folder / "train.csv").mkdir()
    failure(capsys, f"could not be saved in {folder}. ")
    assert names(folder / "train.csv") == []


# --check


def check(capsys: Capture) -> tuple[int, str, str]:
    status = main(["data", "--check"])
    out, err = capsys.readouterr()
    return status, out, err


def test_check_counts_the_rows(server: Server, folder: Path, capsys: Capture) -> None:
    (folder / "train.csv").write_bytes(GOOD)
    assert check(capsys) == (0, f"{folder / 'train.csv'}: 201 rows, checksum ok\n", "")
    assert server.asked == 0


Damage = Callable[[Path], object]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda file: None, "which holds no train.csv. `selfattn data` downloads it there"),
        (lambda file: file.write_bytes(EARLIER), "and 1 rows. Run `selfattn data`"),
        (lambda file: file.write_bytes(WRONG), "found '<html>Please log in to this network</html>"),
        (lambda file: file.write_bytes(GOOD[:20]), "line 2: expected a record in CSV"),
        (lambda file: file.mkdir(), "cannot be read"),
    ],
    ids=["absent", "other rows", "other columns", "truncated", "folder"],
)
def test_check_refuses(
    server: Server, folder: Path, capsys: Capture, damage: Damage, words: str
) -> None:
    damage(folder / "train.csv")
    before = names(folder)
    status, out, err = check(capsys)
    assert (status, out) == (1, "")
    assert err.startswith("selfattn data: ")
    assert err.count("\n") == 1
    assert words in err
    assert names(folder) == before
    assert server.asked == 0


# The command line


@pytest.mark.parametrize("argv", [[], ["date"], ["data", "--chekc"], ["data", "train.csv"]])
def test_wrong_use_is_status_2(argv: list[str], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == 2
    assert "usage: selfattn" in capsys.readouterr().err


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from selfattn.cli import main\n"
        "try: main(['--help'])\n"
        "finally: print('loaded:', *{'torch', 'numpy', 'pooch', 'requests'} & set(sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.stderr, run.returncode) == ("", 0)
    assert run.stdout.startswith("usage: selfattn")
    assert run.stdout.endswith("\nloaded:\n")
    assert "data " in run.stdout
