"""The lesson's own part of the MkDocs build: reading times, counts, links, large scripts.

A page may hold `{{ minutes }}`, `{{ scripts }}`, `{{ blocks }}`, `{{ questions }}` or `{{ labs }}`;
each becomes a number counted from the files of this very build.
"""

import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from mkdocs.utils import get_relative_url

from selfattn.fresh.page import fences

LESSON = "The lesson"
NAMES = ("minutes", "scripts", "blocks", "questions", "labs")
WORDS_A_MINUTE = 200
CODE_WORDS_A_MINUTE = 100

_TOKEN = re.compile(r"\{\{ ?(\w+) ?\}\}")
_OWN_FILE = re.compile(r'<script data-file="([^"]+)">(.*?)</script>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Drop the edit links while the repository is unknown: MkDocs would warn of each."""
    if not config.repo_url:
        config.edit_uri = None
    return config


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Refuse a token that nothing would replace, and count the executed fences."""
    for name in _TOKEN.findall(markdown):
        if name not in NAMES:
            raise PluginError(
                f"{page.file.src_uri} holds {{{{ {name} }}}}, which nothing replaces; "
                f"known are {', '.join(NAMES)}."
            )
    page.meta["blocks"] = sum(1 for _ in fences(markdown))
    return markdown


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Note the reading time and the link to report an error, for the page's template."""
    page.meta["minutes"] = reading_minutes(html)
    if config.repo_url:
        page.meta["report_url"] = report_url(config.repo_url, page)
    return own_files(html, page, config, files)


def on_env(env: Any, *, config: MkDocsConfig, files: Files) -> None:
    """Replace the tokens: by now every page has been read, and none has been written."""
    pages = [file.page for file in files.documentation_pages() if file.page]
    counts = site_counts(pages, Path(config.config_file_path).parent / "snippets")
    for page in pages:
        page.content = fill(page.content or "", counts)


def site_counts(pages: list[Page], snippets: Path) -> dict[str, int]:
    """Count what the landing page tells about the lesson."""
    lesson = [page for page in pages if page.parent and page.parent.title == LESSON]
    return {
        "minutes": sum(page.meta["minutes"] for page in lesson),
        "scripts": len(list(snippets.glob("*.md"))),
        "blocks": sum(page.meta["blocks"] for page in pages),
        "questions": sum((page.content or "").count('<details class="answer"') for page in pages),
        "labs": sum(bool(re.fullmatch(r"lab-\w+\.md", page.file.src_uri)) for page in pages),
    }


def fill(text: str, counts: dict[str, int]) -> str:
    """Put the counts where their tokens stand."""
    return _TOKEN.sub(lambda token: str(counts.get(token[1], token[0])), text)


def reading_minutes(html: str) -> int:
    """Estimate how long a page takes: prose and code by their words, figures not at all."""
    words = _Words()
    words.feed(html)
    minutes = words.prose / WORDS_A_MINUTE + words.code / CODE_WORDS_A_MINUTE
    return max(1, math.ceil(minutes))


def report_url(repository: str, page: Page) -> str:
    """Link to a new issue that names the page."""
    query = urlencode(
        {
            "title": f"Error on the page: {page.title}",
            "body": f"Page: docs/{page.file.src_uri}\n\nWhat is wrong:\n",
        }
    )
    return f"{repository.rstrip('/')}/issues/new?{query}"


def own_files(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Move each script that names a file into that file, so that no reader waits for it."""

    def move(script: re.Match[str]) -> str:
        files.append(File.generated(config, script[1], content=script[2]))
        return f'<script defer src="{get_relative_url(script[1], page.url)}"></script>'

    return _OWN_FILE.sub(move, html)


class _Words(HTMLParser):
    """Counts words, those of code apart and those of figures and formulas not at all."""

    CODE = frozenset({"pre"})
    SKIPPED = frozenset({"figure", "math", "script", "style", "svg"})

    def __init__(self) -> None:
        super().__init__()
        self.prose = 0
        self.code = 0
        self._inside: list[str] = []
        self._written = ""  # of a block of code: highlighting cuts it into more pieces than words

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.CODE | self.SKIPPED:
            self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if self._inside and self._inside[-1] == tag:
            self._inside.pop()
            self.code += len(self._written.split())
            self._written = ""

    def handle_data(self, data: str) -> None:
        if self.SKIPPED.intersection(self._inside):
            return
        if self._inside:
            self._written += data
        else:
            self.prose += len(data.split())
