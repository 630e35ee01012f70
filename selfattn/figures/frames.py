"""Pictures that a reader changes: frames made at build, chosen by radio buttons, without a script.

How to add one:

1. Write a figure section in `snippets/PAGE-frames.md`. Draw each frame from the script's tensors:
   a `heatmap(...)`, or `captioned("What it shows.", part, ...)` with parts of `bars` and `sums`
   (`beside(...)` puts them next to each other).
2. Collect the frames in a dict by the words of their buttons: `{"where": html, ...}`; for two
   rows of buttons a dict of such dicts. Its keys are the choices, in order, at most `MOST` a row.
3. `show(frames("page-what", ("Token",), pictures, start=("card",)), alt="...")`. The name is used
   once on the site; a legend that reads Query, Key or Value has that role's colour.
4. Assert in a `-check` section what the sentences around the picture say, and print in it the
   numbers that they quote. On the page: a sentence before it that says what to try, one after it
   that says what was seen. Name it in `MOVING` of `tests/test_pictures.py`.
"""

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeGuard

Pictures = Mapping[str, str]
"""HTML by the choice that shows it."""

MOST = 12
"""Choices in a row of buttons: the style sheet has a rule for each."""

ROLES = {"query": "q", "key": "k", "value": "v"}

_NAME = re.compile(r"[a-z][a-z0-9-]*")


def frames(
    name: str,
    legends: Sequence[str],
    pictures: Pictures | Mapping[str, Pictures],
    *,
    start: Sequence[str] = (),
) -> str:
    """Put pictures into one, with a row of radio buttons or two that choose which is shown.

    Args:
        name: of the buttons: small letters, digits and hyphens, used nowhere else on the site.
        legends: what is chosen, as plain text: one legend, or two.
        pictures: the HTML of each frame by its choice; with two legends, by the first choice
            and then by the second, the same ones in the same order each time.
        start: the choice shown at first, one for each legend; else the first of each.

    Returns:
        A `<section>` that holds every frame. The style sheet hides all but the chosen one, from
        screen readers too; paper gets the chosen one without the buttons.

    Raises:
        ValueError: when a name, the number of legends or choices, or a start does not fit.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"a picture's name must be small letters, digits and hyphens; got {name!r}"
        )
    choices = _choices(name, legends, pictures)
    start = tuple(start) or tuple(labels[0] for labels in choices)
    if len(start) != len(choices) or any(s not in c for s, c in zip(start, choices, strict=True)):
        raise ValueError(f"{name} cannot start with {start}: its choices are {choices}")
    picks = "".join(
        _pick(f"{name}-{n}", legend, labels, first)
        for n, (legend, labels, first) in enumerate(zip(legends, choices, start, strict=True), 1)
    )
    # Search leaves it out up to the first end of a tag of this name, so none may be inside.
    return (
        f'<section class="frames" id="{name}" data-search-exclude>\n{picks}'
        f'<div class="stage" tabindex="0">\n{_stage(pictures)}</div>\n</section>\n'
    )


def captioned(caption: str, *parts: str) -> str:
    """Make a frame: parts of a picture, as HTML, above plain words that say what it shows."""
    return f"<figure>\n{''.join(parts)}<figcaption>{escape(caption)}</figcaption>\n</figure>\n"


def beside(*parts: str) -> str:
    """Put parts of a frame next to each other, two in a row."""
    return f'<div class="beside">\n{"".join(f"<div>{part}</div>" for part in parts)}</div>\n'


def nested(pictures: Pictures | Mapping[str, Pictures]) -> TypeGuard[Mapping[str, Pictures]]:
    """Tell whether frames are chosen in two steps."""
    return not any(isinstance(picture, str) for picture in pictures.values())


def _choices(
    name: str, legends: Sequence[str], pictures: Pictures | Mapping[str, Pictures]
) -> list[list[str]]:
    choices = [list(pictures)]
    if nested(pictures):
        rows = [list(row) for row in pictures.values()]
        if any(row != rows[0] for row in rows):
            raise ValueError(f"{name} needs the same second choices for every first; got {rows}")
        choices += rows[:1]
    if len(choices) != len(legends) or isinstance(legends, str):
        raise ValueError(
            f"{name} has pictures by {len(choices)} choice(s), and needs as many legends in a "
            f"tuple; got {legends!r}"
        )
    for labels in choices:
        if not 2 <= len(labels) <= MOST:
            raise ValueError(f"{name} needs 2 to {MOST} choices a row; got {labels}")
    return choices


def _pick(group: str, legend: str, labels: Sequence[str], first: str) -> str:
    role = ROLES.get(legend.lower())
    buttons = "\n".join(
        f'<label><input type="radio" name="{group}"{" checked" if label == first else ""}>'
        f" {escape(label)}</label>"
        for label in labels
    )
    coloured = f' class="{role}"' if role else ""
    return f"<fieldset{coloured}>\n<legend>{escape(legend)}</legend>\n{buttons}\n</fieldset>\n"


def _stage(pictures: Pictures | Mapping[str, Pictures]) -> str:
    if nested(pictures):
        return "".join(f"<div>\n{_stage(row)}</div>\n" for row in pictures.values())
    return "".join(f'<div class="frame">\n{html}</div>\n' for html in pictures.values())
