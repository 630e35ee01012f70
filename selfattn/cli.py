"""The command `selfattn`: takes the words apart and calls what does the work.

Whatever a sub-command needs is imported in its function, so that `selfattn --help` loads neither
torch nor the network libraries.
"""

import argparse
import sys

from selfattn.fresh import command
from selfattn.labs import command as labs
from selfattn.probes import command as probe_command


def main(argv: list[str] | None = None) -> int:
    """Run one sub-command.

    Args:
        argv: the words after `selfattn`; those of the command line if None.

    Returns:
        The exit status: 0 when all is well, 1 when something is wrong and stderr says what.

    Raises:
        SystemExit: argparse's own: status 2 for wrong use, 0 after `--help`.
    """
    words = sys.argv[1:] if argv is None else argv
    with probe_command.wrong_use(words):
        args = _parser().parse_args(words)
    status: int = args.run(args)
    return status


def _parser() -> argparse.ArgumentParser:
    """Build the parser; every sub-command sets `run`, a function from its arguments to a status."""
    parser = argparse.ArgumentParser(prog="selfattn", description="Tools of the lesson.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    data = commands.add_parser("data", help="download Banking77, or check the copy that is there")
    data.add_argument(
        "--check", action="store_true", help="verify the file that is there and download nothing"
    )
    data.set_defaults(run=_data)
    command.add_to(commands)
    probe_command.add_to(commands)
    labs.add_to(commands)
    return parser


def _data(args: argparse.Namespace) -> int:
    from selfattn.corpora import banking77

    file = banking77.path()
    try:
        if args.check:
            print(f"{file}: {len(banking77.verify(file)):,} rows, checksum ok")
        elif banking77.is_published(file):
            print(f"Banking77 is already at {file}, checksum ok; nothing was downloaded")
        else:
            print(f"Banking77 is now at {banking77.download(banking77.URL)}, checksum ok")
    except (OSError, ValueError) as error:
        print(f"selfattn data: {error}", file=sys.stderr)
        return 1
    return 0
