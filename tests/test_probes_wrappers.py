"""Layers inside what compiles or spreads them are called by what is inside."""

import pytest
import torch
from torch import nn

from selfattn.probes import probe
from selfattn.probes.signatures import inside
from selfattn.probes.sound import Attention

WRAPPERS = {
    "compiled": lambda layer: torch.compile(layer, backend="eager"),
    "spread": nn.DataParallel,
    "both": lambda layer: nn.DataParallel(torch.compile(layer, backend="eager")),
}


class MaskLast(nn.Module):
    """Takes its mask as third parameter; the second must not be taken for it."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = Attention()

    def forward(self, x, bias=None, key_padding_mask=None):
        out = self.layer(x, key_padding_mask)
        return out if bias is None else out + bias


@pytest.fixture(autouse=True)
def _no_compiled_code_is_left():
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
@pytest.mark.parametrize(
    "make",
    [
        MaskLast,
        lambda: nn.MultiheadAttention(24, 4, batch_first=True),
        lambda: nn.TransformerEncoderLayer(24, 4, 48, dropout=0.0, batch_first=True),
    ],
    ids=["mask last", "MultiheadAttention", "TransformerEncoderLayer"],
)
def test_a_wrapper_changes_no_fault(make, wrap):
    torch.manual_seed(0)
    layer = make()
    only = ["pad-content", "left-pads", "allowed-tokens", "mates-masks", "order", "backward"]
    inner = probe(layer, only=only)
    outer = probe(wrap(layer), only=only)
    assert [finding.name for finding in inner.faults] == []
    assert [finding.name for finding in outer.faults] == []
    assert outer.subject == inner.subject


@pytest.mark.parametrize("wrap", WRAPPERS.values(), ids=WRAPPERS)
def test_what_is_inside_is_found(wrap):
    layer = MaskLast()
    assert inside(wrap(layer)) is layer
    assert inside(layer) is layer


def test_a_compiled_function_is_called_by_its_own_parameters():
    attention = Attention()

    def layer(x, bias=None, key_padding_mask=None):
        return attention(x, key_padding_mask)

    compiled = torch.compile(layer, backend="eager")
    assert inside(compiled) is layer
    assert probe(compiled, only=["pad-content", "pad-count"]).ok
