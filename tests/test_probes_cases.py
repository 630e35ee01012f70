"""Faults of real layers, retold as small inputs: each found, by the right probe, by about as much.

Named after the public reports: project and number.
"""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from selfattn.probes import probe, probe_attention
from selfattn.probes.faulty import FAULTS
from selfattn.probes.faulty.axes import MergedWithoutTranspose
from selfattn.probes.faulty.modes import PooledOverPads
from selfattn.probes.faulty.padding_masks import (
    KeepAsNumbers,
    MaskAsTriangle,
    MaskTiledByHead,
    NumbersAdded,
)
from selfattn.probes.faulty.softmax import SoftmaxOverHeadsAndKeys, SoftmaxOverQueries
from selfattn.probes.faulty.triangles import TriangleOnDiagonal
from selfattn.probes.functions.run import PROBES
from selfattn.probes.sound import Attention, Block, Learned, Residual
from selfattn.probes.unseen import UNSEEN

BY_NAME = {fault.what: fault for fault in FAULTS}


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def report(name: str, *probes: str):
    fault = BY_NAME[name]
    return probe(fault.make(), only=probes or fault.found_by, **fault.claims)


@pytest.mark.parametrize(
    ("case", "name", "found_by", "least"),
    [
        ("x-transformers 187: always the flag", "cache: corner at the first key", "cache", 0.1),
        ("x-transformers 187: the flag for chunks", "cache: corner for chunks only", "cache", 0.1),
        ("x-transformers 187: no mask", "cache: no triangle", "cache", 0.1),
        ("transformers 30437", "cache: empty slots", "cache", 0.05),
        ("keras 23038: weights", "triangle without weights only", "later-tokens", 0.1),
        ("keras 23038: dropout", "triangle in eval only", "later-tokens", 0.1),
        ("xformers 103", "triangle with a mask only", "later-tokens", 0.1),
        ("xformers 103, mirrored", "triangle without a mask only", "later-tokens", 0.1),
        ("GPT-SoVITS 965", "triangle one diagonal too far", "later-tokens", 0.1),
        ("nanochat 844", "mean over blocks of four", "later-tokens", 0.1),
        ("RibonanzaNet 5", "fill of 0", "pad-content", 1.0),
        ("gluonts 1401", "fill of -1e-9", "pad-content", 1.0),
        ("transformers 14859", "fill of -1e4 added", "high-scores", 1.0),
        ("annotated-transformer 137", "mask on the query axis", "pad-content", 1.0),
        ("hyunwoongko/transformer 40", "mask on the query axis, causal", "left-pads", 0.1),
        ("lighthouse 77", "mask tiled by head", "mates-masks", 0.05),
        ("fast-transformers 101", "mask taken for a triangle", "pad-content", 0.5),
        ("timm 2236", "mask after the softmax", "pad-count", 0.05),
        ("labml 146, with a mask", "softmax over queries", "pad-count", 0.05),
        ("fastNLP 254, three axes", "softmax without a dimension", "mates-content", 0.1),
        ("fastNLP 254, four axes", "softmax over heads", "equal-tokens", 0.1),
        ("transformer-from-scratch 6", "heads merged without transpose", "order", 0.1),
        ("the same, causal", "heads merged without transpose, causal", "later-tokens", 0.1),
        ("AEMatter 3", "sequence first", "mates-content", 1.0),
        ("TransformerLens 1609", "positions from the first place", "left-pads", 0.1),
        ("nnsight, WrinkleFree 53", "documents not kept apart", "packed", 0.1),
        ("nanoGPT 240", "dropout in eval", "repetition", 0.01),
        ("pytorch 99282", "flag against mask", "call-forms", 0.1),
        ("transformers 39408", "window by form of call", "window", 0.1),
    ],
)
def test_case_of_the_catalog(case: str, name: str, found_by: str, least: float) -> None:
    finding = report(name, found_by)[found_by]
    assert finding.verdict == "fault", case
    assert finding.moved > least, case
    assert finding.moved > 100 * finding.allowed


# Causal alignment


def test_pytorch_103082_the_corner_of_the_flag() -> None:
    q, k, v = (torch.randn(1, 1, n, 8) for n in (1, 5, 5))
    torch.testing.assert_close(
        F.scaled_dot_product_attention(q, k, v, is_causal=True), v[:, :, :1]
    )  # key 0 alone
    found = probe_attention(F.scaled_dot_product_attention, causal=True)
    assert [fault.name for fault in found.faults] == ["corner"]
    assert "first key" in found["corner"].where["found"]


