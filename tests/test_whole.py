"""The whole lesson as one page, and what paper gets of it and of the cheat sheet."""

import re
from pathlib import Path

import pytest

from selfattn.whole import part

ROOT = Path(__file__).parent.parent
LEFT_OUT = {"index", "progress", "playground", "scripts", "whole"}
PARTS = {path.stem for path in (ROOT / "docs").glob("*.md")} - LEFT_OUT


@pytest.fixture(scope="module")
def html(built_site):
    return (built_site / "whole.html").read_text(encoding="utf-8").split("<article")[1]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('<h1 id="x">X</h1>', '<h2 id="a--x">X</h2>'),
        ('<a href="#x">', '<a href="#a--x">'),
        ('<a href="b.html#x">', '<a href="#b--x">'),
        ('<a href="b.html">', '<a href="#b">'),
        ('<a href="c.html#x">', '<a href="c.html#x">'),
        ('<a href="https://b.html#x">', '<a href="https://b.html#x">'),
        (
            '<label for="x"><input name="n" id="x">',
            '<label for="a--x"><input name="a--n" id="a--x">',
        ),
        ('<p aria-labelledby="x y">', '<p aria-labelledby="a--x a--y">'),
        ('<path clip-path="url(#x)">', '<path clip-path="url(#a--x)">'),
        ('<code>id="x" href="#x"</code>', '<code>id="x" href="#x"</code>'),
        ('<details class="hint">', '<details open class="hint">'),
        ("<details open>", "<details open>"),
        ('<p>1</p><details class="provenance">2</details>', "<p>1</p>"),
    ],
)
def test_a_page_becomes_a_part(before, after):
    assert part("a", before, {"a": None, "b": None}) == (
        f'<section class="part" id="a">{after}</section>'
    )


def test_every_page_is_in_it_in_the_order_of_the_navigation(html):
    order = re.findall(r'<section class="part" id="([\w-]+)">', html)
    assert set(order) == PARTS
    assert order[:4] == ["data", "average", "projections", "scale"]
    assert re.findall(r'<li><a href="#([\w-]+)">', html)[: len(order)] == order


def test_names_are_unique_and_links_stay_on_the_page(html):
    names = re.findall(r'\sid="([^"]+)"', html)
    assert len(names) == len(set(names))
    assert set(re.findall(r'href="#([^"]+)"', html)) <= set(names)
    elsewhere = set(re.findall(r'href="([\w-]+)\.html', html.split("<form")[0]))
    assert elsewhere <= LEFT_OUT | {"lab-loops-solved", "lab-masks-solved"}


def test_answers_are_open_and_nothing_folds(html):
    assert len(re.findall("<details", html)) > 10
    assert len(re.findall("<details open", html)) == len(re.findall("<details", html))
    assert 'class="predict"' not in html
    assert len(re.findall("<h1", html)) == 1


def test_the_search_leaves_it_out(built_site):
    index = (built_site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "whole.html" not in index


def paper(tab, name):
    """Print a page on A4, and count the sheets."""
    tab.open(name)
    return len(re.findall(rb"/Type\s*/Page\b", tab.page.pdf(format="A4")))


def test_the_cheat_sheet_fits_on_one_sheet(on_disk):
    assert paper(on_disk, "cheat-sheet") == 1
    on_disk.page.emulate_media(media="print")
    assert on_disk.page.locator(".sheet table").first.is_visible()
    assert on_disk.page.get_by_text("class SelfAttention").is_visible()
    on_disk.page.emulate_media(media="screen")


def test_the_whole_prints_with_every_answer(on_disk):
    assert paper(on_disk, "whole") > 40
    on_disk.page.emulate_media(media="print")
    hidden = on_disk.page.locator("details > :not(summary)").evaluate_all(
        "(all) => all.filter((element) => !element.checkVisibility()).length"
    )
    assert hidden == 0
    on_disk.page.emulate_media(media="screen")
    assert on_disk.seen == []
