"""Outputs that are sentences are wrapped on a narrow screen; those that are tables scroll.

Lines of a table are of use only where their columns stand below each other.
"""

import re
from html import unescape

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

_OUTPUT = re.compile(
    r'(?P<start><div class="language-text highlight)(?P<rest>"[^>]*><pre.*?</pre>)', re.DOTALL
)
_TAG = re.compile(r"<[^<>]*>")
_COLUMNS = re.compile(r"\S {2,}\S|\n\s*\[")
"""Two blanks between words, or the next row of a tensor."""


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Mark the outputs that the style sheet is to wrap."""
    return marked(output)


def marked(html: str) -> str:
    """Give a page's HTML with a class on the outputs that hold no columns."""
    return _OUTPUT.sub(_with_class, html)


def has_columns(text: str) -> bool:
    """Tell whether what a script printed stands in columns."""
    return _COLUMNS.search(text) is not None


def _with_class(output: re.Match[str]) -> str:
    text = unescape(_TAG.sub("", output["rest"].partition(">")[2]))
    return output["start"] + ("" if has_columns(text) else " sentences") + output["rest"]
