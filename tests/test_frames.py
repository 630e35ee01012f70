import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from frames_on_page import numbers, picture, words

from selfattn.figures.bars import bars, strip
from selfattn.figures.frames import MOST, beside, captioned, frames
from selfattn.figures.heatmap import grid
from selfattn.figures.sums import average, products

STYLE = "docs/assets/stylesheets/frames.css"
ROWS = {"where": "<p>first</p>", "<pad>": "<p>second</p>", "?": "<p>third</p>"}
PAIRS = {
    pads: {kind: f"<p>{pads} {kind}</p>" for kind in ("off", "on")} for pads in ("0", "5", "43")
}


def parse(html):
    HTMLParser().feed(html)
    return ElementTree.fromstring(f"<div>{html}</div>")  # well-formed, so nothing is unescaped


def cells(html, path=".//tbody/tr"):
    return [[words(cell) for cell in row] for row in parse(html).findall(path)]


def lengths(html, path=".//td"):
    return [cell.get("style") for cell in parse(html).findall(path) if cell.get("style")]


def test_one_row_of_buttons():
    shown = picture(frames("some-rows", ("Query",), ROWS, start=("?",)))
    assert shown.name == "some-rows"
    assert shown.legends == ["Query"]
    assert shown.choices == [["where", "<pad>", "?"]]
    assert shown.start == ("?",)
    assert {c: words(frame) for c, frame in shown.frames.items()} == {
        ("where",): "first",
        ("<pad>",): "second",
        ("?",): "third",
    }


def test_two_rows_of_buttons():
    shown = picture(frames("pads", ("Pads", "Mask"), PAIRS))
    assert shown.choices == [["0", "5", "43"], ["off", "on"]]
    assert shown.start == ("0", "off")
    assert shown.groups == ["pads-1", "pads-2"]
    assert {c: words(frame) for c, frame in shown.frames.items()} == {
        (pads, kind): f"{pads} {kind}" for pads in ("0", "5", "43") for kind in ("off", "on")
    }


def test_words_are_escaped_and_frames_are_not():
    html = frames("a", ("<i>&</i>",), ROWS)
    assert "<i>" not in html
    assert "<pad>" not in html
    assert picture(html).legends == ["<i>&</i>"]
    assert "<p>first</p>" in html
    assert words(parse(captioned("a < b & c", "<p>x</p>")).find(".//figcaption")) == "a < b & c"


def test_a_role_has_its_colour():
    asks = {"Query": "q", "Key": "k", "Value": "v", "Token": None}
    for legend, role in asks.items():
        fieldset = re.search(r"<fieldset[^>]*>", frames("a", (legend,), ROWS))[0]
        assert fieldset == (f'<fieldset class="{role}">' if role else "<fieldset>")


def test_the_same_input_gives_the_same_bytes_and_stays_as_it_was():
    given = {key: dict(value) for key, value in PAIRS.items()}
    assert frames("a", ("x", "y"), PAIRS) == frames("a", ("x", "y"), given)
    assert given == PAIRS


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("A b", ("x",), ROWS), "name must be small letters, digits and hyphens; got 'A b'"),
        (("a", ("x", "y"), ROWS), "pictures by 1 choice.*as many legends in a tuple; got"),
        (("a", ("x",), PAIRS), "pictures by 2 choice.*as many legends"),
        (("a", "x", ROWS), "as many legends in a tuple; got 'x'"),
        (("a", ("x",), {"one": "<p/>"}), r"2 to 12 choices a row; got \['one'\]"),
        (("a", ("x",), {str(n): "<p/>" for n in range(13)}), "2 to 12 choices a row"),
        (
            ("a", ("x", "y"), {"0": {"off": "", "on": ""}, "1": {"on": "", "off": ""}}),
            "the same second choices for every first",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, fault):
    with pytest.raises(ValueError, match=fault):
        frames(*arguments)


@pytest.mark.parametrize("start", [("nowhere",), ("where", "on")])
def test_a_start_that_is_no_choice_is_refused(start):
    with pytest.raises(ValueError, match=r"a cannot start with \('.*its choices are \[\['where'"):
        frames("a", ("x",), ROWS, start=start)


