"""How a script hands a picture to the page that shows its section."""

import json
import os

FIGURES = "SELFATTN_FRESH_FIGURES"
"""Environment variable: the file that collects a run's pictures, one JSON object a line."""


def show(html: str, *, alt: str) -> None:
    """Place a picture on the page, after the output of the section that calls this.

    In plain Python, where no page is being built, it does nothing.

    Args:
        html: the picture as HTML, put on the page as it is.
        alt: what the picture shows, in words, for those who cannot see it.

    Raises:
        ValueError: `alt` is blank.
    """
    if not alt.strip():
        raise ValueError("show needs alt text that says in words what the picture shows, got none")
    path = os.environ.get(FIGURES)
    if path:
        with open(path, "a", encoding="utf-8") as figures:
            figures.write(json.dumps({"html": html, "alt": alt}) + "\n")
