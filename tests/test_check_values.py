"""The lesson's check values, recomputed by their recipes and compared with figures from outside.

The figures were measured elsewhere, with other code. Four decimals may differ by one in the last:
another CPU rounds a sum differently.
"""

import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from selfattn import attention, causal_mask, padding_mask
from selfattn.text import encode, load, tokenize, vocab

ASKED = "Where is my card?"


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def near(expected, places=4):
    return pytest.approx(expected, abs=1.01 * 10**-places)


def plain_ids(text):
    return torch.tensor([[vocab[token] for token in tokenize(text)]])


def layers(width):
    """The seeded embedding, then the query, key and value projections."""
    torch.manual_seed(42)
    embedding = nn.Embedding(2202, width, padding_idx=0)
    return embedding, nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)


class TestAverage:
    @pytest.fixture
    def x(self):
        return layers(4)[0](plain_ids(ASKED))

    def test_embeddings_and_scores(self, x) -> None:
        assert x[0, 0].tolist() == near([1.26, -0.71, 0.85, 0.51], 2)
        scores = (x @ x.mT)[0]
        assert scores[1, 1].item() == near(7.89, 2)
        assert scores[1, [0, 2, 3, 4]].max().item() == near(0.32, 2)
        assert scores[3, 2].item() == near(0.10, 2)

    def test_weights(self, x) -> None:
        weights = torch.softmax(x @ x.mT, dim=-1)[0]
        assert weights[0].tolist() == near([0.70, 0.00, 0.23, 0.06, 0.01], 2)
        assert weights[1, 1].item() == near(1.00, 2)
        assert weights.argmax(dim=-1).tolist() == [0, 1, 2, 3, 4]
        assert (weights @ x[0])[3].tolist() == near([0.6753, -0.3587, 0.1758, -0.0739])

    def test_the_wrong_dimension(self, x) -> None:
        sums = torch.softmax(x @ x.mT, dim=1).sum(dim=-1)[0]
        assert sums.tolist() == near([1.2442, 1.1785, 1.1949, 0.5581, 0.8243])

    @pytest.mark.filterwarnings("ignore:The use of `x.T`")
    def test_transposing_a_batch(self, x) -> None:
        assert x.T.shape == (4, 5, 1)
        with pytest.raises(RuntimeError, match="Expected size for first two dimensions"):
            x @ x.T


class TestProjections:
    def test_seeded_layers(self) -> None:
        embedding, query, key, value = layers(4)
        assert sum(p.numel() for m in (query, key, value) for p in m.parameters()) == 60
        x = embedding(plain_ids(ASKED))
        output, weights = attention(query(x), key(x), value(x))
        assert weights[0].argmax(dim=-1).tolist() == [3, 3, 3, 3, 0]
        assert weights[0, 3].tolist() == near([0.22, 0.13, 0.23, 0.25, 0.17], 2)
        assert value(x)[0, 3].tolist() == near([0.36, -0.51, 0.39, 0.13], 2)
        assert output[0, 3].tolist() == near([0.33, -0.35, 0.13, 0.32], 2)
        assert torch.pdist(value(x)[0]).mean().item() == near(1.528, 3)
        assert torch.pdist(output[0]).mean().item() == near(0.070, 3)

    def test_biases(self) -> None:
        embedding, query, key, value = layers(4)
        x = embedding(plain_ids(ASKED))
        with torch.enable_grad():
            output, weights = attention(query(x), key(x), value(x))
            output.sum().backward()
        without_key = attention(query(x), key(x) - key.bias, value(x))[1]
        without_query = attention(query(x) - query.bias, key(x), value(x))[1]
        assert (without_key - weights).abs().max() < 1e-7
        assert key.bias.grad.abs().max() < 1e-6
        assert (without_query - weights).abs().max().item() == near(0.071, 3)

    @pytest.mark.parametrize(
        ("width", "raw", "shared", "separate"), [(4, 0.80, 0.61, 0.20), (16, 1.00, 0.97, 0.20)]
    )
    def test_shares_over_a_thousand_seeds(self, width, raw, shared, separate) -> None:
        own, total = torch.arange(5), [0, 0, 0]
        for seed in range(1000):
            torch.manual_seed(seed)
            x = torch.randn(5, width)
            a, b = nn.Linear(width, width)(x), nn.Linear(width, width)(x)
            for i, scores in enumerate((x @ x.T, a @ a.T, a @ b.T)):
                total[i] += int((scores.argmax(dim=-1) == own).sum())
        assert [count / 5000 for count in total] == near([raw, shared, separate], 2)


