"""Kinds of faults that one short sequence, one batch or one precision does not show.

And right layers that look faulty until rounding, zeros before training, or masks by place are
thought of. The layers are small and differ from a right one in one place.
"""

import json
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from selfattn.probes import ClaimError, ProbeError, probe, probe_attention
from selfattn.probes.sizes import some
from selfattn.probes.sound import SOUND, Attention, Block, Packed, Residual
from selfattn.probes.sound.decoder import Decoder


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def faults(layer, **claims) -> list[str]:
    return [finding.name for finding in probe(layer, **claims).faults]


class ForgetsMask(Attention):
    """Ignores the mask for inputs that `when` picks."""

    def __init__(self, when) -> None:
        super().__init__()
        self.when = when

    def forward(self, x, blocked=None):
        return super().forward(x, None if self.when(x) else blocked)


# Lengths and batches


@pytest.mark.parametrize(
    ("when", "found_by"),
    [
        (lambda x: x.shape[1] % 2 == 0, {"pad-content", "left-pads", "pad-count"}),
        (lambda x: x.shape[1] > 8, {"pad-content", "left-pads", "pad-count"}),
        (lambda x: x.shape[1] > 16, {"pad-content", "left-pads", "pad-count"}),
        (lambda x: x.shape[1] > 32, {"pad-content", "left-pads", "pad-count"}),
        (lambda x: len(x) > 8, {"pad-content", "left-pads"}),
        (lambda x: len(x) > 24, {"pad-content", "left-pads"}),
    ],
    ids=["even lengths", "above 8", "above 16", "above 32", "batches above 8", "above 24"],
)
def test_a_mask_that_is_ignored_at_some_sizes(when, found_by) -> None:
    only = ["pad-content", "left-pads", "pad-count"]
    assert set(faults(ForgetsMask(when), only=only)) == found_by


def test_high_scores_reports_what_no_other_probe_does() -> None:
    odd_batch = ForgetsMask(lambda x: len(x) == 24)  # the batch of that probe, and of no other
    assert faults(odd_batch) == ["high-scores"]
    report = probe(ForgetsMask(lambda x: len(x) > 8))
    assert report["high-scores"].verdict == "cannot tell"  # others say it better
    assert "pad-content" in {finding.name for finding in report.faults}


class Chunked(Attention):
    """An online softmax over chunks of keys, which does not rescale what it has summed."""

    def __init__(self, chunk: int, rescale: bool = True) -> None:
        super().__init__()
        self.chunk, self.rescale = chunk, rescale

    def forward(self, x, blocked=None):
        q, k, v = self.split(x)
        hidden = self.hidden(x, blocked).expand(len(x), self.heads, *([x.shape[1]] * 2))
        scores, empty = self.hide(self.scores(q, k), hidden)
        highest = scores.new_full((*scores.shape[:3], 1), -1e9)
        total, mixed = torch.zeros_like(highest), torch.zeros_like(v)
        for part, values in zip(scores.split(self.chunk, -1), v.split(self.chunk, -2), strict=True):
            now = torch.maximum(highest, part.amax(-1, keepdim=True))
            weights, shrunk = (part - now).exp(), (highest - now).exp()
            total = total * shrunk + weights.sum(-1, keepdim=True)
            mixed = mixed * (shrunk if self.rescale else 1) + weights @ values
            highest = now
        return self.output(self.merge((mixed / total).masked_fill(empty, 0)))


def test_an_online_softmax_that_is_wrong_from_its_second_chunk() -> None:
    x = torch.randn(2, 33, 24)
    right = Chunked(16)
    exact = Attention.forward(right, x)
    assert (right(x) - exact).abs().max() < 1e-5  # the chunks themselves are right
    only = ["order", "left-pads"]
    assert faults(right, only=only) == []
    assert faults(Chunked(16, rescale=False), only=only) == ["left-pads", "order"]


class UpTo(Attention):
    """Hides by place up to a length only."""

    def __init__(self, length: int, **words) -> None:
        super().__init__(**words)
        self.length = length

    def by_place(self, x, blocked):
        hidden = super().by_place(x, blocked)
        return hidden if x.shape[1] <= self.length else torch.zeros_like(hidden)


