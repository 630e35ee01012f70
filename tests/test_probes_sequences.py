"""Kinds of faults of mates, packed documents, caches and sums, each with a right twin."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from selfattn.probes import probe
from selfattn.probes.claims import claims_of
from selfattn.probes.placeless import acts_on_scores_alone, at_one_place
from selfattn.probes.sound import Alibi, Attention, Block, Learned, Packed, Rotary
from selfattn.probes.sound.decoder import Decoder
from selfattn.probes.subject import Subject


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def faults(layer, **claims) -> list[str]:
    return [finding.name for finding in probe(layer, **claims).faults]


# Mates


class LastKeyShown(Attention):
    """Shows the last key of every sample if one sample has none."""

    def forward(self, x, blocked=None):
        if blocked is not None and blocked.all(1).any():
            blocked = torch.cat([blocked[:, :-1], blocked[:, -1:] & False], 1)
        return super().forward(x, blocked)


class SideOfTheFirst(Attention):
    """Takes the mask for a count, and the side of the pads from the first sample."""

    def pads(self, blocked):
        place, count = torch.arange(blocked.shape[1]), blocked.sum(1, keepdim=True)
        left = blocked[:, 0].any() if self.of_the_first else blocked[:, :1]
        pads = torch.where(left, place < count, place >= blocked.shape[1] - count)
        return pads[:, None, None, :]

    of_the_first = True


@pytest.mark.parametrize(
    ("layer", "causal"),
    [(LastKeyShown, False), (SideOfTheFirst, False), (SideOfTheFirst, True)],
)
def test_one_sample_that_decides_for_all(layer, causal: bool) -> None:
    only = ["mates-masks"]
    assert faults(layer(causal=causal), causal=causal, only=only) == only
    assert faults(Attention(causal=causal), causal=causal, only=only) == []


def test_a_side_of_each_sample_s_own_is_right() -> None:
    layer = SideOfTheFirst()
    layer.of_the_first = False
    assert faults(layer, only=["mates-masks", "pad-content"]) == []


# Packed documents


class EvalOnly(Packed):
    def apart(self, documents):
        return super().apart(documents * (not self.training))


class Replacing(Packed):
    """The documents' mask replaces the triangle, or the window, or both."""

    keeps_triangle = False

    def hidden(self, x, blocked):
        if self.documents is None:
            return super().hidden(x, blocked)
        seq = x.shape[1]
        later = torch.ones(seq, seq, dtype=torch.bool).triu(1)
        return self.apart(self.documents) | (later & self.keeps_triangle)


class KeepsTriangle(Replacing):
    keeps_triangle = True


class Placed(nn.Module):
    """Packed attention on tokens and a table of positions that go on from document to document."""

    def __init__(self, packed: Packed, ids=lambda ids: ids, pads=lambda ids: None) -> None:
        super().__init__()
        self.packed, self.ids, self.pads = packed, ids, pads
        self.table = nn.Parameter(torch.randn(300, 24))

    def forward(self, x, blocked=None, documents=None):
        x = x + self.table[: x.shape[1]]
        if documents is None:
            return self.packed(x, blocked)
        return self.packed(x, self.pads(documents), self.ids(documents))


def each_alone(ids):
    return torch.arange(ids.shape[1]).expand(ids.shape)


@pytest.mark.parametrize(
    ("make", "claims", "found_by"),
    [
        (EvalOnly, {}, "packed"),
        (lambda: Placed(Replacing(causal=True)), {"causal": True}, "within-documents"),
        (
            lambda: KeepsTriangle(causal=True, window=9),
            {"causal": True, "window": 9},
            "within-documents",
        ),
        (lambda: Placed(Packed(), pads=lambda ids: ids == 0), {}, "within-documents"),
        (lambda: Placed(Packed(), ids=each_alone), {}, "within-documents"),
    ],
    ids=["in eval only", "for the triangle", "for the window", "for pads", "each alone"],
)
def test_documents_that_hide_too_little_or_too_much(make, claims, found_by: str) -> None:
    layer = make()
    positions = {"positions": "absolute"} if isinstance(layer, Placed) else {}
    only = ["packed", "within-documents"]
    assert faults(layer, packed=True, only=only, **claims, **positions) == [found_by]


