"""The scripts as plain files: they compile, run, print what is recorded, and are linked to."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from selfattn.fresh.snippet import parse
from selfattn.scripts import plain

ROOT = Path(__file__).parent.parent
SNIPPETS = {path.stem: parse(path) for path in sorted((ROOT / "snippets").glob("*.md"))}
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))


@pytest.mark.parametrize("name", SNIPPETS)
def test_a_script_is_published_compiles_and_holds_all_its_code(built_site, name):
    text = (built_site / "scripts" / f"{name}.py").read_text(encoding="utf-8")
    compile(text, name, "exec")
    assert "--8<--" not in text
    assert text.startswith("# ")
    written = [line for line in SNIPPETS[name].code.splitlines() if "# --8<--" not in line]
    assert [line for line in written if line] == [
        line for line in text.partition("\n\n")[2].splitlines() if line
    ]


@pytest.mark.parametrize("name", ["average", "prerequisites"])
def test_a_script_alone_prints_what_is_recorded(tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text(plain(SNIPPETS[name]), encoding="utf-8")
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True)
    assert run.stdout == SNIPPETS[name].recorded


def test_all_are_listed_with_title_and_page(built_site):
    html = (built_site / "scripts.html").read_text(encoding="utf-8").split("<article")[1]
    rows = re.findall(
        r'<tr><td><a href="scripts/([\w-]+)\.py">.*?</td><td>(.*?)</td>'
        r'<td><a href="([\w-]+)\.html">',
        html,
    )
    assert [name for name, _, _ in rows] == sorted(SNIPPETS)
    for name, title, page in rows:
        assert title
        assert f'session="{name}"' in (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_ends_with_links_to_its_scripts(built_site, name):
    source = (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")
    source = re.sub(r"^````.*?^````$", "", source, flags=re.DOTALL | re.MULTILINE)  # examples
    executed = r'^ *```python exec="on".* session="([\w-]+)"'
    shown = set(re.findall(executed, source, flags=re.MULTILINE))
    html = (built_site / f"{name}.html").read_text(encoding="utf-8")
    end = html.partition("Scripts of this page:")[2].partition("</p>")[0]
    assert set(re.findall(r'href="scripts/([\w-]+)\.py"', end)) == shown
