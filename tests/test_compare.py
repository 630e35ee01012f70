"""The rule for outputs: pairs decided by hand, and laws that hold for all numbers."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.fresh import compare
from selfattn.fresh.compare import same

EQUAL = [
    ("", ""),
    ("a b\n", "a b\n"),
    ("1.", "1.0000"),
    ("0.0", "0.00"),
    ("-0.0", "0.0"),
    ("tensor([-0., 1.])", "tensor([0., 1.])"),
    ("0.4405", "0.4406"),
    ("0.4405", "0.4404"),
    ("0.44", "0.4401"),
    ("94.4%", "94.5%"),
    ("3e-08", "2e-08"),
    ("1.25e-05", "1.26e-05"),
    ("0.9999", "1.0000"),
    ("tensor([[1., 1.]])", "tensor([[1.0000, 1.0000]])"),
    ("tensor([ 0.5000, -0.1000])", "tensor([0.5000, -0.1000])"),
    ("[0.10, 0.20,\n 0.30]", "[0.10,\n 0.20, 0.30]"),
    ("nan inf -inf True", "nan inf -inf True"),
    ("took ‹any› ms", "took 12.5 ms"),
    ("took   ‹any› ms", "took 1234.5 ms"),
    ("‹any› rows", "77 rows"),
    ("loss ‹0.79±0.03›", "loss 0.82"),
    ("loss ‹0.79±0.03›", "loss 0.7612"),
    ("[‹1±0.5›, 2]", "[1.4, 2]"),
    ("moved by 0.5.", "moved by 0.6."),
]
DIFFERENT = [
    ("a b", "a  b"),
    ("a", "b"),
    ("1", "2"),
    ("1", "1.0"),
    ("1.", "2."),
    ("10.", "11."),
    ("1.", "1.0002"),
    ("0.0", "0.0020"),
    ("0.4405", "0.4407"),
    ("0.44", "0.4404"),
    ("94.4%", "94.4"),
    ("3e-08", "5e-08"),
    ("True", "False"),
    ("nan", "0.0000"),
    ("inf", "-inf"),
    ("tensor([1., 2.])", "tensor([1., 2., 3.])"),
    ("0.10  0.20", "0.10 0.20"),
    ("(a, b)", "(a,b)"),
    ("torch 2.13.0", "torch 2.13.1"),
    ("x1.5", "x1.6"),
    ("float32", "float64"),
    ("268,435,456", "268,435,457"),
    ("took ‹any› ms", "took 12.5 s"),
    ("took ‹any› ms", "took long ms"),
    ("‹any›", "1 2"),
    ("loss ‹0.79±0.03›", "loss 0.83"),
    ("loss ‹0.79±0.03›", "loss nan"),
    ("a\n", "a"),
    ("", "0.0"),
]


@pytest.mark.parametrize(("recorded", "fresh"), EQUAL)
def test_equal_pairs(recorded: str, fresh: str) -> None:
    assert same(recorded, fresh)


@pytest.mark.parametrize(("recorded", "fresh"), DIFFERENT)
def test_different_pairs(recorded: str, fresh: str) -> None:
    assert not same(recorded, fresh)


decimals = st.decimals(-1000, 1000, allow_nan=False, allow_infinity=False, places=4).map(str)


@given(st.text(st.characters(blacklist_characters="‹›")))
def test_every_text_equals_itself(text: str) -> None:
    assert same(text, text)
    assert compare.changes(text, text) == text
    assert compare.with_marks(text, text) == text


@given(st.text())
def test_tokens_are_the_text_again(text: str) -> None:
    assert "".join(token.text for token in compare.tokens(text)) == text


@given(decimals, st.integers(-3, 3))
def test_one_unit_of_the_last_place_and_no_more(number: str, units: int) -> None:
    moved = str(Decimal(number) + units * Decimal("0.0001"))
    assert same(number, moved) == same(moved, number) == (abs(units) <= 1)


@given(decimals, st.integers(0, 3))
def test_a_coarser_print_of_the_same_number_may_be_refused_but_never_a_far_one(
    number: str, places: int
) -> None:
    coarse = f"{Decimal(number):.{places}f}"
    if "." in coarse and same(number, coarse):
        assert abs(Decimal(number) - Decimal(coarse)) <= Decimal("0.0001")


@given(decimals, decimals)
def test_equal_is_symmetric(a: str, b: str) -> None:
    assert same(a, b) == same(b, a)


def test_changes_show_only_what_changed() -> None:
    recorded = "loss 0.5000\nrows 77\n[0.10, 0.20]\n"
    fresh = "loss 0.5001\nrows 78\n[0.10,  0.20]\n"
    assert compare.diff(recorded, fresh, "a.md").splitlines()[2:] == [
        "@@ -1,3 +1,3 @@",
        " loss 0.5000",
        "-rows 77",
        "+rows 78",
        " [0.10, 0.20]",
    ]


def test_a_space_that_counts_shows_in_the_diff() -> None:
    assert "-a  b" in compare.diff("a  b\n", "a b\n", "a.md").splitlines()


def test_lines_that_come_and_go() -> None:
    recorded = "first 1.0000\nlast 2.0000\n"
    fresh = "first 1.0001\nnew\nlast 2.0001\n"
    assert compare.changes(recorded, fresh) == "first 1.0000\nnew\nlast 2.0000\n"


@pytest.mark.parametrize(
    ("recorded", "fresh", "kept"),
    [
        ("took ‹any› ms, 7 rows", "took 12.5 ms, 8 rows", "took ‹any› ms, 8 rows"),
        ("loss ‹0.79±0.03›", "loss 0.80", "loss ‹0.79±0.03›"),
        ("loss ‹0.79±0.03›", "loss 0.91", "loss ‹0.91±0.03›"),
        ("a ‹any›\nb\n", "new\na 3\nb\n", "new\na ‹any›\nb\n"),
        ("loss ‹0.79±0.03›", "no loss", "no loss"),
    ],
)
def test_updating_keeps_the_marks(recorded: str, fresh: str, kept: str) -> None:
    assert compare.with_marks(recorded, fresh) == kept
    assert compare.with_marks(kept, fresh) == kept
    assert same(kept, fresh)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.1234567", []),
        ("0.12345678", ["0.12345678"]),
        ("1234.5678 and 12345.678", ["1234.5678", "12345.678"]),
        ("0.000012", []),
        ("123456789", []),
        ("1.2345678e-05", ["1.2345678e-05"]),
        ("torch 2.13.0", []),
    ],
)
def test_more_digits_than_float32_holds(text: str, found: list[str]) -> None:
    assert [token.text for token in compare.too_precise(text)] == found