def test_the_style_sheet_has_a_rule_for_every_choice(pytestconfig):
    style = (pytestconfig.rootpath / STYLE).read_text(encoding="utf-8")
    for row, stage in ((1, ".stage >"), (2, ".stage > * >")):
        chosen = re.findall(
            rf"fieldset:nth-of-type\({row}\) > label:nth-of-type\((\d+)\) > :checked\) > "
            rf"{re.escape(stage)} :nth-child\((\d+)\)",
            style,
        )
        assert chosen == [(str(n), str(n)) for n in range(1, MOST + 1)]
    assert "transition" not in style
    assert "animation" not in style


def test_bars_hold_their_numbers_and_shares():
    html = bars([0.1, 0.0, 0.25], labels=["a", "<b>", "c"], head="moved by", digits=3, most=0.5)
    assert cells(html) == [["a", "0.100"], ["<b>", "0.000"], ["c", "0.250"]]
    assert lengths(html) == ["--w:0.2", "--w:0", "--w:0.5"]
    assert 'class="nan">nan<' in bars([float("nan"), 1], labels=["a", "b"], head="x")


def test_a_strip_reads_its_numbers_aloud():
    html = strip([0.5, 0.125], head="a <row>")
    assert [words(item) for item in parse(html).findall(".//li")] == ["0.5000", "0.1250"]
    assert lengths(html, ".//li") == ["--w:0.5", "--w:0.125"]
    assert words(parse(html).find("p")) == "a <row>"


def test_a_bar_that_would_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"between 0 and 1.0; got 1.5. Pass a larger most="):
        bars([1.5], labels=["a"], head="x")
    with pytest.raises(ValueError, match=r"between 0 and 1.0; got -0.5"):
        strip([-0.5], head="x")


def test_lengths_that_differ_are_refused():
    with pytest.raises(ValueError, match="values must have 2 entries; got 1"):
        bars([0.5], labels=["a", "b"], head="x")
    with pytest.raises(ValueError, match="values must have one dimension"):
        bars([[0.5], [0.5]], labels=["a", "b"], head="x")


def test_an_average_shows_weights_vectors_and_what_comes_out():
    html = average(
        [0.25, 0.75, 0.0],
        [[1.0, -2.0], [3.0, 0.0], [9.0, 9.0]],
        [2.5, -0.5],
        labels=["is", "<pad>", "?"],
        what="value",
        most=10,
        mask=[False, False, True],
    )
    assert cells(html) == [
        ["is", "0.25", "1.00", "\u22122.00"],
        ["<pad>", "0.75", "3.00", "0.00"],
        ["?", "masked", "9.00", "9.00"],
    ]
    assert cells(html, ".//tfoot/tr") == [["average", "", "2.50", "\u22120.50"]]
    assert lengths(html, ".//tfoot//td") == ["--w:0.25", "--w:0.05"]
    assert parse(html).find("table").get("class") == "sum v"
    assert numbers(parse(html), ".//td[@class='minus']") == [-2.0, -0.5]


def test_products_show_what_they_add_up_to():
    html = products([1.0, -2.0], [3.0, 0.5], [3.0, -1.0], 2.0, most=4)
    assert cells(html) == [
        ["query", "1.00", "\u22122.00", ""],
        ["key", "3.00", "0.50", ""],
        ["product", "3.00", "\u22121.00", "2.00"],
    ]
    assert [row.get("class") for row in parse(html).findall(".//tbody/tr")] == ["q", "k", None]


def test_sums_refuse_what_does_not_fit():
    with pytest.raises(ValueError, match="key must have 2 entries; got 1"):
        products([1.0, 2.0], [3.0], [3.0, 4.0], 7.0, most=7)
    with pytest.raises(ValueError, match=r"vectors must have shape .* = \[2, 1\]"):
        average([0.5, 0.5], [[1.0, 2.0]] * 2, [1.0], labels=["a", "b"], most=2)
    with pytest.raises(ValueError, match=r"between 0 and 1.0; got 1.5"):
        average([1.5, 0.5], [[1.0]] * 2, [1.0], labels=["a", "b"], most=2)


def test_parts_stand_beside_each_other():
    row = parse(beside("<p>one</p>", "<p>two</p>")).find("div[@class='beside']")
    assert [words(part) for part in row.findall("div")] == ["one", "two"]


def test_a_grid_marks_the_current_row_alone():
    html = grid([[1.0, 0.0], [0.5, 0.5]], queries="ab", keys="ab", label="x", current=1)
    assert [row.get("class") for row in parse(html).findall(".//tbody/tr")] == [None, "current"]
