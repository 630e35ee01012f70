"""Measure the site's builds against each other, in one run, and print their ratios.

    python tools/bench.py [--quick]

All builds are of copies of this site without its slowest pages, at their size and at ten times it:

- ours, cold (nothing remembered) and warm (all remembered);
- plain markdown-exec, which runs the same code inside the build, one thread;
- the floor: the same pages and plugins with nothing executed, outputs and figures written into
  the pages;
- the scripts one after another, a plain Python process each (at its size alone).

Under `mkdocs serve` it measures the time from saving a file to seeing the change over HTTP. The
exit status is 1 when a goal is missed. The goals are for wall-clock time; the ratio of processor
time beside it is less disturbed by what else the machine does.
"""

import argparse
import compileall
import json
import os
import re
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from selfattn.fresh import process
from selfattn.fresh.batch import Result, run_all
from selfattn.fresh.mkdocs_plugin import load
from selfattn.fresh.page import Fence, fences
from selfattn.fresh.process import ONE_THREAD
from selfattn.fresh.report import placed
from selfattn.fresh.snippet import parse
from selfattn.labs.catalog import LABS
from selfattn.labs.pages import downloads

ROOT = Path(__file__).parent.parent
PARTS = ("docs", "snippets", "overrides", "selfattn")
TIMES = 10
"""How much larger the large site is."""

LEFT_OUT = ("assignment", "fault-gallery", "probe-list", "probes")
"""Pages whose scripts train and probe for minutes: no builder could make a difference to that."""

EDITED = "projections"
"""A page and its script; the first section imports `selfattn.attention` and shows its output."""

RESET = "import torch; torch.set_grad_enabled(True)"

