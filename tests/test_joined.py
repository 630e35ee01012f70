"""The pages' one style sheet and one script, and what a page waits for before it is drawn."""

import re
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

from selfattn import joined

ROOT = Path(__file__).parent.parent
ASSETS = ROOT / "docs" / "assets"


def built(folder, styles):
    """Build a site of one page, two style sheets and a script."""
    docs = folder / "docs"
    docs.mkdir()
    for name in ("a.css", "b.css", "c.js"):
        (docs / name).write_text(f"of {name}")
    (docs / "index.md").write_text("# Small")
    (folder / "mkdocs.yml").write_text(
        f"site_name: Small\nplugins: []\nhooks: [{joined.__file__}]\n"
    )
    build(
        load_config(str(folder / "mkdocs.yml"), extra_css=styles, extra_javascript=["c.js"]),
    )
    return folder / "site"


def test_parts_are_joined_in_their_order_and_not_published(tmp_path):
    site = built(tmp_path, ["b.css", "a.css"])
    assert (site / joined.STYLES).read_text() == "of b.css\nof a.css"
    assert (site / joined.SCRIPTS).read_text() == "of c.js"
    assert not {"a.css", "b.css", "c.js"} & {path.name for path in site.iterdir()}
    page = (site / "index.html").read_text()
    assert f'href="{joined.STYLES}"' in page
    assert f'src="{joined.SCRIPTS}"' in page


def test_a_part_that_is_no_file_is_named(tmp_path, caplog):
    with pytest.raises(Abort):
        built(tmp_path, ["a.css", "gone.css"])
    assert (
        "lists gone.css in extra_css or extra_javascript; there is no docs/gone.css" in caplog.text
    )


def test_every_style_and_script_of_ours_is_in_one_file_or_a_pages_own(built_site):
    for folder, whole in (("stylesheets", joined.STYLES), ("javascripts", joined.SCRIPTS)):
        text = (built_site / whole).read_text("utf-8")
        for part in (ASSETS / folder).iterdir():
            alone = (built_site / "assets" / folder / part.name).exists()
            assert (part.read_text("utf-8") in text) != alone, part
            assert not alone or part.stem.split("-")[0] in {"playground", "shapes"}, part


def test_before_it_is_drawn_a_page_waits_for_little(built_site):
    """On a slow line each file in the head costs a page's first paint one way there and back."""
    for path in built_site.glob("*.html"):
        head = path.read_text("utf-8").split("</head>")[0]
        assert not re.findall(r"<script[^>]* src=(?![^>]*defer)", head), path.name
        styles = re.findall(r'rel="stylesheet" href="([^"]+)"', head)
        allowed = 3 + (path.name in {"playground.html"})  # Material's, its palette, ours
        assert len(styles) <= allowed, (path.name, styles)


def test_text_does_not_change_its_font_while_it_is_read():
    """A font that comes late would move every line; only formulas wait for theirs."""
    rules = re.findall(
        r"@font-face \{(.*?)\}", (ASSETS / "stylesheets/fonts.css").read_text(), re.S
    )
    for rule in rules:
        wanted = "swap" if "STIX" in rule else "optional"
        assert f"font-display: {wanted};" in rule
        address = re.search(r'url\("([^"]+)"\)', rule)[1]
        assert (ASSETS / "stylesheets" / address).resolve().is_file()
