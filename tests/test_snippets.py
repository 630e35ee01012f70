"""Every script has the right form, is collected, belongs to one page, and is shown whole."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from selfattn.fresh.page import fences
from selfattn.fresh.snippet import SnippetError, parse

ROOT = Path(__file__).parent.parent
SNIPPETS = sorted((ROOT / "snippets").glob("*.md"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
SHOWN = [(page.stem, fence) for page in PAGES for fence in fences(page.read_text("utf-8"))]


def test_pytest_codeblocks_collects_one_item_a_file() -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "snippets"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    collected = [line.split("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert sorted(collected) == [f"snippets/{path.name}" for path in SNIPPETS]


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: path.stem)
def test_form(path: Path) -> None:
    snippet = parse(path)
    first = snippet.sections[0].code.lstrip()
    assert first.startswith(("import ", "from ")), "opens with its imports"
    assert snippet.recorded.strip(), "has a recorded output"


@pytest.mark.parametrize("path", SNIPPETS, ids=lambda path: path.stem)
def test_belongs_to_one_page_and_is_shown_whole(path: Path) -> None:
    uses = [(page, fence) for page, fence in SHOWN if fence.script == path.stem]
    pages = {page for page, _ in uses}
    assert len(pages) == 1
    assert path.stem.startswith(pages.pop()), "pages and scripts pair by name"
    shown = [fence.section for _, fence in uses]
    assert shown == [s.name for s in parse(path).sections if not s.hidden]


def test_no_section_is_shown_twice() -> None:
    counts = Counter((fence.script, fence.section) for _, fence in SHOWN)
    assert [use for use, count in counts.items() if count > 1] == []


GOOD = """# Title

```python
# --8<-- [start:a]
print(1)
# --8<-- [end:a]

# --8<-- [start:a-check]
assert True
# --8<-- [end:a-check]
```

<!--pytest-codeblocks:expected-output-->

```
1
```
"""


def test_parts_of_a_good_snippet(tmp_path: Path) -> None:
    path = tmp_path / "good.md"
    path.write_text(GOOD)
    snippet = parse(path)
    assert (snippet.name, snippet.title, snippet.recorded) == ("good", "Title", "1\n")
    assert (snippet.first, snippet.recorded_line) == (4, 16)
    first, second = snippet.sections
    assert (first.name, first.first, first.last, first.code) == ("a", 5, 5, "print(1)\n")
    assert (first.hidden, second.hidden) == (False, True)


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("# Title", "Title", 1, "expected a heading"),
        ("```python", "```py", 1, "found: py (line 3), no language (line 15)"),
        ("```python", "```python title='x'", 1, "expected one `python` fence"),
        ("```python", "~~~python", 3, "three backticks"),
        ("```python", "  ```python", 3, "unindented"),
        ("1\n```\n", "1\n", 15, "never closed"),
        ("<!--pytest-codeblocks:expected-output-->", "", 15, "before the output fence"),
        ("[end:a]", "[end:b]", 6, "expected the end of 'a', found 'b'"),
        ("[end:a]\n\n", "x\n\n", 8, "section 'a-check' opens inside 'a'"),
        ("[start:a-check]", "[start:a]", 8, "section 'a' is there twice"),
        ("\n\n# --8<-- [start:a-c", "\nx = 1\n# --8<-- [start:a-c", 7, "in a section: 'x = 1'"),
        ("# --8<-- [end:a-check]\n", "", 8, "section 'a-check' is never closed"),
    ],
)
def test_bad_forms_name_file_and_line(
    tmp_path: Path, old: str, new: str, line: int, problem: str
) -> None:
    assert old in GOOD
    path = tmp_path / "bad.md"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SnippetError) as caught:
        parse(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert problem in str(caught.value)