PATIENCE = 300
"""Seconds to wait for a change to show."""


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds of wall-clock time and of all processors together."""

    wall: float
    cpu: float

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(self.wall + other.wall, self.cpu + other.cpu)


Costs = dict[str, list[Cost]]


# The sites.


def make_sites(folder: Path, results: dict[str, Result], times: int) -> dict[str, Path]:
    """Copy this site three times: as it is, for plain markdown-exec, and with nothing to run."""
    kinds: dict[str, Callable[[str], str] | None] = {
        "ours": None,
        "markdown-exec": lambda page: rewrite(page, lambda fence: included(fence, results)),
        "floor": lambda page: rewrite(page, lambda fence: printed(fence, results)),
    }
    sites = {}
    for kind, change in kinds.items():
        site = sites[kind] = copy_site(folder / kind)
        if change:
            for page in site.glob("docs/**/*.md"):
                page.write_text(change(page.read_text("utf-8")), "utf-8")
            drop_plugin(site / "mkdocs.yml")
            write_notebooks(site / "docs", results)
        multiply(site, times)
    return sites


def copy_site(site: Path) -> Path:
    """Copy all that a build needs."""
    for part in PARTS:
        shutil.copytree(ROOT / part, site / part, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "mkdocs.yml", site)
    for page in (site / f"docs/{name}.md" for name in LEFT_OUT):
        for script in {fence.script for fence in fences(page.read_text("utf-8"))}:
            (site / f"snippets/{script}.md").unlink()
        page.unlink()
    compileall.compile_dir(site / "selfattn", quiet=1)  # else the first build pays for it
    return site


def drop_plugin(config: Path) -> None:
    """Take our plugin out of a configuration, and what works with its results."""
    text, count = re.subn(r"^  - fresh:\n(?: {4}.*\n)+", "", config.read_text("utf-8"), flags=re.M)
    assert count == 1
    text, count = re.subn(r"^  - selfattn/labs/pages\.py\n", "", text, flags=re.M)
    assert count == 1
    config.write_text(text, "utf-8")


def write_notebooks(docs: Path, results: dict[str, Result]) -> None:
    """Write down what our build makes of the labs, for mkdocs-jupyter to render all the same."""
    (docs / "labs").mkdir()
    for lab in LABS.values():
        made = downloads(lab, results[lab.script].run)
        for name, content in made.items():
            (docs / "labs" / name).write_text(content, "utf-8")
        page = docs / f"{lab.script}-solved.ipynb"
        page.write_text(made[f"{lab.name}-solved.ipynb"], "utf-8")


def multiply(site: Path, times: int) -> None:
    """Copy the pages and scripts of a site under other names until there are `times` as many."""
    pages, snippets = list(site.glob("docs/*.md")), list(site.glob("snippets/*.md"))
    for number in range(1, times):
        for file in [*pages, *snippets]:
            text = file.read_text("utf-8")
            text = re.sub(r'(session="[\w-]+)"', rf'\1-copy{number}"', text)
            text = re.sub(r'(--8<-- "[\w-]+)\.md', rf"\1-copy{number}.md", text)
            file.with_stem(f"{file.stem}-copy{number}").write_text(text, "utf-8")
        for file in site.glob("snippets/numbers.json"):
            copy_bindings(file, number)
    if times > 1:
        copies = sorted(page.name for page in site.glob("docs/*-copy*.md"))
        section = "\n".join(["  - Copies:", *(f"      - {name}" for name in copies)])
        config = site / "mkdocs.yml"
        text = config.read_text("utf-8")
        config.write_text(re.sub(r"^nav:\n", rf"\g<0>{section}\n", text, flags=re.M), "utf-8")


def copy_bindings(file: Path, number: int) -> None:
    """Bind the numbers of copied pages to those of the copied scripts."""
    pages = json.loads(file.read_text("utf-8"))
    for page in [page for page in pages if "-copy" not in page]:
        pages[page.replace(".md", f"-copy{number}.md")] = [
            [context, text, re.sub(r"^[\w-]+", rf"\g<0>-copy{number}", origin), index]
            for context, text, origin, index in pages[page]
        ]
    file.write_text(json.dumps(pages), "utf-8")


def rewrite(page: str, change: Callable[[Fence], list[str]]) -> str:
    """Replace each executed fence of a page by other lines, which are indented like it."""
    lines = page.split("\n")
    for fence in reversed(list(fences(page))):
        new = "\n".join(change(fence)).split("\n")
        lines[fence.first : fence.last + 1] = [fence.indent + line for line in new]
    return "\n".join(lines)


def included(fence: Fence, results: dict[str, Result]) -> list[str]:
    """The fence with its code in it; one that cannot run here is printed."""
    result = results[fence.script]
    if result.missing:
        return printed(fence, results)
    section = result.snippet.section(fence.section)
    assert section
    # In one process a script that turns gradients off would fail those after it.
    fresh = [f"{RESET}  # markdown-exec: hide"] if section is result.snippet.sections[0] else []
    return [fence.ticks + fence.info, *fresh, section.code.rstrip("\n"), fence.ticks]


def printed(fence: Fence, results: dict[str, Result]) -> list[str]:
    """What the fence shows, as it would be written by hand."""
    result = results[fence.script]
    section, output = result.snippet.section(fence.section), result.run.outputs.get(fence.section)
    assert section
    lines = []
    if "source" in fence.options:
        lines += ["```python", section.code.rstrip("\n"), "```", ""]
    if output and output.text:
        lines += ["```text", output.text.rstrip("\n"), "```", ""]
    if output:
        lines += [line for figure in output.figures for line in (placed(figure), "")]
    return lines


def run_once(site: Path) -> dict[str, Result]:
    """Get what all scripts of a site print."""
    _, plugin = load(site / "mkdocs.yml")
    snippets = [parse(path, site) for path in sorted(site.glob("snippets/*.md"))]
    results = run_all(snippets, plugin.settings)
    process.close()
    faults = [str(result.run.fault) for result in results.values() if result.run.fault]
    if faults:
        sys.exit("\n".join(["the scripts must run before they can be timed:", *faults]))
    return results


# Builds.


def environment(site: Path) -> dict[str, str]:
    """One thread, and the copy's own package before the installed one."""
    return {**os.environ, **ONE_THREAD, "PYTHONPATH": str(site), "SITE_URL": "", "REPO_URL": ""}