@pytest.mark.parametrize(
    ("make", "claims"),
    [
        (Packed, {}),
        (lambda: Placed(Packed(causal=True)), {"causal": True, "positions": "absolute"}),
        (lambda: Packed(causal=True, window=9), {"causal": True, "window": 9}),
        (lambda: Packed(window=4).bfloat16(), {"window": 4}),
    ],
    ids=["two-way", "positions", "window", "window to both sides"],
)
def test_right_documents(make, claims) -> None:
    only = ["packed", "within-documents", "repetition"]
    report = probe(make(), packed=True, only=only, **claims)
    assert [finding.verdict for finding in report.findings] == ["ok"] * 3


class Stale(Packed):
    """Without ids, those of the call before are used."""

    def forward(self, x, blocked=None, documents=None):
        self.documents = self.documents if documents is None else documents
        return Attention.forward(self, x, blocked)

    def hidden(self, x, blocked):
        fit = self.documents is not None and self.documents.shape == x.shape[:2]
        return super().hidden(x, blocked) if fit else Attention.hidden(self, x, blocked)


def test_ids_that_stay_after_their_call() -> None:
    assert faults(Stale(), packed=True) == ["repetition"]


# Caches


class Keeping(Decoder):
    """Keeps the last keys, or the first of a long prefill."""

    def __init__(self, last: int | None = None, first: int | None = None, **words) -> None:
        super().__init__(**words)
        self.last, self.first = last, first

    def keep(self, k, v):
        if self.first and k.shape[2] > self.first:
            return k[:, :, : self.first], v[:, :, : self.first]
        return (k[:, :, -self.last :], v[:, :, -self.last :]) if self.last else (k, v)

    def later(self, scores, blocked):
        hidden = super().later(scores, blocked)
        queries, keys = scores.shape[-2:]
        if self.window is None or (self.forgets and 1 < queries < keys):
            return hidden
        far = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries - self.window)
        return hidden | far

    forgets = False


class WithoutWindowInChunks(Keeping):
    forgets = True


class LongChunks(Decoder):
    def corner(self, queries, keys):
        return keys if 8 <= queries < keys else super().corner(queries, keys)


@pytest.mark.parametrize(
    ("make", "claims", "right"),
    [
        (functools.partial(Keeping, 24), {}, False),
        (functools.partial(Keeping, 22, window=24), {"window": 24}, False),
        (functools.partial(Keeping, first=9, window=9), {"window": 9}, False),
        (functools.partial(WithoutWindowInChunks, window=9), {"window": 9}, False),
        (LongChunks, {}, False),
        (functools.partial(Keeping, 9, window=9), {"window": 9}, True),
        (functools.partial(Keeping, window=24), {"window": 24}, True),
        (functools.partial(Keeping, 130, window=130), {"window": 130}, True),
    ],
    ids=["24", "22 of 24", "first 9", "chunks", "long chunks", "right 9", "right 24", "right 130"],
)
def test_caches_that_are_longer_than_a_few_tokens(make, claims, right: bool) -> None:
    found = faults(make(), causal=True, cache=True, only=["cache"], **claims)
    assert found == ([] if right else ["cache"])


