"""Measurements on two log axes, each with the straight line fitted to it, as an HTML figure.

On log axes a power of *n* is a straight line, and its slope is the power. Drawn and made fit for a
page as `curves` are.
"""

import io
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from math import log2
from statistics import linear_regression
from typing import Any

from selfattn.figures.curves import SETTINGS, STYLES, themed

Lines = Mapping[str, Sequence[float]]
"""Values by the line's name, one for each step."""


def loglog(panels: Mapping[str, Lines], steps: Sequence[int], *, x: str, caption: str) -> str:
    """Draw points and fitted lines as a `<figure>` with one picture for each panel.

    Args:
        panels: what each panel's y axis shows; its lines, at most three, all above 0.
        steps: where the values were taken, at least two.
        x: what the steps are.
        caption: plain text below the pictures.

    Raises:
        ValueError: when a panel has no line or more than three, or a line has not one value for
            each step.
    """
    pictures = "".join(_picture(lines, steps, x, y) for y, lines in panels.items())
    return (
        f'<figure class="curves">\n<div>{pictures}</div>\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def fitted(steps: Sequence[float], values: Sequence[float]) -> tuple[float, float]:
    """Fit values = factor * step ** slope, by least squares of the logarithms.

    Returns:
        The slope and the factor.
    """
    slope, height = linear_regression([log2(s) for s in steps], [log2(v) for v in values])
    return slope, 2**height


def _picture(lines: Lines, steps: Sequence[int], x: str, y: str) -> str:
    if not 1 <= len(lines) <= len(STYLES):
        raise ValueError(f"a panel takes 1 to {len(STYLES)} lines; got {len(lines)} for {y!r}")
    for name, values in lines.items():
        if len(values) != len(steps):
            raise ValueError(
                f"{name!r} must have {len(steps)} values, one for each step; got {len(values)}"
            )
    fits = {name: fitted(steps, values) for name, values in lines.items()}
    slopes = "; ".join(f"{name}, slope {slope:.2f}" for name, (slope, _) in fits.items())
    label = escape(f"{y} by {x} on log axes: {slopes}")
    svg = themed(_drawn(lines, fits, steps, x, y))
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _drawn(
    lines: Lines, fits: Mapping[str, tuple[float, float]], steps: Sequence[int], x: str, y: str
) -> str:
    import matplotlib  # takes most of a second, and most scripts draw no curve
    from matplotlib.figure import Figure

    salt = sha256(repr([lines, steps, x, y]).encode()).hexdigest()
    settings: Any = {**SETTINGS, "svg.hashsalt": salt}
    with matplotlib.rc_context(settings):
        figure = Figure(figsize=(4.7, 3.6), layout="constrained")
        axes = figure.add_subplot()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for (name, values), style in zip(lines.items(), STYLES, strict=False):
            _line(axes, steps, values, fits[name], name, style)
        axes.set_xticks(steps, [f"{step:,}" for step in steps])
        axes.set(xlabel=x, ylabel=y)
        axes.legend(handlelength=3.5)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        return file.getvalue()


def _line(
    axes: Any,
    steps: Sequence[int],
    values: Sequence[float],
    fit: tuple[float, float],
    name: str,
    style: dict[str, str],
) -> None:
    slope, factor = fit
    points = {**style, "linestyle": ""}
    axes.plot(steps, values, markersize=5, clip_on=False, **points)
    straight = [factor * step**slope for step in steps]
    axes.plot(steps, straight, label=f"{name}, slope {slope:.2f}", **{**style, "marker": ""})