def test_a_triangle_or_a_window_that_ends_with_a_length() -> None:
    for length in (16, 64, 128):
        assert faults(UpTo(length, causal=True), causal=True, only=["later-tokens"])
    layer = UpTo(16, causal=True, window=3)
    assert faults(layer, causal=True, window=3, only=["window"]) == ["window"]
    layer = UpTo(200, causal=True, window=3)
    assert faults(layer, causal=True, window=3, only=["window", "later-tokens"]) == []


def test_wide_windows_are_looked_at_in_time_and_very_wide_ones_not() -> None:
    layer = Attention(causal=True, window=256)
    report = probe(layer, causal=True, window=256, only=["window"])
    assert report["window"].verdict == "ok"
    one_more = Attention(causal=True, window=257)
    assert faults(one_more, causal=True, window=256, only=["window"]) == ["window"]
    wide = probe(layer, causal=True, window=4096, only=["window"])["window"]
    assert (wide.verdict, wide.moved) == ("cannot tell", None)


class Evicting(Decoder):
    def keep(self, k, v):
        return k[:, :, -12:], v[:, :, -12:]


def test_a_cache_that_evicts() -> None:
    assert faults(Evicting(), causal=True, cache=True, only=["cache"]) == ["cache"]
    assert faults(Decoder(), causal=True, cache=True, only=["cache"]) == []


class ByParity(Packed):
    """Tells documents apart by the last bit of their ids."""

    def apart(self, documents):
        return super().apart(documents % 2)


class OnlyEarlier(Packed):
    """Tells a document from its neighbour, not from those before."""

    def apart(self, documents):
        return (documents[:, None, :, None] - documents[:, None, None, :]).abs() == 1


@pytest.mark.parametrize("layer", [ByParity, OnlyEarlier])
def test_a_third_document_that_sees_the_first(layer) -> None:
    assert faults(layer(), packed=True, only=["packed"]) == ["packed"]
    assert faults(Packed(), packed=True, only=["packed"]) == []


# Precision


class ForgetsMaskInBfloat16(Attention):
    def hidden(self, x, blocked):
        return super().hidden(x, None if x.dtype == torch.bfloat16 else blocked)


class NanUnderAutocast(Attention):
    def forward(self, x, blocked=None):
        out = super().forward(x, blocked)
        return out * math.nan if torch.is_autocast_enabled("cpu") else out


class NanInBfloat16(Attention):
    def forward(self, x, blocked=None):
        out = super().forward(x, blocked)
        return out * math.nan if x.dtype == torch.bfloat16 else out


class LeastOfFloat32(Attention):
    """A fill that bfloat16 rounds to minus infinity: nan for a sample that is all pads."""

    def hide(self, scores, hidden):
        least = hidden.float() * torch.finfo(torch.float32).min
        return scores + least.to(scores.dtype), torch.zeros_like(hidden[..., :1])


@pytest.mark.parametrize(
    ("layer", "form"),
    [
        (ForgetsMaskInBfloat16, "a copy in bfloat16"),
        (NanUnderAutocast, "under autocast to bfloat16"),
        (NanInBfloat16, "a copy in bfloat16"),
        (LeastOfFloat32, "a copy in bfloat16"),
    ],
)
def test_faults_of_low_precision_alone(layer, form: str) -> None:
    report = probe(layer())
    assert [finding.name for finding in report.faults] == ["precision"]
    if layer is not LeastOfFloat32:  # which is wrong in both
        assert report["precision"].where["form"] == form


def test_minus_1e4_in_float16_leaks_before_it_overflows() -> None:
    class Fill(Attention):
        def hide(self, scores, hidden):
            return scores + hidden.to(scores.dtype) * -1e4, hidden.all(-1, keepdim=True)

    found = probe(Fill().half(), only=["high-scores"])["high-scores"]
    assert found.verdict == "fault"
    least = float(found.where["score"].split(" ")[0])
    assert -3e4 < least < -8e3
    assert probe(Attention().half(), only=["high-scores"]).ok


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_overflow_of_a_right_function_is_no_finite_fill(dtype: torch.dtype) -> None:
    def attend(q, k, v, blocked):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5  # scaled after the product
        if blocked is None:
            return scores.softmax(-1) @ v
        empty = blocked.all(-1, keepdim=True)
        return scores.masked_fill(blocked, -math.inf).softmax(-1).masked_fill(empty, 0) @ v

    assert probe_attention(attend, dtype=dtype).ok

    def finite(q, k, v, blocked):
        scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
        return (scores if blocked is None else scores.masked_fill(blocked, -1e4)).softmax(-1) @ v

    assert "fill" in {finding.name for finding in probe_attention(finite, dtype=dtype).faults}