class OwnCache(Attention):
    """Keeps the cache itself; None begins a sequence, and `empties` says whether it is told."""

    kept = None

    def __init__(self, empties: bool) -> None:
        super().__init__(causal=True)
        self.empties = empties

    def step(self, x, cache):
        if cache is None and self.empties:
            self.kept = None
        q, k, v = self.split(x)
        if self.kept is not None:
            k, v = torch.cat([self.kept[0], k], 2), torch.cat([self.kept[1], v], 2)
        self.kept = k.detach(), v.detach()
        later = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
        later = later.triu(1 + k.shape[2] - q.shape[2])[None, None]
        weights = self.softmax(*self.hide(self.scores(q, k), later))
        return self.output(self.merge(weights @ v)), "kept"


def test_a_second_sequence_with_a_cache_of_its_own() -> None:
    layer = OwnCache(empties=False)
    assert faults(layer, causal=True, cache=layer.step) == ["repetition"]
    layer = OwnCache(empties=True)
    assert faults(layer, causal=True, cache=layer.step) == []


# Weights that sum to 1, with positions


class Softmaxes(nn.Module):
    """Stand in for the softmax of a layer, wrongly."""

    @staticmethod
    def largest(scores, empty):
        weights = scores.softmax(-1).masked_fill(empty, 0)
        return weights / weights.amax(-1, keepdim=True).clamp_min(1e-9)

    @staticmethod
    def squares(scores, empty):
        return F.normalize(scores.softmax(-1).masked_fill(empty, 0), dim=-1)

    @staticmethod
    def heads(scores, empty):
        return scores.softmax(1).nan_to_num(0).masked_fill(empty, 0)

    @staticmethod
    def length(scores, empty):
        return scores.softmax(-1).masked_fill(empty, 0) / scores.shape[-1]


def with_softmax(layer: Attention, softmax) -> Attention:
    layer.softmax = softmax
    return layer