def test_a_chunk_of_two_tells_what_prefill_and_single_steps_do_not() -> None:
    finding = report("cache: corner for chunks only", "cache")["cache"]
    assert finding.where["form"].split(",")[0] in ("twos", "one and the rest", "prefill and threes")


# Too much blocked


def test_former_10_a_token_that_cannot_see_itself() -> None:
    bare = probe(TriangleOnDiagonal(causal=True), causal=True, only=["allowed-tokens"])
    where = bare["allowed-tokens"].where
    assert (where["row"], where["token"]) == (0, 0)
    assert bare["allowed-tokens"].moved == 0
    hidden = probe(Residual(TriangleOnDiagonal(causal=True)), causal=True)
    assert hidden["allowed-tokens"].verdict == "ok"  # the residual hides it
    assert {f.name for f in hidden.faults} >= {"equal-tokens", "one-token"}
    block = probe(Block(TriangleOnDiagonal(causal=True)), causal=True, only=["equal-tokens"])
    assert block.faults


def test_transformers_46077_a_triangle_in_a_layer_that_sees_both_ways() -> None:
    finding = report("triangle in a two-way layer", "allowed-tokens")["allowed-tokens"]
    assert finding.moved == 0
    assert finding.where["token"] > finding.where["row"]


# The sense of a boolean


def test_pytorch_170415_one_triangle_in_two_senses() -> None:
    blocked = torch.ones(4, 4, dtype=torch.bool).triu(1)
    q, k, v = (torch.randn(1, 1, 4, 8) for _ in range(3))
    assert not F.scaled_dot_product_attention(q, k, v, attn_mask=blocked)[0, 0, -1].any()

    def wrong(q, k, v, blocked):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=blocked)

    found = probe_attention(wrong)["mask-sense"]
    assert found.verdict == "fault"
    assert "True means keep" in found.where["found"]


def test_pytorch_90534_keep_as_numbers_means_two_things() -> None:
    layer = KeepAsNumbers()
    found = probe(layer, only=["pad-content", "modes"])
    assert found["pad-content"].moved > 0.05
    assert found["modes"].verdict == "fault"  # added with gradients, read as blocked without
    assert found["modes"].moved > 0.1


def test_pytorch_103963_numbers_against_booleans() -> None:
    layer = NumbersAdded()
    found = probe(layer, forms={"mask of numbers": layer.numbers}, only=["call-forms"])
    assert found["call-forms"].where["form"].startswith("mask of numbers")
    assert found["call-forms"].moved > 0.1


# The fill


def test_the_score_at_which_a_fill_leaks() -> None:
    def finite(q, k, v, blocked):
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        if blocked is not None:
            scores = scores.masked_fill(blocked, -1e4)
        return scores.softmax(-1) @ v

    found = probe_attention(finite)["fill"]
    assert found.verdict == "fault"
    score = float(found.where["found"].split("-")[-1])
    assert 9_900 < score < 10_100
    layer = report("fill of -1e4", "high-scores", "pad-content")
    assert layer["pad-content"].verdict == "ok"  # right at ordinary scores
    least, _ = layer["high-scores"].where["score"].split(" to ")
    assert float(least) < -9_000


# The mask's axis, order and shape


def test_lighthouse_77_masks_not_contents() -> None:
    found = probe(MaskTiledByHead(), only=["mates-content", "mates-masks"])
    assert found["mates-content"].verdict == "fault" or found["mates-masks"].moved > 0.05
    assert found["mates-masks"].verdict == "fault"


def test_fast_transformers_101_is_silent_when_batch_equals_seq() -> None:
    layer = MaskAsTriangle()
    x = torch.randn(2, 5, 24)
    with pytest.raises(RuntimeError, match="must match"):
        layer(x, torch.zeros(2, 5, dtype=torch.bool))
    assert layer(torch.randn(5, 5, 24), torch.zeros(5, 5, dtype=torch.bool)).shape == (5, 5, 24)
    assert not probe(layer, only=["pad-content"]).ok


