"""Fixtures that several test modules share."""

import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import small_site
from hypothesis import settings
from playwright.sync_api import Error, sync_playwright

from selfattn.corpora import banking77

# The first example of a property pays for imports; how long it takes says nothing about the code.
settings.register_profile("selfattn", deadline=None)
settings.load_profile("selfattn")

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def published() -> Path:
    """Banking77's own `train.csv`. Session-wide, so it is looked up before a test moves it."""
    if not banking77.found():  # an error, and no skip, where the variable names a wrong folder
        pytest.skip(f"needs Banking77, not at {banking77.path()}: `selfattn data` downloads it")
    return banking77.path()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder which SELFATTN_BANKING77 names; SELFATTN_CORPUS is not set."""
    monkeypatch.setenv("SELFATTN_BANKING77", str(tmp_path))
    monkeypatch.delenv("SELFATTN_CORPUS", raising=False)
    return tmp_path


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A small good site, for a test to spoil."""
    return small_site.make(tmp_path)


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly and once, with the links that need a repository."""
    site = tmp_path_factory.mktemp("site")
    build = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(site)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, "REPO_URL": "https://github.com/example/selfattn", "SITE_URL": ""},
        capture_output=True,
        text=True,
    )
    assert build.returncode == 0, build.stdout + build.stderr
    return site


def installed():
    """The browser to use: the one named, else the system's, else (None) playwright's own."""
    named = os.environ.get("SELFATTN_CHROMIUM")
    return named or next(filter(None, map(shutil.which, CHROMIUM)), None)


@pytest.fixture(scope="module")
def browser():
    """Chromium. Not session-wide: while it is there, nothing else can run an event loop."""
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=installed(), args=["--no-sandbox"])
        except Error as error:
            reason = (
                "needs Chromium: install it, name it in SELFATTN_CHROMIUM, or run "
                f"`playwright install chromium`; {error}"
            )
            (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
        yield browser
        browser.close()


class Watch:
    """A browser tab that remembers every complaint, and every request beyond the site."""

    def __init__(self, page, home):
        self.page, self.home, self.seen = page, home, []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.seen.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message):
        if message.type in {"error", "warning"}:
            self.seen.append(f"console: {message.text}")

    def _request(self, request):
        if not request.url.startswith((self.home, "data:", "blob:", "about:")):
            self.seen.append(f"request: {request.url}")

    def open(self, name):
        self.seen.clear()
        self.page.goto(f"{self.home}/{name}.html", wait_until="load")

    def scroll(self):
        """Go down the page and back: what never was near the screen may lack its buttons."""
        self.page.evaluate(
            """async () => {
                const root = document.documentElement
                scrollTo(0, 0)
                while (root.scrollTop + innerHeight < root.scrollHeight - 1) {
                    scrollBy(0, innerHeight / 2)
                    await new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))
                }
                scrollTo(0, 0)
            }"""
        )


@pytest.fixture(scope="module")
def home(built_site):
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=built_site)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def served(browser, home):
    page = browser.new_page(reduced_motion="reduce")
    yield Watch(page, home)
    page.close()


@pytest.fixture(scope="module")
def on_disk(browser, built_site):
    page = browser.new_page(reduced_motion="reduce")
    yield Watch(page, built_site.as_uri())
    page.close()
