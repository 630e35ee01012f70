"""The two corpora of the lesson: queries to a bank, each with one of 77 intents.

`banking77` is the published data set, downloaded by `selfattn data`; `bundled` is a small one of
our own that comes with the package. They share the intents and the vocabulary. Nothing here
imports torch.
"""

import os
import sys
from functools import cache

from selfattn.corpora import banking77, table
from selfattn.corpora.lists import HERE, INTENTS, words

__all__ = ["INTENTS", "NAMES", "banking77", "default", "fingerprint", "rows", "words"]

NAMES = ("banking77", "bundled")
VARIABLE = "SELFATTN_CORPUS"
_ALLOWED = " or ".join(map(repr, NAMES))


def rows(name: str) -> list[table.Row]:
    """Read a corpus.

    Args:
        name: one of `NAMES`.

    Returns:
        Pairs (text, intent) in file order.

    Raises:
        ValueError: the name is unknown, or the corpus is not what it should be.
        FileNotFoundError: Banking77 is asked for and is not there.
        OSError: the file cannot be read.
    """
    if name not in NAMES:
        raise ValueError(f"unknown corpus {name!r}; expected {_ALLOWED}")
    if name == "banking77":
        return banking77.verify(banking77.path())
    return table.read(HERE / "bundled.csv", INTENTS)


def default() -> str:
    """Choose the corpus for those who name none.

    SELFATTN_CORPUS decides when it is set. Otherwise it is Banking77 where that is found, and
    the bundled corpus where it is not; the latter is said once per process, on stderr.

    Returns:
        One of `NAMES`.

    Raises:
        ValueError: SELFATTN_CORPUS is neither of the two.
        FileNotFoundError: SELFATTN_BANKING77 names a folder without Banking77.
    """
    forced = os.environ.get(VARIABLE)
    if forced and forced not in NAMES:
        raise ValueError(f"{VARIABLE} is {forced!r}; expected {_ALLOWED}, or unset it")
    if forced:
        return forced
    if banking77.found():
        return "banking77"
    _say_bundled()
    return "bundled"


def fingerprint() -> str:
    """Say which corpora are here and which is the default, for those who remember results.

    Returns:
        One sentence; it changes when Banking77 appears, goes, or the choice is another.
    """
    forced = os.environ.get(VARIABLE)
    there = banking77.path().exists()
    name = forced or ("banking77" if there else "bundled")
    return f"Default corpus: {name}; Banking77 is {'here' if there else 'not here'}."


@cache  # so that it is printed once
def _say_bundled() -> None:
    print(
        f"selfattn: using the bundled corpus, as Banking77 is not at {banking77.path()}; "
        f"`selfattn data` downloads it, {VARIABLE}=bundled silences this line",
        file=sys.stderr,
    )
