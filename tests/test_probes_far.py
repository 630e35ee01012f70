"""Kinds of faults that long sequences, some forms of call or low precision alone show.

Each has a right twin that stays ok.
"""

import math

import pytest
import torch
from torch import nn

from selfattn.probes import probe
from selfattn.probes.faulty.fills import FillZero
from selfattn.probes.faulty.windows import WindowOneTooShort
from selfattn.probes.sound import Alibi, Attention, Block, Learned, Packed, Residual, Rotary

CAUSAL = {"causal": True}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def faults(layer, **claims) -> list[str]:
    return [finding.name for finding in probe(layer, **claims).faults]


# Fills


def filled(base: type[Attention], fill: float, **words) -> Attention:
    class Filled(base):
        def hide(self, scores, hidden):
            return scores.masked_fill(hidden, fill), hidden.all(-1, keepdim=True)

    return Filled(**words)


class Dilated(Attention):
    def by_place(self, x, blocked):
        place = torch.arange(x.shape[1])
        return ((place[:, None] - place) % 2 == 1)[None, None]


FILLS = {
    "causal": (Attention, CAUSAL, {**CAUSAL}),
    "causal, no mask": (Rotary, CAUSAL, {**CAUSAL, "positions": True, "mask": False}),
    "window": (Attention, {"window": 3}, {"window": 3, "mask": False}),
    "wide window": (
        Attention,
        {"causal": True, "window": 40},
        {"causal": True, "window": 40, "mask": False},
    ),
    "documents": (Packed, {}, {"packed": True, "mask": False}),
    "by place": (Dilated, {}, {"full": False}),
}


@pytest.mark.parametrize("kind", FILLS)
def test_a_finite_fill_leaks_whatever_it_hides(kind: str) -> None:
    base, words, claims = FILLS[kind]
    for fill in (-1e3, -1e4, -3e4):
        assert faults(filled(base, fill, **words), **claims) == ["high-scores"]
    assert faults(base(**words), **claims) == []


def test_the_scores_of_a_leak_are_no_fills() -> None:
    found = probe(filled(Attention, -1e4, causal=True), causal=True)["high-scores"]
    low, high = (float(part) for part in found.where["score"].split(" to "))
    assert low < -1e4  # or all keys of a row could not score lower than the fill
    assert high > 1e3
    block = Block(filled(Attention, -1e4, causal=True))
    assert faults(block, causal=True) == ["high-scores"]


def test_a_small_fill_that_only_a_window_wears() -> None:
    class Small(FillZero):
        fill = -20.0

    assert faults(Small(window=3), window=3, mask=False) == ["high-scores"]


# Reach


@pytest.mark.parametrize("window", [7, 8, 12, 64, 100])
def test_a_window_that_is_one_too_short(window: int) -> None:
    claims = {"causal": True, "window": window}
    assert faults(WindowOneTooShort(**claims), **claims) == ["allowed-tokens"]
    assert faults(Attention(**claims), **claims) == []


class TokenLost(Attention):
    def by_place(self, x, blocked):
        hidden = super().by_place(x, blocked).clone()
        hidden[..., 8:, 0] = True
        return hidden


class Chunks(Attention):
    """Chunks of 32 that are not joined."""

    def by_place(self, x, blocked):
        chunk = torch.arange(x.shape[1]) // 32
        return super().by_place(x, blocked) | (chunk[:, None] != chunk)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: Attention(causal=True, window=16),
        lambda: Attention(causal=True, window=60),
        lambda: Block(Rotary(causal=True, window=16)),
        lambda: TokenLost(causal=True),
        lambda: Chunks(causal=True),
    ],
)
def test_far_tokens_that_do_not_arrive(layer) -> None:
    for dtype in (torch.float32, torch.bfloat16):
        claims = {**CAUSAL, "positions": "absolute", "only": ["allowed-tokens"]}
        assert faults(layer().to(dtype), **claims) == ["allowed-tokens"]


class Steep(Alibi):
    """A bias by distance that leaves nothing of far tokens in float32."""

    def scores(self, q, k):
        place = torch.arange(q.shape[-2])
        bias = (place - place[:, None]).abs().to(q.dtype) / 2
        return Attention.scores(self, q, k) - bias


