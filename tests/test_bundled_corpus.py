"""The rules that the bundled queries keep, and the vocabulary they share with Banking77."""

import csv
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from selfattn import corpora


@pytest.fixture(scope="module")
def rows() -> list[tuple[str, str]]:
    return corpora.rows("bundled")


@pytest.fixture(scope="module")
def lengths(rows: list[tuple[str, str]]) -> list[int]:
    """Tokens of each validation query, in the order of the validation set."""
    order = numpy.random.RandomState(42).permutation(len(rows))
    return [len(tokens(rows[place][0])) for place in order[: len(rows) // 5]]


def tokens(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", text.lower())


def plain(text: str) -> str:
    """The letters and digits alone: two queries which agree in these are the same query."""
    return "".join(filter(str.isalnum, text.lower()))


def texts(file: Path) -> Iterator[str]:
    with file.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            yield row["text"]


def test_every_intent_has_eight_queries(rows: list[tuple[str, str]]) -> None:
    counts = Counter(intent for _, intent in rows)
    assert {name: counts[name] for name in corpora.INTENTS if counts[name] < 8} == {}


def test_no_query_comes_twice(rows: list[tuple[str, str]]) -> None:
    counts = Counter(plain(text) for text, _ in rows)
    assert [text for text, _ in rows if counts[plain(text)] > 1] == []


def test_no_query_is_banking77s(rows: list[tuple[str, str]], published: Path) -> None:
    taken = {plain(text) for text in texts(published)}
    if (test := published.with_name("test.csv")).exists():
        taken |= {plain(text) for text in texts(test)}
    assert plain("I am STILL waiting, on my card") in taken
    assert [text for text, _ in rows if plain(text) in taken] == []


def test_the_first_64_have_the_shortest_at_4_tokens_and_one_above_48(lengths: list[int]) -> None:
    assert len(lengths) >= 64
    assert min(lengths[:64]) == 4
    assert max(lengths[:64]) > 48


def test_the_first_32_never_fill_48_places(lengths: list[int]) -> None:
    assert max(lengths[:32]) < 48


def test_the_vocabulary_is_that_of_the_training_queries(published: Path) -> None:
    queries = list(texts(published))
    validation = set(numpy.random.RandomState(42).permutation(len(queries))[:2000])
    counts = Counter(
        token
        for place, query in enumerate(queries)
        if place not in validation
        for token in tokens(query)
    )
    # most_common keeps the order of first appearance among equal counts.
    expected = ["<pad>", "<unk>", *(word for word, _ in counts.most_common())]
    assert corpora.words() == expected
