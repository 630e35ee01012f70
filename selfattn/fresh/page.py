"""Find the fences of a page, and say which of them are meant to be executed and how.

An executed fence names one section of one script, and the script as its session:

    ```python exec="on" source="above" result="text" session="average"
    --8<-- "average.md:scores"
    ```
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

LANGUAGE = "python"
"""The language of executed fences."""

_OPEN = re.compile(r"(?P<indent>[ \t]*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)")
_OPTION = re.compile(r"""([\w-]+)=(?:"([^"]*)"|'([^']*)'|(\S+))""")
_INCLUDE = re.compile(r"""--8<-- "(?P<script>[\w-]+)\.md:(?P<section>[\w-]+)"$""")

# The options of markdown-exec that make sense here, with the values each may have.
_VALUES: dict[str, Callable[[str], bool]] = {
    "exec": lambda value: value == "on",
    "session": lambda value: bool(value),
    "source": lambda value: value in ("above", "below", "tabbed-left", "tabbed-right"),
    "result": lambda value: bool(re.fullmatch(r"\w+", value)),
    "tabs": lambda value: value.count("|") == 1,
    "title": lambda value: bool(value),
    "linenums": lambda value: value.isdecimal(),
    "hl_lines": lambda value: bool(re.fullmatch(r"[\d -]+", value)),
}


@dataclass(frozen=True)
class Fence:
    """One fence of a page.

    Attributes:
        first, last: indices of its opening and closing lines.
        indent: the white space before it.
        ticks: the backticks or tildes that open it.
        info: what follows them.
        body: what stands inside, stripped.
    """

    first: int
    last: int
    indent: str
    ticks: str
    info: str
    body: str

    @property
    def language(self) -> str:
        return re.split(r"[\s{]", self.info.strip(), maxsplit=1)[0]

    @property
    def options(self) -> dict[str, str]:
        found = _OPTION.findall(self.info)
        return {name: double or single or bare for name, double, single, bare in found}

    @property
    def executed(self) -> bool:
        """Whether markdown-exec runs it."""
        return self.language == LANGUAGE and self.options.get("exec") == "on"

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

    def problem(self) -> str:
        """Say what keeps it from being executed as it was meant; empty when nothing does."""
        if not self.executed:
            return self._unexecuted()
        for name, value in self.options.items():
            if name not in _VALUES:
                hint = get_close_matches(name, _VALUES, 1)
                return f"unknown option {name!r}" + (f"; did you mean {hint[0]!r}?" if hint else "")
            if not _VALUES[name](value):
                return f"option {name}={value!r} is none that the fence can have"
        if not self.script:
            return f'expected `--8<-- "script.md:section"` alone in the fence, got {self.body!r}'
        if self.options.get("session") != self.script:
            return f'expected session="{self.script}" in the fence\'s options, got {self.info!r}'
        return ""

    def _unexecuted(self) -> str:
        if not self._meant():
            return ""
        return (
            f'this fence is not executed: it must begin ```{LANGUAGE} exec="on", '
            f"got {self.ticks}{self.info}. An example of a fence belongs into a longer one"
        )

    def _meant(self) -> bool:
        """Whether somebody may have wanted it to be executed."""
        python = self.language.lower() in ("python", "python3", "py", "pycon", "py3", "ipython")
        close = any(
            get_close_matches(name, ("exec", "session", "source"), 1) for name in self.options
        )
        example = len(self.ticks) > 3 and not self.options
        return python or close or ("--8<--" in self.body and not example)


def blocks(markdown: str) -> Iterator[Fence]:
    """Yield all fences of a page in order; those shown inside other fences are left."""
    lines = markdown.split("\n")
    index = 0
    while index < len(lines):
        opened = _OPEN.fullmatch(lines[index])
        if opened is None or (opened["ticks"][0] == "`" and "`" in opened["info"]):
            index += 1
            continue
        last = _closing(lines, index, opened["ticks"])
        body = "\n".join(lines[index + 1 : last]).strip()
        yield Fence(index, last, opened["indent"], opened["ticks"], opened["info"], body)
        index = last + 1


def fences(markdown: str) -> Iterator[Fence]:
    """Yield the executed fences of a page in order."""
    return (fence for fence in blocks(markdown) if fence.executed)


def in_comments(markdown: str) -> set[int]:
    """Give the indices of the lines on which an HTML comment is open."""
    hidden: set[int] = set()
    for comment in re.finditer(r"<!--.*?(?:-->|\Z)", markdown, flags=re.DOTALL):
        first = markdown.count("\n", 0, comment.start())
        hidden |= set(range(first, first + comment[0].count("\n") + 1))
    return hidden


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
        opening = f'{fence.indent}{fence.ticks}{fence.info} section="{fence.section}"'
        lines[fence.first : fence.last] = [opening, *inside]
    return "\n".join(lines)


def _closing(lines: list[str], first: int, ticks: str) -> int:
    for index in range(first + 1, len(lines)):
        line = lines[index].strip()
        if line.startswith(ticks) and not line.strip(ticks[0]):
            return index
    return len(lines) - 1
