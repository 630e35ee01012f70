"""The tokenizer, the encoder, the split and the sets."""

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from selfattn import corpora, text


@pytest.mark.parametrize(
    ("query", "tokens"),
    [
        ("Where is my card?", ["where", "is", "my", "card", "?"]),
        ("I can't pay £5.50!!", ["i", "can", "'", "t", "pay", "£", "5", ".", "50", "!", "!"]),
        ("snake_case  and\ttabs", ["snake_case", "and", "tabs"]),
        ("", []),
    ],
)
def test_tokens_by_hand(query: str, tokens: list[str]) -> None:
    assert text.tokenize(query) == tokens


@given(st.text())
def test_tokens_lose_nothing_but_white_space(query: str) -> None:
    assert "".join(text.tokenize(query)) == re.sub(r"\s", "", query.lower())


def test_ids_of_the_lesson() -> None:
    words = ["<pad>", "<unk>", "where", "is", "my", "card", "?", ".", "never", "arrived"]
    assert [text.vocab[word] for word in words] == [0, 1, 62, 11, 4, 9, 3, 5, 248, 274]
    assert len(text.vocab) == 2202


def test_encode_pads_on_the_right_and_cuts_at_the_end() -> None:
    assert text.encode("Where is my card?") == [62, 11, 4, 9, 3] + [0] * 43
    assert text.encode("card " * 47 + "my never") == [9] * 47 + [4]
    assert text.encode("card zebra") == [9, 1] + [0] * 46


@given(st.text().filter(lambda s: not s.isspace() and s))
def test_encode_always_fills_48_places(query: str) -> None:
    if text.tokenize(query):
        ids = text.encode(query)
        assert len(ids) == 48
        assert ids[0] != 0
        assert all(0 <= i < 2202 for i in ids)


@pytest.mark.parametrize("query", ["", "   ", "\n\t"])
def test_a_query_without_a_token_is_refused(query: str) -> None:
    with pytest.raises(ValueError, match=re.escape(f"at least one word or mark, got {query!r}")):
        text.encode(query)


@pytest.mark.parametrize("query", [None, 5, b"card", ["card"]])
def test_only_strings_are_queries(query: object) -> None:
    for function in (text.tokenize, text.encode):
        with pytest.raises(TypeError, match=f"must be a string, got {type(query).__name__}"):
            function(query)


@pytest.mark.parametrize("rows", [5, 12, 627, 10_003])
def test_split_shares_out_every_row_once(rows: int) -> None:
    train, val = text.split(rows)
    assert len(val) == rows // 5
    assert train == sorted(train)
    assert sorted(train + val) == list(range(rows))


@pytest.fixture(scope="module")
def bundled() -> text.Corpus:
    return text.load("bundled")


def test_the_bundled_sets(bundled: text.Corpus) -> None:
    rows = corpora.rows("bundled")
    train, val = text.split(len(rows))
    for chosen, dataset in ((train, bundled.train_set), (val, bundled.val_set)):
        ids, labels = dataset.tensors
        assert ids.shape == (len(chosen), 48)
        assert ids.dtype == labels.dtype == torch.int64
        for place in (0, 1, -1):
            query, intent = rows[chosen[place]]
            assert ids[place].tolist() == text.encode(query)
            assert bundled.intents[labels[place]] == intent


def test_intents_are_77_in_alphabetical_order(bundled: text.Corpus) -> None:
    assert len(bundled.intents) == 77
    assert list(bundled.intents) == sorted(bundled.intents)


def test_loaders(bundled: text.Corpus) -> None:
    val = torch.cat([ids for ids, _ in bundled.val_loader])
    assert torch.equal(val, bundled.val_set.tensors[0])
    assert next(iter(bundled.val_loader))[0].shape == (32, 48)

    def epoch() -> torch.Tensor:
        return torch.cat([ids for ids, _ in bundled.train_loader])

    bundled.order.manual_seed(42)
    first, second = epoch(), epoch()
    bundled.order.manual_seed(42)
    again = epoch()
    everything = bundled.train_set.tensors[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, second)
    assert not torch.equal(first, everything)
    assert sorted(first.tolist()) == sorted(everything.tolist())


def test_a_corpus_has_all_the_modules_names(bundled: text.Corpus) -> None:
    for name in ("tokenize", "vocab", "encode", "MAX_LEN"):
        assert getattr(bundled, name) is getattr(text, name)
    assert bundled.name == "bundled"


def test_a_loaded_corpus_starts_its_order_afresh(bundled: text.Corpus) -> None:
    fresh = text.load("bundled")
    assert fresh.order.initial_seed() == 42
    assert torch.equal(fresh.order.get_state(), torch.Generator().manual_seed(42).get_state())


def test_the_modules_names_are_one_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SELFATTN_CORPUS", "bundled")
    text._default.cache_clear()
    assert text.train_set is text.train_set
    assert len(text.val_set) == len(text.load("bundled").val_set)
    assert text.train_loader.dataset is text.train_set
    assert text.train_loader.sampler.generator is text.order
    text._default.cache_clear()


def test_an_unknown_corpus_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown corpus 'banking'"):
        text.load("banking")


def test_banking77s_first_validation_query(published) -> None:
    data = text.load("banking77")
    assert (len(data.train_set), len(data.val_set)) == (8003, 2000)
    first = [11, 12, 141, 17, 29, 6, 107, 4, 75, 213, 3]
    assert data.val_set[0][0].tolist() == first + [0] * 37
