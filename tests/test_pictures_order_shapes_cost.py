"""Order, the comparison with PyTorch, and cost: what their pictures show, and the calculator."""

import itertools
import math
import random
import re
from xml.etree import ElementTree

import pytest
import torch
import torch.nn.functional as F
from frames_on_page import numbers, words
from test_pictures import PHONE, TOKENS, built, close, layers, vectors  # noqa: F401

from selfattn.figures.bars import number
from selfattn.figures.loglog import fitted, loglog
from selfattn.figures.shapes import calculator, lined_up, verdict
from selfattn.text import load

# ruff: noqa: F811

LENGTHS = (48, 512, 1024, 2048, 4096, 8192)


# What the pictures show


def sinusoid(place):
    angles = [place / 10_000 ** (i / 16) for i in range(0, 16, 2)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def test_order(built):
    embedding, query, key, value = layers(16)
    positions = torch.tensor([sinusoid(place) for place in range(5)])

    def attend(order, kind):
        x = vectors(embedding, order) + (positions if kind == "sinusoids added" else 0)
        q, k, v = query(x), key(x), value(x)
        weights = F.scaled_dot_product_attention(q, k, torch.eye(5))
        return weights, F.scaled_dot_product_attention(q, k, v)

    for (order, kind), frame in built["order-words"].frames.items():
        tokens = order.split()
        assert sorted(tokens) == sorted(TOKENS)
        weights, output = attend(tokens, kind)
        cells = numbers(frame, ".//table[@class='heatmap']/tbody//td[@style]")
        close(cells, weights.flatten(), 2)
        for part in ("thead", "tbody"):
            labels = frame.findall(f".//table[@class='heatmap']/{part}//th")
            assert [words(label) for label in labels] == tokens
        close(numbers(frame, ".//tfoot//td[@style]"), output.mean(0)[:4], 2)
        start = attend(TOKENS, kind)[1]
        card = output[tokens.index("card")] - start[TOKENS.index("card")]
        pooled = output.mean(0) - start.mean(0)
        said = re.findall(r"\d\.\d{4}", words(frame.find(".//figcaption")))
        close([float(n) for n in said], [card.abs().max(), pooled.abs().max()], 4)
        marked = frame.findall(".//tr[@class='current']/th")
        assert [words(label) for label in marked] == ["card"]


def test_without_positions_rows_and_columns_move_together(built):
    def table(order, kind):
        frame = built["order-words"].frames[order, kind]
        rows = iter(numbers(frame, ".//table[@class='heatmap']/tbody//td[@style]"))
        tokens = order.split()
        return {pair: next(rows) for pair in itertools.product(tokens, tokens)}

    first, *others = built["order-words"].choices[0]
    for order in others:
        assert table(order, "none") == table(first, "none")
        assert table(order, "sinusoids added") != table(first, "sinusoids added")


def test_cases(built):
    embedding, query, key, value = layers(16)
    every = load("bundled").val_set.tensors[0]
    inputs = {
        "32 padded queries": every[:32],
        "one of 5 tokens": every[2:3, :5],
        "one of 16 tokens": every[1:2, :16],
    }
    for (name,), frame in built["pytorch-cases"].frames.items():
        ids = inputs[name]
        x, pads = embedding[ids], ids == 0
        q, k, v = query(x), key(x), value(x)
        seq = ids.shape[1]

        def alone(q, k, v, pads, scale=1 / 4, blocked=-math.inf):
            """One sequence by plain matrix products."""
            scores = (q @ k.T * scale).masked_fill(pads, blocked)
            return scores.softmax(-1) @ v

        def each(pads=pads, q=q, k=k, v=v, **how):
            rows = [alone(*row, **how) for row in zip(q, k, v, pads, strict=True)]
            return torch.stack(rows)

        truth = each()
        none = torch.zeros_like(pads)
        blind = value.bias if pads.any() else torch.zeros(16)
        others = torch.stack([each(pads[i].expand_as(pads)) for i in range(len(ids))])
        expected = {
            "padding mask": truth,
            "causal mask": truth,
            "both masks": truth,
            "no scale": each(scale=1),
            "divided by d": each(scale=1 / 16),
            "divided by √seq": each(scale=seq**-0.5),
            "q and k swapped": each(q=k, k=q),
            "filled with 0.0": each(blocked=0.0),
            "no mask": each(none),
            "mask after softmax": each(none, v=v.masked_fill(pads.unsqueeze(-1), 0.0)),
            "mask not flipped": blind.expand_as(truth),
            "mask on heads": others,
        }
        labels = [words(label) for label in frame.findall(".//tbody//th")]
        far = [(expected[case] - truth).abs().amax(-1)[..., ~pads].max() for case in labels]
        assert len(labels) == len(expected)
        close(numbers(frame, ".//tbody//td"), torch.stack(far), 4)
        hidden = sum(f < 1e-6 for f in far)
        assert f"{hidden} of 12 cases agree" in words(frame.find(".//figcaption"))


def test_memory(built):
    for (memory, shared), frame in built["square-memory"].frames.items():
        gib = int(memory.removesuffix(" GiB"))
        batch, heads = map(int, shared.split(" × "))
        assert len(frame.findall(".//tbody/tr")) == 4
        for row in frame.findall(".//tbody/tr"):
            kind, layers_ = re.fullmatch(r"(.*), (\d+) layers?", words(row.find("th"))).groups()
            width = {"float32": 4, "16 bits": 2}[kind]
            n = int(words(row.find("td")).replace(",", ""))
            one_more = (n + 1) ** 2 * batch * heads * int(layers_) * width
            assert n**2 * batch * heads * int(layers_) * width <= gib * 1024**3 < one_more


def test_chart(built_site):
    html = (built_site / "square.html").read_text(encoding="utf-8")
    of_bytes, of_time = re.findall(r'<svg role="img" aria-label="([^"]*)"', html)
    assert of_bytes.endswith("weights, slope 2.00; output, slope 1.00")
    assert re.search(r"one call, slope \d\.\d\d$", of_time)
    assert "machine that built this page" in html
    prose = re.sub(r"<(svg|figure|pre|script|details).*?</\1>", "", html, flags=re.DOTALL)
    assert of_time.rsplit(" ", 1)[1] not in prose


# The figures by themselves


def test_a_fitted_power_is_found():
    slope, factor = fitted(LENGTHS, [3 * n**1.5 for n in LENGTHS])
    assert slope == pytest.approx(1.5)
    assert factor == pytest.approx(3)


def test_a_power_is_a_straight_line_in_the_picture():
    squares = {"bytes": {"w": [n**2 for n in LENGTHS]}}
    html = loglog(squares, LENGTHS, x="n", caption="a < b")
    assert html == loglog(squares, LENGTHS, x="n", caption="a < b")
    assert "<figcaption>a &lt; b</figcaption>" in html
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", html)
    assert {"48", "512", "1,024", "8,192", "n", "bytes", "w, slope 2.00"} <= set(texts)
    uses = re.findall(r'<use href="(#\w+)" x="([\d.]+)" y="([\d.]+)"', html)
    marks = [
        [(float(x), float(y)) for href, x, y in uses if href == one]
        for one in {href for href, _, _ in uses}
    ]
    (points,) = (m for m in marks if min(len(set(axis)) for axis in zip(*m, strict=True)) > 5)
    slopes = [(y - b) / (x - a) for (a, b), (x, y) in itertools.pairwise(points[:6])]
    assert slopes == pytest.approx([slopes[0]] * 5, rel=1e-3)


@pytest.mark.parametrize(
    ("panels", "fault"),
    [
        ({"y": {}}, "1 to 3 lines; got 0 for 'y'"),
        ({"y": {name: [1, 2] for name in "abcd"}}, "1 to 3 lines; got 4 for 'y'"),
        ({"y": {"a": [1, 2, 3]}}, "'a' must have 2 values, one for each step; got 3"),
    ],
)
def test_a_chart_that_does_not_fit_is_refused(panels, fault):
    with pytest.raises(ValueError, match=fault):
        loglog(panels, [1, 2], x="n", caption="")


def test_long_numbers_have_commas_and_zero_no_sign():
    assert number(146542, 0) == "146,542"
    assert number(-1234.5, 1) == "\u22121,234.5"
    assert number(-0.00001, 2) == "0.00"


def test_a_pair_is_lined_up_from_the_last_dimension():
    table = ElementTree.fromstring(lined_up((32, 48, 48), (32, 48), None, name="a < b"))
    assert words(table.find("caption/b")) == "a < b"
    assert [words(th) for th in table.findall("thead//th")] == ["\u22123", "\u22122", "\u22121"]
    assert [[words(cell) for cell in row] for row in table.findall("tbody/tr")] == [
        ["scores", "32", "48", "48"],
        ["mask", "(1)", "32", "48"],
        ["result", "", "≠", ""],
    ]
    marked = [[c.get("class") for c in row.findall("td")] for row in table.findall("tbody/tr")]
    assert marked == [[None, "alarm", None]] * 3


@pytest.mark.parametrize(
    ("scores", "mask", "result", "said", "places"),
    [
        ((32, 48, 48), (32, 1, 48), (32, 48, 48), "Fits: the scores keep", set()),
        ((2, 3, 4), (5, 6, 4), None, "Refused: 3 meets 6 in dimension \u22122", {0, 1}),
        ((32, 1, 48, 48), (32, 1, 48), (32, 32, 48, 48), "Grows to 32, 32, 48, 48:", {1}),
        ((48, 48), (1, 1, 48), (1, 48, 48), "Grows to 1, 48, 48:", {0}),
        ((48, 48, 48), (48, 48), (48, 48, 48), "first 48 meets dimension \u22122", {1}),
        ((8, 8, 48, 48), (8, 1, 48), (8, 8, 48, 48), "first 8 meets dimension \u22123", {1}),
        ((32, 48, 48), (32, 48, 1), (32, 48, 48), "blocks whole rows", {2}),
    ],
)
def test_verdicts(scores, mask, result, said, places):
    text, marked = verdict(scores, mask, result)
    assert said in text
    assert marked == places


# The calculator in a browser


def broadcast(scores, mask):
    try:
        return list(torch.zeros(scores).masked_fill(torch.zeros(mask, dtype=torch.bool), 1).shape)
    except RuntimeError as error:
        return str(error)


def some_pairs(count):
    draw = random.Random(42)
    sizes = (1, 1, 2, 3, 5)
    for _ in range(count):
        scores = [draw.choice(sizes) for _ in range(draw.randint(1, 5))]
        mask = [draw.choice((1, size, draw.choice(sizes))) for size in scores]
        mask = [1] * draw.randint(0, 1) + mask[draw.randint(0, len(mask) - 1) :]
        yield scores, mask


def test_the_script_broadcasts_as_pytorch_does(on_disk):
    on_disk.open("pytorch")
    pairs = list(some_pairs(600))
    found = on_disk.page.evaluate("(pairs) => pairs.map((pair) => lineUp(...pair))", pairs)
    kinds = set()
    for (scores, mask), mine in zip(pairs, found, strict=True):
        expected = broadcast(scores, mask)
        if isinstance(expected, str):
            place = int(re.search(r"non-singleton dimension (\d+)", expected)[1])
            assert mine["result"].count(None) > 0, (scores, mask)
            assert max(i for i, x in enumerate(mine["result"]) if x is None) == place
            expected = None
        else:
            assert mine["result"] == expected == list(torch.broadcast_shapes(scores, mask))
        said, places = verdict(scores, mask, expected)
        assert (mine["words"], set(mine["places"])) == (said, places), (scores, mask)
        kinds.add(re.match(r"\w+, \w+|\w+", said)[0])
    assert kinds == {"Refused", "Grows", "Fits", "Fits, perhaps", "Fits, but"}


def test_pytorchs_function_refuses_every_mask_that_grows():
    grown = 0
    for scores, mask in some_pairs(600):
        if len(scores) < 2:
            continue
        result = broadcast(scores, mask)
        if isinstance(result, list) and result != scores:
            grown += 1
            q, k = torch.zeros(*scores[:-1], 4), torch.zeros(*scores[:-2], scores[-1], 4)
            with pytest.raises((RuntimeError, IndexError)):
                F.scaled_dot_product_attention(q, k, k, attn_mask=torch.ones(mask) > 0)
    assert grown > 50


@pytest.mark.parametrize(
    ("typed", "sizes"),
    [
        ("32, 1, 48", [32, 1, 48]),
        ("[32,1,48]", [32, 1, 48]),
        ("(32,)", [32]),
        (" torch.Size([32, 1, 48]) ", [32, 1, 48]),
        ("32 1 48", [32, 1, 48]),
        ("32x1×48", [32, 1, 48]),
        ("0, 7", [0, 7]),
        ("999999", [999_999]),
        ("1000000", None),
        ("1 1 1 1 1 1 1 1", [1] * 8),
        ("1 1 1 1 1 1 1 1 1", None),
        ("", None),
        ("[]", None),
        ("-1, 48", None),
        ("1.5", None),
        ("32,, 48", None),
        ("batch, 48", None),
        ("\uff13\uff12", None),
        ("1e3", None),
        ("<b>32</b>", None),
    ],
)
def test_what_counts_as_a_shape(on_disk, typed, sizes):
    on_disk.open("pytorch")
    assert on_disk.page.evaluate("(text) => parseShape(text)", typed) == sizes


def table_of(page):
    """The calculator's table, row by row, with the class of each cell."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.calculator tr')].map((row) =>
            [...row.cells].map((cell) => [cell.textContent, cell.className]))"""
    )


