"""Faulty padding masks: missing, turned round, on the wrong axis, of the wrong shape."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention, OneHead


class NoMask(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return torch.zeros_like(blocked)[:, None, None, :]


class MaskSenseTurned(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return ~blocked[:, None, None, :]


class SenseOfFunction(Attention):
    """Hands True = blocked to scaled_dot_product_attention, which reads True = keep."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        q, k, v = self.split(x)
        mask = None if blocked is None else blocked[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.output(self.merge(mixed))
        return out


class MaskOnQueries(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, :, None]


class SideOfFirstSample(Attention):
    """Counts the pads of each sample, and puts them where the first sample has its own."""

    def pads(self, blocked: Tensor) -> Tensor:
        place = torch.arange(blocked.shape[1], device=blocked.device)
        place = place if blocked[0, 0] else place.flip(0)
        return (place < blocked.sum(1, keepdim=True))[:, None, None, :]


class MaskTiledByHead(nn.Module):
    """A 3-D mask for nn.MultiheadAttention, tiled where each sample's must be repeated."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        mask = None
        if blocked is not None:
            seq = x.shape[1]
            mask = blocked[:, None, :].expand(-1, seq, -1).repeat(self.heads, 1, 1)
        out: Tensor = self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        return out


class MaskAsTriangle(Attention):
    """Takes the [batch, seq] mask for [seq, seq]: fits when batch equals seq."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[None, None, :, :]


class MaskWithoutMiddle(OneHead):
    """A [batch, seq] mask for scores [batch, seq, seq]: fits when batch equals seq."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked


class MaskOneAxisTooMany(OneHead):
    """Scores [batch, seq, seq] with a mask [batch, 1, 1, seq]: the result grows."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, None, :]


class MaskAfterSoftmax(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores, hidden


class KeepAsNumbers(nn.Module):
    """1 = keep as a float mask for an encoder layer, which adds it to the scores."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 48, batch_first=True)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        keep = None if blocked is None else (~blocked).to(x.dtype)
        out: Tensor = self.layer(x, src_key_padding_mask=keep)
        return out


class MaskGivenUp(Attention):
    """Against nan, takes no mask at all for a batch in which one sample is pads alone."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        nan = blocked is not None and bool(blocked.all(1).any())
        return super().forward(x, None if nan else blocked)


class NumbersAdded(Attention):
    """Takes a mask of numbers too, and adds it: 1 and 0 are no minus infinity."""

    def numbers(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        self.added = None if blocked is None else blocked.to(x.dtype)[:, None, None, :]
        out = self.forward(x, None)
        self.added = None
        return out

    added: Tensor | None = None

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return super().scores(q, k) + (0 if self.added is None else self.added)


_CAUSAL = {"causal": True}

FAULTS: tuple[Fault, ...] = (
    Fault("no mask", NoMask, {}, ("pad-content", "left-pads", "pad-count"), "padding-mask"),
    Fault("mask in the opposite sense", MaskSenseTurned, {}, ("pad-content",), "pytorch"),
    Fault(
        "mask in the function's opposite sense", SenseOfFunction, {}, ("pad-content",), "pytorch"
    ),
    Fault("mask on the query axis", MaskOnQueries, {}, ("pad-content",), "padding-mask"),
    Fault(
        "mask on the query axis, causal",
        lambda: MaskOnQueries(causal=True),
        _CAUSAL,
        ("left-pads",),
        "padding-mask",
    ),
    Fault("pads on the first sample's side", SideOfFirstSample, {}, ("left-pads",), "padding-mask"),
    Fault(
        "mask tiled by head", MaskTiledByHead, {}, ("mates-masks", "pad-content"), "padding-mask"
    ),
    Fault("mask taken for a triangle", MaskAsTriangle, {}, ("pad-content",), "padding-mask"),
    Fault("mask without its middle axis", MaskWithoutMiddle, {}, ("pad-content",), "padding-mask"),
    Fault("mask of one axis too many", MaskOneAxisTooMany, {}, ("shapes",), "padding-mask"),
    Fault("mask after the softmax", MaskAfterSoftmax, {}, ("pad-count",), "padding-mask"),
    Fault("keep as numbers", KeepAsNumbers, {}, ("pad-content",), "pytorch"),
    Fault(
        "mask given up for a sample of pads alone",
        MaskGivenUp,
        {},
        ("mates-masks",),
        "padding-mask",
    ),
    Fault("mask as numbers, added", NumbersAdded, {}, ("call-forms",), "pytorch"),
)
