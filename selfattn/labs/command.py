"""The commands `selfattn lab list`, `start`, `check` and `solution`."""

import argparse
import json
import math
import re
import shlex
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from selfattn.fresh.command import WrongUse, reporting
from selfattn.labs import check, running, starter
from selfattn.labs.answers import RIGHT
from selfattn.labs.catalog import LABS, Lab

SECONDS = 60.0
"""What a learner's file may take."""

PROGRAM = "selfattn lab check"

LAST_LINES = 8
"""Lines of a traceback that are shown."""

UNSEEDED = (
    "Your numbers change from one run to the next. Seed before the first layer is made, and make "
    "the layers in the order of the task."
)


def add_to(commands: Any) -> None:
    """Add `lab` to an argparse group of sub-commands."""
    lab = commands.add_parser("lab", help="write the labs' exercises and have them checked")
    actions = lab.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="name the labs")
    listing.set_defaults(run=reporting(list_labs))
    start = actions.add_parser("start", help="write a lab's starter file")
    start.add_argument("name", choices=LABS, help="the lab")
    start.add_argument("folder", nargs="?", type=Path, default=Path(), help="where; here if none")
    start.set_defaults(run=reporting(start_lab))
    checking = actions.add_parser("check", help="run your file and compare what it prints")
    checking.add_argument("file", type=Path, help="your file")
    checking.add_argument("--lab", choices=LABS, help="the lab, if the file's name does not say it")
    checking.add_argument(
        "--timeout", type=_seconds, default=SECONDS, metavar="SECONDS", help="default: %(default)g"
    )
    checking.set_defaults(run=reporting(check_file))
    solution = actions.add_parser("solution", help="print a lab's solution")
    solution.add_argument("name", choices=LABS, help="the lab")
    solution.set_defaults(run=reporting(print_solution))


def list_labs(args: argparse.Namespace) -> int:
    """Name the labs, and how to begin one."""
    for lab in LABS.values():
        print(f"{lab.name:7} {lab.title}")
    print("\nBegin one with: selfattn lab start NAME")
    return 0


def start_lab(args: argparse.Namespace) -> int:
    """Write a starter file where none is."""
    lab = LABS[args.name]
    file = args.folder / f"{lab.name}.py"
    if file.exists():
        raise WrongUse(f"{file} exists already and stays as it is; name another folder, or move it")
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(starter.starter(lab))
    except OSError as error:
        raise WrongUse(f"cannot write {file}: {error.strerror}") from error
    print(f"Wrote {file}. When it prints something: {PROGRAM} {shlex.quote(str(file))}")
    return 0


def print_solution(args: argparse.Namespace) -> int:
    """Print a lab's solution as a plain script."""
    print(starter.solved(LABS[args.name]), end="")
    return 0


def check_file(args: argparse.Namespace) -> int:
    """Run a learner's file, compare what it printed, and say what holds."""
    file: Path = args.file
    if not file.is_file():
        raise WrongUse(f"no file {file}; `selfattn lab start NAME` writes one to begin with")
    lab = LABS[args.lab] if args.lab else _lab_of(file)
    stop = threading.Event()
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(_answers, lab, stop)
        theirs = pool.submit(_run_file, file, args.timeout, stop)
        try:
            answers, ended = ours.result(), theirs.result()
        except KeyboardInterrupt:
            stop.set()  # else both go on
            print("\nInterrupted.", file=sys.stderr)
            return 130
    found = check.compare(ended.printed, answers[RIGHT])
    if all(item.verdict == "holds" for item in found):
        print(_table(lab, file, found))
        print("\n" + _wrapped(f"Well done. {lab.explanation}") + f"\n\n{lab.follows}")
        return 0
    print("\n\n".join(filter(None, [*_ending(ended, file), _table(lab, file, found)])))
    mistake = check.recognise(lab, ended.printed, answers)
    if mistake:
        print("\n" + _wrapped(f"It looks like this: {mistake.name}. {mistake.meaning}"))
    elif not ended.problem and _changes(file, args.timeout, ended.printed, found):
        print("\n" + _wrapped(f"It looks like this: no seed. {UNSEEDED}"))
    return 1


def _run_file(file: Path, seconds: float, stop: threading.Event) -> running.Ended:
    """Run a script where it lies, or the code of a notebook's cells."""
    folder = file.absolute().parent
    if file.suffix != ".ipynb":
        return running.run([str(file.absolute())], folder, seconds, stop)
    try:
        cells = json.loads(file.read_text("utf-8"))["cells"]
        code = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise WrongUse(f"{file} is no notebook: {error!r}") from error
    with tempfile.TemporaryDirectory() as elsewhere:
        script = Path(elsewhere, file.with_suffix(".py").name)
        script.write_text("\n".join(code), "utf-8")
        return running.run([str(script)], folder, seconds, stop)


def _changes(file: Path, seconds: float, printed: str, found: list[check.Item]) -> bool:
    """Whether an item that differs prints another value when the file runs once more."""
    again = check.items(_run_file(file, seconds, threading.Event()).printed)
    before = check.items(printed)
    labels = [item.label.lower() for item in found if item.verdict == "differs"]
    return any(again.get(label) != before.get(label) for label in labels)


def _lab_of(file: Path) -> Lab:
    for name, lab in LABS.items():
        if file.stem.lower() == name:
            return lab
    try:
        header = re.search(r"selfattn lab check (\w+)\.py", file.read_text("utf-8", "replace"))
    except OSError as error:
        raise WrongUse(f"cannot read {file}: {error.strerror}") from error
    if header and header[1] in LABS:
        return LABS[header[1]]
    known = ", ".join(LABS)
    raise WrongUse(f"which lab is {file}? Name it: --lab, with one of {known}")


def _answers(lab: Lab, stop: threading.Event) -> dict[str, str]:
    # -P: a module of the learner's, such as a random.py, must not stand in for another.
    words = ["-P", "-m", "selfattn.labs.answers", lab.name]
    ended = running.run(words, Path.cwd(), 10 * SECONDS, stop)
    if ended.problem:
        raise WrongUse(f"the solution itself does not run here: {ended.problem}\n{ended.errors}")
    answers: dict[str, str] = json.loads(ended.printed)
    return answers


def _table(lab: Lab, file: Path, found: list[check.Item]) -> str:
    holding = sum(item.verdict == "holds" for item in found)
    lines = [f"{file}, lab {lab.name}: {holding} of {len(found)} items hold", ""]
    for item in found:
        lines.append(f"  {item.verdict:8} {item.label}{': ' if item.reason else ''}{item.reason}")
    return "\n".join(lines)


def _ending(ended: running.Ended, file: Path) -> Iterator[str]:
    """Tell of a file that failed, warned or printed nothing."""
    last = [f"    {line}" for line in ended.errors.splitlines()[-LAST_LINES:]]
    if ended.problem:
        yield "\n".join([f"Your file did not come to its end: {ended.problem}.", *last])
    elif last:
        yield "\n".join(["It wrote to stderr:", *last])
    elif not ended.printed.strip():
        yield "Your file printed nothing. If the steps are in a function, call it at the end."
    if "EOFError" in ended.errors:
        yield "A check has no keyboard: a file that asks with input() cannot be checked."
    for module in sorted(file.absolute().parent.glob("*.py")):
        if ended.problem and module.stem in {*sys.stdlib_module_names, "torch", "selfattn"}:
            yield f"{module.name} beside it hides the module of that name; give it another one."


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 88)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise ValueError(text)
    return seconds
