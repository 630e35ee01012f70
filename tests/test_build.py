"""A strict build fails, also under --quiet, on every fault a page or a script can have."""

import subprocess
import sys
from pathlib import Path

import pytest
from small_site import build, page, script, spoil


@pytest.mark.parametrize("options", [["--strict"], ["--strict", "-q"]], ids=" ".join)
def test_a_good_site_builds(site: Path, options: list[str]) -> None:
    done = build(site, *options)
    assert done.returncode == 0, done.stderr
    html = (site / "site/index.html").read_text()
    assert "10" in html
    assert "count-check" not in html


FAULTS = {
    "a failing block": (
        "snippets/small.md",
        ("print(total)", "print(totl)"),
        "snippets/small.md:6: section 'count': NameError: name 'totl' is not defined",
    ),
    "a failing check": (
        "snippets/small.md",
        ("total == 10", "total == 11"),
        "snippets/small.md:9: section 'count-check': AssertionError",
    ),
    "an exit that would pass for success": (
        "snippets/small.md",
        ("print(total)", "import sys; sys.exit(0)"),
        "snippets/small.md:6: section 'count': SystemExit: 0",
    ),
    "a crash": (
        "snippets/small.md",
        ("print(total)", "import os; os._exit(0)"),
        "snippets/small.md:6: section 'count': the process ended before the script did",
    ),
    "a syntax error": (
        "snippets/small.md",
        ("print(total)", "print(total"),
        "snippets/small.md:6: section 'count': SyntaxError: '(' was never closed",
    ),
    "a bad snippet file": (
        "snippets/small.md",
        ("# A count", "A count"),
        "snippets/small.md:1: expected a heading",
    ),
    "a missing snippet": (
        "docs/index.md",
        ('session="small"\n--8<-- "small.md', 'session="smal"\n--8<-- "smal.md'),
        "docs/index.md:3: no script snippets/smal.md",
    ),
    "a missing section": (
        "docs/index.md",
        ("small.md:count", "small.md:cuont"),
        "docs/index.md:3: no section 'cuont' in snippets/small.md; it has: count",
    ),
    "a session that is not the script's name": (
        "docs/index.md",
        ('session="small"', 'session="other"'),
        'docs/index.md:3: expected session="small"',
    ),
    "code in the page itself": (
        "docs/index.md",
        ('--8<-- "small.md:count"', "print(10)"),
        'docs/index.md:3: expected `--8<-- "script.md:section"` alone in the fence',
    ),
    "a broken link": ("docs/index.md", ("# Small", "# Small\n\n[x](missing.md)"), "missing.md"),
    "a broken anchor": ("docs/index.md", ("# Small", "# Small\n\n[x](#missing)"), "#missing"),
}


