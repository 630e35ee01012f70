"""A small good site, in a theme of MkDocs' own and without torch, for tests to spoil."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

CONFIG = """
site_name: Small
site_url: ""
theme: mkdocs
nav: [index.md, more.md]
plugins:
  - markdown-exec
  - fresh:
      preload: []
markdown_extensions: [pymdownx.superfences]
validation:
  nav: {omitted_files: warn}
  links: {not_found: warn, anchors: warn}
"""


def script(code: str, recorded: str | None, *, check: str = "", options: str = "") -> str:
    """Write a snippet file with one section `count`, whose code begins on line 5.

    Args:
        code: of the section.
        recorded: the output, or None for a script that has none yet.
        check: code of a section `count-check`, on the second line after the first one's end.
        options: of the script, such as `timeout=1`; they move the code to line 7.
    """
    hidden = f"# --8<-- [start:count-check]\n{check}\n# --8<-- [end:count-check]\n" if check else ""
    comment = f"<!-- fresh: {options} -->\n\n" if options else ""
    text = (
        f"# A count\n\n{comment}```python\n"
        f"# --8<-- [start:count]\n{code}\n# --8<-- [end:count]\n{hidden}```\n"
    )
    if recorded is None:
        return text
    return f"{text}\n<!--pytest-codeblocks:expected-output-->\n\n```\n{recorded}```\n"


def page(title: str, *names: str) -> str:
    """Write a page that shows the section `count` of scripts; the first fence is on line 3."""
    fences = (
        f'\n```python exec="on" source="above" result="text" session="{name}"\n'
        f'--8<-- "{name}.md:count"\n```\n'
        for name in names
    )
    return f"# {title}\n{''.join(fences)}"


FILES = {
    "mkdocs.yml": CONFIG,
    "docs/index.md": page("Small", "small"),
    "docs/more.md": page("More", "other"),
    "snippets/small.md": script(
        "total = sum(range(5))\nprint(total)", "10\n", check="assert total == 10"
    ),
    "snippets/other.md": script("print('a word')", "a word\n"),
}


def make(folder: Path) -> Path:
    """Write the site into an empty folder."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def environment(site: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the environment of a build: the site's own modules are found."""
    return {**os.environ, "PYTHONPATH": str(site), **(more or {})}


def build(
    site: Path, *options: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Build the site in a process of its own; `env` adds to the environment."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options],
        cwd=site,
        env=environment(site, env),
        capture_output=True,
        text=True,
    )


def spoil(path: Path, old: str, new: str) -> None:
    """Replace the first occurrence of a text that must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
