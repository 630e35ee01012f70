"""What counts as a number, which printed one grounds which written one, and how it is spelled."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selfattn.fresh.number import Number, grounds, numbers, spell


def one(text: str) -> Number:
    (number,) = numbers(text)
    return number


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0.70, 0.23 and 0.10.", ["0.70", "0.23", "0.10"]),
        ("from -4.42 to +1", ["-4.42", "+1"]),
        ("268,435,456 bytes", ["268,435,456"]),
        ("[4,5,1] and [32, 1]", ["4", "5", "1", "32", "1"]),
        ("1,2345 is no thousand", ["1", "2345"]),
        ("within 1e-6 and 2.5E+3", ["1e-6", "2.5E+3"]),
        ("float32, x1, 3rd, v2 and 2nd", []),
        ("5x, 77ms, 0.74x and 48 s", ["5", "77", "0.74", "48"]),
        (".74 and -.6", [".74", "-.6"]),
        ("2.13.0 and 3.2.1", []),
        ("2-5 and (3)-4", ["2", "5", "3", "4"]),
        ("tensor([1., 0.])", ["1", "0"]),
        ("is 4.", ["4"]),
        ("", []),
    ],
)
def test_what_counts_as_a_number(text: str, found: list[str]) -> None:
    assert [number.text for number in numbers(text)] == found


@given(st.text())
def test_every_number_stands_where_it_says(text: str) -> None:
    for number in numbers(text):
        assert text[number.start : number.end] == number.text
        assert isinstance(number.value, Decimal)


@pytest.mark.parametrize("text", ["94 %", "94%", "94\u00a0%"])
def test_percent_signs(text: str) -> None:
    assert one(text).percent
    assert not one("94 x").percent


GROUNDED = [
    ("0.7031", "0.7031"),
    ("0.7031", "0.70"),
    ("0.7031", "0.703"),
    ("-0.5149", "-0.51"),
    ("0.125", "0.12"),
    ("0.125", "0.13"),
    ("9216", "9,216"),
    ("9,216", "9216"),
    ("1.0000", "1"),
    ("0.2560", "26 %"),
    ("0.2560", "25.60 %"),
    ("0.2560", "25.6 %"),
    ("94.4%", "94 %"),
    ("94.4%", "94.4 %"),
    ("1.", "1.00"),
    ("1e-06", "1e-6"),
    ("22.6353", "22.64"),
]
NOT_GROUNDED = [
    ("0.7031", "0.71"),
    ("0.7031", "0.7"),
    ("0.7031", "1"),
    ("0.7031", "-0.70"),
    ("22.6353", "22.6"),
    ("22.6353", "23"),
    ("0.2560", "25 %"),
    ("0.2512", "25.1 %"),
    ("26%", "26"),
    ("26", "26 %"),
    ("94.4%", "0.94"),
    ("42", "43"),
]


@pytest.mark.parametrize(("printed", "written"), GROUNDED)
def test_grounded(printed: str, written: str) -> None:
    assert grounds(one(printed), one(written))


@pytest.mark.parametrize(("printed", "written"), NOT_GROUNDED)
def test_not_grounded(printed: str, written: str) -> None:
    assert not grounds(one(printed), one(written))


@pytest.mark.parametrize(
    ("printed", "like", "written"),
    [
        ("0.8123", "0.70", "0.81"),
        ("0.8123", "0.7031", "0.8123"),
        ("0.8123", "70 %", "81 %"),
        ("81.2%", "70 %", "81 %"),
        ("12345", "9,216", "12,345"),
        ("12,345", "9216", "12345"),
        ("-0.5", "0.70", "-0.5"),
        ("43", "42", "43"),
    ],
)
def test_spelled_like_the_number_before(printed: str, like: str, written: str) -> None:
    percent = " %" if "%" in like else ""
    assert spell(one(printed), one(like)) + percent == written


@given(st.decimals(-10_000, 10_000, places=4), st.sampled_from(["0.70", "0.703", "0.7031", "70 %"]))
def test_what_is_spelled_is_grounded(value: Decimal, like: str) -> None:
    printed = one(str(value))
    percent = " %" if "%" in like else ""
    assert grounds(printed, one(spell(printed, one(like)) + percent))
