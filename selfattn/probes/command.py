"""The command `probe`: one layer of the user's, in a process that can be ended.

A layer that hangs inside compiled code answers no signal, so the probes run in a child process,
which is ended when it is long over its budget.
"""

import argparse
import json
import subprocess
import sys
import traceback
from typing import Any

GRACE = 20.0
"""Seconds for starting Python, importing torch and the layer, besides the budget."""

COULD_NOT = 2
"""The exit status when the probes could not run."""


def add_to(commands: Any) -> None:
    """Add the command to an argparse group of sub-commands."""
    parser = commands.add_parser("probe", help="probe an attention layer of your own")
    _add_arguments(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the probes in a child process and pass its status on."""
    if args.list:
        return _list()
    if not args.target:
        return _could_not("name a layer as package.module:factory, or give --list")
    words = [sys.executable, "-m", "selfattn.probes.command", *args.words]
    try:
        return subprocess.run(words, timeout=args.budget + GRACE).returncode
    except subprocess.TimeoutExpired:
        return _could_not(
            f"{args.target} did not come back within {args.budget:g} s and was ended; "
            "it hangs where Python cannot interrupt it"
        )


def main() -> int:
    """Run the probes in this process."""
    parser = argparse.ArgumentParser(prog="selfattn probe")
    _add_arguments(parser)
    args = parser.parse_args()
    from selfattn.probes.report import ClaimError, ProbeError
    from selfattn.probes.run import probe

    try:
        layer = _made(args.target, args.width)
        report = probe(layer, only=args.only.split(",") if args.only else None, **_claims(args))
    except (ClaimError, ProbeError) as error:
        return _could_not(str(error))
    print(report.to_json() if args.json else report)
    return 0 if report.ok else 1


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", help="package.module:factory, or a layer's own name")
    parser.add_argument("--width", type=int, default=24, help="the input's last dimension (24)")
    parser.add_argument("--causal", action="store_true", help="no output depends on later tokens")
    parser.add_argument(
        "--positions", nargs="?", const="true", choices=["true", "absolute"], help="order matters"
    )
    parser.add_argument("--heads", type=int, help="the number of heads")
    parser.add_argument("--window", type=int, help="how many keys back a query sees")
    parser.add_argument("--no-mask", action="store_true", help="it takes no padding mask")
    parser.add_argument("--right-pads", action="store_true", help="pads are on the right only")
    parser.add_argument("--packed", action="store_true", help="it keeps packed documents apart")
    parser.add_argument("--cache", action="store_true", help="it decodes with a cache")
    parser.add_argument("--sinks", action="store_true", help="weights need not sum to 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", type=float, default=30.0, help="seconds for all probes (30)")
    parser.add_argument("--only", help="probes to run, with commas between them")
    parser.add_argument("--list", action="store_true", help="list the probes and run none")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.set_defaults(words=_Words())


class _Words(list[str]):
    """The words after `probe`, as they were given."""

    def __init__(self) -> None:
        super().__init__()


def _claims(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "width": args.width,
        "causal": args.causal,
        "positions": {"true": True, None: False}.get(args.positions, args.positions),
        "heads": args.heads,
        "window": args.window,
        "mask": False if args.no_mask else "right" if args.right_pads else True,
        "packed": args.packed,
        "cache": args.cache,
        "sums_to_one": not args.sinks,
        "seed": args.seed,
        "budget": args.budget,
    }


def _could_not(text: str) -> int:
    print(f"selfattn probe: {text}", file=sys.stderr)
    return COULD_NOT