# Right layers that look faulty


class Scaled(Block):
    """A block whose branches are multiplied by a gain."""

    def __init__(self, gain: nn.Parameter, attention: nn.Module | None = None) -> None:
        super().__init__(attention or Attention())
        self.gain = gain

    def forward(self, x, blocked=None):
        first, second = self.norms
        x = x + self.gain * self.attention(first(x), blocked)
        return x + self.gain * self.feed(second(x))


def small_init(module: nn.Module) -> nn.Module:
    """Start as GPT-2 does: weights with a spread of 0.02, no biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.normal_(part.weight, std=0.02)
            nn.init.zeros_(part.bias)
    return module


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("make", "verdict"),
    [
        (lambda: small_init(Block(Attention())).bfloat16(), "ok"),
        (lambda: small_init(Block(Attention())).half(), "ok"),
        (lambda: Scaled(nn.Parameter(torch.full((24,), 1e-5))), "ok"),
        (lambda: Scaled(nn.Parameter(torch.zeros(1))), "cannot tell"),
        (lambda: Scaled(nn.Parameter(torch.zeros(24))), "cannot tell"),
    ],
    ids=["small, bfloat16", "small, float16", "layer scale", "zero gain", "zero gains"],
)
def test_small_branches_are_no_fault(make, verdict: str, seed: int) -> None:
    torch.manual_seed(seed)
    report = probe(make(), seed=seed, only=["one-token", "allowed-tokens"])
    assert report["one-token"].verdict == verdict
    assert report.ok


class Deaf(Attention):
    """No token sees itself, so one alone is not seen at all."""

    def by_place(self, x, blocked):
        hidden = super().by_place(x, blocked)
        return hidden | torch.eye(x.shape[1], dtype=torch.bool)


def test_what_zeros_do_not_explain_stays_a_fault() -> None:
    layer = small_init(Residual(Deaf()))  # biases are zero, and explain nothing
    values = [p.clone() for p in layer.parameters()]
    assert faults(layer, only=["one-token"]) == ["one-token"]
    assert all(torch.equal(p, v) for p, v in zip(layer.parameters(), values, strict=True))
    one_way = small_init(Attention(causal=True))
    assert faults(one_way, only=["allowed-tokens"]) == ["allowed-tokens"]
    assert faults(one_way.bfloat16(), only=["allowed-tokens"]) == ["allowed-tokens"]


class Table(nn.Module):
    """Attention on tokens and a learned table of positions."""

    def __init__(self, spread: float, used: bool = True) -> None:
        super().__init__()
        self.attention, self.used = Attention(), used
        self.table = nn.Parameter(torch.randn(64, 24) * spread)

    def forward(self, x, blocked=None):
        added = self.table[: x.shape[1]] if self.used else 0
        return self.attention(x + added, blocked)


def test_positions_that_start_at_zero_cannot_be_told() -> None:
    claims = {"positions": "absolute", "only": ["positions"]}
    zero = Table(0.0)
    found = probe(zero, **claims)["positions"]
    assert found.verdict == "cannot tell"
    assert "zero throughout" in found.meaning
    assert not zero.table.any()  # put back
    assert probe(Table(0.02), **claims)["positions"].verdict == "ok"
    for dtype in (torch.float32, torch.bfloat16):
        assert faults(Table(0.0, used=False).to(dtype), **claims) == ["positions"]
        assert faults(Table(1.0, used=False).to(dtype), **claims) == ["positions"]
        assert faults(Table(0.02).to(dtype), **claims) == []


class Routed(Attention):
    """Heads weighed by a softmax of what the token is."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(24, self.heads)

    def forward(self, x, blocked=None):
        self.share_of_heads = self.router(x).softmax(-1)
        return super().forward(x, blocked)

    def merge(self, mixed):
        weighed = torch.einsum("bhsd,bsh->bhsd", mixed, self.share_of_heads)
        return super().merge(weighed)


