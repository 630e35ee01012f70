"""Recording touches the output alone, keeps its marks, and rewrites numbers that came from it."""

from pathlib import Path

import pytest

from selfattn.fresh.batch import Result
from selfattn.fresh.bindings import Binding
from selfattn.fresh.fault import Fault
from selfattn.fresh.printed import aligned
from selfattn.fresh.run import Output, Run
from selfattn.fresh.sheet import Sheet
from selfattn.fresh.snippet import parse
from selfattn.fresh.update import Change, record, rewrite

SNIPPET = """# A count

```python
# --8<-- [start:a]
print(42)
# --8<-- [end:a]
```

<!--pytest-codeblocks:expected-output-->

```
{recorded}```
"""


def result(root: Path, recorded: str | None, fresh: str, text: str = SNIPPET) -> Result:
    whole = text.replace("{recorded}", recorded or "")
    if recorded is None:
        whole = whole.partition("\n<!--")[0]
    (root / "count.md").write_text(whole, newline="")
    snippet = parse(root / "count.md", root)
    return Result(snippet, Run({"a": Output(fresh)}), "run")


def test_an_output_that_still_holds_is_left(tmp_path: Path) -> None:
    assert record(result(tmp_path, "0.4405 ‹any›\n", "0.4406 12.5\n"), tmp_path) is None


def test_only_the_output_changes(tmp_path: Path) -> None:
    change = record(result(tmp_path, "77\n0.5 ‹any›\n", "78\n0.5 3\nnew\n"), tmp_path)
    assert isinstance(change, Change)
    assert change.after == SNIPPET.replace("{recorded}", "78\n0.5 ‹any›\nnew\n")


def test_a_first_output_is_appended(tmp_path: Path) -> None:
    change = record(result(tmp_path, None, "78\n"), tmp_path)
    assert isinstance(change, Change)
    assert change.after == SNIPPET.replace("{recorded}", "78\n")


def test_an_empty_output_is_recorded_too(tmp_path: Path) -> None:
    change = record(result(tmp_path, None, ""), tmp_path)
    assert isinstance(change, Change)
    assert change.after == SNIPPET.replace("{recorded}", "")


def test_line_ends_stay(tmp_path: Path) -> None:
    windows = SNIPPET.replace("\n", "\r\n")
    change = record(result(tmp_path, "77\r\n", "78\n79\n", windows), tmp_path)
    assert isinstance(change, Change)
    assert change.after == windows.replace("{recorded}", "78\r\n79\r\n")


@pytest.mark.parametrize(
    ("fresh", "problem"),
    [
        ("0.12345678\n", "0.12345678 has more than 7 significant digits"),
        ("```\n", "three backticks"),
        ("no line break", "does not end its output with a line break"),
    ],
)
def test_what_cannot_be_recorded_is_refused(tmp_path: Path, fresh: str, problem: str) -> None:
    fault = record(result(tmp_path, "77\n", fresh), tmp_path)
    assert isinstance(fault, Fault)
    assert problem in fault.message
    assert (str(fault.path), fault.line) == ("count.md", 12)


def test_recording_twice_changes_nothing_the_second_time(tmp_path: Path) -> None:
    first = result(tmp_path, "77 ‹0.79±0.03›\n", "78 0.9\n")
    change = record(first, tmp_path)
    assert isinstance(change, Change)
    (tmp_path / "count.md").write_text(change.after)
    again = Result(parse(tmp_path / "count.md", tmp_path), first.run, "run")
    assert record(again, tmp_path) is None


def test_numbers_meet_at_their_places(tmp_path: Path) -> None:
    pairs = aligned(result(tmp_path, "a 1,234 b 0.5 [1, 2]\n", "a 5,678 b 0.6 [1, 3]\n"))
    assert [(pair.old.text, pair.new.text) for pair in pairs] == [
        ("1,234", "5,678"),
        ("0.5", "0.6"),
        ("1", "1"),
        ("2", "3"),
    ]


@pytest.mark.parametrize(
    ("page", "rewritten"),
    [
        ("It is 0.70 now.", "It is 0.81 now."),
        ("It is 0.7031, or 70 %.", "It is 0.8123, or 81 %."),
        ("Of 77 rows.", "Of 78 rows."),
        ("0.70 and 0.70", "0.81 and 0.81"),
        ("A title with nothing", None),
        ("The other 0.2500 stays.", None),
        ("Ambiguous is 5.", None),
        ("In the code: 42.", None),
        ("![0.70](a.svg)", "![0.81](a.svg)"),
        ("`#!math 0.70`", None),
    ],
)
def test_prose_follows_its_source(tmp_path: Path, page: str, rewritten: str | None) -> None:
    recorded = "0.7031 77 0.2500 5 5 42\n"
    fresh = "0.8123 78 0.2500 6 7 43\n"
    change, _ = rewrite(sheet(tmp_path, page, result(tmp_path, recorded, fresh)), tmp_path)
    assert (change.after if change else None) == rewritten


