"""The shapes of scores and of a mask, lined up from the last dimension on, as broadcasting does.

What comes out is the caller's to say, so that it can come from PyTorch itself.
`docs/assets/javascripts/shapes.js` makes the same tables from what a reader types: a change here is
a change there, and `tests/test_pictures_order_shapes_cost.py` holds the two side by side.
"""

from collections.abc import Sequence
from html import escape

Shape = Sequence[int]

ROWS = ("scores", "mask", "result")


def lined_up(scores: Shape, mask: Shape, result: Shape | None, *, name: str = "") -> str:
    """Draw one pair as a table with a column for each dimension, and a verdict as its caption.

    Args:
        scores: the shape of the scores, the batch first and the keys last.
        mask: the shape of the mask.
        result: what the scores become under the mask; None when they are refused.
        name: the pair's name, above the verdict.
    """
    size = max(len(scores), len(mask))
    words, places = verdict(scores, mask, result)
    alarm = ' class="alarm"'
    marks = [alarm if place in places else "" for place in range(size)]
    lines = _padded(scores, size), _padded(mask, size), _result(scores, mask, result, size)
    rows = "\n".join(
        f'<tr><th scope="row">{row}</th>'
        + "".join(f"<td{mark}>{cell}</td>" for mark, cell in zip(marks, cells, strict=True))
        + "</tr>"
        for row, cells in zip(ROWS, lines, strict=True)
    )
    head = "".join(f'<th scope="col">\u2212{place}</th>' for place in range(size, 0, -1))
    title = f"<b>{escape(name)}</b> " if name else ""
    return (
        f'<table class="shapes">\n<caption{alarm if places else ""}>{title}{escape(words)}'
        f"</caption>\n<thead><tr><td></td>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>\n"
    )


def calculator(scores: Shape, mask: Shape) -> str:
    """Make the fields for two shapes, out of sight until a script finds them.

    Args:
        scores: the shape in the first field at first.
        mask: the shape in the second.
    """
    fields = "".join(
        f'<label>{name} <input type="text" value="{_words(shape)}" maxlength="60" '
        'aria-describedby="shape-form" autocomplete="off" spellcheck="false"></label>\n'
        for name, shape in (("Scores", scores), ("Mask", mask))
    )
    label = "Shapes lined up"
    rows = "".join(f'<tr><th scope="row">{row}</th></tr>\n' for row in ROWS)
    return (
        '<section class="calculator" aria-label="Shape calculator" data-search-exclude hidden>\n'
        f'{fields}<p class="sr" id="shape-form">Sizes with commas between, such as 32, 1, 48.</p>\n'
        '<output aria-live="off"></output>\n<p class="sr" role="status"></p>\n'
        '<div class="heat-scroll">\n'
        f'<table class="shapes" aria-label="{label}">\n<thead><tr><td></td></tr></thead>\n'
        f"<tbody>\n{rows}</tbody>\n</table>\n"
        "</div>\n</section>\n"
    )


def verdict(scores: Shape, mask: Shape, result: Shape | None) -> tuple[str, set[int]]:
    """Say what happens, and in which places of the longer shape something is wrong with it."""
    size = max(len(scores), len(mask))
    if result is None:
        places = _clashes(scores, mask)
        last = max(places) - size
        return (
            f"Refused: {scores[last]} meets {mask[last]} in dimension \u2212{-last}, "
            "and neither is 1.",
            places,
        )
    if list(result) != list(scores):
        before = [0] * (size - len(scores)) + list(scores)
        return (
            f"Grows to {_words(result)}: code by hand goes on, PyTorch\u2019s function refuses.",
            {place for place in range(size) if result[place] != before[place]},
        )
    first = size - len(mask)
    if first and scores[0] == mask[0] == scores[first] > 1:
        return (
            f"Fits, perhaps by accident: the mask\u2019s first {mask[0]} meets dimension "
            f"\u2212{len(mask)}, and the batch is {scores[0]} too.",
            {first},
        )
    if mask[-1] == 1 < scores[-1]:
        return "Fits, but treats all keys alike: the mask blocks whole rows.", {size - 1}
    return "Fits: the scores keep their shape.", set()


def _clashes(scores: Shape, mask: Shape) -> set[int]:
    size = max(len(scores), len(mask))
    pairs = enumerate(zip(reversed(scores), reversed(mask), strict=False), 1)
    return {size - place for place, (a, b) in pairs if a != b and 1 not in (a, b)}


def _padded(shape: Shape, size: int) -> list[str]:
    return ["(1)"] * (size - len(shape)) + [str(length) for length in shape]


def _result(scores: Shape, mask: Shape, result: Shape | None, size: int) -> list[str]:
    if result is not None:
        return _padded(result, size)
    clashes = _clashes(scores, mask)
    return ["\u2260" if place in clashes else "" for place in range(size)]


def _words(shape: Shape) -> str:
    return ", ".join(map(str, shape))
