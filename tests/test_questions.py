"""The four questions: their form on the built page, and their figures worked out another way."""

import math
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from selfattn.fresh.snippet import parse
from selfattn.text import encode, tokenize, vocab

ROOT = Path(__file__).parent.parent
ASKED = "Where is my card?"
NUMBERS = re.compile(r"-?\d+\.\d+|-?\d+|nan")


def printed(script, label):
    """The numbers after a label, on the first line of a script's output that begins with it."""
    output = parse(ROOT / "snippets" / f"{script}.md", ROOT).recorded or ""
    lines = [line for line in output.splitlines() if line.startswith(label)]
    assert lines, f"{script} printed no line that begins with {label!r}"
    return [float(number) for number in NUMBERS.findall(lines[0].removeprefix(label))]


def near(expected, places=4):
    return pytest.approx(expected, abs=1.01 * 10**-places)


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def layers(width):
    """The seeded embedding, then the query, key and value projections."""
    torch.manual_seed(42)
    embedding = nn.Embedding(2202, width, padding_idx=0)
    return embedding, nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, width)


class Folds(HTMLParser):
    """Collects, in order, the headings and the folds of a page, with a fold's own summary."""

    def __init__(self, html):
        super().__init__()
        self.found, self._summary = [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag in {"h1", "h2", "h3", "h4"}:
            self.found.append((tag, attrs["id"], ""))
        elif tag == "details" and attrs.get("class") in {"hint", "answer", "solution"}:
            self.found.append((attrs["class"], attrs["id"], ""))
        self._summary = tag == "summary"

    def handle_data(self, data):
        if self._summary and self.found[-1][0] in {"hint", "answer"}:
            self.found[-1] = (*self.found[-1][:2], data.strip())
            self._summary = False


class TestForm:
    @pytest.fixture
    def found(self, built_site):
        return Folds((built_site / "questions.html").read_text(encoding="utf-8")).found

    def test_each_question_has_one_hint_and_then_one_answer(self, found) -> None:
        blocks = [entry for entry in found if entry[0] not in {"h1", "h3"}]
        assert [kind for kind, _, _ in blocks] == ["h2", "hint", "answer"] * 4
        for i, number in enumerate(("one", "two", "three", "four")):
            (_, question, _), hint, answer = blocks[3 * i : 3 * i + 3]
            assert hint[1:] == (f"{question}-hint", f"Hint to question {number}")
            assert answer[1:] == (f"{question}-answer", f"Answer to question {number}")

    def test_headings_are_in_order(self, found) -> None:
        levels = [int(kind[1]) for kind, _, _ in found if kind[0] == "h" and kind != "hint"]
        assert levels[0] == 1
        assert all(after <= before + 1 for before, after in pairwise(levels))

    def test_each_answer_runs_code_and_says_what_not_to_do(self) -> None:
        page = (ROOT / "docs" / "questions.md").read_text(encoding="utf-8")
        answers = re.findall(r'<details class="answer".*?</details>', page, flags=re.DOTALL)
        assert len(answers) == 4
        for answer in answers:
            assert 'exec="on"' in answer
            assert answer.count("**Don't ") == 1
            # Each block is followed by prose, and not by the next block.
            assert not re.search(r"^```\n+(```|</details>)", answer, flags=re.MULTILINE)


class TestDiagonal:
    def test_lengths_and_weights(self) -> None:
        rows = layers(4)[0](torch.tensor([vocab[t] for t in tokenize(ASKED)])).tolist()
        for i, token in enumerate(tokenize(ASKED)):
            scores = [dot(rows[i], row) for row in rows]
            length = math.sqrt(dot(rows[i], rows[i]))
            best = max(score for j, score in enumerate(scores) if j != i)
            weight = math.exp(scores[i]) / sum(map(math.exp, scores))
            shown = printed("questions-diagonal", token)
            assert shown[:3] == near([length, scores[i], best], 2)
            assert shown[3] == near(weight)

    def test_shares_of_a_thousand_seeds(self) -> None:
        assert printed("questions-diagonal", "raw ")[2] == 0.80
        assert printed("questions-diagonal", "one projection")[2] == 0.61
        assert printed("questions-diagonal", "two projections")[2] == 0.20

    @given(st.integers(0, 2**31), st.integers(1, 7), st.integers(2, 11))
    def test_a_row_is_lost_to_longer_vectors_only(self, seed, width, tokens) -> None:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(tokens, width, generator=generator, dtype=torch.float64)
        winner = (x @ x.T).argmax(dim=-1)
        lost = winner != torch.arange(tokens)
        assert (x[winner].norm(dim=-1) > x.norm(dim=-1))[lost].all()


class TestSpread:
    def test_sums_of_products(self) -> None:
        for count in (1, 4, 16, 64, 256, 512):
            spread, root = printed("questions-spread", f"{count:8} ")
            assert root == near(math.sqrt(count), 2)
            assert spread == pytest.approx(root, rel=0.02)

    def test_what_the_root_changes(self) -> None:
        spread, lead, top = printed("questions-spread", "raw ")
        assert spread == pytest.approx(math.sqrt(512), rel=0.01)
        assert top == near(0.9317)
        divided = printed("questions-spread", "divided ")
        assert divided == [1.00, near(lead / math.sqrt(512), 2), near(0.1285)]


class TestFill:
    def test_what_pads_keep(self) -> None:
        kept = printed("questions-fill", "they keep:")
        assert kept == near([0.8985, 0.8732, 0.9084, 0.8935, 0.9021])
        embedding, query, key, _ = layers(16)
        x = embedding(torch.tensor([vocab[t] for t in tokenize(ASKED)]))
        q, k = query(x).tolist(), key(x).tolist()
        for i in range(5):
            real = sum(math.exp(dot(q[i], row) / math.sqrt(16)) for row in k)
            assert kept[i] == near(43 / (43 + real))  # the exponential of zero, for each pad


@pytest.fixture(scope="module")
def model():
    return layers(16)


def by_pytorch(model, ids, mask):
    """PyTorch's own function, whose True means "may look"."""
    embedding, query, key, value = model
    x = embedding(ids)
    return F.scaled_dot_product_attention(query(x), key(x), value(x), attn_mask=~mask)


def by_where(model, ids, mask):
    """A softmax of minus infinity where the mask is True; an empty row is nan."""
    embedding, query, key, value = model
    x = embedding(ids)
    scores = torch.einsum("bqd,bkd->bqk", query(x), key(x)) / math.sqrt(16)
    weights = torch.where(mask, -torch.inf, scores).softmax(dim=-1)
    return torch.einsum("bqk,bkd->bqd", weights, value(x))


def gradients(model, pooled):
    names = ("embedding", "query", "key", "value")
    weights = [layer.weight for layer in model]
    return dict(zip(names, torch.autograd.grad(pooled.square().sum(), weights), strict=True))


class TestLeft:
    RIGHT = torch.tensor([encode(ASKED)])
    LEFT = torch.tensor([encode(ASKED)[5:] + encode(ASKED)[:5]])
    CAUSAL = torch.ones(48, 48, dtype=torch.bool).triu(1)
    JOINED = CAUSAL | (LEFT == 0).unsqueeze(1)

    @pytest.fixture
    def alone(self, model):
        return by_pytorch(model, self.LEFT[:, 43:], self.CAUSAL[:5, :5])

    @pytest.mark.parametrize(("side", "first"), [("right", 0), ("left", 43)])
    def test_the_causal_mask_alone(self, model, alone, side, first) -> None:
        ids = self.RIGHT if side == "right" else self.LEFT
        output = by_pytorch(model, ids, self.CAUSAL)[:, first : first + 5]
        moved = (output - alone).abs().amax(dim=-1)[0]
        assert printed("questions-left", f"pads {side}, moved:") == near(moved.tolist())
        assert moved.max() < 1e-6 if side == "right" else moved.min() > 0.2

    def test_joined_masks_leave_43_rows_empty(self, model, alone) -> None:
        output = by_where(model, self.LEFT, self.JOINED)
        assert torch.equal(output.isnan().any(dim=-1), self.LEFT == 0)
        assert printed("questions-left", "rows of nan:") == [43]
        for attend in (by_where, by_pytorch):
            real = attend(model, self.LEFT, self.JOINED)[:, 43:]
            assert torch.allclose(real, alone, atol=1e-6)

    @pytest.mark.parametrize("cured", [False, True])
    def test_poisoned_gradients_and_their_cure(self, model, alone, cured) -> None:
        mask = self.JOINED & ~torch.eye(48, dtype=torch.bool) if cured else self.JOINED
        output = by_where(model, self.LEFT, mask)
        pooled = output.masked_fill((self.LEFT == 0).unsqueeze(-1), 0.0).sum(dim=1) / 5
        assert (pooled - alone.mean(dim=1)).abs().max() < 1e-6
        right = gradients(model, alone.mean(dim=1))
        found = gradients(model, pooled)
        poisoned = {name for name, gradient in found.items() if gradient.isnan().any()}
        assert poisoned == (set() if cured else {"embedding", "value"})
        for name in found.keys() - poisoned:
            assert torch.allclose(found[name], right[name], atol=1e-6)
        if not cured:
            for name, gradient in found.items():
                rows = int(gradient.isnan().any(dim=-1).sum())
                assert printed("questions-left", f"{name} ") == [rows]

    def test_a_mean_over_all_places(self, model, alone) -> None:
        joined = self.CAUSAL | (self.RIGHT == 0).unsqueeze(1)
        for name, ids, mask in (
            ("right, causal", self.RIGHT, self.CAUSAL),
            ("right, joined", self.RIGHT, joined),
            ("left, causal", self.LEFT, self.CAUSAL),
        ):
            off = by_pytorch(model, ids, mask).mean(dim=1) - alone.mean(dim=1)
            assert printed("questions-left", name) == [near(off.abs().max().item())]