def sheet(root: Path, page: str, done: Result, known: list[Binding] | None = None) -> Sheet:
    """A page without front matter that shows the script."""
    (root / "page.md").write_text(page)
    shown = [("count", "a", 1)]
    return Sheet(Path("page.md"), page, 0, {}, shown, {"count": done}, known or [])


def test_front_matter_follows_too(tmp_path: Path) -> None:
    page = "---\ndescription: Moves by 0.70.\n---\nBy 0.70.\n"
    whole = sheet(tmp_path, page, result(tmp_path, "0.7031\n", "0.8123\n"))
    whole.above, whole.meta = 3, {"description": "Moves by 0.70."}
    change, _ = rewrite(whole, tmp_path)
    assert change is not None
    assert change.after == page.replace("0.70", "0.81")


def test_a_number_that_still_holds_is_not_respelled(tmp_path: Path) -> None:
    # 0.125 rounds to 0.12 and to 0.13, by two rules; either may stand.
    done = result(tmp_path, "0.125\n", "0.125\n")
    for text in ("0.12", "0.13"):
        assert rewrite(sheet(tmp_path, text, done), tmp_path)[0] is None


def follow(root: Path, page: str, before: str, after: str) -> tuple[str, list[Binding]]:
    """Bind a page to an output, then let it follow another."""
    known = rewrite(sheet(root, page, result(root, before, plain(before))), root)[1]
    change, again = rewrite(sheet(root, page, result(root, before, after), known), root)
    return change.after if change else page, again


def plain(recorded: str) -> str:
    """An output that fits a record with marks."""
    return recorded.replace("‹any›", "1.5").replace("‹0.44±0.10›", "0.45")


@pytest.mark.parametrize(
    ("page", "before", "after", "expected"),
    [
        ("One is 5, two is 6.", "5\n6\n", "7\n8\n", "One is 7, two is 8."),
        ("One is 5, two is 6.", "5\n6\n", "new 9\n7\n8\n", "One is 7, two is 8."),
        (
            "n is 3, m is 7.",
            "loss ‹0.44±0.10› n 3 m 7\n",
            "new\nloss 0.4 n 4 m 8\n",
            "n is 4, m is 8.",
        ),
        ("n is 3, m is 7.", "took ‹any› s n 3 m 7\n", "took 9.9 s n 4 m 8\n", "n is 4, m is 8."),
        # What a number quoted is gone: it is left, and the check complains.
        ("a is 0.5, b is 3.", "a 0.5\nb 3\n", "a nan\nb 3\n", "a is 0.5, b is 3."),
        ("a is 0.50, b is 0.25.", "a 0.50\nb 0.25\n", "b 0.25\n", "a is 0.50, b is 0.25."),
        # Which of two equal numbers it quoted is not known.
        ("a is 5, b is 5.", "a 5\nb 5\n", "a 6\nb 7\n", "a is 5, b is 5."),
        ("a is 5, b is 5.", "a 5\nb 5\n", "a 6\nb 6\n", "a is 6, b is 6."),
    ],
)
def test_bound_numbers_follow(
    tmp_path: Path, page: str, before: str, after: str, expected: str
) -> None:
    assert follow(tmp_path, page, before, after)[0] == expected


def test_a_number_whose_source_is_gone_keeps_its_binding(tmp_path: Path) -> None:
    _, again = follow(tmp_path, "a is 0.5, b is 3.", "a 0.5\nb 3\n", "a nan\nb 3\n")
    assert [binding.text for binding in again] == ["0.5", "3"]


def test_a_page_with_a_broken_fence_is_left(tmp_path: Path) -> None:
    done = result(tmp_path, "5\n", "6\n")
    whole = sheet(tmp_path, "It is 5.\n", done)
    whole.broken = True
    assert rewrite(whole, tmp_path) == (None, [])


def test_the_prose_may_quote_the_record_of_another_machine(tmp_path: Path) -> None:
    done = result(tmp_path, "0.4450 ‹0.44±0.10›\n", "0.4451 0.47\n")
    for text in ("0.44", "0.4450"):
        whole = sheet(tmp_path, f"It is {text}.\n", done)
        assert whole.choose(whole.claims[0], None) is not None


def test_what_the_author_changed_is_bound_anew(tmp_path: Path) -> None:
    done = result(tmp_path, "5 6\n", "5 6\n")
    known = rewrite(sheet(tmp_path, "It is 5.\n", done), tmp_path)[1]
    change, again = rewrite(sheet(tmp_path, "It is 6.\n", done, known), tmp_path)
    assert change is None
    assert [(binding.text, binding.index) for binding in again] == [("6", 1)]


def test_a_page_with_a_failing_script_keeps_its_bindings(tmp_path: Path) -> None:
    done = result(tmp_path, "5\n", "5\n")
    known = rewrite(sheet(tmp_path, "It is 5.\n", done), tmp_path)[1]
    failed = Result(done.snippet, Run(fault=Fault(Path("count.md"), 5, "failed")), "run")
    assert rewrite(sheet(tmp_path, "It is 5.\n", failed, known), tmp_path) == (None, known)
