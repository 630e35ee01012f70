"""The commands `selfattn check` and `selfattn update`, called as a user calls them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from small_site import environment, spoil


def selfattn(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("selfattn")), *words]
    return subprocess.run(command, cwd=site, env=environment(site), capture_output=True, text=True)


def texts(site: Path) -> dict[str, bytes]:
    found = [*site.glob("docs/*.md"), *site.glob("snippets/*.md")]
    return {
        path.name if path.parent.name == "docs" else str(path): path.read_bytes() for path in found
    }


def test_a_good_site(site: Path) -> None:
    before = texts(site)
    done = selfattn(site, "check")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "docs/index.md: ok",
        "docs/more.md: ok",
        "snippets/other.md: ok",
        "snippets/small.md: ok",
    ]
    assert texts(site) == before
    assert not (site / "site").exists()


def test_stale_output_says_what_where_and_how_to_mend_it(site: Path) -> None:
    spoil(site / "snippets/small.md", "\n10\n", "\n11\n")
    done = selfattn(site, "check")
    assert done.returncode == 1
    assert "snippets/small.md: 1 fault(s)" in done.stdout
    assert "snippets/small.md:16: printed something else than it records" in done.stdout
    assert "`selfattn update snippets/small.md`" in done.stdout
    assert "(shown by docs/index.md)" in done.stdout
    assert "-11\n+10" in done.stdout


def test_stale_prose(site: Path) -> None:
    spoil(site / "docs/index.md", "# Small", "# Small\n\nThe sum is 12.")
    done = selfattn(site, "check", "docs/index.md")
    assert done.returncode == 1
    assert "docs/index.md:3: no script of this page printed 12; the nearest is 10" in done.stdout


def test_a_broken_link_is_a_problem_too(site: Path) -> None:
    spoil(site / "docs/index.md", "# Small", "# Small\n\n[x](missing.md)")
    done = selfattn(site, "check")
    assert done.returncode == 1
    assert "missing.md" in done.stdout


def test_paths_choose_a_page_with_its_scripts(site: Path) -> None:
    spoil(site / "snippets/other.md", "a word\n```", "two words\n```")
    for path in ("docs/index.md", "snippets/small.md"):
        done = selfattn(site, "check", path)
        assert done.returncode == 0
        assert done.stdout.splitlines() == ["docs/index.md: ok", "snippets/small.md: ok"]
    assert selfattn(site, "check", "docs/more.md").returncode == 1
    assert selfattn(site, "check", "snippets").returncode == 1


def test_check_runs_afresh_unless_told_otherwise(site: Path) -> None:
    # What a child process reads is not known to the cache.
    spoil(
        site / "snippets/small.md",
        "total = sum(range(5))",
        "import subprocess\ntotal = int(subprocess.check_output(['cat', 'total']))",
    )
    (site / "total").write_text("10")
    assert selfattn(site, "check", "--cached").returncode == 0
    (site / "total").write_text("11")
    assert selfattn(site, "check", "--cached").returncode == 0
    assert selfattn(site, "check").returncode == 1
    assert selfattn(site, "check", "docs/index.md").returncode == 1


def test_json(site: Path) -> None:
    spoil(site / "snippets/small.md", "\n10\n", "\n11\n")
    done = selfattn(site, "check", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert {"path": "docs/more.md", "ok": True} in report["files"]
    assert {"path": "snippets/small.md", "ok": False} in report["files"]
    (fault,) = report["faults"]
    assert (fault["path"], fault["line"], fault["page"]) == (
        "snippets/small.md",
        16,
        "docs/index.md",
    )
    assert report["problems"] == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", "nothing.md"], "no file or folder nothing.md"),
        (["check", "-f", "other.yml"], "no other.yml here"),
        (["check", "--unknown"], "unrecognized arguments"),
        (["chekc"], "invalid choice"),
        ([], "required"),
        (["check", "/"], "not in the site's folder"),
    ],
)
def test_wrong_use(site: Path, words: list[str], message: str) -> None:
    done = selfattn(site, *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_site_without_the_plugin(site: Path) -> None:
    spoil(site / "mkdocs.yml", "  - fresh:\n      preload: []\n", "")
    done = selfattn(site, "check")
    assert done.returncode == 2
    assert "does not use the plugin `fresh`" in done.stderr


def test_update_records_rewrites_and_is_done(site: Path) -> None:
    spoil(
        site / "docs/index.md", "# Small", "---\ndescription: Makes 10.\n---\n# Small\n\nIt is 10."
    )
    assert selfattn(site, "check").returncode == 0
    spoil(site / "snippets/small.md", "range(5)", "range(6)")
    spoil(site / "snippets/small.md", "total == 10", "total == 15")
    before = texts(site)

    shown = selfattn(site, "update", "--dry-run")
    assert shown.returncode == 0, shown.stderr
    assert texts(site) == before
    assert "snippets/small.md: would change" in shown.stdout

    done = selfattn(site, "update")
    assert done.returncode == 0, done.stderr
    for line in ("-10", "+15", "-description: Makes 10.", "+description: Makes 15.", "+It is 15."):
        assert line in done.stdout.splitlines()
        assert line in shown.stdout.splitlines()
    assert "docs/more.md: unchanged" in done.stdout
    assert selfattn(site, "check").returncode == 0

    after = texts(site)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"index.md", str(site / "snippets/small.md")}
    assert after["index.md"] == before["index.md"].replace(b"10", b"15")

    again = selfattn(site, "update")
    assert again.returncode == 0
    assert "updated" not in again.stdout
    assert texts(site) == after


def test_update_leaves_what_it_cannot_mend(site: Path) -> None:
    spoil(site / "snippets/small.md", "print(total)", "print(totl)")
    before = texts(site)
    done = selfattn(site, "update", "--json")
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert report["changed"] == []
    assert report["faults"][0]["message"].startswith("NameError")
    assert texts(site) == before
