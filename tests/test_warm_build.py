"""A build that finds all results remembered runs nothing, and gives the same site to the byte."""

import filecmp
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

BUILD = """
import runpy, sys
from selfattn.fresh import process
sys.modules["torch"] = None  # to import it is now an error
process.start = None  # and so is to start a script
sys.argv = ["mkdocs", "build", "--strict", "--quiet", "-d", sys.argv[1]]
runpy.run_module("mkdocs", run_name="__main__")
"""


def build_warm(site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", BUILD, str(site)],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"},  # the sitemap names the day
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def warm_sites(built_site: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two builds after that of the fixture `built_site`, by which all results are remembered."""
    sites = [tmp_path_factory.mktemp("warm") for _ in range(2)]
    for site in sites:
        done = build_warm(site)
        assert done.returncode == 0, done.stdout + done.stderr
    return sites


def files(site: Path) -> set[Path]:
    return {path.relative_to(site) for path in site.rglob("*") if path.is_file()}


def test_a_warm_build_runs_nothing_and_imports_no_torch(warm_sites: list[Path]) -> None:
    for site in warm_sites:
        assert 'class="provenance"' in (site / "average.html").read_text("utf-8")


def test_two_warm_builds_are_equal_to_the_byte(warm_sites: list[Path]) -> None:
    first, second = warm_sites
    assert files(first) == files(second)
    _, different, unread = filecmp.cmpfiles(first, second, map(str, files(first)), shallow=False)
    assert (different, unread) == ([], [])


def test_a_build_that_is_not_warm_would_be_noticed(
    warm_sites: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")  # other kernels: nothing is remembered
    done = build_warm(tmp_path)
    assert done.returncode != 0
    assert "'NoneType' object is not callable" in done.stderr
