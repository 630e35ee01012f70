"""What can be seen in the built files without a browser."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from selfattn.labs.catalog import LABS

PAGES = sorted(path.stem for path in (Path(__file__).parent.parent / "docs").glob("*.md"))
NOTEBOOKS = [f"{lab.script}-solved" for lab in LABS.values()]
LOADED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
    "video": "src",
    "audio": "src",
    "object": "data",
}
ELSEWHERE = re.compile(r"(?:https?:)?//")
LINKED_ONLY = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """Collects the elements of a page, and the text outside code, scripts and styles."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.text, self._quiet = [], "", 0
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._quiet += tag in {"pre", "code", "script", "style"}

    def handle_endtag(self, tag):
        self._quiet -= tag in {"pre", "code", "script", "style"}

    def handle_data(self, data):
        if not self._quiet:
            self.text += data

    def all(self, tag):
        return [attrs for name, attrs in self.elements if name == tag]


@pytest.fixture(scope="module")
def pages(built_site):
    return {path.stem: path.read_text(encoding="utf-8") for path in built_site.glob("*.html")}


@pytest.fixture(params=[*PAGES, *NOTEBOOKS])
def html(request, pages):
    return pages[request.param]


def test_every_page_is_built_and_in_the_navigation(pages):
    assert set(pages) == {*PAGES, *NOTEBOOKS, "404"}
    navigation = pages["index"].split('class="md-content"')[0]
    linked = re.findall(r'<a href="([\w-]+)\.html" class="md-nav__link', navigation)
    assert {*linked, "index"} == set(PAGES)


def test_nothing_is_loaded_from_another_host(html):
    for tag, attrs in Page(html).elements:
        if attrs.get("rel") not in LINKED_ONLY:
            assert not ELSEWHERE.match(attrs.get(LOADED.get(tag), "") or ""), attrs
            assert "//" not in (attrs.get("srcset") or ""), attrs


def test_no_style_or_script_of_ours_names_another_host(built_site):
    for path in [*built_site.rglob("*.css"), *built_site.glob("assets/javascripts/site.js")]:
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//[^)]*", text), path


def test_no_fault_reached_the_page(html):
    page = Page(html)
    assert "Traceback (most recent call last)" not in html
    assert "{{" not in page.text
    assert "--8<--" not in page.text
    assert "#!math" not in html
    assert "language-math" not in html
    assert 'exec="on"' not in page.text


def test_one_title_and_a_reading_time(html):
    page = Page(html)
    assert len(page.all("h1")) == 1
    if 'class="hero"' not in html:
        assert re.search(r"</h1>\s*<p class=\"byline\">Reading time: about \d+ minute", html)


def test_pictures_have_words(html):
    for image in Page(html).all("img"):
        assert "alt" in image, image
    for figure in re.findall(r"<figure.*?</figure>", html, flags=re.DOTALL):
        assert re.search(r"<figcaption>[^<]+", figure), figure[:200]


@pytest.mark.parametrize("name", PAGES)
def test_formulas_became_mathml(name, pages):
    source = Path(__file__).parent.parent / "docs"
    html = pages[name]
    markdown = (source / f"{name}.md").read_text(encoding="utf-8")
    written = len(re.findall(r"^\s*```math$|`#!math ", markdown, flags=re.MULTILINE))
    assert len(Page(html).all("math")) >= written


def test_the_search_dialog_has_a_name(html):
    dialogs = [attrs for _, attrs in Page(html).elements if attrs.get("role") == "dialog"]
    assert [dialog.get("aria-label") for dialog in dialogs] == ["Search"]


@pytest.mark.parametrize("name", PAGES)
def test_errors_can_be_reported_and_pages_edited(name, pages):
    html = pages[name]
    assert 'action="https://github.com/example/selfattn/issues/new"' in html
    places = re.findall(r'<option value="(Page: docs/[^"]*)"', html)
    assert all(place.startswith(f"Page: docs/{name}.md\n") for place in places)
    sections = re.findall(r'<h[23] id="([^"]+)"', html.split("<article")[1])
    if name != "whole":
        assert re.findall(r"Section: .* \(#(.+)\)", "".join(places)) == sections
    assert f"https://github.com/example/selfattn/edit/main/docs/{name}.md" in html
    assert 'data-md-component="source"' not in html  # its script asks the host for stars


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_what_it_teaches(name, pages):
    descriptions = {
        other: re.findall(r'<meta name="description" content="([^"]+)"', pages[other])
        for other in PAGES
    }
    assert len(descriptions[name]) == 1
    assert len(descriptions[name][0]) > 50
    assert list(descriptions.values()).count(descriptions[name]) == 1


def test_the_landing_page_has_a_picture_made_by_the_build(pages):
    assert re.search(r'class="executed" id="out-index-figure"><div class="shown"', pages["index"])
