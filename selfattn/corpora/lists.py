"""The two lists that were made from Banking77: the names of the intents and the vocabulary."""

from pathlib import Path

HERE = Path(__file__).parent


def _lines(name: str) -> list[str]:
    return (HERE / name).read_text(encoding="utf-8").splitlines()


INTENTS: tuple[str, ...] = tuple(_lines("intents.txt"))
"""The 77 intents in alphabetical order; a label is a place in it."""


def words() -> list[str]:
    """Read the vocabulary.

    Returns:
        A new list; a word's place in it is its id. The first two are `<pad>` and `<unk>`.
    """
    return _lines("vocabulary.txt")
