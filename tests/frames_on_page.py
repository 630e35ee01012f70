"""Reads pictures that change out of HTML: their buttons, and their frames by what chooses them."""

import re
from dataclasses import dataclass
from xml.etree import ElementTree

_EMPTY = re.compile(r" (checked|data-search-exclude)(?=[ >])")
_INPUT = re.compile(r"<input[^>]*")


@dataclass
class Picture:
    """One picture: its legends, the choices of each, the ones at the start, and its frames."""

    name: str
    legends: list[str]
    choices: list[list[str]]
    start: tuple[str, ...]
    groups: list[str]
    frames: dict[tuple[str, ...], ElementTree.Element]


def words(element):
    return " ".join("".join(element.itertext()).split())


def pictures(html):
    """Find every picture of a page, in order."""
    found = re.findall(r'<section class="frames".*?</section>', html, flags=re.DOTALL)
    return [picture(section) for section in found]


def picture(html):
    root = ElementTree.fromstring(_INPUT.sub(r"\g<0>/", _EMPTY.sub(r' \1=""', html)))
    fieldsets, stage = root.findall("fieldset"), root.find("div[@class='stage']")
    choices = [[words(label) for label in fieldset.findall("label")] for fieldset in fieldsets]
    buttons = [fieldset.findall("label/input") for fieldset in fieldsets]
    start = tuple(
        label
        for labels, row in zip(choices, buttons, strict=True)
        for label, button in zip(labels, row, strict=True)
        if button.get("checked") is not None
    )
    frames = {}
    for first, child in zip(choices[0], stage, strict=True):
        if len(choices) == 1:
            frames[(first,)] = child
        else:
            frames |= {(first, c): f for c, f in zip(choices[1], child, strict=True)}
    groups = [name for row in buttons for name in {button.get("name") for button in row}]
    legends = [words(fieldset.find("legend")) for fieldset in fieldsets]
    return Picture(root.get("id"), legends, choices, start, groups, frames)


def numbers(frame, path):
    """The numbers in the elements that a path finds in a frame."""
    return [float(words(cell).replace("\u2212", "-")) for cell in frame.findall(path)]
