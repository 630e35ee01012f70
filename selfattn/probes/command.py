"""The command `selfattn probe`: one layer of the user's, in a process that can be ended.

A layer that hangs inside compiled code answers no signal, so the probes run in a child process,
which is ended when it is long over its budget even for a busy machine.
"""

import argparse
import contextlib
import io
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from selfattn.probes.budget import PATIENCE

GRACE = 30.0
"""Seconds for starting Python and importing torch and the layer, besides the budget."""

COULD_NOT = 2
"""The exit status when the probes could not run."""

INTERRUPTED = 130
"""The exit status after Ctrl-C, as a shell gives it."""

INTERRUPT = "interrupted (KeyboardInterrupt) before the report was made"


def add_to(commands: Any) -> None:
    """Add the command to an argparse group of sub-commands."""
    parser = commands.add_parser(
        "probe",
        help="probe an attention layer of your own",
        description="Exit status: 0 no fault, 1 faults, 2 could not run, 130 interrupted.",
    )
    add = parser.add_argument
    add(
        "target",
        nargs="?",
        help="package.module:factory; a class, a function () or (width), or a layer itself",
    )
    add("--width", type=int, default=24, help="the input's last dimension (24)")
    add("--causal", action="store_true", help="no output depends on a later token")
    add(
        "--positions",
        nargs="?",
        const=True,
        default=False,
        action=_Positions,
        metavar="absolute",
        help="order matters; absolute: and positions count pads",
    )
    add("--heads", type=int, help="the number of heads")
    add("--window", type=int, help="how many keys back a query sees, its own counted")
    add("--by-place", dest="full", action="store_false", help="others are hidden by place too")
    add("--seq", type=int, help="the only length that it takes")
    add(
        "--no-mask",
        dest="mask",
        action="store_const",
        const=False,
        default=True,
        help="it takes no padding mask",
    )
    add(
        "--right-pads",
        dest="mask",
        action="store_const",
        const="right",
        help="pads are on the right only",
    )
    add("--packed", action="store_true", help="it keeps packed documents apart")
    add("--cache", action="store_true", help="it decodes with a cache")
    add("--sinks", dest="sums_to_one", action="store_false", help="weights need not sum to 1")
    add("--dtype", help="of the input, such as bfloat16; that of the parameters if not given")
    add("--seed", type=int, default=0, help="of everything that is drawn (0)")
    add("--budget", type=_seconds, default=30.0, help="seconds for all probes together (30)")
    add("--only", help="the probes to run, with commas between them")
    add("--list", action="store_true", help="list the probes, and run none")
    add("--json", action="store_true", help="the report, the list or the error as one JSON object")
    parser.set_defaults(run=run)


class _Positions(argparse.Action):
    """`--positions` or `--positions absolute`; any other word after it is the target."""

    def __call__(self, parser: Any, names: Any, value: Any, option: Any = None) -> None:
        names.positions = value if value == "absolute" else True
        if value not in (True, "absolute"):
            names.after_positions = value


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0; got {text}")
    return seconds


def run(args: argparse.Namespace) -> int:
    """Run the probes in a child process and hand on what it says, and its status."""
    given = {name: value for name, value in vars(args).items() if name != "run"}
    after = given.pop("after_positions", None)
    if after and args.target:
        text = f"--positions takes the word absolute, or none; got {after!r}"
        return could_not(text, as_json=args.json)
    args.target = given["target"] = args.target or after
    if not args.target and not args.list:
        text = "name a layer as package.module:factory, or give --list"
        return could_not(text, as_json=args.json)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "selfattn.probes.child", json.dumps(given)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE * args.budget + GRACE,
        )
    except subprocess.TimeoutExpired:
        text = (
            f"{args.target} did not come back within {args.budget:g} s, nor long after, and "
            "was ended: it hangs where Python cannot interrupt it, or takes too long to import"
        )
        return could_not(text, as_json=args.json)
    except KeyboardInterrupt:
        return could_not(INTERRUPT, as_json=args.json, status=INTERRUPTED)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    reports = done.returncode in (0, 1) or args.json
    told = done.stdout if reports else "selfattn probe: " in done.stderr
    if done.returncode not in (0, 1, COULD_NOT, INTERRUPTED) or not told:
        text = f"{args.target} ended its process with status {done.returncode}"
        return could_not(text, as_json=args.json)
    return done.returncode


def could_not(
    text: str, *, as_json: bool, out: TextIO | None = None, status: int = COULD_NOT
) -> int:
    """Say why the probes could not run, on stderr, and as one JSON object on `out`, or stdout.

    Returns:
        The status.
    """
    print(f"selfattn probe: {text}", file=sys.stderr)
    if as_json:
        error, _, trace = text.partition("\n\n")
        print(json.dumps({"error": error, "traceback": trace}, indent=2), file=out)
    return status


@contextlib.contextmanager
def wrong_use(words: Sequence[str]) -> Iterator[None]:
    """While argparse takes `words` apart: if it refuses them, say so in JSON too where asked."""
    if words[:1] != ["probe"] or "--json" not in words:
        yield
        return
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            yield
    except SystemExit as ended:
        print(said.getvalue(), end="", file=sys.stderr)
        if ended.code == COULD_NOT:
            last = said.getvalue().strip().split("\n")[-1]
            print(json.dumps({"error": last.partition("error: ")[2], "traceback": ""}, indent=2))
        raise