def test_the_calculator_makes_the_tables_of_the_page(on_disk):
    on_disk.page.set_viewport_size(PHONE)
    on_disk.open("pytorch")
    page = on_disk.page
    scores, mask = page.get_by_label("Scores", exact=True), page.get_by_label("Mask", exact=True)
    tables = page.locator("figure.shapes table").all()
    assert len(tables) == 10
    for table in tables:
        rows = table.evaluate(
            """(table) => [...table.rows].map((row) =>
                [...row.cells].map((cell) => [cell.textContent, cell.className]))"""
        )
        for field, row in ((scores, rows[1]), (mask, rows[2])):
            field.fill("")
            field.press_sequentially(", ".join(t for t, _ in row[1:] if t != "(1)"))
        assert table_of(page) == rows
        name = table.locator("caption b").inner_text()
        said = table.locator("caption").text_content().removeprefix(name).strip()
        assert page.locator(".calculator output").text_content() == said
    assert on_disk.seen == []


def test_bad_input_is_told_calmly_and_never_becomes_markup(on_disk):
    on_disk.page.set_viewport_size(PHONE)
    on_disk.open("pytorch")
    page = on_disk.page
    mask = page.get_by_label("Mask", exact=True)
    says = page.locator(".calculator output")
    for typed in ("<img src=x onerror=alert(1)>", "'; alert(1)", "32, ", "&lt;b&gt;", " "):
        mask.fill(typed)
        bad = typed != "32, "
        assert says.inner_text().startswith("A shape is up to 8 sizes") == bad
        assert (mask.get_attribute("aria-invalid") == "true") == bad
        assert page.locator(".calculator table").is_visible() != bad
        assert page.locator(".calculator img, .calculator b").count() == 0
    mask.fill("999999 " * 8)
    assert says.inner_text().startswith("Refused")
    wide = page.evaluate("document.documentElement.scrollWidth")
    assert wide <= PHONE["width"]
    assert on_disk.seen == []


