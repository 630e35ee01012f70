"""What is no layer, or not what is claimed of it, is a clear error; what only looks odd works."""

import pytest
import torch
import torch.nn.functional as F
import transformers
from torch import Tensor, nn

from selfattn.probes import ClaimError, ProbeError, assert_sound, effective_mask, probe
from selfattn.probes.report import Report
from selfattn.probes.sound import Attention


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def heads(**more: object) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(24, 4, batch_first=True, **more)


def block() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)


def bert(layers: int = 1) -> transformers.BertModel:
    config = transformers.BertConfig(
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=50,
    )
    return transformers.BertModel(config, add_pooling_layer=False).eval()


# Claims that an adapter cannot honour


PACKED, CACHE = {"packed": True}, {"cache": True, "causal": True}


@pytest.mark.parametrize(
    ("make", "claims"),
    [
        (heads, PACKED),
        (heads, CACHE),
        (block, PACKED),
        (block, CACHE),
        (lambda: nn.TransformerEncoder(block(), 1), PACKED),
        (lambda: nn.TransformerEncoder(block(), 1), CACHE),
        (bert, PACKED),
    ],
)
def test_a_claim_that_the_adapter_cannot_honour_is_refused(make, claims) -> None:
    name = next(iter(claims))
    with pytest.raises(ClaimError, match=f"{name}=True is claimed, and .* wrap it in a function"):
        probe(make(), **claims)


def test_packed_documents_and_caches_of_pytorchs_layers_go_through_functions() -> None:
    layer = heads().eval()

    def packed(x: Tensor, ids: Tensor) -> Tensor:
        apart = ids.unsqueeze(2) != ids.unsqueeze(1)
        return layer(x, x, x, attn_mask=apart.repeat_interleave(4, 0), need_weights=False)[0]

    def cache(x: Tensor, past: Tensor | None) -> tuple[Tensor, Tensor]:
        keys = x if past is None else torch.cat([past, x], 1)
        later = torch.ones(x.shape[1], keys.shape[1], dtype=torch.bool)
        later = later.triu(1 + keys.shape[1] - x.shape[1])
        return layer(x, keys, keys, attn_mask=later, need_weights=False)[0], keys

    def leaky(x: Tensor, ids: Tensor) -> Tensor:
        return layer(x, x, x, need_weights=False)[0]

    assert probe(layer, packed=packed, only=["packed"])["packed"].verdict == "ok"
    assert probe(layer, packed=leaky, only=["packed"])["packed"].verdict == "fault"
    found = probe(layer, causal=True, cache=cache, only=["cache"])
    assert found["cache"].verdict == "ok"


@pytest.mark.parametrize("claims", [{"width": 99}, {"heads": 3}])
def test_sizes_that_contradict_the_layers_own_are_refused(claims) -> None:
    (name, value) = next(iter(claims.items()))
    own = {"width": 24, "heads": 4}[name]
    with pytest.raises(ClaimError, match=f"{name}={value} is claimed, and .* has {own}"):
        probe(heads(), **claims)
    assert probe(block(), width=24, heads=4, only=["order"]).ok
    assert probe(nn.MultiheadAttention(32, 4), only=["order"]).claims["width"] == 32
    with pytest.raises(ClaimError, match="width=23 is claimed"):
        effective_mask(heads(), torch.randn(1, 4, 23))


@pytest.mark.parametrize(
    ("x", "blocked", "said"),
    [
        (torch.randn(4, 24), None, r"x must be \[batch, seq, width\] of floats; got \[4, 24\]"),
        (torch.ones(1, 4, 24, dtype=torch.int64), None, "of floats; got .* torch.int64"),
        (torch.randn(1, 4, 24), torch.ones(4, 4) > 0, r"must be bool \[1, 4\], as x; got \[4, 4\]"),
        (torch.randn(1, 4, 24), torch.zeros(1, 4), "got .* of torch.float32"),
    ],
)
def test_inputs_of_effective_masks_are_looked_at(x: Tensor, blocked, said: str) -> None:
    with pytest.raises(ClaimError, match=said):
        effective_mask(heads(), x, blocked)


# Subclasses with a way of their own


class OwnHeads(nn.MultiheadAttention):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x, x, x, key_padding_mask=blocked, need_weights=False)[0]


