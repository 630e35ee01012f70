"""What is wrong with a page or a script, and how it is said."""

from dataclasses import dataclass
from pathlib import Path

UPDATE = "selfattn update"
"""The command that records outputs, and lets the numbers of the prose follow."""


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong.

    Attributes:
        path, line: the file and the line to look at; relative to the site's folder.
        message: what is wrong and what to do, in a sentence or two.
        section: the section of the script, if it is one.
        page: the page that shows the script, if it is one.
        detail: a traceback, a diff or the last lines printed.
    """

    path: Path
    line: int
    message: str
    section: str = ""
    page: str = ""
    detail: str = ""

    def __str__(self) -> str:
        section = f" section '{self.section}':" if self.section else ""
        page = f" (shown by {self.page})" if self.page else ""
        return f"{self.path}:{self.line}:{section} {self.message}{page}\n{self.detail}".rstrip()


class Stale(Exception):
    """Raised where faults must stop what is going on; its text lists all of them."""

    def __init__(self, faults: list[Fault]) -> None:
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n\n".join([f"{count} in pages and scripts", *map(str, faults)]))
        self.faults = faults