@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["loud", "quiet"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_fails_the_build(site: Path, fault: str, quiet: list[str]) -> None:
    file, (old, new), message = FAULTS[fault]
    spoil(site / file, old, new)
    done = build(site, "--strict", *quiet)
    assert done.returncode != 0
    assert message in done.stdout + done.stderr


@pytest.mark.parametrize("quiet", [[], ["-q"]], ids=["loud", "quiet"])
def test_a_page_outside_the_navigation_fails_the_build(site: Path, quiet: list[str]) -> None:
    (site / "docs/orphan.md").write_text("# Orphan\n")
    done = build(site, "--strict", *quiet)
    assert done.returncode != 0
    assert "orphan.md" in done.stdout + done.stderr


def test_the_line_counts_the_front_matter(site: Path) -> None:
    page = site / "docs/index.md"
    page.write_text("---\ntitle: x\n---\n\n" + page.read_text())
    spoil(page, "small.md:count", "small.md:cuont")
    assert "docs/index.md:7: no section" in build(site, "--strict").stderr


def test_all_faults_are_listed(site: Path) -> None:
    spoil(site / "snippets/small.md", "total == 10", "total == 11")
    spoil(site / "snippets/other.md", "print('a word')", "1 / 0")
    (site / "snippets/third.md").write_text(script("print(3)", "4\n"))
    (site / "docs/index.md").write_text(page("Small", "small", "third"))
    message = build(site, "--strict").stderr
    assert "3 faults" in message
    assert "snippets/small.md:9" in message
    assert "snippets/other.md:5: section 'count': ZeroDivisionError" in message
    assert "snippets/third.md:12: printed something else than it records" in message


def test_a_number_that_nothing_printed_fails_the_build(site: Path) -> None:
    spoil(site / "docs/index.md", "# Small", "# Small\n\nThe sum is 11.")
    done = build(site, "--strict", "-q")
    assert done.returncode != 0
    assert "docs/index.md:3: no script of this page printed 11; the nearest is 10" in done.stderr


def test_all_of_stdout_reaches_the_page(site: Path) -> None:
    code = (
        "import subprocess, sys\n"
        "print('a', 'b', sep='<>')\n"
        "sys.stdout.write('written\\n')\n"
        "subprocess.run([sys.executable, '-c', 'print(\"a child\")'])"
    )
    (site / "snippets/small.md").write_text(script(code, "a<>b\nwritten\na child\n"))
    done = build(site, "--strict")
    assert done.returncode == 0, done.stderr
    html = (site / "site/index.html").read_text()
    for line in ("a&lt;&gt;b", "written", "a child"):
        assert f"\n{line}\n" in html.replace(">a&lt;", ">\na&lt;"), line


def test_nothing_leaks_from_one_script_to_the_next(site: Path) -> None:
    probe = "import os\nprint('leak:', os.environ.get('LEAK'))\nos.environ['LEAK'] = 'yes'"
    for name in ("small", "other"):  # whichever runs first
        (site / f"snippets/{name}.md").write_text(script(probe, "leak: None\n"))
    done = build(site, "--strict")
    assert done.returncode == 0, done.stderr
    assert "leak: None" in (site / "site/index.html").read_text()


def test_figures_follow_their_section_and_cost_nothing_in_plain_python(site: Path) -> None:
    figure = "from selfattn.fresh import show; show('<b>bold</b>', alt='a \"word\" in bold')"
    (site / "snippets/small.md").write_text(script(figure, ""))
    done = build(site, "--strict")
    assert done.returncode == 0, done.stderr
    html = (site / "site/index.html").read_text()
    label = "a &quot;word&quot; in bold"
    assert f'<div class="shown" role="group" aria-label="{label}"><b>bold</b></div>' in html
    plain = subprocess.run([sys.executable, "-c", figure], capture_output=True, text=True)
    assert (plain.returncode, plain.stdout, plain.stderr) == (0, "", "")


def test_a_picture_needs_words() -> None:
    from selfattn.fresh import show

    with pytest.raises(ValueError, match="alt text"):
        show("<b></b>", alt=" ")


FENCE = '```python exec="on" source="above" result="text" session="small"\n'


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (FENCE, FENCE.replace("```", "    ```")),
        (FENCE, FENCE.replace('exec="on"', "exec=on")),
        (FENCE, FENCE.replace("python exec", "python\u00a0exec")),
        (FENCE, FENCE.replace('exec="on"', 'exce="on"')),
        (FENCE, FENCE.replace("python ", "python3 ")),
        (FENCE, FENCE.replace('"above"', '"abve"')),
        ('count"\n```\n', 'count"\n'),
        ('count"\n```\n', 'count"\n`````\n'),
    ],
    ids=["indented", "unquoted", "no-break space", "option", "language", "value", "open", "long"],
)
def test_a_fence_that_is_not_executed_fails_the_build(site: Path, old: str, new: str) -> None:
    spoil(site / "docs/index.md", old, new)
    done = build(site, "--strict", "-q")
    if done.returncode == 0:  # then it was executed after all
        html = (site / "site/index.html").read_text()
        assert html.count('id="out-small-count"') == 1
        assert "exec" not in html
    else:
        assert "docs/index.md:3: " in done.stderr


def test_the_plugin_needs_markdown_exec(site: Path) -> None:
    spoil(site / "mkdocs.yml", "  - markdown-exec\n", "")
    done = build(site, "--strict", "-q")
    assert done.returncode != 0
    assert "needs the plugin `markdown-exec`" in done.stderr


@pytest.mark.parametrize(
    ("prose", "published"),
    [
        ("[text][1]\n\n[1]: more.md\n", 'href="more/">text</a>'),
        ("A star &#42; here.\n", "A star &#42; here."),
        ("<script>var a = 10;</script>\n", "<script>var a = 10;</script>"),
        ("Sum 10\n------\n", ">Sum 10<"),
        ("> ## Sum 10\n", ">Sum 10<"),
    ],
)
def test_marks_leave_no_trace(site: Path, prose: str, published: str) -> None:
    spoil(site / "docs/index.md", "# Small", f"# Small\n\n{prose}")
    done = build(site, "--strict", "-q")
    assert done.returncode == 0, done.stderr
    html = (site / "site/index.html").read_text()
    assert published in html
    assert not any("\ue000" <= letter <= "\uf8ff" for letter in html)


def test_a_script_in_a_folder_below_fails_the_build(site: Path) -> None:
    (site / "snippets/below").mkdir()
    (site / "snippets/below/deep.md").write_text(script("print(1)", "1\n"))
    done = build(site, "--strict", "-q")
    assert done.returncode != 0
    assert "snippets/below/deep.md:1: a script must lie directly in snippets" in done.stderr
