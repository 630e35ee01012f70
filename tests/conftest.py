"""Fixtures that several test modules share."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import small_site
from hypothesis import settings

from selfattn.corpora import banking77

# The first example of a property pays for imports; how long it takes says nothing about the code.
settings.register_profile("selfattn", deadline=None)
settings.load_profile("selfattn")


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
