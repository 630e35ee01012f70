"""Run a lab's solution, right and with each of its known mistakes, in one process.

    python -m selfattn.labs.answers LAB

prints one JSON object: what each prints. The numbers are those of this machine and corpus, so a
learner's file is compared with nothing that was recorded elsewhere.
"""

import contextlib
import io
import json
import sys

from selfattn.labs.catalog import LABS, Lab, Mistake

RIGHT = ""
"""The name of the answer without any mistake."""


def answers(lab: Lab) -> dict[str, str]:
    """Run the solution once for each of its mistakes, and once without any.

    Returns:
        What was printed, by the mistake's name; `RIGHT` is the right one's.
    """
    code = "\n".join(section.code for section in lab.solution().shown)
    printed = {mistake.name: _printed(changed(code, mistake)) for mistake in lab.mistakes}
    return {RIGHT: _printed(code), **printed}


def changed(code: str, mistake: Mistake) -> str:
    """Make a mistake in the solution's code.

    Raises:
        ValueError: something that it replaces is not there; the solution has changed.
    """
    for old, new in mistake.changes:
        if old not in code:
            raise ValueError(f"{mistake.name!r} replaces {old!r}, which the solution does not hold")
        code = code.replace(old, new)
    return code


def _printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "<solution>", "exec"), {"__name__": "__main__"})
    return out.getvalue()


if __name__ == "__main__":
    print(json.dumps(answers(LABS[sys.argv[1]])))
