"""A tensor's name in the prose and the line that made it; the roles' colours in comments."""

import gzip
import re
from pathlib import Path

import pytest

from selfattn.made import linked
from selfattn.roles import coloured

ROOT = Path(__file__).parent.parent


def block(name, code):
    return (
        f'<div class="executed" id="{name}"><div class="language-python highlight"><pre><code>'
        f"{code}</code></pre></div></div>"
    )


def test_a_name_links_to_the_line_that_made_it_last_above():
    codes = {"a": "x = 1\ny, (z, *w) = x, (2, 3)\n", "b": "x = 5\nx += 1\n"}
    html = f"<code>x</code>{block('a', codes['a'])}<code>x</code><code>w</code>"
    html += f"{block('b', codes['b'])}<code>x</code>"
    found = linked(html, codes)
    assert re.findall(r'<a class="made" href="#([\w-]+)" [^>]*><code>(\w)</code></a>', found) == [
        ("a-line-1", "x"),
        ("a-line-2", "w"),
        ("b-line-2", "x"),
    ]
    assert found.startswith("<code>x</code>")  # nothing had made it yet
    assert '<span class="made-here" id="a-line-1">x = 1</span></span>\n' in found
    assert found.count("made-here") == 3


@pytest.mark.parametrize(
    ("code", "prose"),
    [
        ('card = tokens.index("card")\n', "<code>card</code>"),  # the token, or its place
        ("x = 1\n", "<code>y</code>"),
        ("x = 1\n", "<code>x.T</code>"),
        ("x = 1\n", '<h2 id="x"><code>x</code></h2>'),
        ("x = 1\n", '<a href="#"><code>x</code></a>'),
        ("x = 1\n", "<pre><code>x</code></pre>"),
        ("print(x)\n", "<code>x</code>"),
    ],
)
def test_what_is_no_tensor_above_stays_as_it_is(code, prose):
    html = block("a", code) + prose
    assert linked(html, {"a": code}) == html


def test_a_block_whose_code_is_not_shown_makes_nothing():
    html = '<div class="executed" id="a"><div class="shown"></div></div><code>x</code>'
    assert linked(html, {"a": "x = 1\n"}) == html


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# queries and keys", '# <span class="q">queries</span> and <span class="k">keys</span>'),
        ("# 8 queries, 8 heads", "# 8 queries, 8 heads"),  # what customers type
        ("# its own value", "# its own value"),
        ("# monkeys, valued queries", "# monkeys, valued queries"),
    ],
)
def test_comments_that_name_two_roles_are_coloured(before, after):
    comment = '<span class="c1">{}</span><span class="n">query, key</span>'
    assert coloured(comment.format(before)) == comment.format(after)


def test_every_link_has_its_line_on_the_page(built_site):
    html = (built_site / "average.html").read_text(encoding="utf-8")
    links = re.findall(r'<a class="made" href="#([^"]+)" [^>]*><code>(\w+)</code>', html)
    assert {name for _, name in links} >= {"x", "scores", "by_loop", "output"}
    for target, name in links:
        line = re.search(rf'<span class="made-here" id="{target}">(.*)</span></span>\n', html)[1]
        assert re.sub("<[^>]+>", "", line).strip().startswith(name)


def test_the_line_lights_up_by_pointer_and_focus_and_nothing_moves(on_disk):
    page = on_disk.page
    page.set_viewport_size({"width": 1280, "height": 900})
    on_disk.open("average")
    link = page.locator("a.made", has_text="scores")
    lit = page.locator(".made-here.lit")
    link.scroll_into_view_if_needed()
    height = page.evaluate("document.documentElement.scrollHeight")
    link.hover()
    assert lit.inner_text().startswith("scores = x @")
    assert page.evaluate("document.documentElement.scrollHeight") == height
    page.mouse.move(0, 0)
    assert lit.count() == 0
    link.focus()
    assert lit.count() == 1
    page.keyboard.press("Enter")
    page.wait_for_url("**/average.html#out-average-scores-line-1")
    assert on_disk.seen == []


def test_code_with_a_marked_line_keeps_its_lines(on_disk):
    on_disk.page.set_viewport_size({"width": 1280, "height": 900})
    on_disk.open("average")
    code = on_disk.page.locator("#out-average-scores .language-python code")
    lines = code.inner_text().rstrip().split("\n")
    assert [line.split()[0] for line in lines] == ["scores", "print(scores[0])"]
    style = "(code) => [getComputedStyle(code).display, code.clientHeight]"
    display, height = code.evaluate(style)
    assert display == "block"
    plain = on_disk.page.locator("#out-average-largest .language-python code")  # of one line
    assert height < 2 * plain.evaluate(style)[1]


def test_the_roles_have_their_colours_in_formulas():
    """Every q, k and v that a page's formulas name as a role is marked as one."""
    for path in sorted((ROOT / "docs").glob("*.md")):
        for formula in re.findall(r"`#!math ([^`]*)`", path.read_text(encoding="utf-8")):
            assert not re.search(r"(?<![\\{a-zA-Z])[qkv](?![a-zA-Z])", formula), (path, formula)


def test_the_script_is_small():
    script = ROOT / "docs/assets/javascripts/made.js"
    assert len(gzip.compress(script.read_bytes())) < 1_000