def test_a_mask_of_one_axis_too_many_grows_the_result() -> None:
    found = report("mask of one axis too many")["shapes"]
    assert found.verdict == "fault"
    assert "[5, 5, 7, 24]" in found.where["returned"]
    scores, mask = torch.randn(2, 5, 5), torch.zeros(2, 1, 1, 5, dtype=torch.bool)
    assert scores.masked_fill(mask, 0).shape == (2, 2, 5, 5)


# The softmax and the scale


def test_detr_247_heads_and_keys_together_are_seen_at_length_one_only() -> None:
    found = probe(SoftmaxOverHeadsAndKeys(), mask=False, heads=4)
    assert [fault.name for fault in found.faults] == ["one-token"]


def test_labml_146_without_a_mask_needs_q_k_and_v() -> None:
    def over_queries(q, k, v, blocked):
        return (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(-2) @ v

    found = probe_attention(over_queries)["softmax-axis"]
    assert found.where["found"] == "they sum to 1 over the queries"


def test_softmax_without_a_dimension_takes_the_heads() -> None:
    def loose(q, k, v, blocked):
        return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])) @ v

    found = probe_attention(loose)["softmax-axis"]
    assert found.where["found"] == "they sum to 1 over the heads"


@pytest.mark.parametrize(
    ("scale", "said"),
    [
        (1 / math.sqrt(4 * 8), "the root of all heads' width"),  # vit-pytorch 65
        (math.sqrt(8), "multiplied by the root"),  # perceiver-io 9
        (1.0, "no scale"),  # cntkx 10
    ],
)
def test_the_scale_with_q_k_v_in_hand(scale: float, said: str) -> None:
    def scaled(q, k, v, blocked):
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=None if blocked is None else ~blocked, scale=scale
        )

    found = probe_attention(scaled, heads=4, dim=8)["scale"]
    assert said in found.where["found"]
    assert f"is {scale:.4f}" in found.where["found"]
    assert probe_attention(F.scaled_dot_product_attention, dim=8)["scale"].verdict == "ok"


def test_the_scale_from_outside() -> None:
    right = probe(Attention(), factory=Attention, only=["scale"])["scale"]
    assert right.verdict == "ok"
    wrong = report("no scale")["scale"]
    assert wrong.verdict == "fault"
    assert wrong.moved < 0.7 < 0.95 < right.moved


# Heads


def test_transformer_from_scratch_6_is_invisible_with_one_head() -> None:
    assert probe(MergedWithoutTranspose(heads=1), only=["order", "pad-content"]).ok


def test_onnx_7274_key_heads_tiled() -> None:
    def tiled(q, k, v, blocked):
        each = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat(1, each, 1, 1), v.repeat(1, each, 1, 1))

    found = probe_attention(tiled, heads=6, key_heads=2)["group-map"]
    assert "[0, 1, 0, 1, 0, 1], and not [0, 0, 0, 1, 1, 1]" in found.where["found"]
    right = probe_attention(F.scaled_dot_product_attention, heads=6, key_heads=2)
    assert right["group-map"].verdict == "ok"


# Left padding


def test_transformer_lens_1609_right_padding_is_right() -> None:
    found = report("positions from the first place", "pad-content", "pad-count", "left-pads")
    assert [fault.name for fault in found.faults] == ["left-pads"]
    assert probe(Learned(), positions=True, only=["left-pads"]).ok
    wrong = BY_NAME["positions from the first place"].make()
    assert probe(wrong, positions="absolute", only=["left-pads"]).ok  # nothing more is claimed


# Rows with no key


def test_pytorch_41508_and_160064_one_sample_fully_padded() -> None:
    layer = nn.MultiheadAttention(24, 4, batch_first=True)
    found = probe(layer)
    assert {fault.name for fault in found.faults} == {"empty-rows", "empty-gradients"}
    assert "weights asked for" in found["empty-gradients"].where["form"]
    assert math.isnan(found["empty-rows"].moved)


def test_pytorch_103749_what_a_row_without_a_key_returns() -> None:
    def filled(value):
        def call(q, k, v, blocked):
            scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
            if blocked is not None:
                scores = scores.masked_fill(blocked, value)
            return scores.softmax(-1) @ v

        return probe_attention(call)["empty-row"]

    assert filled(torch.finfo(torch.float32).min).where["found"] == "it is the mean of all values"
    assert filled(-math.inf).where["found"] == "it is not finite"
    assert probe_attention(F.scaled_dot_product_attention)["empty-row"].verdict == "ok"  # zero


