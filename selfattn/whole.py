"""The whole lesson's part of the MkDocs build: one page for paper, made of the pages as rendered.

Every page after the first goes in, in the order of the navigation, but those whose front matter
says `whole: false` and those with a template of their own. What a page names by an id is named anew
with the page's own name before it, so that nothing occurs twice and links stay on the one page.
"""

import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

PAGE = "whole.md"
PLACE = '<div class="whole"></div>'

_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_NAMES = re.compile(
    r'(\s(?:id|name|for|list|aria-(?:labelledby|describedby|controls))=")([^"]+)(?=")'
)
_HERE = re.compile(r'(\shref="|url\()#(?=[^")])')
_LINK = re.compile(r'(\shref=")([\w-]+)\.html(?:#([^"]*))?(?=")')
_HEADING = re.compile(r"<(/?)h([1-5])\b")
_FOLDED = re.compile(r"<details(?![^>]*\sopen\b)")


def on_env(env: Any, *, config: MkDocsConfig, files: Files) -> None:
    """Fill the page: by now every page has been read, and none has been written."""
    pages = [file.page for file in files.documentation_pages() if file.page]
    whole = next(page for page in pages if page.file.src_uri == PAGE)
    parts = {_name(page): page for page in _after(pages) if _taken(page)}
    whole.meta["minutes"] = sum(page.meta["minutes"] for page in parts.values())
    html = "".join(part(name, page.content or "", parts) for name, page in parts.items())
    whole.content = (whole.content or "").replace(PLACE, contents(parts) + html)


def part(name: str, html: str, names: "dict[str, Any]") -> str:
    """Make one page a part of the whole.

    Args:
        name: of the page.
        html: of the page, without the theme.
        names: of all pages that are parts.
    """
    html, *_ = html.partition('<details class="provenance"')
    html = _TAG.sub(lambda tag: _renamed(tag[0], name, names), html)
    html = _HEADING.sub(lambda tag: f"<{tag[1]}h{int(tag[2]) + 1}", html)
    return f'<section class="part" id="{name}">{_FOLDED.sub("<details open", html)}</section>'


def contents(parts: "dict[str, Page]") -> str:
    """List the parts, each with a link to it."""
    items = "".join(f'<li><a href="#{name}">{page.title}</a></li>' for name, page in parts.items())
    return f"<ol>{items}</ol>"


def _renamed(tag: str, name: str, names: "dict[str, Any]") -> str:
    def linked(link: "re.Match[str]") -> str:
        start, page, anchor = link.groups()
        if page not in names:
            return link[0]
        return f"{start}#{page}--{anchor}" if anchor else f"{start}#{page}"

    tag = _NAMES.sub(lambda found: found[1] + _prefixed(found[2], name), tag)
    return _LINK.sub(linked, _HERE.sub(rf"\1#{name}--", tag))


def _prefixed(ids: str, name: str) -> str:
    return " ".join(f"{name}--{each}" for each in ids.split())


def _after(pages: list[Page]) -> Iterator[Page]:
    """Yield the pages after the first in the order of the navigation."""
    page = next(page for page in pages if page.is_homepage).next_page
    while page:
        yield page
        page = page.next_page


def _taken(page: Page) -> bool:
    return page.meta.get("whole") is not False and "template" not in page.meta


def _name(page: Page) -> str:
    return page.file.src_uri.rsplit(".", 1)[0]
