"""The scripts' part of the MkDocs build: each snippet as a plain Python file to view or to run."""

import textwrap
from html import escape
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from selfattn.fresh.page import fences
from selfattn.fresh.snippet import Snippet

FOLDER = "scripts"
PAGE = "scripts.md"
PLACE = '<div class="scripts"></div>'


@event_priority(50)  # after the engine has read the snippets
def on_files(files: Files, *, config: MkDocsConfig) -> None:
    """Add a file for each snippet."""
    for name, result in _results(config).items():
        content = plain(result.snippet)
        files.append(File.generated(config, f"{FOLDER}/{name}.py", content=content))


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> None:
    """Note the scripts of each page, for its end."""
    page.meta["scripts"] = list(
        dict.fromkeys(fence.options["session"] for fence in fences(markdown))
    )


def on_env(env: Any, *, config: MkDocsConfig, files: Files) -> None:
    """Fill the page that lists all scripts: by now every page has noted its own."""
    pages = [file.page for file in files.documentation_pages() if file.page]
    listing = next(page for page in pages if page.file.src_uri == PAGE)
    shown = {name: page for page in pages for name in page.meta.get("scripts", ())}
    snippets = {name: result.snippet for name, result in _results(config).items()}
    listing.content = (listing.content or "").replace(PLACE, table(snippets, shown))


def plain(snippet: Snippet) -> str:
    """Give a snippet's code without the markers of its sections, below its title."""
    title = textwrap.fill(snippet.title, 79, initial_indent="# ", subsequent_indent="# ")
    return f"{title}\n\n" + "\n".join(section.code for section in snippet.sections)


def table(snippets: dict[str, Snippet], shown: dict[str, Page]) -> str:
    """List scripts in the order of their names.

    Args:
        snippets: by name.
        shown: the page on which each stands.
    """
    rows = "".join(
        f'<tr><td><a href="{FOLDER}/{name}.py">{name}.py</a></td>'
        f"<td>{escape(snippets[name].title)}</td>"
        f'<td><a href="{shown[name].url}">{shown[name].title}</a></td></tr>'
        for name in sorted(snippets)
    )
    head = "<thead><tr><th>Script</th><th>What it shows</th><th>On the page</th></tr></thead>"
    return f"<table>{head}<tbody>{rows}</tbody></table>"


def _results(config: MkDocsConfig) -> dict[str, Any]:
    results: dict[str, Any] = config.plugins["fresh"].results  # type: ignore[attr-defined]
    return results
