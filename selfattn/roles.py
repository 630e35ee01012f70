"""The roles' colours in code, part of the MkDocs build: comments that speak of query, key, value.

A comment that names one of the three alone may mean what a customer types, or any value; one that
names two of them means the roles.
"""

import re
from typing import Any

from mkdocs.structure.pages import Page

_COMMENT = re.compile(r'(?<=<span class="c1">)[^<]*')
_ROLE = re.compile(r"\b(?:(?P<q>quer(?:y|ies))|(?P<k>keys?)|(?P<v>values?))\b")


def on_page_content(html: str, *, page: Page, **_: Any) -> str:
    """Colour the roles in the page's comments."""
    return coloured(html)


def coloured(html: str) -> str:
    """Colour the roles in every comment that names two of them or all three."""
    return _COMMENT.sub(_comment, html)


def _comment(comment: "re.Match[str]") -> str:
    named = {role.lastgroup for role in _ROLE.finditer(comment[0])}
    return comment[0] if len(named) < 2 else _ROLE.sub(_span, comment[0])


def _span(role: "re.Match[str]") -> str:
    return f'<span class="{role.lastgroup}">{role[0]}</span>'