def test_a_router_over_heads_is_no_softmax_over_the_wrong_axis() -> None:
    assert faults(Routed(), only=["one-token"]) == []


class SquaredRelu(Attention):
    """Weights that are exactly 0 for every score below 0, and do not sum to 1."""

    def hide(self, scores, hidden):
        return scores.masked_fill(hidden, 0), hidden.all(-1, keepdim=True)

    def softmax(self, scores, empty):
        return F.relu(scores).square() / scores.shape[-1] * ~empty


@pytest.mark.parametrize("seed", range(6))
def test_units_that_are_silent_by_chance_are_no_lost_tokens(seed: int) -> None:
    torch.manual_seed(seed)
    layer = SquaredRelu(heads=1)
    claims = {"seed": seed, "sums_to_one": False, "only": ["allowed-tokens"]}
    assert faults(layer, **claims) == []
    assert faults(layer, **claims | {"mask": False}) == []


class Linear(Attention):
    """Linear attention, with the small number that is usual in what it is divided by."""

    def forward(self, x, blocked=None):
        q, k, v = self.split(x)
        q, k = F.relu(q) + 1e-3, F.relu(k) + 1e-3
        if blocked is not None:
            k = k.masked_fill(blocked[:, None, :, None], 0)
        sums = q @ k.sum(-2).unsqueeze(-1) + self.least
        return self.output(self.merge(q @ (k.transpose(-2, -1) @ v) / sums))

    least = 1e-6


@pytest.mark.parametrize("seed", range(4))
def test_a_small_number_in_the_divisor_is_no_fault(seed: int) -> None:
    torch.manual_seed(seed)
    layer = Linear()
    assert faults(layer, seed=seed, only=["equal-tokens"]) == []
    layer.least = 0.1
    assert faults(layer, seed=seed, only=["equal-tokens"]) == ["equal-tokens"]


# Claims: masks by place, and one length only


class Blocks(Attention):
    """Attention within blocks of four places."""

    def by_place(self, x, blocked):
        block = torch.arange(x.shape[1]) // 4
        return (block[:, None] != block[None])[None, None]


class Prefix(Attention):
    """Causal, but for the first three tokens, which all see and which see each other."""

    def by_place(self, x, blocked):
        hidden = super().by_place(x, blocked)
        place = torch.arange(x.shape[1])
        return hidden | (place[None] > place[:, None]) & (place[None] >= 3)


class Dilated(Attention):
    """Attention to every second place."""

    def by_place(self, x, blocked):
        place = torch.arange(x.shape[1])
        return ((place[:, None] - place[None]) % 2 == 1)[None, None]


@pytest.mark.parametrize("layer", [Blocks, Prefix, Dilated])
def test_masks_by_place_can_be_claimed(layer) -> None:
    assert "allowed-tokens" in faults(layer())
    report = probe(layer(), full=False)
    assert report.ok, str(report)
    assert report["allowed-tokens"].verdict == "not applicable"


