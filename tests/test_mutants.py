"""The tool that breaks the site: each change really changes something, in the place it names."""

import shutil
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.fresh import compare
from selfattn.fresh.batch import Result
from selfattn.fresh.number import numbers
from selfattn.fresh.run import Output, Run
from selfattn.fresh.sheet import Sheet
from selfattn.fresh.snippet import parse
from tools import mutants
from tools.mutants import DECIMALS, LARGE, NUMBERS, SMALL, WORDS

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("recorded", "printed", "other"),
    [
        ("0.70", "0.70", "0.72"),
        ("0.70", "0.69", "0.72"),
        ("0.70", "0.71", "0.68"),
        ("0.70", "0.7000", "0.72"),
        ("-0.01", "-0.01", "0.01"),
        ("0.9999", "0.9999", "1.0001"),
        ("1.25e-05", "1.25e-05", "0.0000127"),
        ("3e-08", "3e-08", "5E-8"),
        ("1.", "1.", "2."),
        ("1.", "1.0000", "2."),
        ("-0.", "0.", "1."),
        ("7", "7", "8"),
        ("-1", "-1", "0"),
        ("003", "003", "004"),
        ("999", "999", "1000"),
        ("nan", "nan", "0.0"),
        ("True", "True", "False"),
        ("card", "card", "carx"),
        ("max", "max", "may"),
        ("float32", "float32", "float3x"),
        ("[", "[", ";"),
        (";", ";", ","),
        ("‹0.79±0.03›", "0.82", "‹0.88±0.03›"),
        ("‹0.79±0.03›", "0.76", "‹0.88±0.03›"),
        ("‹5±0›", "5", "‹6±0›"),
    ],
)
def test_other_tokens_by_hand(recorded: str, printed: str, other: str) -> None:
    old, new = (next(compare.tokens(text)) for text in (recorded, printed))
    assert mutants.other_token(old, new) == other
    assert compare.same(recorded, printed)
    assert not compare.same(other, printed)


def test_any_number_has_no_other() -> None:
    mark, number = (next(compare.tokens(text)) for text in ("‹any›", "12.5"))
    assert mutants.other_token(mark, number) is None


decimals = st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=4)


@given(decimals, st.integers(-1, 1))
def test_another_decimal_is_beyond_the_rule_of_all_that_fits(value: Decimal, units: int) -> None:
    recorded, printed = str(value), str(value + units * Decimal("0.0001"))
    assert compare.same(recorded, printed)
    assert not compare.same(mutants.other_decimal(recorded, printed), printed)


@pytest.mark.parametrize(
    ("written", "kind", "others"),
    [
        ("0.70", DECIMALS, ["0.71", "0.69", "0.72", "0.68"]),
        ("-4.42", DECIMALS, ["-4.43", "-4.41", "-4.44", "-4.40"]),
        ("0.0000", DECIMALS, ["0.0001", "0.0002"]),
        ("0.99", DECIMALS, ["1.00", "0.98", "1.01", "0.97"]),
        ("1,234.5", DECIMALS, ["1,234.6", "1,234.4", "1,234.7", "1,234.3"]),
        ("1e-6", DECIMALS, ["2e-6", "3e-6"]),
        ("-1e4", DECIMALS, ["-2e4", "-3e4"]),
        ("12", SMALL, ["13"]),
        ("13", LARGE, ["14"]),
        ("65 %", LARGE, ["66"]),
        ("2,359,999", LARGE, ["2,360,000"]),
    ],
)
def test_other_numbers_by_hand(written: str, kind: str, others: list[str]) -> None:
    (number,) = numbers(written)
    assert mutants.kind_of(number) == kind
    assert mutants.other_numbers(number) == others
    found = [next(numbers(other)) for other in others]
    assert [n.text for n in found] == others  # each is one number again
    assert number.value not in {n.value for n in found}


