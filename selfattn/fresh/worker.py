"""Run one script in this process, section by section. Started by file path, never imported.

Standard library only: whatever this file imported would stay as it was when it was imported, and
an edit to it would not show. The request, a JSON file named on the command line, gives the path
of the snippet, its code, its sections and the folder for the results. Output goes straight to a
file, so that what child processes write and what was printed before a crash is kept.
"""

import ast
import json
import os
import sys
import traceback
from types import ModuleType
from typing import Any


def main(request_path: str) -> None:
    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    folder = request["folder"]
    figures = os.path.join(folder, "figures")
    os.environ["SELFATTN_FRESH_FIGURES"] = figures
    _redirect(1, os.path.join(folder, "stdout"))
    _redirect(2, os.path.join(folder, "stderr"))
    sys.stdout = open(1, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
    sys.argv = [request["path"]]
    with open(os.path.join(folder, "events"), "w", encoding="utf-8", buffering=1) as events:
        report = Report(events, figures)
        execute(request, report)


def _redirect(descriptor: int, path: str) -> None:
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(target, descriptor)
    os.close(target)


class Report:
    """Writes what happened, one JSON object a line, as it happens: a crash loses nothing."""

    def __init__(self, events: Any, figures: str) -> None:
        self._events = events
        self._figures = figures

    def reached(self, section: str, line: int) -> None:
        self._write(reached=section, line=line)

    def finished(self, section: str) -> None:
        sys.stdout.flush()
        figures = os.path.getsize(self._figures) if os.path.exists(self._figures) else 0
        self._write(finished=section, stdout=os.fstat(1).st_size, figures=figures)

    def failed(self, section: str, line: int, message: str, trace: str) -> None:
        sys.stdout.flush()
        self._write(failed=section, line=line, message=message, trace=trace)

    def _write(self, **event: object) -> None:
        self._events.write(json.dumps(event) + "\n")


def execute(request: dict[str, Any], report: Report) -> None:
    """Run the sections in order, statement by statement; stop at the first exception."""
    path = request["path"]
    module = ModuleType("__main__")
    module.__file__ = path
    sys.modules["__main__"] = module
    sections = request["sections"]
    try:
        # Newlines in front give every statement the line number it has in the snippet file.
        tree = ast.parse("\n" * (request["first"] - 1) + request["code"], path)
    except SyntaxError as error:
        line = error.lineno or request["first"]
        name = next((s["name"] for s in sections if s["first"] <= line <= s["last"]), "")
        report.failed(name, line, f"SyntaxError: {error.msg}", _trace(error))
        return
    for section in sections:
        for statement in tree.body:
            if not section["first"] <= statement.lineno <= section["last"]:
                continue
            report.reached(section["name"], statement.lineno)
            try:
                exec(compile(ast.Module([statement], []), path, "exec"), module.__dict__)
            except BaseException as error:  # sys.exit must not pass for success
                message = "".join(traceback.format_exception_only(error)).strip()
                report.failed(section["name"], statement.lineno, message, _trace(error))
                return
        report.finished(section["name"])


def _trace(error: BaseException) -> str:
    """The traceback without this file's own frame on top."""
    frames = error.__traceback__.tb_next if error.__traceback__ else None
    return "".join(traceback.format_exception(type(error), error, frames))


if __name__ == "__main__":
    main(sys.argv[1])
