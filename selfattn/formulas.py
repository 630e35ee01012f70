r"""Formulas as MathML, made while the site is built: no script and no request in the reader's way.

Two formatters for MkDocs: `display` for a ```` ```math ```` fence, `inline` for
`` `#!math \sqrt{d}` ``. Query, key and value are coloured with `\q{Q}`, `\k{K}` and `\v{V}`.
"""

import html
import re
from typing import Any
from xml.etree import ElementTree

from latex2mathml.converter import Converter
from mkdocs.exceptions import BuildError
from pymdownx.inlinehilite import InlineHiliteException
from pymdownx.superfences import SuperFencesException

_ROLE = re.compile(r"\\([qkv])(?=\{)")
_ESCAPED_BRACE = re.compile(r"\\[{}]")


class FormulaError(SuperFencesException, InlineHiliteException, BuildError):  # type: ignore[misc]
    """A formula that cannot be published.

    Both extensions turn any other exception into raw text on the page; theirs they let through,
    and MkDocs stops at a `BuildError` with the name of the page.
    """


def display(
    source: str, language: str, css_class: str, options: object, md: object, **kwargs: Any
) -> str:
    r"""Format a fence: a block of its own, whose parts around a \qquad may stand below each other.

    What is wider than the screen all the same scrolls.
    """
    math = "".join(mathml(part, display="block") for part in source.split(r"\qquad"))
    return f'<div class="{css_class}" role="group" aria-label="Formula" tabindex="0">{math}</div>'


def inline(source: str, language: str, css_class: str, md: object) -> str:
    """Format a code span that starts with `#!math`."""
    return mathml(source, display="inline")


def no_options(
    language: str, inputs: dict[str, str], options: object, attrs: object, md: object
) -> bool:
    """Accept a fence without options only: SuperFences would publish any other as plain code."""
    if inputs:
        raise FormulaError(
            f"A math fence was given the options {inputs!r} but takes none; remove them."
        )
    return True


def mathml(source: str, *, display: str = "inline") -> str:
    r"""Convert LaTeX to MathML.

    Args:
        source: LaTeX in math mode, without dollar signs.
        display: "inline" or "block".

    Raises:
        FormulaError: when a brace, a command or an `&` would land on the page as it is written.
    """
    _check_braces(source)
    try:
        tree = Converter(display=display).convert_to_element(_ROLE.sub(r"\\class{\1}", source))
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise _bad(source, f"latex2mathml answered {reason}") from error
    for node in tree.iter():
        node.text = html.unescape(node.text or "") or None
        _check_text(source, node)
        _mend_operator(node)
    del tree.attrib["xmlns"]  # not needed inside HTML
    return ElementTree.tostring(tree, encoding="unicode")


def _check_braces(source: str) -> None:
    depth = 0
    for character in _ESCAPED_BRACE.sub("", source):
        depth += {"{": 1, "}": -1}.get(character, 0)
        if depth < 0:
            break
    if depth:
        raise _bad(source, "the braces { and } do not pair")


def _check_text(source: str, node: ElementTree.Element) -> None:
    text = node.text or ""
    if node.tag == "mi" and text.startswith("\\"):
        raise _bad(source, f"the command {text} is unknown to latex2mathml")
    if node.tag == "mi" and text == "&":
        raise _bad(source, "an & stands outside a matrix; use align*, split, cases or a matrix")


def _mend_operator(node: ElementTree.Element) -> None:
    # \operatorname becomes <mo>, which browsers set with wide spaces on both sides, "softmax (x)".
    text = node.text or ""
    if node.tag == "mo" and not node.attrib and text.isalpha() and len(text) > 1:
        node.tag = "mi"


def _bad(source: str, reason: str) -> FormulaError:
    return FormulaError(f"Cannot make MathML of the formula {source!r}: {reason}. Correct it.")