@pytest.fixture(scope="module")
def draws():
    """For each width, q and k [256, 48, width]."""
    generator = torch.Generator().manual_seed(42)
    draw = {}
    for d in (16, 64, 512):
        q = torch.randn(256, 48, d, generator=generator)
        draw[d] = (q, torch.randn(256, 48, d, generator=generator))
    return draw


class TestScale:
    @pytest.mark.parametrize(
        ("d", "divide", "std", "top", "entropy", "saturated"),
        [
            (16, False, 4.01, 0.5976, 1.2796, 0.0251),
            (16, True, 1.00, 0.1273, 3.4085, 0.0000),
            (512, False, 22.62, 0.9321, 0.1690, 0.6281),
            (512, True, 1.00, 0.1285, 3.4057, 0.0000),
        ],
    )
    def test_table(self, draws, d, divide, std, top, entropy, saturated) -> None:
        q, k = draws[d]
        scores = q @ k.mT / (math.sqrt(d) if divide else 1)
        weights = torch.softmax(scores, dim=-1)
        tops = weights.amax(dim=-1)
        assert scores.std().item() == near(std, 2)
        assert tops.mean().item() == near(top)
        assert torch.special.entr(weights).sum(dim=-1).mean().item() == near(entropy)
        assert (tops > 0.99).float().mean().item() == near(saturated)

    def test_width_512(self, draws) -> None:
        q, k = draws[512]
        raw = q @ k.mT
        assert [q.var().item(), k.var().item()] == near([0.9999, 1.0001])
        assert raw.var().item() == near(511.8, 1)
        assert torch.equal(raw.argmax(dim=-1), (raw / math.sqrt(512)).argmax(dim=-1))
        for scores, median in ((raw, 0.0024), (raw / math.sqrt(512), 0.9546)):
            w = torch.softmax(scores, dim=-1)
            assert (w * (1 - w)).sum(dim=-1).median().item() == near(median)

    def test_divisors(self) -> None:
        generator = torch.Generator().manual_seed(42)
        q, k = (torch.randn(256, 48, 512, generator=generator) for _ in range(2))
        divisors = {1: 0.9317, math.sqrt(48): 0.5378, math.sqrt(512): 0.1285, 512: 0.0230}
        for divisor, top in divisors.items():
            weights = torch.softmax(q @ k.mT / divisor, dim=-1)
            assert weights.amax(dim=-1).mean().item() == near(top)

    def test_log_48(self) -> None:
        assert math.log(48) == near(3.8712)


class TestPaddingMask:
    @pytest.fixture
    def qkv(self):
        embedding, query, key, value = layers(16)
        x = embedding(torch.tensor([encode(ASKED)]))
        return query(x), key(x), value(x)

    def test_unmasked(self, qkv) -> None:
        output, weights = attention(*qkv)
        on_pads = weights[0, :5, 5:].sum(dim=-1)
        assert on_pads.tolist() == near([0.8994, 0.8826, 0.9006, 0.8937, 0.9059])
        short, _ = attention(*(t[:, :10] for t in qkv))
        assert (output[:, :5] - short[:, :5]).abs().max().item() == near(0.1516)

    def test_masked(self, qkv) -> None:
        mask = padding_mask(torch.tensor([encode(ASKED)]))
        output, weights = attention(*qkv, mask)
        assert weights[..., 5:].abs().max() == 0
        assert weights[0, 0, :5].tolist() == near([0.19, 0.17, 0.26, 0.21, 0.16], 2)
        short, _ = attention(*(t[:, :10] for t in qkv), mask[..., :10])
        torch.testing.assert_close(output[:, :5], short[:, :5], atol=1e-6, rtol=1e-5)

    def test_wrong_masks(self, qkv) -> None:
        q, k, v = qkv
        pad = torch.tensor([encode(ASKED)]) == 0  # [1, 48]
        scores = q @ k.mT / 4
        filled = torch.softmax(scores.masked_fill(pad.unsqueeze(1), 0.0), dim=-1)
        expected = [0.8985, 0.8732, 0.9084, 0.8935, 0.9021]
        assert filled[0, :5, 5:].sum(dim=-1).tolist() == near(expected)
        after = torch.softmax(scores, dim=-1).masked_fill(pad.unsqueeze(1), 0.0)
        expected = [0.1006, 0.1174, 0.0994, 0.1063, 0.0941]
        assert after[0, :5].sum(dim=-1).tolist() == near(expected)
        output, rows = attention(q, k, v, pad.unsqueeze(2))
        assert torch.equal(rows[:, :5], attention(q, k, v)[1][:, :5])
        assert output[0].isnan().any(dim=-1).tolist() == [False] * 5 + [True] * 43

    @pytest.mark.parametrize("corpus", ["bundled", "banking77"])
    def test_the_batch_of_32(self, corpus, request) -> None:
        if corpus == "banking77":
            request.getfixturevalue("published")
        ids = load(corpus).val_set.tensors[0][:32]
        embedding, query, key, value = layers(16)
        x = embedding(ids)
        mask = padding_mask(ids)
        output, weights = attention(query(x), key(x), value(x), mask)
        assert (output.shape, weights.shape) == ((32, 48, 16), (32, 48, 48))
        assert weights.masked_select(mask).sum() == 0
        with pytest.raises(RuntimeError, match=r"tensor a \(32\) must match .* tensor b \(48\)"):
            attention(query(x), key(x), value(x), mask.squeeze(1))

    def test_the_mask_that_fits_by_accident_on_banking77(self, published) -> None:
        ids = load("banking77").val_set.tensors[0][:48]
        embedding, query, key, value = layers(16)
        x = embedding(ids)
        right = attention(query(x), key(x), value(x), padding_mask(ids))[0]
        wrong = attention(query(x), key(x), value(x), ids == 0)[0]
        moved = (right - wrong).abs().amax(dim=-1)[ids != 0]
        assert (moved > 1e-6).float().mean().item() == near(0.903, 3)
        assert moved.max().item() == near(0.6741)


