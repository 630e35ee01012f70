"""The assignment's solution: reversal by its laws, the three models, their training."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from selfattn.assignment import (
    KINDS,
    Classifier,
    fit,
    over_seeds,
    read_backwards,
    reverse,
    saturation,
    seeded,
)
from selfattn.text import MAX_LEN, load, vocab
from selfattn.training import accuracy, train_epoch


@pytest.fixture(scope="module")
def data():
    return load("bundled")


@st.composite
def batches(draw):
    """Ids [batch, 48] of queries with 0 to 48 real tokens, both ends of that often."""
    lengths = st.one_of(st.sampled_from([0, 1, 47, MAX_LEN]), st.integers(0, MAX_LEN))
    rows = []
    for length in draw(st.lists(lengths, min_size=1, max_size=7)):
        tokens = draw(st.lists(st.integers(1, 2201), min_size=length, max_size=length))
        rows.append(tokens + [0] * (MAX_LEN - length))
    return torch.tensor(rows)


class TestReverse:
    def test_by_hand(self) -> None:
        ids = torch.tensor([[5, 6, 7, 0, 0], [8, 0, 0, 0, 0], [0, 0, 0, 0, 0], [1, 2, 3, 4, 5]])
        turned = [[7, 6, 5, 0, 0], [8, 0, 0, 0, 0], [0, 0, 0, 0, 0], [5, 4, 3, 2, 1]]
        before = ids.clone()
        assert reverse(ids).tolist() == turned
        assert torch.equal(ids, before), "the caller's ids are left alone"

    @pytest.mark.parametrize("length", [0, 1, MAX_LEN])
    def test_shortest_and_longest(self, length: int) -> None:
        tokens = list(range(1, length + 1))
        pads = [0] * (MAX_LEN - length)
        assert reverse(torch.tensor([tokens + pads])).tolist() == [tokens[::-1] + pads]

    @given(batches())
    def test_twice_gives_the_ids_back(self, ids) -> None:
        assert torch.equal(reverse(reverse(ids)), ids)

    @given(batches())
    def test_pads_never_move(self, ids) -> None:
        assert torch.equal(reverse(ids) == 0, ids == 0)

    @given(batches())
    def test_each_query_is_its_tokens_from_the_last_to_the_first(self, ids) -> None:
        for row, turned in zip(ids.tolist(), reverse(ids).tolist(), strict=True):
            assert [t for t in turned if t] == [t for t in reversed(row) if t]


class TestClassifier:
    def test_the_bag_is_pytorchs(self, data) -> None:
        model = seeded("bag", data)
        torch.manual_seed(42)
        bag = nn.EmbeddingBag(len(vocab), 64, mode="mean", padding_idx=0)
        head = nn.Linear(64, 77)
        ids = data.val_set.tensors[0]
        torch.testing.assert_close(model(ids), head(bag(ids)), atol=1e-6, rtol=1e-5)

    @pytest.mark.parametrize("causal", [False, True])
    def test_attention_is_pytorchs(self, data, causal: bool) -> None:
        model = seeded("causal" if causal else "attention", data)
        torch.manual_seed(42)
        embedding = nn.Embedding(len(vocab), 64, padding_idx=0)
        query, key, value, head = (nn.Linear(64, width) for width in (64, 64, 64, 77))
        ids = data.val_set.tensors[0][:5]
        for row, logits in zip(ids, model(ids), strict=True):
            x = embedding(row[row != 0]).unsqueeze(0)  # one query alone needs no padding mask
            output = F.scaled_dot_product_attention(
                query(x), key(x), value(x), is_causal=causal
            )  # [1, real tokens, 64]
            expected = head(output.mean(dim=1))[0]
            torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-4)

    def test_kinds_have_the_layers_they_use(self) -> None:
        bag, attention, causal = (Classifier(kind, 5) for kind in KINDS)
        sizes = [sum(p.numel() for p in m.parameters()) for m in (bag, attention, causal)]
        assert sizes[0] == len(vocab) * 64 + 64 * 5 + 5
        assert sizes[1] == sizes[2] == sizes[0] + 3 * (64 * 64 + 64)

    def test_another_kind_is_refused(self) -> None:
        with pytest.raises(ValueError, match=r"kind must be in \('bag', .*got 'mean'"):
            Classifier("mean", 77)

    def test_only_the_causal_one_sees_order(self, data) -> None:
        ids = data.val_set.tensors[0]
        moves = {}
        for kind in KINDS:
            model = seeded(kind, data)
            moves[kind] = (model(reverse(ids)) - model(ids)).abs().max().item()
        assert max(moves["bag"], moves["attention"]) < 1e-5
        assert moves["causal"] > 0.1


class TestTraining:
    def test_a_seed_repeats_its_run(self, data) -> None:
        histories = [fit(seeded("bag", data), data, epochs=2) for _ in range(2)]
        assert histories[0] == histories[1]
        assert len(histories[0]) == 2
        assert fit(seeded("bag", data, 7), data, seed=7, epochs=2) != histories[0]

    def test_it_is_the_loop_of_the_lesson(self, data) -> None:
        history = fit(seeded("bag", data), data, epochs=1)
        model = seeded("bag", data)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        data.order.manual_seed(42)
        loss = train_epoch(model, optimizer, data.train_loader)
        assert history == [(loss, accuracy(model, data.val_loader))]

    def test_side_by_side_is_as_one_by_one(self, data) -> None:
        trained = over_seeds("bundled", [3, 42], lr=0.003)
        assert list(trained) == [(kind, seed) for seed in (3, 42) for kind in KINDS]
        for kind, seed in (("attention", 3), ("bag", 42)):
            model, history = trained[kind, seed]
            alone = seeded(kind, data, seed)
            assert fit(alone, data, seed, lr=0.003) == history
            assert torch.equal(alone.head.weight, model.head.weight)


class First(nn.Module):
    """Says the first token's id modulo 77, from either end a query is read."""

    def forward(self, ids):
        return F.one_hot(ids[:, 0] % 77, 77).float()


def test_reading_backwards_counts_queries(data) -> None:
    model = First()
    ids, labels = data.val_set.tensors
    stay, right, moved = read_backwards(model, data)
    last = [[t for t in row if t][-1] for row in ids.tolist()]
    same = [a[0] % 77 == b % 77 for a, b in zip(ids.tolist(), last, strict=True)]
    hits = [b % 77 == label for b, label in zip(last, labels.tolist(), strict=True)]
    assert (stay, right, moved) == (sum(same) / len(ids), sum(hits) / len(ids), 1.0)
    assert not model.training


class Fixed(nn.Module):
    """Gives every even place one token alone, and spreads every odd place over four."""

    def attend(self, ids):
        weights = torch.zeros(*ids.shape, MAX_LEN)
        weights[:, 0::2, 0] = 1.0
        weights[:, 1::2, :4] = 0.25
        return weights, weights


def test_saturation_is_that_of_the_real_rows(data) -> None:
    entropy, share = saturation(Fixed(), data)
    lengths = (data.val_set.tensors[0] != 0).sum(dim=1)
    odd = (lengths // 2).sum().item() / lengths.sum().item()
    assert entropy == pytest.approx(odd * math.log(4), abs=1e-5)
    assert share == pytest.approx(1 - odd)
