"""The labs' part of the MkDocs build: their downloads, and their notebooks as pages.

A notebook's outputs are put in before mkdocs-jupyter renders it, and come from the run that the
lab's page shows. Nothing here executes a notebook.
"""

import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from selfattn.fresh.run import Run
from selfattn.labs import notebook, starter
from selfattn.labs.catalog import LABS, Lab

FOLDER = ".cache/notebooks"

# What mkdocs-jupyter writes into each page besides the notebook: half a megabyte of style sheets,
# scripts, the code of each cell once more for a button, and a tab stop for each cell and output.
_SURPLUS = re.compile(
    r"<style\b.*?</style>|<script\b.*?</script>|<!--.*?-->"
    r"|<clipboard-copy\b.*?</clipboard-copy>"
    r'|<div class="clipboard-copy-txt".*?</div>'
    r'|(?<=") tabindex="0"',
    re.DOTALL,
)


@event_priority(50)  # after the engine has run the scripts, before mkdocs-jupyter looks at files
def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add each lab's downloads and its solved notebook."""
    results = config.plugins["fresh"].results  # type: ignore[attr-defined]
    for lab in LABS.values():
        result = results.get(lab.script)
        if not result or result.run.fault:
            continue  # the engine says what is wrong
        taken_away = downloads(lab, result.run)
        for name, content in taken_away.items():
            files.append(File.generated(config, f"labs/{name}", content=content))
        files.append(_page(lab, taken_away[f"{lab.name}-solved.ipynb"], config))


def downloads(lab: Lab, run: Run) -> dict[str, str]:
    """Give the files that a reader may take away, by their names.

    Args:
        lab: the lab.
        run: of its solution.
    """
    printed = {name: output.text for name, output in run.outputs.items()}
    return {
        f"{lab.name}.py": starter.starter(lab),
        f"{lab.name}-solved.py": starter.solved(lab),
        f"{lab.name}.ipynb": notebook.empty(lab),
        f"{lab.name}-solved.ipynb": notebook.solved(lab, printed),
    }


def _page(lab: Lab, content: str, config: MkDocsConfig) -> File:
    """Give the page for a notebook; mkdocs-jupyter wants a file that lies on the disk."""
    folder = Path(config.config_file_path).parent / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{lab.script}-solved.ipynb"
    (folder / name).write_text(content, encoding="utf-8")
    return File(name, str(folder), config.site_dir, config.use_directory_urls)


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Leave of a notebook's page what is the notebook's, and link to the lab above it."""
    lab = _lab_of(page)
    if lab is None:
        return html
    page.edit_url = None  # there is no such file to edit
    html = _SURPLUS.sub("", html).replace('class="anchor-link"', 'class="headerlink"')
    return html.replace("</h1>", f"</h1>\n{_links(lab)}", 1)


def _lab_of(page: Page) -> Lab | None:
    uri = page.file.src_uri
    return next((lab for lab in LABS.values() if uri == f"{lab.script}-solved.ipynb"), None)


def _links(lab: Lab) -> str:
    return (
        f'<p>This is the solved notebook of <a href="{lab.script}.html">its lab</a>, with the '
        f'outputs that the lab shows. <a href="labs/{lab.name}-solved.ipynb">Take it away</a>, '
        f'or begin with <a href="labs/{lab.name}.ipynb">the empty one</a>.</p>'
    )