def timed(command: list[str], site: Path) -> Cost:
    """Run a command to its end."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        command, cwd=site, env=environment(site), capture_output=True, encoding="utf-8"
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)} in {site} failed:\n{done.stdout}{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Cost(wall, cpu)


def build(site: Path) -> Cost:
    """Build a site in a process of its own."""
    built = site / "built"
    cost = timed([sys.executable, "-m", "mkdocs", "build", "-q", "-d", str(built)], site)
    for page in built.glob("*.html"):  # markdown-exec goes on after an exception
        if "Traceback (most recent call last)" in page.read_text("utf-8"):
            sys.exit(f"{page} shows an exception, so its script did not run to the end")
    return cost


def run_scripts(site: Path) -> Cost:
    """Run the scripts one after another."""
    total = Cost(0, 0)
    for path in sorted(site.glob("snippets/*.md")):
        snippet = parse(path)
        if not snippet.needs:
            total += timed([sys.executable, "-c", snippet.code], site)
    return total


def measure_builds(sites: dict[str, Path], rounds: int, more: int) -> Costs:
    """Time all builds by turns, so that a busy moment of the machine meets them all.

    Args:
        sites: by kind.
        rounds: of the slow ones.
        more: builds of the quick ones, in each round.
    """
    costs: Costs = defaultdict(list)
    for _ in range(rounds):
        shutil.rmtree(sites["ours"] / ".cache", ignore_errors=True)
        costs["cold"].append(build(sites["ours"]))
        costs["markdown-exec"].append(build(sites["markdown-exec"]))
        for _ in range(more):
            costs["warm"].append(build(sites["ours"]))
            costs["floor"].append(build(sites["floor"]))
    return costs


# `mkdocs serve`.


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve a site; gives the address of the page that is edited."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "mkdocs", "serve", "-q", "--livereload", "-a", address]
    server = subprocess.Popen(
        command,
        cwd=site,
        env=environment(site),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
    )
    try:
        url = f"http://{address}/{EDITED}.html"
        wait_until_shown("<h1", url)
        yield url
    finally:
        server.terminate()
        server.wait()


def wait_until_shown(text: str, url: str) -> float:
    """Ask for a page until it holds a text; give the seconds."""
    start = time.perf_counter()
    while time.perf_counter() - start < PATIENCE:
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                if text in answer.read().decode("utf-8"):
                    return time.perf_counter() - start
        except (urllib.error.URLError, ConnectionError):
            pass  # not started yet, or between two builds
        time.sleep(0.02)
    sys.exit(f"{url} did not show {text!r} within {PATIENCE} s")


def edit_page(site: Path, word: str) -> None:
    page = site / f"docs/{EDITED}.md"
    page.write_text(f"{page.read_text('utf-8')}\n{word}\n", "utf-8")


def edit_script(site: Path, word: str) -> None:
    """Let the script's first section print a word that does not stand in its code."""
    snippet = site / f"snippets/{EDITED}.md"
    text, statement = snippet.read_text("utf-8"), f'print("{word[:3]}" "{word[3:]}")\n'
    snippet.write_text(text.replace("# --8<-- [end:", f"{statement}# --8<-- [end:", 1), "utf-8")


def edit_module(site: Path, word: str) -> None:
    """Let a module that most scripts import print a word when it is imported."""
    module = site / "selfattn/attention.py"
    module.write_text(f'{module.read_text("utf-8")}\nprint("{word}")\n', "utf-8")