@pytest.mark.parametrize("kind", [Rotary, Alibi])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("block", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_where_positions_act_on_scores(kind, causal: bool, block: bool, dtype) -> None:
    claims = {"positions": True, "causal": causal, "only": ["equal-tokens"]}
    wrap = Block if block else lambda layer: layer
    for softmax in ("largest", "squares", "heads", "length"):
        wrong = with_softmax(kind(causal=causal), getattr(Softmaxes, softmax))
        assert faults(wrap(wrong).to(dtype), **claims) == ["equal-tokens"]
    right = probe(wrap(kind(causal=causal)).to(dtype), **claims)["equal-tokens"]
    assert right.verdict == "ok"


class Tabled(Rotary):
    """Rotary positions out of a table that was made before."""

    def __init__(self, **words) -> None:
        super().__init__(**words)
        rates = 10_000 ** (-torch.arange(self.dim // 2) / (self.dim // 2))
        self.register_buffer("angle", torch.arange(512).unsqueeze(1) * rates)

    def place(self, q, k, blocked):
        angle = self.angle[: q.shape[-2]]
        parts = [part.split(self.dim // 2, -1) for part in (q, k)]
        cos, sin = angle.cos(), angle.sin()
        return tuple(torch.cat([a * cos - b * sin, a * sin + b * cos], -1) for a, b in parts)


class OfDistance(Attention):
    """Values too have positions, by distance (Shaw et al., arXiv 1803.02155)."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.of_values = nn.Embedding(400, self.dim)

    def forward(self, x, blocked=None):
        q, k, v = self.split(x)
        weights = self.softmax(*self.hide(self.scores(q, k), self.hidden(x, blocked)))
        place = torch.arange(x.shape[1])
        added = self.of_values(place.unsqueeze(1) - place + 200)
        return self.output(self.merge(weights @ v + torch.einsum("bhqk,qkd->bhqd", weights, added)))


class Shifted(Rotary):
    """Each token is averaged with the one before it, and the first with zeros."""

    def forward(self, x, blocked=None):
        before = torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)
        return super().forward((x + before) / 2, blocked)


class Pooled(Attention):
    """Keys and values are averaged in twos, as in PVT."""

    def forward(self, x):
        even = F.pad(x, (0, 0, 0, x.shape[1] % 2))
        pooled = F.avg_pool1d(even.transpose(1, 2), 2).transpose(1, 2)
        q, k, v = self.split(x)[0], *self.split(pooled)[1:]
        return self.output(self.merge(self.scores(q, k).softmax(-1) @ v))


@pytest.mark.parametrize(
    ("make", "claims", "verdict"),
    [
        (Tabled, {"positions": True}, "ok"),
        (lambda: Tabled(causal=True), {"positions": True, "causal": True}, "ok"),
        (OfDistance, {"positions": True, "causal": True}, "ok"),
        (Learned, {"positions": True}, "not applicable"),
        (Shifted, {"positions": "absolute"}, "not applicable"),
        (Pooled, {"positions": "absolute", "mask": False}, "not applicable"),
    ],
)
def test_right_layers_whose_copies_may_differ(make, claims, verdict: str) -> None:
    found = probe(make(), **claims, only=["equal-tokens", "positions"])
    assert (found["equal-tokens"].verdict, found["positions"].verdict) == (verdict, "ok")


def test_without_places_rotary_attention_is_attention() -> None:
    layer = Rotary(causal=True)
    x = torch.randn(2, 7, 24)
    plain = Attention()
    plain.load_state_dict(layer.state_dict())
    with Subject(layer, claims_of(positions=True, causal=True)) as subject:
        with at_one_place(subject) as form:
            out = subject.run(x, None, form)
        assert (out - plain(x)).abs().max() < 1e-6
        assert (subject.run(x) - layer(x)).abs().max() == 0
        assert acts_on_scores_alone(subject)


@functools.lru_cache
def angles(seq: int) -> torch.Tensor:
    return torch.arange(seq).unsqueeze(1) * 10_000 ** (-torch.arange(3) / 3)


class Cached(Tabled):
    """Takes its angles from a cache that outlives the layer."""

    def place(self, q, k, blocked):
        self.angle = angles(q.shape[-2])
        return super().place(q, k, blocked)


def test_a_cache_beyond_the_layer_keeps_what_is_true() -> None:
    assert probe(Cached(), positions=True).ok
    for seq in range(1, 20):
        wanted = torch.arange(seq).unsqueeze(1) * 10_000 ** (-torch.arange(3) / 3)
        assert torch.equal(angles(seq), wanted)


# Right layers that looked faulty


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_flip_that_keeps_pairs_is_not_the_only_order(seed: int, dtype) -> None:
    torch.manual_seed(seed)
    claims = {"positions": "absolute", "mask": False, "seed": seed, "only": ["positions"]}
    assert faults(Pooled().to(dtype), **claims) == []
    assert faults(Attention().to(dtype), **claims) == ["positions"]


class Retention(Rotary):
    """Scores that decay with distance, and no softmax; a norm follows (arXiv 2307.08621)."""

    def __init__(self) -> None:
        super().__init__(causal=True)
        self.norm = nn.GroupNorm(self.heads, 24)

    def hide(self, scores, hidden):
        place = torch.arange(scores.shape[-1])
        rates = 1 - 2.0 ** (-5 - torch.arange(self.heads)).view(-1, 1, 1)
        decay = rates ** (place.unsqueeze(1) - place).clamp_min(0)
        return (scores * decay.to(scores.dtype)).masked_fill(hidden, 0), hidden

    def softmax(self, scores, empty):
        return scores

    def merge(self, mixed):
        merged = super().merge(mixed)
        return self.norm(merged.flatten(0, 1)).view_as(merged)


@pytest.mark.parametrize("seed", range(4))
def test_a_norm_after_a_weight_near_0_is_noisy_in_bfloat16(seed: int) -> None:
    torch.manual_seed(seed)
    claims = {"causal": True, "positions": True, "sums_to_one": False, "seed": seed}
    only = ["left-pads", "pad-count", "mates-content", "shapes"]
    assert faults(Retention().bfloat16(), **claims, only=only) == []
