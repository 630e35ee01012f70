"""The traps of this stack, each seen once, by number: every one must be impossible, or loud.

Not tested here: 6 in part, since fences in HTML comments and in indented examples are looked for
by markdown-exec itself, so that the test is that the build says so; 14, the notices of MkDocs and
Material, which no test of ours can end (what can be tested is that the engine needs neither the
theme nor its plugins); 15 on a second kind of processor, whose digits stand here as text; 16 on an
index with builds for graphics cards, where what counts is the pin.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from mkdocs.config import load_config
from small_site import build, page, script, spoil

from selfattn.corpora import table
from selfattn.fresh import mkdocs_plugin, process
from selfattn.fresh.batch import Result
from selfattn.fresh.check import judge
from selfattn.fresh.compare import same
from selfattn.fresh.fault import Fault
from selfattn.fresh.page import blocks
from selfattn.fresh.run import run
from selfattn.fresh.snippet import SnippetError, parse

ROOT = Path(__file__).parent.parent


def write(site: Path, code: str, recorded: str | None = "10\n", name: str = "small") -> None:
    text = script(code, recorded)
    (site / f"snippets/{name}.md").write_text(text, encoding="utf-8")


def alone(site: Path, name: str = "small") -> Result:
    """Run one script of the site, without a build."""
    snippet = parse(site / f"snippets/{name}.md", site)
    return Result(snippet, run(snippet, site), "run")


def failed(site: Path) -> str:
    done = build(site, "-q", "--strict")
    assert done.returncode != 0
    return done.stdout + done.stderr


# markdown-exec


def test_trap_01_sys_exit_does_not_end_the_build(site: Path) -> None:
    write(site, "import sys\nsys.exit(0)")
    spoil(site / "snippets/other.md", "print('a word')", "1 / 0")
    message = failed(site)
    assert "2 faults" in message
    assert "snippets/small.md:6: section 'count': SystemExit: 0" in message
    assert "snippets/other.md:5: section 'count': ZeroDivisionError" in message


def test_trap_02_a_failing_block_names_its_page_and_is_not_published(site: Path) -> None:
    write(site, "print(undefined)")
    message = failed(site)
    assert "NameError: name 'undefined' is not defined (shown by docs/index.md)" in message
    assert list((site / "site").rglob("*.html")) == []


def test_trap_03_everything_on_stdout_is_caught(site: Path) -> None:
    (site / "snippets/helper.py").write_text("def tell():\n    print('a helper')\n")
    code = (
        "import pprint, sys\n"
        "print(1, 2, sep='-', end='!\\n')\n"
        "sys.stdout.write('written\\n')\n"
        "pprint.pprint({'a': 1})\n"
        "sys.path.insert(0, 'snippets')\n"
        "from helper import tell\n"
        "tell()"
    )
    write(site, code)
    assert alone(site).run.text == "1-2!\nwritten\n{'a': 1}\na helper\n"


def test_trap_04_nothing_stays_from_one_run_to_the_next(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(site))
    (site / "lesson.py").write_text("count = 0\n")
    code = (
        "import builtins, os, random, sys, lesson\n"
        "lesson.count += 1\n"
        "state = lesson.count, sys.getrecursionlimit() == 77, 'LEAK' in os.environ\n"
        "print(*state, hasattr(builtins, 'leak'), 'defined' in globals())\n"
        "builtins.leak = defined = os.environ['LEAK'] = 'yes'\n"
        "sys.setrecursionlimit(77)\n"
        "random.seed(0)"
    )
    write(site, code)
    for _ in range(2):
        assert alone(site).run.text == "1 False False False False\n"
    (site / "lesson.py").write_text("count = 6\n")  # within the second, and of the same size
    assert alone(site).run.text == "7 False False False False\n"


@pytest.mark.parametrize(
    ("opening", "problem"),
    [
        ('python exce="on" session="small"', "this fence is not executed"),
        ('python3 exec="on" session="small"', "this fence is not executed"),
        ('py exec="on" session="small"', "this fence is not executed"),
        ('python exec="yes" session="small"', "this fence is not executed"),
        ("python", "this fence is not executed"),
        ('python exec="on" session="small" source="abvoe"', "option source='abvoe' is none"),
        ('python exec="on" session="small" tabs="Source"', "option tabs='Source' is none"),
        ('python exec="on" session="small" returncode="x"', "unknown option 'returncode'"),
        ('python exec="on" session="small" soruce="above"', "did you mean 'source'?"),
    ],
)
def test_trap_05_a_mistyped_fence_is_a_fault(opening: str, problem: str) -> None:
    (fence,) = blocks(f'```{opening}\n--8<-- "small.md:count"\n```\n')
    assert problem in fence.problem()


def test_trap_05_a_mistyped_fence_fails_the_build(site: Path) -> None:
    spoil(site / "docs/index.md", 'exec="on"', 'exce="on"')
    assert "docs/index.md:3: this fence is not executed" in failed(site)


def test_trap_06_a_fence_in_a_comment_or_an_indented_example_is_loud(site: Path) -> None:
    text = page("Small", "small")
    fence = text.partition("\n\n")[2]
    indented = "".join(f"    {line}\n" for line in fence.splitlines())
    (site / "docs/index.md").write_text(f"{text}\n<!--\n{fence}-->\n\nLike this:\n\n{indented}")
    message = failed(site)
    assert "docs/index.md:8: this fence stands in an HTML comment" in message
    assert "docs/index.md:15: section 'count' of snippets/small.md must not come after" in message


def test_trap_07_nothing_runs_twice_for_nothing(site: Path) -> None:
    write(site, "with open('runs', 'a') as file:\n    print('x', file=file)\nprint(10)")
    for _ in range(2):
        assert build(site, "--strict").returncode == 0
    assert (site / "runs").read_text() == "x\n"
    assert "\n10\n" in (site / "site/index.html").read_text().replace(">10", ">\n10")


# pymdownx.snippets


@pytest.mark.parametrize(
    ("include", "problem"),
    [
        ("smal.md:count", 'expected session="smal"'),
        ("small.md:cuont", "no section 'cuont' in snippets/small.md; it has: count"),
        ("small.md:1:3", "expected `--8<-- "),
        ("small.md", "expected `--8<-- "),
    ],
)
@pytest.mark.parametrize("extension", [True, False], ids=["with the extension", "without"])
def test_trap_08_a_missing_file_or_section_does_not_vanish(
    site: Path, include: str, problem: str, extension: bool
) -> None:
    spoil(site / "docs/index.md", "small.md:count", include)
    if extension:
        used = "pymdownx.snippets: {base_path: [snippets], check_paths: true}"
        spoil(site / "mkdocs.yml", "[pymdownx.superfences]", f"[pymdownx.superfences, {used}]")
    assert f"docs/index.md:3: {problem}" in failed(site)


def test_trap_08_this_site_checks_what_it_includes() -> None:
    options = load_config(str(ROOT / "mkdocs.yml")).mdx_configs
    assert options.get("pymdownx.snippets", {"check_paths": True})["check_paths"] is True


# pytest-codeblocks


@pytest.mark.parametrize(
    ("fence", "problem"),
    [
        ('```python title="x"', "expected one `python` fence"),
        ("```py", "expected one `python` fence"),
        ("~~~python", "a fence must be three backticks"),
        ("````python", "a fence must be three backticks"),
        ("  ```python", "a fence must be three backticks, unindented"),
    ],
)
def test_trap_09_a_fence_that_would_not_be_collected_is_loud(
    site: Path, fence: str, problem: str
) -> None:
    path = site / "snippets/small.md"
    spoil(path, "```python", fence)
    with pytest.raises(SnippetError, match=problem):
        parse(path, site)


def test_trap_10_a_script_is_one_block_with_one_output(site: Path) -> None:
    path = site / "snippets/small.md"
    more = "\n<!--pytest-codeblocks:cont-->\n\n```python\nprint(2)\n```\n"
    path.write_text(path.read_text() + more)
    with pytest.raises(SnippetError, match="expected one `python` fence and one output fence"):
        parse(path, site)


def test_trap_11_output_is_compared_by_rule_and_a_main_guard_runs(site: Path) -> None:
    write(site, "if __name__ == '__main__':\n    print('0.4406')", "0.4405\n")
    result = alone(site)
    assert result.run.text == "0.4406\n"
    assert judge(result) is None


# mkdocs-jupyter


def test_trap_12_this_site_does_not_use_the_defaults_of_mkdocs_jupyter() -> None:
    plugin = load_config(str(ROOT / "mkdocs.yml")).plugins.get("mkdocs-jupyter")
    if plugin is not None:
        options = cast(dict[str, Any], plugin.config)
        assert not options["allow_errors"]
        assert not (options["execute"] and options["cache"])
        assert options["include"] != ["*.py", "*.ipynb", "*.md"]


# MkDocs and Material


def test_trap_13_serve_watches_all_that_scripts_read(site: Path) -> None:
    (site / "data").mkdir()
    (site / "data/ten.txt").write_text("10")
    write(site, "print(open('data/ten.txt').read())")
    config, plugin = mkdocs_plugin.load(site / "mkdocs.yml")
    plugin.on_config(config)
    assert str(site / "snippets") in config.watch
    plugin.results = {"small": alone(site)}
    watched: list[str] = []
    server = cast(Any, SimpleNamespace(watch=watched.append))
    plugin.on_serve(server, config=config, builder=None)
    assert watched == [str(site / "data")]
    assert str(ROOT / "selfattn") in load_config(str(ROOT / "mkdocs.yml")).watch


def test_trap_14_the_engine_needs_no_theme() -> None:
    code = (
        "import sys\n"
        "sys.modules['material'] = None  # as if it were not installed\n"
        "import selfattn.fresh.command, selfattn.fresh.mkdocs_plugin"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# PyTorch and numbers


def test_trap_15_digits_may_differ_between_processors_and_no_more() -> None:
    assert same("tensor([[1., 1.]])", "tensor([[1.0000, 1.0000]])")
    assert same("0.4405", "0.4406")
    assert not same("0.4405", "0.4407")
    assert not same("loss 0.44", "loss 0.53")  # training amplifies the last bit:
    assert same("loss ‹0.48±0.1›", "loss 0.53")  # its author says how far


def test_trap_15_one_thread_a_script(site: Path) -> None:
    names = sorted(process.ONE_THREAD)
    write(site, f"import os\nprint(*(os.environ[name] for name in {names}))")
    assert alone(site).run.text == " ".join("1" for _ in names) + "\n"


def test_trap_16_one_build_of_torch_is_pinned() -> None:
    pins = (ROOT / "constraints.txt").read_text().splitlines()
    assert len([pin for pin in pins if pin.startswith("torch==")]) == 1
    assert all("==" in pin for pin in pins)


def test_trap_17_numpy_is_declared_and_a_warning_is_loud(site: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        declared = tomllib.load(file)["project"]["dependencies"]
    assert any(requirement.startswith("numpy") for requirement in declared)
    write(site, "import os\nos.write(2, b'Failed to initialize NumPy\\n')\nprint(10)")
    fault = judge(alone(site))
    assert isinstance(fault, Fault)
    assert "wrote to stderr" in fault.message
    assert "Failed to initialize NumPy" in fault.detail


def test_trap_18_a_quoted_line_break_is_part_of_its_field(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_bytes(b'text,category\r\n"Where\r\nis it?",card_arrival\r\n')
    (row,) = table.read(file, ("card_arrival",))
    assert row == ("Where\r\nis it?", "card_arrival")
