"""Queries of bank customers as token ids: the tokenizer, the vocabulary and the two sets.

Importing a name costs only what it needs: `tokenize`, `vocab` and `encode` read no queries;
`intents`, `train_set`, `val_set`, `train_loader`, `val_loader` and `order` load the default corpus
on first use (see `selfattn.corpora.default`). `load(name)` gives the same names for a corpus that
the caller chooses.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from selfattn import corpora

MAX_LEN = 48
"""Places in an encoded query: longer queries are cut, shorter ones padded."""

PAD, UNK = 0, 1
"""Ids of the padding token and of every token that the vocabulary lacks."""

BATCH_SIZE = 32
SEED = 42

vocab: dict[str, int] = {word: i for i, word in enumerate(corpora.words())}
"""Token to id: `<pad>`, `<unk>`, then the tokens of Banking77's training queries by count."""

# Loaded on first use, by __getattr__ below.
intents: tuple[str, ...]
train_set: TensorDataset
val_set: TensorDataset
train_loader: "DataLoader[tuple[Tensor, ...]]"
val_loader: "DataLoader[tuple[Tensor, ...]]"
order: torch.Generator


def tokenize(text: str) -> list[str]:
    """Split a query into lower-cased words and single punctuation marks.

    Raises:
        TypeError: `text` is not a string.
    """
    if not isinstance(text, str):
        raise TypeError(
            f"a query must be a string, got {type(text).__name__}: {text!r}; "
            "for several queries, call once for each"
        )
    return re.findall(r"\w+|[^\w\s]", text.lower())


def encode(text: str) -> list[int]:
    """Turn a query into exactly `MAX_LEN` ids: cut at the end, or padded on the right with 0.

    Raises:
        TypeError: `text` is not a string.
        ValueError: `text` holds no token; attention over padding alone is nan.
    """
    tokens = tokenize(text)
    if not tokens:
        raise ValueError(f"a query needs at least one word or mark, got {text!r}")
    ids = [vocab.get(token, UNK) for token in tokens[:MAX_LEN]]
    return ids + [PAD] * (MAX_LEN - len(ids))


@dataclass(frozen=True)
class Corpus:
    """One corpus, split and encoded; it can stand wherever this module does.

    Attributes:
        name: "banking77" or "bundled".
        intents: the 77 names in alphabetical order; a label is a place in it.
        train_set: ids `[rows, MAX_LEN]` and labels `[rows]`, both int64, in file order.
        val_set: the same for validation, in the order of the split's permutation.
        train_loader: shuffled batches of 32 from `train_set`.
        val_loader: batches of 32 from `val_set`, in order.
        order: the generator that shuffles `train_loader`, seeded 42; reseed it before a run.
    """

    name: str
    intents: tuple[str, ...]
    train_set: TensorDataset
    val_set: TensorDataset
    train_loader: "DataLoader[tuple[Tensor, ...]]"
    val_loader: "DataLoader[tuple[Tensor, ...]]"
    order: torch.Generator

    # The same for every corpus.
    MAX_LEN: ClassVar[int] = MAX_LEN
    vocab: ClassVar[dict[str, int]] = vocab
    tokenize: ClassVar[Callable[[str], list[str]]] = staticmethod(tokenize)
    encode: ClassVar[Callable[[str], list[int]]] = staticmethod(encode)


def load(corpus: str) -> Corpus:
    """Load a corpus by name, afresh: its `order` has drawn nothing yet.

    Args:
        corpus: "banking77" or "bundled".

    Raises:
        ValueError: no corpus has that name, or its file is not what it should be.
        FileNotFoundError: Banking77 is not on this machine; `selfattn data` downloads it.
    """
    rows = corpora.rows(corpus)
    train, val = split(len(rows))
    train_set, val_set = _encoded(rows, train), _encoded(rows, val)
    order = torch.Generator().manual_seed(SEED)
    return Corpus(
        name=corpus,
        intents=corpora.INTENTS,
        train_set=train_set,
        val_set=val_set,
        train_loader=DataLoader(train_set, BATCH_SIZE, shuffle=True, generator=order),
        val_loader=DataLoader(val_set, BATCH_SIZE),
        order=order,
    )


def split(rows: int) -> tuple[list[int], list[int]]:
    """Share out row numbers: training in file order, validation in the permutation's order.

    The first fifth of a permutation seeded 42 is for validation.
    """
    permutation = np.random.RandomState(SEED).permutation(rows).tolist()
    val = permutation[: rows // 5]
    return sorted(permutation[rows // 5 :]), val


def _encoded(rows: list[tuple[str, str]], chosen: list[int]) -> TensorDataset:
    ids = torch.tensor([encode(rows[i][0]) for i in chosen])
    labels = torch.tensor([corpora.INTENTS.index(rows[i][1]) for i in chosen])
    return TensorDataset(ids, labels)


@cache
def _default() -> Corpus:
    return load(corpora.default())


_LAZY = frozenset(field.name for field in fields(Corpus)) - {"name"}


def __getattr__(name: str) -> object:
    if name in _LAZY:
        return getattr(_default(), name)
    raise AttributeError(f"module 'selfattn.text' has no attribute {name!r}")