def measure_edits(sites: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    """Time edits until they show; those of the module once, as most scripts run again."""
    seconds: dict[str, list[float]] = defaultdict(list)

    def save(name: str, edit: Callable[[Path, str], None], kind: str, url: str) -> None:
        word = f"edited-{name}-{'again-' * len(seconds[name])}end"  # no number: those are judged
        edit(sites[kind], word)
        seconds[name].append(wait_until_shown(word, url))

    with served(sites["floor"]) as floor, served(sites["ours"]) as ours:
        for _ in range(rounds):
            save("floor", edit_page, "floor", floor)
            save("page", edit_page, "ours", ours)
            save("script", edit_script, "ours", ours)
        save("module", edit_module, "ours", ours)
    return seconds


# The table.


class Table:
    """Prints a line for each comparison, and remembers whether a goal was missed."""

    def __init__(self) -> None:
        self.missed = False

    def head(self, title: str) -> None:
        print(f"\n{title}")
        print(f"{'':34}{'wall':>8}{'CPU':>8}    goal, for wall-clock time")

    def ratio(self, one: str, other: str, costs: Costs, goal: float | None = None) -> None:
        """Compare two builds by the median of their ratios, each from one turn."""
        pairs = list(zip(costs[one], costs[other], strict=False))
        wall, cpu = (
            median(a.wall / b.wall for a, b in pairs),
            median(a.cpu / b.cpu for a, b in pairs),
        )
        verdict = self._verdict(wall, goal, f"at most {goal}")
        print(f"  {one + ' / ' + other:32}{wall:8.2f}{cpu:8.2f}    {verdict}")

    def edit(self, name: str, seconds: dict[str, list[float]], goal: float | None = None) -> None:
        """Say how much later than the floor's page an edit shows."""
        later = median(seconds[name]) - median(seconds["floor"])
        verdict = self._verdict(later, goal, f"at most {goal} s")
        print(f"  {'edited ' + name + ' - floor':32}{later:+6.2f} s{'':8}    {verdict}")

    def seconds(self, costs: Costs) -> None:
        each = (f"{name} {median(c.wall for c in found):.2f}" for name, found in costs.items())
        print(f"  seconds: {', '.join(each)}", flush=True)

    def _verdict(self, value: float, goal: float | None, text: str) -> str:
        if goal is None:
            return ""
        self.missed |= value > goal
        return f"{text}: {'missed' if value > goal else 'met'}"


def report(table: Table, folder: Path, results: dict[str, Result], times: int, rounds: int) -> None:
    """Measure one size and print its part of the table."""
    sites = make_sites(folder, results, times)
    pages, scripts = (len(list(sites["ours"].glob(f"{p}/*.md"))) for p in ("docs", "snippets"))
    costs = measure_builds(sites, rounds, more=min(rounds, 3))
    if times == 1:  # slow, and ten times as many take ten times as long
        costs["scripts"].append(run_scripts(sites["ours"]))
    table.head(f"{pages} pages, {scripts} scripts")
    table.ratio("warm", "floor", costs, goal=1.15)
    table.ratio("cold", "markdown-exec", costs, goal=1.0 if times == 1 else 1.3)
    if times == 1:
        table.ratio("cold", "scripts", costs)
    table.seconds(costs)
    edits = measure_edits(sites, rounds)
    table.edit("page", edits, goal=1.0)
    table.edit("script", edits)
    table.edit("module", edits)
    print(f"  seconds: floor {median(edits['floor']):.2f}", flush=True)


def main() -> int:
    """Measure, print, and say whether all goals are met."""
    arguments = argparse.ArgumentParser(description="Time the site's builds against each other.")
    arguments.add_argument("--quick", action="store_true", help="once, at this size alone")
    quick = arguments.parse_args().quick
    table = Table()
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        results = run_once(copy_site(folder / "once"))
        report(table, folder / "small", results, 1, 1 if quick else 5)
        if not quick:
            report(table, folder / "large", results, TIMES, 2)
    return 1 if table.missed else 0


if __name__ == "__main__":
    sys.exit(main())
