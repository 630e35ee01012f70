"""Read a snippet file: its title, its code cut into sections, its recorded output.

The form, which pymdownx.snippets, pytest-codeblocks and this package all read:

    # A title

    ```python
    # --8<-- [start:setup]
    x = 1
    # --8<-- [end:setup]
    # --8<-- [start:use]
    print(x)
    # --8<-- [end:use]
    ```

    <!--pytest-codeblocks:expected-output-->

    ```
    1
    ```

Every statement lies in a section; sections do not overlap and each name occurs once. A script that
was never recorded has no output yet. A comment between title and code sets what is particular to
the script: the seconds it may take, and what it needs that may not be there.

    <!-- fresh: timeout=600 needs=dataset -->
"""

import re
from dataclasses import dataclass
from pathlib import Path

from selfattn.fresh.fault import Fault

EXPECTED = "<!--pytest-codeblocks:expected-output-->"

TIMEOUT = 300.0
"""Seconds that a script may take, unless it says otherwise."""

_OPTIONS = re.compile(r"<!-- fresh:(.*)-->")
_MARKER = re.compile(r"# --8<-- \[(start|end):([\w-]+)\]")


class SnippetError(ValueError):
    """A snippet file does not have the form it must have; the text names file and line."""

    def __init__(self, path: Path, line: int, problem: str) -> None:
        self.fault = Fault(path, line, problem)
        super().__init__(str(self.fault))


@dataclass(frozen=True)
class Section:
    """One named part of a script.

    Attributes:
        name: as in its markers.
        first, last: line numbers in the snippet file, both inclusive, markers left out.
        code: those lines.
    """

    name: str
    first: int
    last: int
    code: str

    @property
    def hidden(self) -> bool:
        """Whether pages leave it out: it only checks what the others printed."""
        return self.name.endswith("-check")


@dataclass(frozen=True)
class Snippet:
    """One script.

    Attributes:
        path: its file.
        title: the text of its heading.
        code: the whole fence.
        first: the line of the file on which the code begins.
        sections: in order.
        recorded: the recorded output, or None when there is none yet.
        recorded_line: where it begins; without one, the last line of the file.
        timeout: seconds it may take.
        needs: names of what it cannot run without.
    """

    path: Path
    title: str
    code: str
    first: int
    sections: tuple[Section, ...]
    recorded: str | None
    recorded_line: int
    timeout: float = TIMEOUT
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def shown(self) -> list[Section]:
        """The sections that pages show."""
        return [section for section in self.sections if not section.hidden]

    def section(self, name: str) -> Section | None:
        return next((s for s in self.sections if s.name == name), None)


def parse(file: Path, root: Path | None = None) -> Snippet:
    """Read one snippet file.

    Args:
        file: its path.
        root: the folder that the snippet's own path shall be relative to.

    Raises:
        SnippetError: it has another form; names file and line, and what was expected there.
    """
    path = file.relative_to(root) if root else file
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise SnippetError(path, 1, f"expected UTF-8, {error}") from error
    except OSError as error:
        raise SnippetError(path, 1, f"cannot be read: {error.strerror}") from error
    title = _title(path, lines)
    code, output = _code_and_output(path, lines)
    timeout, needs = _options(path, lines[: code.first - 2])
    return Snippet(
        path=path,
        title=title,
        code=code.text,
        first=code.first,
        sections=_sections(path, code),
        recorded=output.text if output else None,
        recorded_line=output.first if output else len(lines),
        timeout=timeout,
        needs=needs,
    )


@dataclass(frozen=True)
class _Fence:
    info: str
    first: int  # line number of the first line inside
    lines: list[str]

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1

    @property
    def text(self) -> str:
        return "".join(line + "\n" for line in self.lines)


def _title(path: Path, lines: list[str]) -> str:
    if not lines or not lines[0].startswith("# "):
        raise SnippetError(path, 1, "expected a heading `# ...` that says what the script shows")
    return lines[0][2:].strip()


def _options(path: Path, lines: list[str]) -> tuple[float, tuple[str, ...]]:
    timeout, needs = TIMEOUT, list[str]()
    for number, line in enumerate(lines, start=1):
        comment = _OPTIONS.fullmatch(line.strip())
        for option in comment[1].split() if comment else ():
            name, _, value = option.partition("=")
            if name == "timeout" and re.fullmatch(r"\d+(\.\d+)?", value):
                timeout = float(value)
            elif name == "needs" and value:
                needs += value.split(",")
            else:
                raise SnippetError(
                    path, number, f"expected timeout=SECONDS or needs=NAME, found {option!r}"
                )
    return timeout, tuple(needs)


def _code_and_output(path: Path, lines: list[str]) -> "tuple[_Fence, _Fence | None]":
    blocks = _fences(path, lines)
    if [block.info for block in blocks] not in (["python"], ["python", ""]):
        found = ", ".join(f"{b.info or 'no language'} (line {b.first - 1})" for b in blocks)
        raise SnippetError(
            path, 1, f"expected one `python` fence and one output fence, found: {found or 'none'}"
        )
    code = blocks[0]
    if len(blocks) == 1:
        return code, None
    output = blocks[1]
    between = [line.strip() for line in lines[code.last + 1 : output.first - 2] if line.strip()]
    if between != [EXPECTED]:
        raise SnippetError(path, output.first - 1, f"expected `{EXPECTED}` before the output fence")
    return code, output


def _fences(path: Path, lines: list[str]) -> list[_Fence]:
    fences: list[_Fence] = []
    inside: _Fence | None = None
    for number, line in enumerate(lines, start=1):
        if inside is None:
            if line.lstrip().startswith(("```", "~~~")):
                if not line.startswith("```") or line.startswith("````"):
                    raise SnippetError(path, number, "a fence must be three backticks, unindented")
                inside = _Fence(line[3:].strip(), number + 1, [])
        elif line.rstrip() == "```":
            fences.append(inside)
            inside = None
        else:
            inside.lines.append(line)
    if inside is not None:
        raise SnippetError(path, inside.first - 1, "the fence that opens here is never closed")
    return fences


def _sections(path: Path, code: _Fence) -> tuple[Section, ...]:
    sections: list[Section] = []
    name, start = "", 0
    for number, line in enumerate(code.lines, start=code.first):
        marker = _MARKER.fullmatch(line.strip())
        if marker is None:
            if not name and line.strip():
                raise SnippetError(path, number, f"expected every statement in a section: {line!r}")
        elif marker[1] == "start":
            if name:
                raise SnippetError(path, number, f"section {marker[2]!r} opens inside {name!r}")
            if any(section.name == marker[2] for section in sections):
                raise SnippetError(path, number, f"section {marker[2]!r} is there twice")
            name, start = marker[2], number + 1
        elif marker[2] != name:
            raise SnippetError(path, number, f"expected the end of {name!r}, found {marker[2]!r}")
        else:
            text = "".join(s + "\n" for s in code.lines[start - code.first : number - code.first])
            sections.append(Section(name, start, number - 1, text))
            name = ""
    if name:
        raise SnippetError(path, start - 1, f"section {name!r} is never closed")
    if not sections:
        raise SnippetError(path, code.first, "expected at least one section")
    return tuple(sections)
