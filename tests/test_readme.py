"""The README shows what the code makes now, and names commands that exist."""

import re
from pathlib import Path

from selfattn.figures.readme import FILE, picture

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_picture_is_what_the_code_makes() -> None:
    assert FILE.read_text(encoding="utf-8") == picture(), "python -m selfattn.figures.readme"


def test_the_pictures_of_the_readme_are_there() -> None:
    images = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    assert images
    for image in images:
        assert (ROOT / image).is_file()


def test_every_make_command_it_names_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, flags=re.MULTILINE))
    assert {"site", "test", "serve"} <= named <= set(targets)