class FixedLength(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.mix = nn.Linear(length, length)

    def forward(self, x):
        return x + self.mix(x.transpose(1, 2)).transpose(1, 2)


@pytest.mark.parametrize("length", [10, 49, 197])
def test_layers_of_one_length(length: int) -> None:
    claims = {"mask": False, "positions": "absolute", "sums_to_one": False}
    assert probe(FixedLength(length), **claims).ok
    report = probe(FixedLength(length), seq=length, **claims)
    assert report.ok
    assert report.claims["seq"] == length


def test_another_length_must_be_said() -> None:
    layer = FixedLength(23)
    claims = {"mask": False, "positions": "absolute", "sums_to_one": False}
    with pytest.raises(ProbeError, match="say seq="):
        probe(layer, **claims)
    assert probe(layer, seq=23, **claims).ok
    with pytest.raises(ClaimError, match="seq must be a whole number"):
        probe(layer, seq=0, **claims)


def test_the_command_takes_these_claims(capsys) -> None:
    from selfattn.cli import main

    place = ["selfattn.probes.sound:Attention", "--by-place", "--seq", "6", "--json"]
    status = main(["probe", *place, "--only", "allowed-tokens,pad-content"])
    said = json.loads(capsys.readouterr().out)
    assert status == 0
    assert (said["claims"]["full"], said["claims"]["seq"]) == (False, 6)
    assert [f["verdict"] for f in said["findings"]] == ["ok", "not applicable"]


def test_some_of_many_places() -> None:
    assert some(range(5), 12) == [0, 1, 2, 3, 4]
    assert some(range(100), 4) == [0, 33, 66, 99]


# What belongs to the caller


class WritesX(Attention):
    def forward(self, x, blocked=None):
        return super().forward(x.mul_(2), blocked)


class WritesMask(Attention):
    def forward(self, x, blocked=None):
        out = super().forward(x, blocked)
        if blocked is not None:
            blocked.logical_not_()
        return out


class WritesPads(Attention):
    def forward(self, x, blocked=None):
        if blocked is not None:
            x.masked_fill_(blocked[..., None], 0)
        return super().forward(x, blocked)


@pytest.mark.parametrize(
    ("layer", "what"), [(WritesX, "x"), (WritesMask, "the mask"), (WritesPads, "x")]
)
def test_writing_into_what_it_is_given(layer, what: str) -> None:
    report = probe(layer(), only=["inputs"])
    assert [finding.name for finding in report.faults] == ["inputs"]
    assert report["inputs"].where["written into"] == what


# Gradients


class Distances(Attention):
    """Scores by distance: the root has no finite derivative where a query is its own key."""

    def scores(self, q, k):
        return -((q.unsqueeze(-2) - k.unsqueeze(-3)).square().sum(-1)).sqrt()

    def split(self, x):
        q, _, v = super().split(x)
        return [q, q, v]


class Cosine(Attention):
    """Cosine scores without a bias: the root has no finite derivative for a vector of zeros."""

    def split(self, x):
        parts = [F.linear(x, p.weight) for p in (self.query, self.key, self.value)]
        q, k, v = (p.unflatten(-1, (-1, self.dim)).transpose(1, 2) for p in parts)
        return [*(t / (t.square().sum(-1, keepdim=True).sqrt() + 1e-6) for t in (q, k)), v]


@pytest.mark.parametrize("mask", [True, False])
def test_gradients_that_are_never_finite(mask: bool) -> None:
    layer = Distances()
    x = torch.randn(2, 5, 24, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.isnan().any()  # by hand
    report = probe(layer, mask=mask, only=["gradients", "empty-gradients"])
    assert [finding.name for finding in report.faults] == ["gradients"]
    assert report["empty-gradients"].verdict == ("cannot tell" if mask else "not applicable")


def test_gradients_with_zeros_in_the_pads() -> None:
    report = probe(Cosine(), only=["gradients"])
    assert report["gradients"].verdict == "fault"
    assert report["gradients"].where["changed"].endswith("of zeros")
    assert probe(Attention(), only=["gradients", "empty-gradients"]).ok


# Modes and outputs


class OtherwiseInInferenceMode(Attention):
    def forward(self, x, blocked=None):
        return super().forward(x, None if torch.is_inference_mode_enabled() else blocked)


def test_inference_mode_is_a_mode() -> None:
    assert faults(OtherwiseInInferenceMode(), only=["modes"]) == ["modes"]


class Complex(Attention):
    """A complex output: what leaks is in its imaginary part alone."""

    leak = 1.0

    def forward(self, x, blocked=None):
        real = super().forward(x, blocked)
        return torch.complex(real, self.leak * x.mean(1, keepdim=True).expand_as(real) + real)


def test_imaginary_parts_are_judged() -> None:
    layer = Complex()
    assert faults(layer, only=["pad-content"]) == ["pad-content"]
    layer.leak = 0.0
    assert faults(layer, only=["pad-content"]) == []


def test_right_layers_stay_right_at_further_sizes() -> None:
    for name in ("causal", "rotary positions", "cache", "packed documents"):
        report = probe(SOUND[name].make(), seed=2, **SOUND[name].claims)
        assert report.ok, str(report)
        assert report["gradients"].verdict == report["inputs"].verdict == "ok"
