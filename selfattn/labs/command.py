"""The commands `selfattn lab list`, `start`, `check` and `solution`."""

import argparse
import json
import re
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from selfattn.labs import check, running, starter
from selfattn.labs.answers import RIGHT
from selfattn.labs.catalog import LABS, Lab

SECONDS = 60.0
"""What a learner's file may take."""

LAST_LINES = 8
"""Lines of a traceback that are shown."""

UNSEEDED = (
    "Your numbers change from one run to the next. Seed before the first layer is made, and make "
    "the layers in the order of the task."
)


class WrongUse(Exception):
    """The command cannot do what it was asked for."""


def add_to(commands: Any) -> None:
    """Add `lab` to an argparse group of sub-commands."""
    lab = commands.add_parser("lab", help="write the labs' exercises and have them checked")
    actions = lab.add_subparsers(title="actions", metavar="ACTION", required=True)
    listing = actions.add_parser("list", help="name the labs")
    listing.set_defaults(run=_run(list_labs))
    start = actions.add_parser("start", help="write a lab's starter file")
    start.add_argument("name", choices=LABS, help="the lab")
    start.add_argument("folder", nargs="?", type=Path, default=Path(), help="where; here if none")
    start.set_defaults(run=_run(start_lab))
    checking = actions.add_parser("check", help="run your file and compare what it prints")
    checking.add_argument("file", type=Path, help="your file")
    checking.add_argument("--lab", choices=LABS, help="the lab, if the file's name does not say it")
    checking.add_argument(
        "--timeout", type=float, default=SECONDS, metavar="SECONDS", help="default: %(default)g"
    )
    checking.set_defaults(run=_run(check_file))
    solution = actions.add_parser("solution", help="print a lab's solution")
    solution.add_argument("name", choices=LABS, help="the lab")
    solution.set_defaults(run=_run(print_solution))


def _run(command: Any) -> Any:
    def run(args: argparse.Namespace) -> int:
        try:
            status: int = command(args)
            return status
        except WrongUse as error:
            print(f"selfattn lab: {error}", file=sys.stderr)
            return 2

    return run


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
    try:
        args.folder.mkdir(parents=True, exist_ok=True)
        with open(file, "x", encoding="utf-8") as opened:
            opened.write(starter.starter(lab))
    except FileExistsError as error:
        raise WrongUse(
            f"{file} exists already and stays as it is; name another folder, or move it"
        ) from error
    except OSError as error:
        raise WrongUse(f"cannot write {file}: {error.strerror}") from error
    print(f"Wrote {file}. When it prints something: selfattn lab check {file}")
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
    with ThreadPoolExecutor() as pool:
        ours = pool.submit(_answers, lab)
        theirs = pool.submit(running.run, [file.name], file.resolve().parent, args.timeout)
    answers, ended = ours.result(), theirs.result()
    found = check.compare(ended.printed, answers[RIGHT])
    passed = all(item.verdict == "holds" for item in found)
    print(_table(lab, file, found))
    if ended.problem or (ended.errors and not passed):
        print(_ending(ended))
    if passed:
        print("\n" + _wrapped(f"Well done. {lab.explanation}") + f"\n\n{lab.follows}")
        return 0
    mistake = check.recognise(lab, ended.printed, answers)
    if mistake:
        print("\n" + _wrapped(f"It looks like this: {mistake.name}. {mistake.meaning}"))
    elif not ended.problem and _changes(file, args.timeout, ended.printed):
        print("\n" + _wrapped(f"It looks like this: no seed. {UNSEEDED}"))
    return 1


def _changes(file: Path, seconds: float, printed: str) -> bool:
    """Whether a file prints other values when it runs once more."""
    again = running.run([file.name], file.resolve().parent, seconds).printed
    return any(item.verdict == "differs" for item in check.compare(again, printed))


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


def _answers(lab: Lab) -> dict[str, str]:
    words = ["-m", "selfattn.labs.answers", lab.name]
    ended = running.run(words, Path.cwd(), 10 * SECONDS)
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


def _ending(ended: running.Ended) -> str:
    last = ended.errors.splitlines()[-LAST_LINES:]
    how = f"Your file did not come to its end: {ended.problem}." if ended.problem else "It warned:"
    hint = ""
    if "EOFError" in ended.errors:
        hint = "A check has no keyboard: a file that asks with input() cannot be checked."
    return "\n".join(["", how, *(f"    {line}" for line in last), *filter(None, [hint])])


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 88)