class OwnBlock(nn.TransformerEncoderLayer):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x, src_key_padding_mask=blocked)


class LoudHeads(nn.MultiheadAttention):
    def forward(self, *args, **kwargs):
        out, weights = super().forward(*args, **kwargs)
        return 2 * out, weights


class LeakyHeads(OwnHeads):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x)


def test_a_subclass_is_called_by_its_own_signature_or_as_its_parent() -> None:
    few = ["pad-content", "mates-masks", "order"]
    for layer in (
        OwnHeads(24, 4, batch_first=True),
        OwnBlock(24, 4, 48, batch_first=True),
        LoudHeads(24, 4, batch_first=True),
    ):
        report = probe(layer, only=few)
        assert [finding.verdict for finding in report.findings] == ["ok"] * 3
    found = probe(LeakyHeads(24, 4, batch_first=True), only=few)
    assert [finding.name for finding in found.faults] == ["pad-content"]


# What is no layer


class WeightsFirst(Attention):
    def forward(self, x: Tensor, blocked: Tensor | None = None):
        return torch.rand(len(x), 4, x.shape[1], x.shape[1]), super().forward(x, blocked)


class WeightsInADict(Attention):
    def forward(self, x: Tensor, blocked: Tensor | None = None):
        return {"weights": torch.rand(2, 2), "out": super().forward(x, blocked)}


class Nothing(Attention):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> None:
        super().forward(x, blocked)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Attention, r"Attention is a class and no layer; .* as Attention\(\.\.\.\)"),
        (lambda: F.scaled_dot_product_attention, "takes queries.* probe it with probe_attention"),
        (lambda: lambda q, k, v: q, "requires k and v; .* probe_attention is for functions"),
        (
            lambda: nn.TransformerDecoderLayer(24, 4, 48, batch_first=True),
            r"requires memory; expected \(x, blocked\)\. Wrap it in a function",
        ),
        (lambda: nn.Transformer(24, 4, 1, 1, 48, batch_first=True), "requires tgt; expected"),
        (lambda: heads(kdim=16), "has embed_dim 24, kdim 16, vdim 24, so it cannot attend"),
        (lambda: heads(vdim=16), "has embed_dim 24, kdim 24, vdim 16, so it cannot attend"),
        (
            WeightsFirst,
            r"returned a tuple whose first tensor has shape \[5, 4, 7, 7\] .* wrap it in",
        ),
        (WeightsInADict, r"a dict whose first tensor has shape \[2, 2\].* wrap it in a function"),
        (Nothing, "returned NoneType and no tensor.* wrap it in a function"),
        (lambda: nn.Linear(32, 32), "takes .* no mask; .* Say mask=False"),
        (lambda: bert().encoder.layer[0].attention.self, "takes no inputs_embeds.* wrap it in"),
        (lambda: bert().encoder.layer[0], "if its width is not 24, .* wrap it in"),
    ],
)
def test_what_is_no_layer_says_what_to_do(make, said: str) -> None:
    with pytest.raises(ProbeError, match=said):
        probe(make())


def test_a_width_that_does_not_fit_is_hinted_at() -> None:
    with pytest.raises(ProbeError, match="if its width is not 24, say width="):
        probe(nn.Linear(32, 32), mask=False)


def test_a_sublayer_works_in_a_function() -> None:
    sublayer = bert().encoder.layer[0].attention.self

    def layer(x: Tensor, blocked: Tensor | None) -> Tensor:
        mask = None if blocked is None else ~blocked[:, None, None, :].expand(-1, -1, len(x[0]), -1)
        return sublayer(x, mask)[0]

    report = probe(layer, width=32, only=["pad-content", "order", "left-pads"])
    assert [finding.verdict for finding in report.findings] == ["ok"] * 3


# What is said


def test_notes_are_wrapped() -> None:
    text = str(Report("it", {}, [], ["word " * 60], 1.0))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("word") == 60


def test_a_failed_assertion_shows_the_test_and_not_the_tool() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_sound(Attention(), causal=True, only=["later-tokens"])
    assert caught.traceback[-1].ishidden(caught)
    assert not caught.traceback[0].ishidden(caught)