def test_pytorch_101967_nan_in_a_blocked_place_reaches_all_and_is_no_fault() -> None:
    layer, x = Attention(), torch.randn(1, 5, 24)
    blocked = torch.tensor([[False, False, False, True, True]])
    x[:, 3:] = math.nan
    assert layer(x, blocked)[:, :3].isnan().all()  # 0 times nan
    assert probe(layer, only=["pad-content"]).ok  # so what is written into pads is finite


# Modes


def test_pytorch_118628_a_bias_by_distance_is_read_as_blocked() -> None:
    layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    found = probe(layer)
    assert [fault.name for fault in found.faults] == ["modes", "empty-rows"]
    assert "bias" in found["modes"].where["form"]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")  # once a process
def test_pytorch_86120_padded_rows_differ_and_real_rows_agree() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 48, batch_first=True), 1)
    layer.eval()
    x, blocked = torch.randn(2, 5, 24), torch.zeros(2, 5, dtype=torch.bool)
    blocked[0, 3:] = True
    with torch.no_grad():
        quick = layer(x, src_key_padding_mask=blocked)
    slow = layer(x.requires_grad_(), src_key_padding_mask=blocked)
    assert not quick[0, 3:].any()
    assert slow[0, 3:].any()

    def call(x, blocked):
        return layer(x, src_key_padding_mask=blocked)

    assert probe(call, only=["modes", "pad-content"]).ok  # padded rows are nobody's business
    pooled = probe(PooledOverPads(), only=["modes", "pad-content"])
    assert {fault.name for fault in pooled.faults} == {"modes", "pad-content"}


# What no black box can see


class RootOfAllHeads(Attention):
    def scores(self, q, k):
        return q @ k.transpose(-2, -1) / math.sqrt(self.dim * self.heads)


class KeyHeadsTiled(Attention):
    def share(self, part):
        return part.repeat(1, self.heads // part.shape[1], 1, 1)


class FiniteFill(Attention):
    """A row in which every key is hidden averages all values."""

    def hide(self, scores, hidden):
        return scores + hidden * torch.finfo(scores.dtype).min, torch.zeros_like(hidden[..., :1])


class TwoFills(Attention):
    """As in transformers 27114: minus infinity where both hide, finite where one does."""

    def hide(self, scores, hidden):
        least = torch.finfo(scores.dtype).min
        causal = torch.ones_like(hidden).triu(1)
        return scores + hidden * least + causal * least, hidden & False

    def softmax(self, scores, empty):
        return scores.softmax(-1)


class PadsDifferByMode(Attention):
    def forward(self, x, blocked=None):
        out = super().forward(x, blocked)
        if blocked is None or torch.is_grad_enabled():
            return out
        return out.masked_fill(blocked[..., None], 0)


class LearnedDividedByLargest(Learned):
    def softmax(self, scores, empty):
        weights = super().softmax(scores, empty)
        return weights / weights.amax(-1, keepdim=True).clamp_min(1e-9)


UNSEEN_LAYERS = {
    "softmax over the queries, without a mask": (SoftmaxOverQueries, {"mask": False}),
    "a scale under the root of all heads' width": (RootOfAllHeads, {"factory": RootOfAllHeads}),
    "key heads tiled, not repeated": (lambda: KeyHeadsTiled(heads=6, key_heads=2), {"heads": 6}),
    "a row without a key that averages all values": (FiniteFill, {}),
    "two finite fills added": (lambda: TwoFills(causal=True), {"causal": True}),
    "padded rows that differ between modes": (PadsDifferByMode, {}),
    "a softmax over heads and keys, inside a block": (
        lambda: Block(SoftmaxOverHeadsAndKeys()),
        {"mask": False},
    ),
    "weights that do not sum to 1, with positions added to the tokens": (
        LearnedDividedByLargest,
        {"positions": True},
    ),
}


@pytest.mark.parametrize("unseen", UNSEEN, ids=lambda unseen: unseen.what)
def test_what_no_black_box_can_see_is_not_seen(unseen) -> None:
    make, claims = UNSEEN_LAYERS[unseen.what]
    report = probe(make(), **claims)
    assert report.ok, str(report)


def test_every_layer_that_is_not_seen_is_in_the_list() -> None:
    assert set(UNSEEN_LAYERS) == {unseen.what for unseen in UNSEEN}
    known = {one.name for one in PROBES}
    assert {unseen.with_qkv for unseen in UNSEEN} <= known | {""}