def test_an_alarm_is_red_and_says_so_in_words(on_disk):
    on_disk.open("pytorch")
    output = on_disk.page.locator(".calculator output")
    assert output.inner_text().startswith("Grows to 32, 32, 48, 48")
    red = on_disk.page.evaluate(
        """[...document.querySelectorAll('.calculator .alarm')]
            .map((element) => getComputedStyle(element).color)"""
    )
    assert len(red) == 4  # the words, and the column of three
    assert len(set(red)) == 1
    on_disk.page.get_by_label("Mask", exact=True).fill("32, 1, 1, 48")
    assert output.inner_text() == "Fits: the scores keep their shape."
    assert on_disk.page.locator(".calculator .alarm").count() == 0


def test_the_script_is_loaded_where_the_calculator_is(built_site):
    for path in built_site.glob("*.html"):
        loads = "assets/javascripts/shapes.js" in path.read_text(encoding="utf-8")
        assert loads == (path.name in {"pytorch.html", "whole.html"}), path.name


def test_the_calculators_place_is_escaped_and_hidden():
    html = calculator((1, 2), (2,))
    assert 'value="1, 2"' in html
    assert re.match(r'<section class="calculator" [^>]*hidden>', html)


def test_without_scripts_the_pairs_are_there(browser, built_site):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((built_site / "pytorch.html").as_uri())
    assert not page.locator(".calculator").is_visible()
    assert page.locator("figure.shapes table:visible").count() == 10
    context.close()
