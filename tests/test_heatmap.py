import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from selfattn.figures.heatmap import heatmap
from selfattn.figures.picture import svg

NAN = float("nan")
WEIGHTS = [[0.70, 0.00, 0.30], [0.125, 0.375, 0.5]]
QUERIES = ["where", "card"]
KEYS = ["where", "is", "?"]
STYLE = "docs/assets/stylesheets/heatmap.css"


def draw(weights=WEIGHTS, queries=QUERIES, keys=KEYS, caption="Each row sums to 1.", **options):
    return heatmap(weights, queries=queries, keys=keys, caption=caption, **options)


def parse(figure):
    HTMLParser().feed(figure)
    return ElementTree.fromstring(figure)  # well-formed too, so nothing is left unescaped


def words(element):
    return "".join(element.itertext())


def cells(figure):
    return [
        [(cell.get("class"), cell.get("style"), words(cell)) for cell in row.findall("td")]
        for row in parse(figure).find(".//tbody")
    ]


def test_cells_hold_the_weights():
    assert cells(draw()) == [
        [(None, "--w:0.70", "0.70"), (None, "--w:0.00", "0.00"), (None, "--w:0.30", "0.30")],
        [(None, "--w:0.12", "0.12"), (None, "--w:0.38", "0.38"), (None, "--w:0.50", "0.50")],
    ]


def test_digits():
    assert cells(draw(digits=3))[1][0] == (None, "--w:0.125", "0.125")


def test_rows_are_queries_and_columns_are_keys():
    table = parse(draw())
    rows, columns = table.findall(".//tbody/tr/th"), table.findall(".//thead/tr/th")
    assert [words(th) for th in rows] == QUERIES
    assert {th.get("scope") for th in rows} == {"row"}
    assert [words(th) for th in columns] == KEYS
    assert {th.get("scope") for th in columns} == {"col"}


def test_caption_names_the_table():
    figure = parse(draw(caption="Each row sums to 1 & more."))
    assert words(figure.find("figcaption")) == "Each row sums to 1 & more."
    assert figure.find("div/table").get("aria-label") == "Each row sums to 1 & more."
    assert figure.find("div").get("tabindex") == "0"


def test_labels_are_escaped():
    figure = draw(queries=["<pad>", '"'], keys=["&", "<b>", "'"])
    assert "<pad>" not in figure
    assert [words(th) for th in parse(figure).findall(".//tbody/tr/th")] == ["<pad>", '"']
    assert [words(th) for th in parse(figure).findall(".//thead/tr/th")] == ["&", "<b>", "'"]


def test_masked_is_not_zero():
    mask = [[False, True, False], [False, False, False]]
    first = cells(draw(mask=mask))[0]
    assert first[1] == ("masked", None, "masked")
    assert first[0] == (None, "--w:0.70", "0.70")


def test_nan_is_shown_even_where_it_is_masked():
    figure = draw([[NAN, NAN, NAN], [0.5, 0.0, 0.5]], mask=[[True] * 3, [False, True, False]])
    assert cells(figure) == [
        [("nan", None, "nan")] * 3,
        [(None, "--w:0.50", "0.50"), ("masked", None, "masked"), (None, "--w:0.50", "0.50")],
    ]


def test_compact_keeps_the_words_for_screen_readers():
    mask = [[False, True, False], [False, False, False]]
    figure = draw(mask=mask, compact=True)
    assert parse(figure).get("class") == "heat compact"
    assert cells(figure) == cells(draw(mask=mask))
    hidden = parse(figure).findall(".//tbody//td/span")
    assert {span.get("class") for span in hidden} == {"sr"}
    assert len(hidden) == 6


def test_minus_zero_and_rounding_at_the_ends():
    assert cells(draw([[-0.0, 1.0000001, 0.0], [0.0, 1.0, -1e-9]]))[0] == [
        (None, "--w:0.00", "0.00"),
        (None, "--w:1.00", "1.00"),
        (None, "--w:0.00", "0.00"),
    ]


def test_anything_with_tolist():
    import torch

    weights = torch.tensor([[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]])
    mask = torch.tensor([[False, False, True], [False, False, True]])
    assert draw(weights, mask=mask) == draw(weights.tolist(), mask=mask.tolist())


