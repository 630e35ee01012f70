"""The labs' notebooks: as downloads, as pages, and executed."""

import re
from pathlib import Path

import nbclient
import nbformat
import pytest

from selfattn.fresh import compare
from selfattn.fresh.snippet import parse
from selfattn.labs.catalog import LABS

SNIPPETS = Path(__file__).parent.parent / "snippets"


@pytest.fixture(scope="module", params=LABS.values(), ids=LABS)
def lab(request):
    return request.param


def read(site, name):
    notebook = nbformat.read(site / "labs" / name, as_version=4)
    nbformat.validate(notebook)
    return notebook


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def outputs(notebook):
    return "".join(output.text for cell in code_cells(notebook) for output in cell.outputs)


def test_a_solved_notebook_holds_what_the_page_shows(built_site, lab):
    notebook = read(built_site, f"{lab.name}-solved.ipynb")
    snippet = parse(SNIPPETS / f"{lab.script}.md")
    assert compare.same(snippet.recorded, outputs(notebook))
    for cell, section in zip(code_cells(notebook), snippet.shown, strict=True):
        assert section.code.endswith(cell.source + "\n")


def test_an_empty_notebook_asks_and_answers_nothing(built_site, lab):
    notebook = read(built_site, f"{lab.name}.ipynb")
    given, *rest = code_cells(notebook)
    assert "import torch" in given.source
    assert [cell.source for cell in rest] == [""] * len(rest)
    assert outputs(notebook) == ""
    tasks = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert len(tasks) == len(rest) + 1  # the title


def test_executed_they_agree_with_the_page(built_site, lab, tmp_path):
    notebook = read(built_site, f"{lab.name}-solved.ipynb")
    published = outputs(notebook)
    for cell in code_cells(notebook):
        cell.outputs = []
    done = nbclient.execute(notebook, cwd=str(tmp_path), timeout=120)
    assert compare.same(published, outputs(done))
    empty = nbclient.execute(read(built_site, f"{lab.name}.ipynb"), cwd=str(tmp_path), timeout=120)
    assert outputs(empty) == ""


def test_a_rendered_notebook_is_lean_and_whole(built_site, lab):
    html = (built_site / f"{lab.script}-solved.html").read_text(encoding="utf-8")
    assert len(html) < 60_000
    article = html[html.index("<article") : html.index("</article")]
    notebook = article.partition('class="jp-Notebook')[2].partition('id="progress-pages"')[0]
    assert "<style" not in notebook
    assert notebook.count("<script") == 1  # the one that it was cut off at
    assert not re.search(r"<(?:link|script|img)[^>]*=\"?(?:https?:)?//", html)
    shown = read(built_site, f"{lab.name}-solved.ipynb")
    for cell in code_cells(shown):
        for output in cell.outputs:
            for line in output.text.splitlines():
                assert line in article
    for download in (".ipynb", "-solved.ipynb"):
        assert f'href="labs/{lab.name}{download}"' in article


def test_downloads_are_linked_from_the_lab(built_site, lab):
    html = (built_site / f"{lab.script}.html").read_text(encoding="utf-8")
    for name in (".ipynb", ".py", "-solved.ipynb", "-solved.py"):
        assert f'href="labs/{lab.name}{name}"' in html
        assert (built_site / "labs" / f"{lab.name}{name}").is_file()
    assert f'href="{lab.script}-solved.html"' in html