class TestCausalMask:
    def test_only_the_last_place_moves(self) -> None:
        embedding, query, key, value = layers(16)
        outputs = []
        for text in (ASKED, "Where is my card."):
            x = embedding(plain_ids(text))
            outputs.append(attention(query(x), key(x), value(x), causal_mask(5)))
        moved = (outputs[0][0] - outputs[1][0])[0].abs().amax(dim=-1)
        assert moved.tolist() == near([0, 0, 0, 0, 0.1918])
        assert outputs[0][1][0, 4].tolist() == near([0.16, 0.18, 0.23, 0.23, 0.20], 2)

    def test_joined_on_the_batch(self) -> None:
        ids = load("bundled").val_set.tensors[0][:32]
        embedding, query, key, value = layers(16)
        x = embedding(ids)
        mask = padding_mask(ids) | causal_mask(48)
        output, weights = attention(query(x), key(x), value(x), mask)
        assert mask.shape == (32, 48, 48)
        assert not output.isnan().any()
        assert weights[0, 0, :3].tolist() == [1, 0, 0]

    def test_off_by_one(self) -> None:
        q = k = v = torch.randn(1, 5, 16)
        mask = torch.ones(5, 5, dtype=torch.bool).triu(0)
        assert attention(q, k, v, mask)[0][0, 0].isnan().all()
        theirs = F.scaled_dot_product_attention(q, k, v, attn_mask=~mask)
        assert theirs[0, 0].abs().max() == 0


class TestOrder:
    @pytest.fixture
    def attend(self):
        embedding, query, key, value = layers(16)

        def run(text, order, mask=None, added=0.0):
            x = embedding(plain_ids(text))[0][list(order)] + added
            return attention(query(x), key(x), value(x), mask)[0]

        return run

    def test_permutation(self, attend) -> None:
        order = [3, 2, 0, 1, 4]
        straight, mixed = attend(ASKED, range(5)), attend(ASKED, order)
        torch.testing.assert_close(mixed, straight[order], atol=1e-6, rtol=1e-5)
        assert mixed.mean(dim=0)[:4].tolist() == near([0.0041, -0.0589, 0.0809, 0.1853])
        causal = attend(ASKED, order, causal_mask(5)) - attend(ASKED, range(5), causal_mask(5))
        assert causal.mean(dim=0).abs().max().item() == near(0.8583)

    def test_all_orders(self, attend) -> None:
        angle = torch.arange(5).unsqueeze(1) / 10_000 ** (torch.arange(0, 16, 2) / 16)
        sines = torch.empty(5, 16)
        sines[:, 0::2], sines[:, 1::2] = angle.sin(), angle.cos()
        orders = list(itertools.permutations(range(5)))

        def means(**options):
            return torch.stack([attend(ASKED, order, **options).mean(dim=0) for order in orders])

        plain = means()
        assert (plain - plain[0]).abs().max() < 1e-7
        for rows in (means(mask=causal_mask(5)), means(added=sines)):
            gaps = torch.cdist(rows, rows, p=math.inf)
            assert gaps[~torch.eye(120, dtype=torch.bool)].min() > 1e-6

    def test_the_same_word_twice(self, attend) -> None:
        text = "my card is not my card"
        free, causal = attend(text, range(6)), attend(text, range(6), causal_mask(6))
        assert torch.equal(free[1], free[5])
        assert (causal[1] - causal[5]).abs().max().item() == near(0.7178)


