"""What readers hear who cannot see a page, and what they reach by keyboard."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from mkdocs.exceptions import PluginError

from selfattn import spoken

FIRST_STOP = """() => [...document.querySelectorAll(
    'article :is(a[href], button, input, select, textarea, summary, [tabindex])')].find((element) =>
        element.tabIndex >= 0 && element.checkVisibility({visibilityProperty: true})
    ) === document.activeElement"""


class Ids(HTMLParser):
    """Counts the ids of a page."""

    def __init__(self, html):
        super().__init__()
        self.found = Counter()
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.update(value for name, value in attrs if name == "id")


def html_pages(site):
    return {path.stem: path.read_text("utf-8") for path in site.glob("*.html")}


def test_no_id_is_on_a_page_twice(built_site):
    for name, html in html_pages(built_site).items():
        assert [key for key, count in Ids(html).found.items() if count > 1] == [], name


def test_material_that_has_changed_fails_the_build(built_site):
    html = (built_site / "index.html").read_text("utf-8")
    with pytest.raises(PluginError, match=r"page\.md holds .*skip.* 0 times"):
        spoken.mended(html.replace('data-md-component="skip"', ""), "page.md")


def test_the_page_that_is_read_is_marked_in_the_menu(built_site):
    for name, html in html_pages(built_site).items():
        current = re.findall(r'<a href="([^"]*)" class="md-nav__link[^>]*aria-current="page"', html)
        expected = [] if name == "404" or name.endswith("-solved") else [f"{name}.html"]
        assert current == expected, name


def test_every_output_is_called_one(built_site):
    for name, html in html_pages(built_site).items():
        behind = re.findall(r'</pre></div>\n<div class="language-text highlight[^>]*>', html)
        assert all('role="group" aria-label="Output"' in tag for tag in behind), name
    solved = (built_site / "lab-loops-solved.html").read_text("utf-8")
    assert solved.count('aria-label="Output"') == solved.count("jp-RenderedText") > 0


@pytest.mark.parametrize("name", ["average", "playground", "progress", "whole", "404"])
def test_the_skip_link_leads_to_the_start_of_the_text(served, name):
    served.page.set_viewport_size({"width": 1280, "height": 900})
    served.open(name)
    served.page.keyboard.press("Tab")
    assert served.page.evaluate("document.activeElement.textContent.trim()") == "Skip to content"
    served.page.keyboard.press("Enter")
    served.page.wait_for_function("document.activeElement.id === 'text'")
    served.page.keyboard.press("Tab")
    # The first that can be reached in the article, before its first section.
    assert served.page.evaluate(FIRST_STOP)


@pytest.mark.parametrize("name", ["average", "questions", "probes", "whole", "lab-loops-solved"])
def test_a_copy_button_copies_the_block_it_belongs_to(served, name):
    served.page.set_viewport_size({"width": 1280, "height": 900})
    served.open(name)
    served.page.evaluate(
        "for (const fold of document.querySelectorAll('details')) fold.open = true"
    )
    served.scroll()
    served.page.wait_for_function(
        "[...document.querySelectorAll('.highlight pre > code')].every((code) =>"
        "    !code.checkVisibility() || code.parentElement.querySelector('.md-code__nav'))"
    )
    wrong = served.page.evaluate(
        """[...document.querySelectorAll('[data-clipboard-target]')].filter((button) =>
            document.querySelector(button.dataset.clipboardTarget) !==
            button.closest('pre').querySelector('code')).length"""
    )
    assert wrong == 0


def test_results_of_a_search_have_names(served):
    served.open("average")
    page = served.page
    page.get_by_role("textbox", name="Search").click()
    page.keyboard.type("softmax")
    links = page.locator(".md-search-result__link")
    links.first.wait_for()
    for link in links.all()[:5]:
        assert link.get_attribute("aria-label").strip()
    assert page.get_by_role("status").filter(has_text="matching document").count() == 1
    assert page.locator(".md-search-result").get_by_role("heading").count() == 0


@pytest.mark.parametrize("letter", ["n", "p", "f", "s", ",", "."])
def test_a_letter_alone_does_nothing(served, letter):
    served.open("projections")
    address = served.page.url
    for place in ("body", "summary", ".frames input"):
        served.page.locator(place).first.evaluate("(element) => element.focus()")
        served.page.keyboard.press(letter)
    assert served.page.url == address
    assert not served.page.locator("#__search").is_checked()


def test_a_slash_opens_the_search_where_nothing_has_the_focus(served):
    served.open("projections")
    served.page.locator("summary").first.evaluate("(element) => element.focus()")
    served.page.keyboard.press("/")
    assert not served.page.locator("#__search").is_checked()
    served.page.evaluate("document.activeElement.blur()")
    served.page.keyboard.press("/")
    served.page.wait_for_function("document.activeElement.matches('.md-search__input')")


def test_a_picture_says_what_it_shows_when_it_changes(served):
    served.open("average")
    picture = served.page.locator(".frames").first
    status = picture.get_by_role("status")
    assert status.text_content() == ""
    picture.get_by_role("radio", name="is", exact=True).check()
    served.page.wait_for_function("document.querySelector('.frames [role=status]').textContent")
    shown = [c.text_content() for c in picture.locator("figcaption").all() if c.is_visible()]
    assert [status.text_content()] == shown


def test_the_colours_in_force_are_the_ones_marked(served):
    served.open("average")
    radios = served.page.locator("[name=__palette]")
    assert [radio.is_checked() for radio in radios.all()] == [True, False, False]
    served.page.locator("label[for=__palette_1]:visible").click()
    served.open("scale")
    assert [radio.is_checked() for radio in radios.all()] == [False, True, False]
    assert radios.nth(1).get_attribute("aria-label") == "Colours: light"