class Decaying(nn.Module):
    """A recurrence in which every token halves what is kept of those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.key, self.value = nn.Linear(24, 24), nn.Linear(24, 24)

    def forward(self, x):
        kept, out = torch.zeros_like(x[:, 0]), []
        for token in self.value(x * self.key(x).sigmoid()).unbind(1):
            kept = kept / 2 + token
            out.append(kept)
        return torch.stack(out, 1)


class TopKeys(Attention):
    """Only the four keys of each query that score highest."""

    def softmax(self, scores, empty):
        least = scores.topk(min(4, scores.shape[-1]), -1)[0][..., -1:]
        return super().softmax(scores.masked_fill(scores < least, -math.inf), empty)


@pytest.mark.parametrize("seed", range(3))
def test_what_fades_or_is_chosen_by_score_is_no_lost_token(seed: int) -> None:
    torch.manual_seed(seed)
    claims = {**CAUSAL, "positions": True, "seed": seed}
    assert faults(Block(Steep(causal=True)), **claims) == []
    claims["only"] = ["allowed-tokens", "later-tokens"]
    assert faults(Decaying(), mask=False, **claims) == []
    assert faults(Block(TopKeys(causal=True)), **claims) == []


# The number of later tokens


class LogOfAll(Rotary):
    """Scores grow with the logarithm of how many tokens there are, later ones among them."""

    def scores(self, q, k):
        return super().scores(q, k) * math.log(k.shape[-2] + 1)


class LogOfOwn(Rotary):
    """The same, with how many tokens a query sees."""

    def scores(self, q, k):
        seen = torch.arange(1, q.shape[-2] + 1).unsqueeze(1)
        return super().scores(q, k) * (seen + 1).log().to(q.dtype)


class FromEnd(Learned):
    def places(self, x, blocked):
        return torch.arange(x.shape[1]).flip(0).expand(x.shape[:2])


class ShareOfAll(Rotary):
    def softmax(self, scores, empty):
        return super().softmax(scores, empty) / scores.shape[-1]


class NoTriangleForTwo(Attention):
    def triangle(self, hidden):
        return super().triangle(hidden) & (hidden.shape[-1] != 2)


@pytest.mark.parametrize("layer", [LogOfAll, FromEnd, ShareOfAll, NoTriangleForTwo])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_prefix_alone_gives_what_it_gives_before_more(layer, dtype: torch.dtype) -> None:
    claims = {**CAUSAL, "mask": False, "positions": "absolute", "only": ["later-tokens"]}
    assert faults(layer(causal=True).to(dtype), **claims) == ["later-tokens"]
    for right in (LogOfOwn, Learned, Attention):
        assert faults(right(causal=True).to(dtype), **claims) == []


# Long sequences, in every form


class Forgets(Attention):
    """Forgets what `lost` names where `when` says so."""

    def __init__(self, lost: str, when, **words) -> None:
        super().__init__(**words)
        self.lost, self.when = lost, when

    def forward(self, x, blocked=None):
        self.now = self.when(self, x)
        return super().forward(x, blocked)

    def triangle(self, hidden):
        return super().triangle(hidden) & (not (self.now and self.lost == "triangle"))

    def far(self, hidden, window):
        return super().far(hidden, window) & (not (self.now and self.lost == "window"))

    def pads(self, blocked):
        return super().pads(blocked & (not (self.now and self.lost == "pads")))


def long_training(layer, x) -> bool:
    return layer.training and x.shape[1] > 16


def long_with_gradients(layer, x) -> bool:
    return torch.is_grad_enabled() and x.shape[1] > 16


def above_64(layer, x) -> bool:
    return x.shape[1] > 64


def above_64_samples(layer, x) -> bool:
    return len(x) > 64


@pytest.mark.parametrize(
    ("lost", "when", "found_by"),
    [
        ("triangle", long_training, ["later-tokens"]),
        ("triangle", long_with_gradients, ["later-tokens"]),
        ("window", long_training, ["window"]),
        ("window", long_with_gradients, ["window"]),
        ("pads", long_training, ["left-pads", "pad-content"]),
        ("pads", long_with_gradients, ["left-pads", "pad-content"]),
        ("pads", above_64, ["left-pads", "pad-content", "pad-count"]),
        ("pads", above_64_samples, ["left-pads", "pad-content"]),
    ],
)
def test_what_is_forgotten_in_long_sequences(lost: str, when, found_by: list[str]) -> None:
    words = {"causal": lost != "pads", "window": 3 if lost == "window" else None}
    probes = ["later-tokens", "window", "pad-content", "left-pads", "pad-count"]
    assert sorted(faults(Forgets(lost, when, **words), **words, only=probes)) == found_by
    assert faults(Forgets("nothing", when, **words), **words) == []


class BorderLeaks(Attention):
    """The last token of each chunk sees the first of the next."""

    chunk = 64

    def triangle(self, hidden):
        triangle = super().triangle(hidden).clone()
        last = torch.arange(self.chunk - 1, hidden.shape[-1] - 1, self.chunk)
        triangle[..., last, last + 1] = False
        return triangle


@pytest.mark.parametrize("chunk", [10, 16, 32, 48, 64, 128])
def test_one_token_that_leaks_at_the_border_of_a_chunk(chunk: int) -> None:
    layer = BorderLeaks(causal=True)
    layer.chunk = chunk
    assert faults(layer, causal=True, only=["later-tokens"]) == ["later-tokens"]


# Pads on both sides, and on different sides in one batch


class LeadingOnly(Rotary):
    """Where a sample begins with pads, those behind it are forgotten."""

    def pads(self, blocked):
        leading = blocked.long().cumprod(1).bool()
        return super().pads(torch.where(blocked[:, :1], leading, blocked))


class SideOfOne(Rotary):
    def pads(self, blocked):
        place = torch.arange(blocked.shape[1])
        place = place if blocked[:, 0].any() else place.flip(0)
        return super().pads(place < blocked.sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("layer", "causal", "found_by"),
    [(LeadingOnly, False, ["left-pads"]), (SideOfOne, True, ["left-pads", "mates-masks"])],
)
def test_pads_on_several_sides(layer, causal: bool, found_by: list[str]) -> None:
    claims = {"causal": causal, "positions": True}
    assert faults(layer(causal=causal), **claims) == found_by
    assert faults(Rotary(causal=causal), **claims) == []


# Low precision


class ForgetsLow(Attention):
    def by_place(self, x, blocked):
        hidden = super().by_place(x, blocked)
        return hidden if x.dtype != torch.bfloat16 else hidden & False


class ForgetsDocumentsLow(Packed):
    def apart(self, documents):
        return super().apart(documents) & (self.query.weight.dtype != torch.bfloat16)


class PadsAloneUnderAutocast(Attention):
    def hidden(self, x, blocked):
        if blocked is None or not torch.is_autocast_enabled("cpu"):
            return super().hidden(x, blocked)
        return self.pads(blocked)


class SteepRoot(Attention):
    """A root whose derivative at 0 is not finite, added times 0 where `when` says so."""

    when = staticmethod(lambda scores: scores.dtype == torch.bfloat16)

    def scores(self, q, k):
        scores = super().scores(q, k)
        root = (scores - scores.detach()).abs().sqrt()
        return scores + 0 * root if self.when(scores) else scores


@pytest.mark.parametrize(
    ("layer", "claims", "form"),
    [
        (lambda: ForgetsLow(window=3), {"window": 3}, "a copy in bfloat16"),
        (lambda: ForgetsLow(causal=True), CAUSAL, "a copy in bfloat16"),
        (ForgetsDocumentsLow, {"packed": True}, "a copy in bfloat16"),
        (lambda: PadsAloneUnderAutocast(causal=True), CAUSAL, "under autocast to bfloat16"),
        (SteepRoot, {}, "under autocast to bfloat16"),
    ],
)
def test_what_low_precision_alone_forgets(layer, claims: dict, form: str) -> None:
    report = probe(layer(), **claims)
    assert [finding.name for finding in report.faults] == ["precision"]
    assert report["precision"].where["form"] == form


def test_right_layers_hide_in_low_precision_too() -> None:
    for layer, claims in (
        (Attention(causal=True, window=3), {"causal": True, "window": 3}),
        (Packed(causal=True), {"causal": True, "packed": True}),
    ):
        found = probe(layer, **claims, only=["precision"])["precision"]
        assert (found.verdict, found.moved) == ("ok", found.moved)


def test_gradients_and_outputs_of_long_sequences() -> None:
    layer = SteepRoot()
    layer.when = lambda scores: scores.shape[-1] >= 16
    assert faults(layer, only=["gradients", "finite"]) == ["gradients"]

    class Overflows(Residual):
        def forward(self, x, blocked=None):
            return super().forward(x, blocked) / (x.shape[1] <= 32)

    assert faults(Overflows(Attention()), only=["finite"]) == ["finite"]
    assert faults(Residual(Attention()), only=["gradients", "finite"]) == []
