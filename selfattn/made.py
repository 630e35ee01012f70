"""Where a tensor was made, part of the MkDocs build: its name in the prose links to that line.

A name in the prose is inline code that is one word; it was made in the nearest block above that
assigns it and shows its code. A name that is also a string in the page's code, as `card` is both a
place and the token there, may mean that string and is left alone.
"""

import ast
import re
from collections.abc import Iterator

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import Files
from mkdocs.structure.pages import Page

from selfattn.fresh.prose import anchor

_PIECE = re.compile(
    r'<div class="executed" id="(?P<block>[\w-]+)">(?=<div class="language-python)'
    r"|<code>(?P<name>[A-Za-z_]\w*)</code>"
    r"|<(?:pre|a|h[1-6])\b.*?</(?:pre|a|h[1-6])>",
    re.DOTALL,
)


@event_priority(-60)  # after the engine, whose blocks these are
def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Link the names on a page to the lines that assign them."""
    results = config.plugins["fresh"].results.values()  # type: ignore[attr-defined]
    codes = {
        anchor(result.snippet.name, section.name): section.code
        for result in results
        for section in result.snippet.shown
    }
    return linked(html, codes)


def linked(html: str, codes: dict[str, str]) -> str:
    """Link each name in the prose to the line that assigned it last above.

    Args:
        html: of a page.
        codes: the code of blocks, by the ids of their elements.
    """
    blocks = [found["block"] for found in _PIECE.finditer(html) if found["block"] in codes]
    spoken = {word for block in blocks for word in _strings(codes[block])}
    made: dict[str, tuple[str, int]] = {}
    used: set[tuple[str, int]] = set()

    def link(found: "re.Match[str]") -> str:
        if found["block"] in codes:
            made.update({n: (found["block"], line) for n, line in _assigned(codes[found["block"]])})
        name = found["name"]
        if name not in made or name in spoken:
            return found[0]
        used.add(made[name])
        return f'<a class="made" href="#{_id(*made[name])}" title="where it is made">{found[0]}</a>'

    html = _PIECE.sub(link, html)
    for block, line in sorted(used):
        html = _marked(html, block, line)
    return html


def _assigned(code: str) -> Iterator[tuple[str, int]]:
    """Yield the names that code assigns, in order, each with its line counted from 0."""
    for node in sorted(ast.walk(ast.parse(code)), key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno - 1


def _strings(code: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _id(block: str, line: int) -> str:
    return f"{block}-line-{line + 1}"


def _marked(html: str, block: str, line: int) -> str:
    """Put an id on a line of a block's code; the highlighter may not have an element across it."""
    start = html.index("<code>", html.index(f'<div class="executed" id="{block}">')) + len("<code>")
    end = html.index("</code>", start)
    lines = html[start:end].split("\n")
    # Two elements: Material's script takes code whose own child is a span with an id for one that
    # has an element for each line, and lays it out as a grid.
    lines[line] = (
        f'<span><span class="made-here" id="{_id(block, line)}">{lines[line]}</span></span>'
    )
    return html[:start] + "\n".join(lines) + html[end:]
