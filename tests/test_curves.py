"""Line curves: right places, texts as text, no colour alone, the same bytes every time."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from selfattn.figures.curves import curves

LOSS = {
    "bag": [[2.0, 1.0, 0.5]],
    "attention": [[1.5, 1.25, 1.0]],
    "causal": [[1.75, 1.0, 0.75]],
}
BANDS = {"bag": [[0.5, 0.75], [0.25, 1.0], [0.75, 0.5]]}
PANELS = {"loss": LOSS, "accuracy": BANDS}
SVG = "{http://www.w3.org/2000/svg}"


def draw(panels=None, **options):
    return curves(panels or PANELS, x="epoch", caption="Three models & a band.", **options)


def parse(figure):
    HTMLParser().feed(figure)
    return ElementTree.fromstring(figure)


def pictures(figure):
    return parse(figure).findall(f"div/{SVG}svg")


def words(picture):
    return ["".join(text.itertext()).strip() for text in picture.iter(f"{SVG}text")]


def lines(picture):
    """The points and the style of each line that runs through all steps, legend left out."""
    found = []
    for path in picture.iter(f"{SVG}path"):
        numbers = re.findall(r"[ML] ([\d.]+) ([\d.]+)", path.get("d"))
        style = path.get("style", "")
        if "stroke-width: 1.5" in style and len({x for x, _ in numbers}) > 1:
            found.append(([(float(x), float(y)) for x, y in numbers], style))
    return found


def test_lines_go_through_their_values():
    picture, _ = pictures(draw())
    drawn = [points for points, _ in lines(picture)[:3]]
    values = [value for [run] in LOSS.values() for value in run]
    heights = [y for points in drawn for _, y in points]
    # Straight from the lowest, 0.5, to the highest, 2.0; heights count from the top.
    bottom, top = max(heights), min(heights)
    expected = [bottom + (top - bottom) * (value - 0.5) / 1.5 for value in values]
    assert heights == pytest.approx(expected, abs=0.01)
    for (x1, _), (x2, _), (x3, _) in drawn:
        assert x2 - x1 == pytest.approx(x3 - x2, abs=0.01)
        assert x2 > x1


def test_several_runs_are_their_mean_and_a_band():
    _, picture = pictures(draw())
    (x1, y1), (x2, y2) = lines(picture)[0][0]  # the means: 0.5, then 0.75
    step = (y1 - y2) / 0.25
    use = next(e for e in picture.iter(f"{SVG}use") if "fill-opacity" in e.get("style"))
    band = next(e for e in picture.iter() if f"#{e.get('id')}" == use.get("href"))
    edge = re.findall(r"[ML] (-?[\d.]+) (-?[\d.]+)", band.get("d"))
    corners = {
        (round(float(x), 2), round(0.5 + (y1 - float(y) - float(use.get("y"))) / step, 3))
        for x, y in edge
    }
    left, right = round(x1, 2), round(x2, 2)
    assert corners == {(left, 0.25), (left, 0.75), (right, 0.5), (right, 1.0)}


def test_texts_are_texts():
    loss, accuracy = pictures(draw())
    assert {"loss", "epoch", "1", "3", "bag", "attention", "causal"} <= set(words(loss))
    assert {"accuracy", "epoch", "1", "2", "bag"} <= set(words(accuracy))
    assert {"0", "2"} <= set(words(pictures(draw(first=0))[0]))


def test_pictures_and_figure_have_names():
    figure = parse(draw())
    assert figure.find("figcaption").text == "Three models & a band."
    labels = [picture.get("aria-label") for picture in pictures(draw())]
    assert labels == [
        "loss by epoch: bag from 2.00 to 0.50; attention from 1.50 to 1.00; "
        "causal from 1.75 to 0.75",
        "accuracy by epoch: bag from 0.50 to 0.75",
    ]
    assert {picture.get("role") for picture in pictures(draw())} == {"img"}


def test_lines_differ_in_more_than_colour():
    drawn = lines(pictures(draw())[0])[:3]
    dashes = [re.search(r"dasharray: ([\d.,]+)", style) for _, style in drawn]
    assert len({dash and dash[1] for dash in dashes}) == 3
    markers = set()
    for points, _ in drawn:
        x, y = points[0]
        for use in pictures(draw())[0].iter(f"{SVG}use"):
            if (use.get("x"), use.get("y")) == (f"{x:.6f}", f"{y:.6f}"):
                markers.add(use.get("href"))
    assert len(markers) == 3


def test_all_colours_are_the_themes():
    figure = draw()
    assert re.findall(r"#[0-9a-f]{6}\b(?!\w)", re.sub(r'(?:href|id)="[^"]*"', "", figure)) == []
    colours = set(re.findall(r"(?:fill|stroke): ([^;\"]+)", figure))
    assert colours == {"none", "currentColor", "var(--accent)", "var(--muted)"}


def test_nothing_of_a_file_of_its_own_is_left():
    figure = draw()
    for left in ("<?xml", "<!DOCTYPE", "<metadata", "<style", "dc:date", "xlink", "DejaVu"):
        assert left not in figure
    assert not re.search(r"<svg[^>]* (?:width|height)=", figure)


def test_ids_are_used_and_no_two_are_the_same():
    changed = {"loss": LOSS | {"bag": [[2.0, 1.0, 0.25]]}}
    page = draw() + draw(changed)
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    used = re.findall(r'href="#([^"]+)"', page) + re.findall(r"url\(#([^)]+)\)", page)
    assert set(ids) == set(used)


def test_the_same_bytes_in_another_process():
    code = (
        "from selfattn.figures.curves import curves\n"
        f"print(curves({PANELS!r}, x='epoch', caption='c'))"
    )
    made = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    here = curves(PANELS, x="epoch", caption="c")
    assert made == [here + "\n"] * 2


def test_the_settings_of_others_are_left_alone():
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw()
    assert dict(matplotlib.rcParams) == before


def test_importing_the_figures_loads_no_matplotlib():
    modules = "selfattn.figures.curves, selfattn.figures.loglog"
    code = f"import sys, {modules}; print('matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ({}, "a panel takes 1 to 3 lines.*got 0 for 'loss'"),
        ({name: [[1.0]] for name in "abcd"}, "got 4 for 'loss'"),
        ({"bag": [[1.0, 2.0], [1.0]]}, r"runs of 'bag' must be equally long.*lengths \[1, 2\]"),
        ({"bag": []}, r"got lengths \[\]"),
        ({"bag": [[]]}, r"got lengths \[0\]"),
    ],
)
def test_what_cannot_be_drawn(lines, problem):
    with pytest.raises(ValueError, match=problem):
        draw({"loss": lines})
