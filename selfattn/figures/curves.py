"""Line curves as an HTML figure: inline SVG in the colours of the page's theme.

matplotlib draws; what comes out is made fit for a page: no size, date or font of its own, ids that
no other picture has, and colours that follow the theme. The same numbers give the same bytes.
"""

import io
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from statistics import fmean
from typing import Any

# matplotlib wants colours, a page wants variables: each stands in for one of them.
_INK, _ACCENT, _MUTED = "#010101", "#020202", "#030303"
_THEME = {_INK: "currentColor", _ACCENT: "var(--accent)", _MUTED: "var(--muted)"}

# Lines differ in dashes and markers too, not in colour alone.
STYLES = (
    {"color": _INK, "linestyle": "-", "marker": "o"},
    {"color": _ACCENT, "linestyle": "--", "marker": "s"},
    {"color": _MUTED, "linestyle": ":", "marker": "^"},
)
SETTINGS: dict[Any, object] = {
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",  # comes with matplotlib, so texts are measured alike everywhere
    "font.size": 11,
    "legend.frameon": False,
    "svg.fonttype": "none",  # text as text
    "text.color": _INK,
    "xtick.color": _MUTED,
    "xtick.labelcolor": _INK,
    "ytick.color": _MUTED,
    "ytick.labelcolor": _INK,
}
_NAMED = re.compile(r'\sid="([^"]+)"')
# The style sheet inside would hold for the whole page.
_DROPPED = re.compile(
    r'<(metadata|style).*?</\1>|\s(?:width|height)="[\d.]+pt"|\s(?:version|xmlns:xlink)="[^"]*"',
    re.DOTALL,
)

Runs = Sequence[Sequence[float]]
"""Values by step, `[runs, steps]`."""


def curves(
    panels: Mapping[str, Mapping[str, Runs]], *, x: str, caption: str, first: int = 1
) -> str:
    """Draw lines as a `<figure>` with one picture for each panel.

    Several runs become their mean and a band from the lowest to the highest.

    Args:
        panels: what each panel's y axis shows; its lines by name, at most three, each as
            runs `[runs, steps]`.
        x: what the steps are.
        caption: plain text below the pictures.
        first: the number of the first step.

    Raises:
        ValueError: when a panel has no line or more than three, or runs differ in length.
    """
    pictures = "".join(_picture(lines, x, y, first) for y, lines in panels.items())
    return (
        f'<figure class="curves">\n<div>{pictures}</div>\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>\n"
    )


def _picture(lines: Mapping[str, Runs], x: str, y: str, first: int) -> str:
    if not 1 <= len(lines) <= len(STYLES):
        raise ValueError(
            f"a panel takes 1 to {len(STYLES)} lines, so that they can be told apart; "
            f"got {len(lines)} for {y!r}"
        )
    means = {name: _mean(runs, name) for name, runs in lines.items()}
    ends = "; ".join(f"{name} from {m[0]:.2f} to {m[-1]:.2f}" for name, m in means.items())
    svg = themed(_drawn(lines, means, x, y, first))
    label = escape(f"{y} by {x}: {ends}")
    return svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)


def _mean(runs: Runs, name: str) -> list[float]:
    lengths = sorted({len(run) for run in runs})
    if len(lengths) != 1 or lengths == [0]:
        raise ValueError(
            f"the runs of {name!r} must be equally long and have a value; got lengths {lengths}"
        )
    return [fmean(step) for step in zip(*runs, strict=True)]


def _drawn(
    lines: Mapping[str, Runs], means: Mapping[str, list[float]], x: str, y: str, first: int
) -> str:
    import matplotlib  # takes most of a second, and most scripts draw no curve
    from matplotlib.figure import Figure

    # Ids are made from this, so they differ from picture to picture and not from run to run.
    salt = sha256(repr([lines, x, y, first]).encode()).hexdigest()
    with matplotlib.rc_context({**SETTINGS, "svg.hashsalt": salt}):
        figure = Figure(figsize=(4.7, 3.2), layout="constrained")
        axes = figure.add_subplot()
        for (name, runs), style in zip(lines.items(), STYLES, strict=False):
            _line(axes, runs, means[name], first, name, style)
        axes.set(xlabel=x, ylabel=y)
        axes.locator_params(axis="x", integer=True)
        axes.legend(handlelength=3.5)
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
        return file.getvalue()


def _line(
    axes: Any, runs: Runs, mean: list[float], first: int, name: str, style: dict[str, str]
) -> None:
    steps = range(first, first + len(mean))
    if len(runs) > 1:
        low, high = ([f(step) for step in zip(*runs, strict=True)] for f in (min, max))
        axes.fill_between(steps, low, high, color=style["color"], alpha=0.2, linewidth=0)
    axes.plot(steps, mean, label=name, markersize=4, clip_on=False, **style)


def themed(svg: str) -> str:
    """Take out what belongs to a file of its own, and let the page's style sheet decide."""
    svg = _DROPPED.sub("", svg[svg.index("<svg") :])
    for colour, variable in _THEME.items():
        svg = svg.replace(colour, variable)
    used = set(re.findall(r"#([\w-]+)", svg))
    svg = _NAMED.sub(lambda found: found[0] if found[1] in used else "", svg)
    svg = svg.replace("'DejaVu Sans'", "var(--sans)").replace("xlink:href", "href")
    return re.sub(r"\s*\n\s*", " ", svg)