@pytest.mark.parametrize(
    ("weights", "shape"),
    [
        ([WEIGHTS], r"[1, 2, 3]"),
        (WEIGHTS[:1], "[1, 3]"),
        ([row[:2] for row in WEIGHTS], "[2, 2]"),
        ([[0.5, 0.5, 0.0], [1.0]], "[2, 'rows of different lengths']"),
        (0.5, "[]"),
    ],
)
def test_shapes_that_do_not_fit_the_labels(weights, shape):
    expected = r"weights must have shape \[queries, keys\] = \[2, 3\].*got " + re.escape(shape)
    with pytest.raises(ValueError, match=expected):
        draw(weights)


def test_a_mask_of_another_shape():
    with pytest.raises(ValueError, match=r"mask must have shape .* = \[2, 3\].*got \[1, 3\]"):
        draw(mask=[[False, True, False]])


def test_scores_are_refused():
    with pytest.raises(ValueError, match=r"got -4\.42 in row 0, column 1\. Pass the weights after"):
        draw([[0.5, -4.42, 0.5], [0.0, 0.0, 1.0]])


def test_a_masked_weight_is_refused():
    with pytest.raises(ValueError, match=r"a masked weight must be 0; got 0\.7 in row 0, column 0"):
        draw(mask=[[True, False, False], [False, False, False]])


def test_svg_is_well_formed_deterministic_and_holds_the_weights():
    panels = [("A & B", WEIGHTS, QUERIES, ["<pad>", "is", "?"]), ("C", WEIGHTS, QUERIES, KEYS)]
    picture = svg(panels)
    assert picture == svg(panels)
    texts = [words(text) for text in ElementTree.fromstring(picture).iter() if text.text]
    assert texts.count("0.70") == texts.count("0.38") == 2
    assert "<pad>" in texts
    assert "A & B; C" in texts


def test_svg_shows_nan():
    assert ">nan<" in svg([("Empty row", [[NAN, NAN]], ["a"], ["b", "c"])])


def test_svg_names_a_shape_that_does_not_fit():
    with pytest.raises(ValueError, match=r"= \[2, 3\].*got \[1, 3\]"):
        svg([("A", WEIGHTS[:1], QUERIES, KEYS)])
    with pytest.raises(ValueError, match="at least one panel"):
        svg([])


# The colours, computed as the browser does: both ends in OKLab, then the contrast of the text.


def linear(channel):
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4


def oklab(colour):
    r, g, b = (linear(int(colour[i : i + 2], 16) / 255) for i in (1, 3, 5))
    l_ = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    m_ = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    s_ = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * l_ + 0.7936177850 * m_ - 0.0040720468 * s_,
        1.9779984951 * l_ - 2.4285922050 * m_ + 0.4505937099 * s_,
        0.0259040371 * l_ + 0.7827717662 * m_ - 0.8086757660 * s_,
    )


def luminance(lab):
    light, a, b = lab
    l_ = (light + 0.3963377774 * a + 0.2158037573 * b) ** 3
    m_ = (light - 0.1055613458 * a - 0.0638541728 * b) ** 3
    s_ = (light - 0.0894841775 * a - 1.2914855480 * b) ** 3
    r = 4.0767416621 * l_ - 3.3077115913 * m_ + 0.2309699292 * s_
    g = -1.2684380046 * l_ + 2.6097574011 * m_ - 0.3413193965 * s_
    b = -0.0041960863 * l_ - 0.7034186147 * m_ + 1.7076147010 * s_
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_every_weight_is_readable(theme, pytestconfig):
    style = (pytestconfig.rootpath / STYLE).read_text(encoding="utf-8")
    pale, deep = (oklab(re.findall(rf"--heat-{end}: (#\w{{6}})", style)[theme]) for end in (0, 1))
    flip = float(re.findall(r"--flip: ([\d.]+)", style)[theme])
    below, above = ((0.0, 1.0), (1.0, 0.0))[theme]  # luminance of black, white
    for step in range(1001):
        weight = step / 1000
        mixed = luminance([a + (b - a) * weight for a, b in zip(pale, deep, strict=True)])
        text = below if weight <= flip else above
        assert contrast(mixed, text) >= 4.5, weight
