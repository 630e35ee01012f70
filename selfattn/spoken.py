"""What Material leaves unsaid to readers who listen to a page or walk it by keyboard.

Each repair is an exact piece of Material's HTML and what takes its place, and one that finds
nothing to mend fails the build: then Material has changed, and the repair is to be looked at anew.
"""

import itertools
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.pages import Page

REPAIRS = (
    # The link past the menu led to the second heading, past the first paragraphs and the forms.
    (
        r'(<div data-md-component="skip">).*?(</div>)',
        r'\1<a href="#text" class="md-skip">Skip to content</a>\2',
    ),
    (
        r'<article class="md-content__inner',
        '<article id="text" tabindex="-1" class="md-content__inner',
    ),
    # Two boxes without a name.
    (
        r'(<div class="md-search" data-md-component="search" role="dialog")',
        r'\1 aria-label="Search"',
    ),
    (r'(<form class="md-header__option" data-md-component="palette")', r'\1 aria-label="Colours"'),
    # What happens without a word: a count of findings, a text copied.
    (r'<div class="md-search-result__meta"', '<div role="status" class="md-search-result__meta"'),
    (r'<div class="md-dialog"', '<div role="status" class="md-dialog"'),
    # A tab stop with nothing in it while the search is closed; open, it holds links.
    (r'(<div class="md-search__scrollwrap") tabindex="0"', r"\1"),
)
"""What every page must hold, as regular expressions, and what takes its place."""

_CURRENT = re.compile(r'(<a href="[^"]*" class="md-nav__link md-nav__link--active")')
# A link from a heading to itself: each would be a tab stop, and its sign a part of the heading.
_TO_ITSELF = re.compile(r'(<a class="(?:headerlink|anchor-link)")')
_CODE = re.compile(r"<pre(?![^>]*\bid=)")
# An output differs from its code by colour and place alone, in a notebook as well.
_OUTPUT = re.compile(
    r'(?:</pre></div>\n|<div class="executed" id="[\w-]+">)<div class="language-text highlight"'
    r'|<div class="jp-RenderedText jp-OutputArea-output highlight"'
)


def on_post_page(output: str, *, page: Page, config: MkDocsConfig) -> str:
    """Mend a page."""
    return mended(output, page.file.src_uri)


def on_post_template(output_content: str, *, template_name: str, config: MkDocsConfig) -> str:
    """Mend the page that is shown where there is none."""
    return mended(output_content, template_name) if template_name == "404.html" else output_content


def mended(html: str, where: str) -> str:
    """Give a page's HTML with the names, roles and states that it lacks.

    Raises:
        PluginError: Material's HTML is not what a repair expects.
    """
    for pattern, replacement in REPAIRS:
        html, found = re.subn(pattern, replacement, html, flags=re.DOTALL)
        if found != 1:
            raise PluginError(
                f"{where} holds {pattern!r} {found} times, expected once: Material's HTML has "
                "changed. Look at that repair in selfattn/spoken.py."
            )
    html = _CURRENT.sub(r'\1 aria-current="page"', html)
    html = _TO_ITSELF.sub(r'\1 aria-hidden="true" tabindex="-1"', html)
    html = _OUTPUT.sub(r'\g<0> role="group" aria-label="Output"', html)
    # Material finds the text that a button copies by the id around it, which code and output share.
    numbers = itertools.count(1)
    return _CODE.sub(lambda found: f'{found[0]} id="code-{next(numbers)}"', html)
