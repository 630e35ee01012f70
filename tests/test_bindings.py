"""A bound number is grounded by what it quotes and by nothing else, as long as its words stand."""

from pathlib import Path

import pytest
from small_site import build, spoil

from selfattn.fresh import bindings, prose
from selfattn.fresh.bindings import Binding, contexts, match

PAGE = "The first is 0.70 and the second is 0.23.\nIn line two, 0.70 of 48 again.\n"


def found(page: str) -> list[str]:
    return contexts(page.split("\n"), prose.claims(page, 0))


def bound(page: str) -> list[Binding]:
    return [Binding(context, "?", "script", i) for i, context in enumerate(found(page))]


def indices(page: str, known: list[Binding]) -> list[int | None]:
    return [binding.index if binding else None for binding in match(found(page), known)]


def test_a_page_knows_its_own_numbers() -> None:
    assert indices(PAGE, bound(PAGE)) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0.70", "0.81", [0, 1, 2, 3]),  # another number in the same place
        ("0.23.\nIn", "0.23. In", [0, 1, 2, 3]),  # the paragraph set anew
        ("The first", "A title.\n\nThe first", [0, 1, 2, 3]),
        ("the second is", "another one was", [None, None, None, 3]),  # reworded nearby
    ],
)
def test_numbers_are_known_by_the_words_around_them(old: str, new: str, expected) -> None:
    assert indices(PAGE.replace(old, new), bound(PAGE)) == expected


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pages = {"docs/a.md": bound(PAGE), "docs/b.md": [Binding('‹x› # "y"', "1", "s:code", 3)]}
    (tmp_path / bindings.FILE).write_text(bindings.dump({**pages, "docs/none.md": []}), "utf-8")
    assert bindings.load(tmp_path, tmp_path) == (pages, [])
    assert bindings.load(tmp_path / "nowhere", tmp_path) == ({}, [])


@pytest.mark.parametrize("text", ["{", "[]", '{"a": [["x"]]}', '{"a": 5}'])
def test_a_damaged_file_is_a_fault(tmp_path: Path, text: str) -> None:
    (tmp_path / bindings.FILE).write_text(text)
    pages, (fault,) = bindings.load(tmp_path, tmp_path)
    assert pages == {}
    assert "`selfattn update` makes it anew" in fault.message
    assert fault.path == Path(bindings.FILE)


def test_a_number_that_equals_another_printed_one_fails_the_build(site: Path) -> None:
    spoil(site / "snippets/small.md", "print(total)", "print(total, 11)")
    spoil(site / "snippets/small.md", "\n10\n", "\n10 11\n")
    spoil(site / "docs/index.md", "# Small", "# Small\n\nThe sum is 10.")
    assert build(site, "--strict").returncode == 0
    context = found("# Small\n\nThe sum is 10.\n")[0]
    known = {"docs/index.md": [Binding(context, "10", "small", 0)]}
    (site / "snippets" / bindings.FILE).write_text(bindings.dump(known))
    assert build(site, "--strict").returncode == 0

    spoil(site / "docs/index.md", "is 10", "is 11")
    done = build(site, "--strict", "-q")
    assert done.returncode == 1
    assert (
        "docs/index.md:3: 11 is not what stood here: 10, which quotes 10, printed by" in done.stderr
    )
    assert "`selfattn update docs/index.md` takes it" in done.stderr

    spoil(site / "docs/index.md", "The sum is 11", "The greater one is 11")
    assert build(site, "--strict").returncode == 0, "another sentence is bound to nothing yet"


def test_every_number_of_this_project_is_bound(request: pytest.FixtureRequest) -> None:
    root = request.config.rootpath
    known, faults = bindings.load(root / "snippets", root)
    assert faults == []
    from selfattn.fresh.command import build as checked

    outcome = checked(root / "mkdocs.yml", [], cached=True)
    for sheet in outcome.plugin.sheets.values():
        loose = [c for c, b in zip(sheet.claims, sheet.bound, strict=True) if b is None]
        assert loose == [], f"selfattn update {sheet.path}"
    assert set(known) == {str(s.path) for s in outcome.plugin.sheets.values() if s.claims}
