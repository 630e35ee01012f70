"""The glossary: what tooltips say, where terms are marked, and how tooltips come and go."""

import gzip
import re
from pathlib import Path

import pytest
from conftest import Watch

from selfattn.fresh.page import blocks
from selfattn.glossary import definitions, mark

ROOT = Path(__file__).parent.parent
PAGES = sorted(path.stem for path in (ROOT / "docs").glob("*.md"))
LESSON = ("average", "projections", "scale", "padding-mask", "causal-mask", "order", "pytorch")
TERM = re.compile(r"\]\(glossary\.md#([\w-]+)\)")


def source(name):
    return (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8")


def prose(name):
    """The lines of a page outside its fences."""
    lines = source(name).split("\n")
    fenced = {i for block in blocks(source(name)) for i in range(block.first, block.last + 1)}
    return [line for i, line in enumerate(lines) if i not in fenced]


# The build --------------------------------------------------------------------------------------


def test_a_definition_is_the_first_paragraph_without_links_and_without_where_to_read_on():
    html = (
        '<h1 id="words">Words</h1><p>All of them.</p>\n'
        '<h2 id="key">Key<a class="headerlink" href="#key">¶</a></h2>\n'
        '<p>What a <a href="#query">query</a> meets, <em>once</em>. See <a href="k.html">K</a>.</p>'
        '\n<p>More.</p><h2 id="query">Query</h2>\n<p>What asks.</p>'
    )
    assert definitions(html) == {
        "key": "What a query meets, <em>once</em>.",
        "query": "What asks.",
    }


def test_a_link_to_a_term_names_its_tooltip_and_each_tooltip_is_there_once():
    link = '<a href="glossary.html#key">keys</a>'
    marked = mark(f"<p>{link}, {link}</p>", {"key": "What is met.", "query": "What asks."})
    named = '<a class="term" aria-describedby="term-key" href="glossary.html#key">keys</a>'
    assert marked.startswith(f"<p>{named}, {named}</p>")
    assert marked.count('role="tooltip" id="term-key">What is met.</div>') == 1
    assert "What asks." not in marked


def test_a_page_without_terms_stays_as_it_is():
    html = '<p><a href="glossary.html">The words</a></p>'
    assert mark(html, {}) == html


def test_an_undefined_term_is_named():
    with pytest.raises(KeyError, match="lock"):
        mark('<p><a href="glossary.html#lock">lock</a></p>', {"key": "What is met."})


# The pages --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_each_term_is_marked_once_and_never_in_a_heading(name):
    terms = TERM.findall(source(name))
    assert len(terms) == len(set(terms))
    assert len(TERM.findall("\n".join(prose(name)))) == len(terms)
    assert not [line for line in prose(name) if line.startswith("#") and TERM.search(line)]


def test_the_lesson_marks_terms_on_every_page_and_the_pages_all_terms():
    used = {name: set(TERM.findall(source(name))) for name in PAGES}
    assert all(len(used[name]) >= 2 for name in LESSON)
    headings = re.findall(r"^## (.+)$", source("glossary"), flags=re.MULTILINE)
    assert headings == sorted(headings)
    defined = {heading.lower().replace(" ", "-") for heading in headings}
    assert set().union(*used.values()) == defined


def test_a_definition_is_short_and_says_something(built_site):
    known = definitions((built_site / "glossary.html").read_text(encoding="utf-8"))
    headings = re.findall(r"^## ", source("glossary"), flags=re.MULTILINE)
    assert len(known) == len(headings)
    for term, text in known.items():
        assert 20 < len(text) < 320, term
        assert "<a" not in text


# The browser ------------------------------------------------------------------------------------


@pytest.fixture
def tab(on_disk):
    on_disk.page.set_viewport_size({"width": 1280, "height": 800})
    on_disk.open("scale")
    on_disk.page.mouse.move(0, 0)
    yield on_disk.page
    assert on_disk.seen == []


def term(page, name="score"):
    return page.locator(f'a.term[href="glossary.html#{name}"]')


def tip(page, name="score"):
    return page.locator(f"#term-{name}")


def test_a_tooltip_shows_by_pointer_and_stays_while_the_pointer_is_on_it(tab):
    assert not tip(tab).is_visible()
    term(tab).hover()
    assert tip(tab).is_visible()
    tip(tab).hover()
    assert tip(tab).is_visible()
    tab.mouse.move(0, 0)
    tip(tab).wait_for(state="hidden")


def test_escape_closes_what_the_pointer_opened(tab):
    term(tab).hover()
    tab.keyboard.press("Escape")
    assert not tip(tab).is_visible()


def test_a_tooltip_shows_by_keyboard_and_escape_leaves_the_focus(tab):
    tab.locator(".predict input").focus()
    tab.keyboard.press("Tab")
    assert tip(tab).is_visible()
    tab.keyboard.press("Escape")
    assert not tip(tab).is_visible()
    assert term(tab).evaluate("(link) => link === document.activeElement")
    tab.keyboard.press("Tab")
    assert tip(tab, "query").is_visible()
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/glossary.html#query")


def test_a_tooltip_lies_within_the_window_and_beside_its_term(tab):
    for width in (360, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        for link in tab.locator("a.term").all():
            link.hover()
            shown = tab.locator("#" + link.get_attribute("aria-describedby"))
            at, word = shown.bounding_box(), link.bounding_box()
            assert at["x"] >= 0
            assert at["x"] + at["width"] <= width
            gap = max(at["y"] - word["y"] - word["height"], word["y"] - at["y"] - at["height"])
            assert abs(gap) < 1


def test_a_first_tap_shows_and_a_second_follows(browser, home):
    context = browser.new_context(has_touch=True, viewport={"width": 360, "height": 740})
    tab = Watch(context.new_page(), home)
    tab.open("scale")
    term(tab.page).tap()
    assert tip(tab.page).is_visible()
    assert tab.page.url.endswith("scale.html")
    tab.page.locator("h1").tap()
    assert not tip(tab.page).is_visible()
    for _ in range(2):
        term(tab.page).tap()
    tab.page.wait_for_url("**/glossary.html#score")
    assert tab.seen == []
    context.close()


def test_without_scripts_a_term_is_a_link_that_is_described(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(f"{built_site.as_uri()}/scale.html")
    assert term(page).get_attribute("aria-describedby") == "term-score"
    assert not page.locator("[popover]").first.is_visible()
    term(page).click()
    page.wait_for_url("**/glossary.html#score")
    context.close()


def test_tooltips_are_not_searched_and_their_script_is_small(built_site):
    index = (built_site / "search" / "search_index.json").read_text(encoding="utf-8")
    sentence = "How well a query and a key fit"
    assert index.count(sentence) == 1  # on the glossary's own page
    script = ROOT / "docs/assets/javascripts/glossary.js"
    assert len(gzip.compress(script.read_bytes())) < 1_000