SNIPPET = """# Title

```python
# --8<-- [start:a]
pass
# --8<-- [end:a]
```

<!--pytest-codeblocks:expected-output-->

```
rows 7
loss 0.50 True
```
"""


def test_outputs_change_in_one_place_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("a.md")
    path.write_text(SNIPPET)
    result = Result(parse(path), Run({"a": Output("rows 7\nloss 0.51 True\n")}), "run")
    found = list(mutants.output_mutants(result))
    assert [(m.kind, m.line, m.old, m.new) for m in found] == [
        (WORDS, 12, "rows", "rowx"),
        (NUMBERS, 12, "7", "8"),
        (WORDS, 13, "loss", "losx"),
        (NUMBERS, 13, "0.50", "0.48"),
        (WORDS, 13, "True", "False"),
    ]
    assert found[3].applied(SNIPPET) == SNIPPET.replace("0.50", "0.48")
    assert all(verdict.noticed for verdict in mutants.judge_outputs(result))
    assert path.read_text() == SNIPPET


PAGE = """---
settings:
  year: 5
description: It lost 40 rows.
---
# Title

Of 40 rows, 3 in float32 gave 0.25, as `#!math 1/4` says.
"""


def test_prose_changes_and_its_digits_that_are_not_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("page.md")
    path.write_text(PAGE)
    Path("a.md").write_text(SNIPPET)
    done = Result(parse(Path("a.md")), Run({"a": Output("40 rows, 3, 4, 0.25, 0.27\n")}), "run")
    meta = {"settings": {"year": 5}, "description": "It lost 40 rows."}
    sheet = Sheet(path, PAGE, 5, meta, [("a", "a", 8)], {"a": done})
    verdicts = mutants.judge_page(sheet)
    assert [(v.mutant.line, v.mutant.old, v.mutant.new, v.noticed) for v in verdicts] == [
        (8, "40", "41", True),
        (8, "3", "4", False),
        (8, "0.25", "0.26", True),
        (8, "0.25", "0.24", True),
        (8, "0.25", "0.27", False),
        (8, "0.25", "0.23", True),
        (4, "40", "41", True),
    ]
    assert path.read_text() == PAGE
    assert list(mutants.unjudged(sheet)) == [
        ("front matter", "page.md:3: 5"),
        ("parts of words", "page.md:8: float32"),
        ("formulas", "page.md:8: 1/4`"),
        ("formulas", "page.md:8: 1/4`"),
    ]


def test_a_mutant_that_does_not_fit_its_file_is_refused() -> None:
    mutant = mutants.Mutant(WORDS, Path("a.md"), 2, 1, "cd", "ce")
    assert mutant.applied("abcd") == "abce"
    with pytest.raises(ValueError, match=r"expected 'cd' at a\.md:1"):
        mutant.applied("abbb")


def test_every_change_of_the_code_fits_once_and_is_a_program_of_its_own() -> None:
    found = mutants.code_mutants(ROOT)
    assert len(found) >= 30
    texts = {path: (ROOT / path).read_text("utf-8") for path in mutants.TAUGHT}
    changed = {mutant.title: mutant.applied(texts[mutant.path]) for mutant in found}
    assert len({*changed.values(), *texts.values()}) == len(found) + len(texts)
    for title, text in changed.items():
        compile(text, title, "exec")


@pytest.mark.parametrize("became", ["", "softmax(scores, dim=-1) + torch.softmax(scores, dim=-1)"])
def test_a_refactoring_that_moves_an_anchor_is_loud(tmp_path: Path, became: str) -> None:
    shutil.copytree(ROOT / "selfattn", tmp_path / "selfattn")
    file = tmp_path / "selfattn/attention.py"
    file.write_text(file.read_text("utf-8").replace("softmax(scores, dim=-1)", became), "utf-8")
    with pytest.raises(ValueError, match=r"attention\.py: .* expected once"):
        mutants.code_mutants(tmp_path)