@pytest.mark.parametrize("corpus", ["bundled", "banking77"])
class TestPyTorch:
    @pytest.fixture
    def setting(self, corpus, request):
        """ids [32, 48] and q, k, v, value's bias."""
        if corpus == "banking77":
            request.getfixturevalue("published")
        ids = load(corpus).val_set.tensors[0][:32]
        embedding, query, key, value = layers(16)
        x = embedding(ids)
        return ids, (query(x), key(x), value(x)), value.bias

    def test_agreement(self, setting) -> None:
        ids, qkv, _ = setting
        padding, causal = padding_mask(ids), causal_mask(48)
        theirs = F.scaled_dot_product_attention
        for mask, output in (
            (padding, theirs(*qkv, attn_mask=~padding)),
            (causal, theirs(*qkv, is_causal=True)),
            (padding | causal, theirs(*qkv, attn_mask=~(padding | causal))),
        ):
            torch.testing.assert_close(attention(*qkv, mask)[0], output, atol=1e-6, rtol=1e-5)

    def test_unflipped(self, setting) -> None:
        ids, qkv, bias = setting
        output = F.scaled_dot_product_attention(*qkv, attn_mask=padding_mask(ids))
        assert (output - bias).abs().max() < 2e-7

    def test_one_more_dimension(self, setting) -> None:
        ids, qkv, _ = setting
        heads = [t.unsqueeze(1) for t in qkv]
        assert attention(*heads, padding_mask(ids).unsqueeze(1))[0].shape == (32, 1, 48, 16)
        assert attention(*heads, padding_mask(ids))[0].shape == (32, 32, 48, 16)


def test_what_each_fault_moves_on_banking77(published) -> None:
    ids = load("banking77").val_set.tensors[0][:32]
    embedding, query, key, value = layers(16)
    x = embedding(ids)
    q, k, v = query(x), key(x), value(x)
    mask, real = padding_mask(ids), ids != 0
    truth = attention(q, k, v, mask)[0]

    def output(scores, fill=-math.inf):
        return torch.softmax(scores.masked_fill(mask, fill), dim=-1) @ v

    raw = q @ k.mT
    faults = {
        1.0417: output(raw),
        0.3765: output(raw / 16),
        0.2149: output(raw / math.sqrt(48)),
        0.5505: output(raw.mT / 4),
        0.5626: output(raw / 4, fill=0.0),
        0.7422: torch.softmax(raw / 4, dim=-1).masked_fill(mask, 0.0) @ v,
        0.5763: torch.softmax(raw / 4, dim=-1) @ v,
    }
    for expected, faulty in faults.items():
        assert (faulty - truth)[real].abs().max().item() == near(expected)


class TestSquare:
    @pytest.mark.parametrize(
        ("n", "weights", "output"), [(48, 9_216, 12_288), (8192, 268_435_456, 2_097_152)]
    )
    def test_bytes(self, n, weights, output) -> None:
        x = torch.randn(1, n, 64)
        assert [t.nbytes for t in attention(x, x, x)] == [output, weights]

    @pytest.mark.parametrize(
        ("n", "projections", "products"), [(48, 1_179_648, 589_824), (96, 2_359_296, 2_359_296)]
    )
    def test_operations(self, n, projections, products) -> None:
        _, query, key, value = layers(64)
        x = torch.randn(1, n, 64)
        with FlopCounterMode(display=False) as counter:
            qkv = query(x), key(x), value(x)
        assert counter.get_total_flops() == projections
        with FlopCounterMode(display=False) as counter:
            attention(*qkv)
        assert counter.get_total_flops() == products

    def test_blocks(self) -> None:
        x = torch.randn(1, 8192, 64, generator=torch.Generator().manual_seed(42))
        whole, _ = attention(x, x, x)
        parts = [attention(block, x, x) for block in x.split(512, dim=1)]
        assert {weights.nbytes for _, weights in parts} == {16_777_216}
        blocked = torch.cat([output for output, _ in parts], dim=1)
        torch.testing.assert_close(blocked, whole, atol=1e-6, rtol=1e-5)
