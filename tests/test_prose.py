"""Which numbers of a page are judged, what grounds them, and what becomes of them in the HTML."""

from pathlib import Path

import pytest

from selfattn.fresh import prose
from selfattn.fresh.number import numbers
from selfattn.fresh.prose import Claim, Source


def judged(markdown: str) -> list[tuple[int, str]]:
    return [(claim.line, claim.number.text) for claim in prose.claims(markdown, above=0)]


def claim(text: str, line: int = 10) -> Claim:
    return Claim(next(numbers(text)), line)


def source(text: str, line: int = 1, **more) -> Source:
    return Source(next(numbers(text)), "script", f"section-{line}", line, **more)


@pytest.mark.parametrize(
    "text",
    [
        "moved by 0.70",
        "`x[0.70]` in code",
        "**0.70** and",
        "| cell | 0.70 |",
        "![a picture of 0.70](x.svg)",
        "[0.70 on another page](scale.md#a-3)",
        '[text](scale.md "titled 0.70")  0.70',
        "> 0.70",
        "- 0.70",
        '!!! note "with 0.70"',
        "## A heading with 0.70",
        "`#!python x + 0.70`",
        "> ## A heading with 0.70",
        "shape [42]: has 0.70",
        "if 4 < 5 and 0.70 > 3",
        '<img src="x.svg" alt="a picture of 0.70">',
        "![a picture of 0.70](https://example.org/x.svg)",
        "## 0.70 is the mean",
        "0.70x as fast",
        "the set { 0.70, 5 }",
        '[ref]: index.md "a title with 0.70"',
        '[text](scale.md "a title with 0.70")',
    ],
)
def test_judged(text: str) -> None:
    assert (1, "0.70") in judged(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one, two",
        "`#!math \\sqrt{4}`",
        "[paper 1706.03762](https://arxiv.org/abs/1706.03762)",
        "<https://example.org/42>",
        "[text](page.md#section-4)",
        "[text][1]",
        "[1]: page.md",
        "text[^1]",
        "&#42;",
        '<img src="x-42.svg" width="42" alt="">',
        '<img width="42" alt="">',
        "<!-- 42 -->",
        "<!--\n42\n-->",
        "```text\n42\n```",
        "```math\n42\n```",
        "{{ minutes }}",
        "**query**{ .q4 }",
        "1. first",
        "1. first,\n   over two lines\n3. third",
        "- first,\n  over two lines\n3. third",
        "## 3 Third",
        "## 3.1 Third, first",
        "on 2026-11-29",
        "in 2026-11",
        "at 4:29 and 1:19:11",
        "(Casanueva and others, 2020)",
        "(2020)",
        "torch 2.13.0",
        "Python 3.11 or newer",
        "PyTorch 2.9",
        "section 3.2.1",
        "float32 and conv2d",
    ],
)
def test_not_judged(text: str) -> None:
    assert judged(text) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("at 2020 tokens", "2020"),
        ("we use 2000, not more", "2000"),
        ("in version 77 rows", "77"),
        ("a ratio 77:10", "77"),
        ("we used\n77. Then", "77"),
        ("## 77 % of all", "77"),
        ("in 1977-77", "1977"),
    ],
)
def test_what_only_looks_like_a_year_a_version_or_a_numbering(text: str, number: str) -> None:
    assert number in [found for _, found in judged(text)]


def test_lines_count_the_front_matter() -> None:
    found = prose.claims("a\n\n0.5 and 7\n", above=4)
    assert [(c.line, c.number.text) for c in found] == [(7, "0.5"), (7, "7")]


def test_titles_and_descriptions_are_judged() -> None:
    front = "---\nsettings:\n  a: 9\ndescription: It moves by 0.15.\ntitle: Over 7 keys\n---"
    meta = {"settings": {"a": 9}, "description": "It moves by 0.15.", "title": "Over 7 keys"}
    found = prose.described(meta, front)
    assert [(c.line, c.number.text, c.marked) for c in found] == [
        (5, "7", False),
        (4, "0.15", False),
    ]


PAGE = "The 0.70 and `0.80`.\n\n```text\n0.90\n```\n"


def test_marks_come_off_again() -> None:
    found = prose.claims(PAGE, 0)
    marked = prose.mark(PAGE, 0, found)
    assert marked != PAGE
    assert prose.strip(marked) == PAGE


def test_marks_land_and_are_replaced() -> None:
    found = prose.claims("a 0.70 b", 0)
    marked = prose.mark("a 0.70 b", 0, found)
    seen = []

    def show(index: int, text: str) -> str:
        seen.append((index, text))
        return f"<data>{text}</data>"

    html = f'<p title="{marked}">{marked}</p><pre>{marked}</pre>'
    placed, in_code = prose.place(html, show)
    assert placed == '<p title="a 0.70 b">a <data>0.70</data> b</p><pre>a 0.70 b</pre>'
    assert seen == [(0, "0.70")]
    assert in_code == {0}


def test_the_nearest_printed_before_wins() -> None:
    sources = [source("0.7031", 2), source("0.7049", 8), source("0.7012", 11)]
    assert prose.choose(claim("0.70"), sources) == sources[1]
    assert prose.choose(claim("0.70", 1), sources) == sources[0]


def test_a_check_section_and_code_come_last() -> None:
    hidden = Source(next(numbers("0.70")), "script", "a-check", -1)
    code = source("0.70", 9, code=True)
    after = source("0.7031", 20)
    assert prose.choose(claim("0.70"), [code, hidden, after]) == after
    assert prose.choose(claim("0.70"), [code, hidden]) == hidden
    assert prose.choose(claim("0.70"), [code]) == code


def test_numbers_in_code_are_not_rounded() -> None:
    assert prose.choose(claim("0.70"), [source("0.7031", code=True)]) is None
    assert prose.choose(claim("70 %"), [source("0.70", code=True)]) is None


def test_the_fault_names_the_nearest_number() -> None:
    fault = prose.ungrounded(claim("0.72"), [source("0.5"), source("0.7031")], Path("docs/a.md"))
    assert str(fault).startswith(
        "docs/a.md:10: no script of this page printed 0.72; the nearest is"
    )
    assert "the nearest is 0.7031, printed by script, section section-1" in str(fault)
    assert "printed 72 %." in str(prose.ungrounded(claim("72 %"), [], Path("docs/a.md")))


def test_settings_ground() -> None:
    found = list(prose.settings({"settings": {"chapter": 6, "times": "4 and 5"}}))
    assert [s.number.text for s in found] == ["6", "4", "5"]
    assert prose.choose(claim("6"), found) == found[0]
    assert list(prose.settings({})) == []


def test_the_element_says_where_its_number_is_from() -> None:
    html = prose.element("0.70", source("0.7031"))
    expected = (
        '<data value="0.7031" title="0.7031, printed by script, section section-1">0.70</data>'
    )
    assert html == expected
