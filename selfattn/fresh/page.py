"""Find the executed fences of a page and put the sections they name into them.

An executed fence names one section of one script, and the script as its session:

    ```python exec="on" source="above" result="text" session="average"
    --8<-- "average.md:scores"
    ```
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_OPEN = re.compile(r"(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)")
_EXECUTED = re.compile(r"""\bexec=["']?(?:on|yes|true|1)\b""")
_INCLUDE = re.compile(r"""--8<-- "(?P<script>[\w-]+)\.md:(?P<section>[\w-]+)"$""")


@dataclass(frozen=True)
class Fence:
    """One executed fence of a page.

    Attributes:
        first, last: indices of its opening and closing lines.
        indent: the white space before it.
        info: its opening line after the indent.
        body: what stands inside, stripped.
    """

    first: int
    last: int
    indent: str
    info: str
    body: str

    @property
    def script(self) -> str:
        """The name of the script it includes; empty when it includes none."""
        include = _INCLUDE.match(self.body)
        return include["script"] if include else ""

    @property
    def section(self) -> str:
        """The name of the section it includes; empty when it includes none."""
        include = _INCLUDE.match(self.body)
        return include["section"] if include else ""


def fences(markdown: str) -> Iterator[Fence]:
    """Yield the executed fences of a page in order; fences shown inside other fences are left."""
    lines = markdown.split("\n")
    index = 0
    while index < len(lines):
        opened = _OPEN.fullmatch(lines[index])
        if opened is None:
            index += 1
            continue
        last = _closing(lines, index, opened["ticks"])
        if _EXECUTED.search(opened["info"]):
            body = "\n".join(lines[index + 1 : last]).strip()
            info = opened["ticks"] + opened["info"]
            yield Fence(index, last, opened["indent"], info, body)
        index = last + 1


def _closing(lines: list[str], first: int, ticks: str) -> int:
    for index in range(first + 1, len(lines)):
        line = lines[index].strip()
        if line.startswith(ticks) and not line.strip(ticks[0]):
            return index
    return len(lines) - 1


def fill(markdown: str, code: Callable[[Fence], str]) -> str:
    """Replace the inside of every executed fence by code, and name its section in its options.

    Args:
        markdown: the page.
        code: gives the code for a fence.
    """
    lines = markdown.split("\n")
    # From the bottom up, so that the indices of the fences above stay true.
    for fence in reversed(list(fences(markdown))):
        inside = [fence.indent + line if line else line for line in code(fence).splitlines()]
        opening = f'{fence.indent}{fence.info} section="{fence.section}"'
        lines[fence.first : fence.last] = [opening, *inside]
    return "\n".join(lines)
