"""The glossary's part of the MkDocs build: links to a term carry its sentence as a tooltip.

An author marks a term by an ordinary link, `[scores](glossary.md#score)`, which MkDocs checks and
which works without scripts. The definitions are the glossary's own: of each section the first
paragraph, up to where it sends the reader on.
"""

import re
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import Files

PAGE = "glossary.md"

_ENTRY = re.compile(r'<h2 id="([\w-]+)">.*?</h2>\s*<p>(.*?)</p>', re.DOTALL)
_SEE = re.compile(r"\s+See\s+<a\b.*", re.DOTALL)
_LINK = re.compile(r"</?a\b[^>]*>")
_TERM = re.compile(r'<a (?=href="glossary\.html#([\w-]+)")')


def on_env(env: Any, *, config: MkDocsConfig, files: Files) -> None:
    """Mark the links: by now every page has been read, and none has been written."""
    pages = {file.src_uri: file.page for file in files.documentation_pages() if file.page}
    known = definitions(pages[PAGE].content or "")
    for uri, page in pages.items():
        try:
            page.content = mark(page.content or "", known)
        except KeyError as error:
            raise PluginError(f"{uri} links to {error}, which {PAGE} does not define") from None


def definitions(html: str) -> dict[str, str]:
    """Give what the glossary says of each term, without links: nothing in a tooltip is pressed."""
    return {term: _LINK.sub("", _SEE.sub("", text)) for term, text in _ENTRY.findall(html)}


def mark(html: str, known: dict[str, str]) -> str:
    """Mark the links to terms, and end the page with the tooltips that they name.

    Args:
        html: of a page.
        known: the definitions by their ids.

    Raises:
        KeyError: a link names a term that is not known.
    """
    used = dict.fromkeys(_TERM.findall(html))
    if not used:
        return html
    marked = _TERM.sub(r'<a class="term" aria-describedby="term-\1" ', html)
    tips = "".join(
        f'<div popover role="tooltip" id="term-{term}">{known[term]}</div>' for term in used
    )
    # No div: Material's search would end the excluded part at the first one inside that closes.
    return f'{marked}<section class="terms" data-search-exclude>{tips}</section>'
