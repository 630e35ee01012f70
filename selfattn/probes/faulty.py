"""Small faulty layers, each one line away from a right one, with the probes that must find them.

Silent, all of them: no error, no nan where none is meant, the right shape.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.probes.sound import (
    Attention,
    Block,
    Decoder,
    Dropping,
    Learned,
    OneHead,
    Packed,
    Residual,
    Rotary,
)

# The triangle


class NoTriangle(Attention):
    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.zeros_like(hidden)


class TriangleOneTooFar(Attention):
    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(2)


class TriangleOnDiagonal(Attention):
    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(0)


class TriangleWithMaskOnly(Attention):
    def by_place(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        hidden = super().by_place(x, blocked)
        return hidden if blocked is not None else torch.zeros_like(hidden)


class TriangleWithoutMaskOnly(Attention):
    def by_place(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        hidden = super().by_place(x, blocked)
        return hidden if blocked is None else torch.zeros_like(hidden)


class TriangleWithoutWeightsOnly(Attention):
    need_weights = False

    def forward(
        self, x: Tensor, blocked: Tensor | None = None, need_weights: bool = False
    ) -> Tensor:
        self.need_weights = need_weights
        return super().forward(x, blocked)

    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(1) & (not self.need_weights)


class TriangleInEvalOnly(Dropping):
    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(1) & (not self.training)


class MeanOverBlocks(Attention):
    """Adds the mean of each block of four tokens before the attention."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        blocks = x.split(4, dim=1)
        return super().forward(
            x + torch.cat([b.mean(1, keepdim=True).expand_as(b) for b in blocks], 1), blocked
        )


# The mask


class NoMask(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return torch.zeros_like(blocked)[:, None, None, :]


class MaskSenseTurned(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return ~blocked[:, None, None, :]


class MaskOnQueries(Attention):
    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, :, None]


class MaskAsTriangle(Attention):
    """Takes the [batch, seq] mask for [seq, seq]: fits when batch equals seq."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[None, None, :, :]


class MaskOneAxisTooMany(OneHead):
    """Scores [batch, seq, seq] with a mask [batch, 1, 1, seq]: the result grows."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, None, :]


class MaskWithoutMiddle(OneHead):
    """A [batch, seq] mask for scores [batch, seq, seq]: fits when batch equals seq."""

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked


class MaskAfterSoftmax(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores, hidden


class FillZero(Attention):
    fill = 0.0

    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores.masked_fill(hidden, self.fill), hidden.all(-1, keepdim=True)


class FillSmall(FillZero):
    fill = -1e-9


class FillTenThousand(FillZero):
    fill = -1e4


class FillTenThousandAdded(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores + hidden.to(scores) * -1e4, hidden.all(-1, keepdim=True)


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


class SenseOfFunction(Attention):
    """Hands True = blocked to scaled_dot_product_attention, which reads True = keep."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        q, k, v = self.split(x)
        mask = None if blocked is None else blocked[:, None, None, :]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        out: Tensor = self.output(self.merge(mixed))
        return out


class KeepAsNumbers(nn.Module):
    """1 = keep as a float mask for an encoder layer, which adds it to the scores."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 48, batch_first=True)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        keep = None if blocked is None else (~blocked).to(x.dtype)
        out: Tensor = self.layer(x, src_key_padding_mask=keep)
        return out


# The softmax


class SoftmaxOverHeads(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(1).nan_to_num(0).masked_fill(empty, 0)


class SoftmaxOverHeadsAndKeys(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        together = scores.transpose(1, 2).flatten(2).softmax(-1)
        apart: Tensor = together.unflatten(2, (self.heads, -1)).transpose(1, 2)
        return apart.masked_fill(empty, 0)


class SoftmaxOverQueries(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(-2).nan_to_num(0).masked_fill(empty, 0)


class SoftmaxWithoutDimension(OneHead):
    """Of scores with three axes, F.softmax takes the first: the batch."""

    def softmax(self, scores: Tensor) -> Tensor:
        return F.softmax(scores).nan_to_num(0)


class DividedByLength(Attention):
    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.exp() / scores.shape[-1]


# The scale


class NoScale(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1)


class ScaleMultiplied(Attention):
    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) * math.sqrt(self.dim)


# Heads, batch, positions, documents


class MergedWithoutTranspose(Attention):
    def merge(self, mixed: Tensor) -> Tensor:
        batch, heads, seq, dim = mixed.shape
        return mixed.reshape(batch, seq, heads * dim)


class SequenceFirst(nn.Module):
    """Batch-first data in a layer that expects the sequence first."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out: Tensor = self.attention(x, x, x, need_weights=False)[0]
        return out


class CentredOverBatch(Attention):
    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x - x.mean(0, keepdim=True), blocked)


class PlacesFromFirst(Learned):
    """Positions count from the first place, pads and all."""

    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])


class PlacesAllAlike(Learned):
    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.zeros(x.shape[:2], dtype=torch.int64, device=x.device)


class DocumentsNotApart(Packed):
    def apart(self, documents: Tensor) -> Tensor:
        return torch.zeros_like(documents[:, None, None, :], dtype=torch.bool)


class CentredOverSequence(Attention):
    """Subtracts the mean over all places, pads among them."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x - x.mean(1, keepdim=True), blocked)


# Rows without a key


class EmptyRowsNan(Attention):
    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        return scores.masked_fill(hidden, -math.inf), torch.zeros_like(hidden[..., :1])


class EmptyRowsZeroedLate(Attention):
    """Zeroed after the softmax, whose way back multiplies 0 by nan."""

    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        added = torch.zeros_like(scores).masked_fill(hidden, -math.inf)
        return scores + added, hidden.all(-1, keepdim=True)


# Modes


class DropoutInEval(Attention):
    def drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, 0.2)


class DropoutNotScaled(Attention):
    def drop(self, weights: Tensor) -> Tensor:
        return F.dropout(weights, 0.4, self.training) * (0.6 if self.training else 1)


class KeepsState(Attention):
    """Adds a trace of what it was given before."""

    trace: Tensor | float = 0.0

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out = super().forward(x + self.trace, blocked)
        self.trace = x.detach().std()
        return out


class FlagAgainstMask(nn.Module):
    """is_causal with a mask that allows all: the flag wins without weights and loses with them."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(
        self, x: Tensor, blocked: Tensor | None = None, need_weights: bool = False
    ) -> Tensor:
        allowed = torch.zeros(x.shape[1], x.shape[1], dtype=torch.bool)
        out: Tensor = self.attention(
            x, x, x, attn_mask=allowed, is_causal=True, need_weights=need_weights
        )[0]
        return out


class WindowOneTooLong(Attention):
    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window + 1)


class WindowOneTooShort(Attention):
    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window - 1)


class WindowByForm(TriangleWithoutWeightsOnly):
    """Window w in one form of call and w + 1 in the other."""

    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(1)

    def far(self, hidden: Tensor, window: int) -> Tensor:
        return super().far(hidden, window + self.need_weights)


class PooledOverPads(nn.Module):
    """Adds a mean over time that counts pads, whose rows differ between modes."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 48, batch_first=True)
        self.layer = nn.TransformerEncoder(layer, 1)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out: Tensor = self.layer(x, src_key_padding_mask=blocked)
        return out + out.mean(1, keepdim=True)


# Caches


class CornerAtFirstKey(Decoder):
    def corner(self, queries: int, keys: int) -> int:
        return 1


class CornerForChunksOnly(Decoder):
    """The flag is set when there is more than one query: wrong for chunks of two."""

    def corner(self, queries: int, keys: int) -> int:
        return 1 if queries > 1 else keys


class NoTriangleAtAll(Decoder):
    """Right one by one, wrong at once."""

    def corner(self, queries: int, keys: int) -> int:
        return keys


class NoTriangleWithCache(Decoder):
    """No triangle when a cache is in use: right one by one, wrong in chunks."""

    def corner(self, queries: int, keys: int) -> int:
        return 1 if keys == queries else keys


class EmptySlots(Decoder):
    """A buffer of fixed size, whose empty slots are not blocked when decoding."""

    def join(self, cache: Any, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if cache is None:
            return k, v
        slots = torch.zeros_like(cache[0][..., :4, :])
        k, v = super().join(cache, k, v)
        return torch.cat([slots, k], -2), torch.cat([slots, v], -2)

    def keep(self, k: Tensor, v: Tensor) -> Any:
        return k, v


class PlacesRestart(Decoder):
    """Each chunk counts its positions from 0 again."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__(width, heads)
        self.positions = nn.Embedding(64, width)

    def forward(self, x: Tensor, blocked: Tensor | None = None, cache: Any = None) -> Any:
        return super().forward(x + self.positions.weight[: x.shape[1]], blocked, cache)


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


class DiagonalHidden(Attention):
    def by_place(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.eye(x.shape[1], dtype=torch.bool, device=x.device)[None, None]


class ConvolutionOverTime(Attention):
    """A convolution centred on each token, before causal attention."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x + F.pad(x, (0, 0, 0, 1))[:, 1:], blocked)


class HeadsInBatch(Attention):
    """Heads are folded into the batch in another order than they come out of it."""

    def merge(self, mixed: Tensor) -> Tensor:
        batch, heads, seq, dim = mixed.shape
        turned = mixed.reshape(heads, batch, seq, dim).transpose(0, 1)
        return turned.transpose(1, 2).flatten(2)


@dataclass(frozen=True)
class Fault:
    """A faulty layer.

    Attributes:
        what: what is wrong, in a few words.
        make: makes a fresh layer, from the global random state.
        claims: what it claims wrongly, as keywords for `probe`.
        found_by: the probes that must find it, each of them.
        page: the lesson's page whose warning it is.
    """

    what: str
    make: Callable[[], Any]
    claims: dict[str, Any] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()
    page: str = ""


_CAUSAL = {"causal": True}
_CACHE = {"causal": True, "cache": True}
_WINDOW = {"causal": True, "window": 3}

FAULTS: tuple[Fault, ...] = (
    Fault(
        "no triangle", lambda: NoTriangle(causal=True), _CAUSAL, ("later-tokens",), "causal-mask"
    ),
    Fault(
        "triangle one diagonal too far",
        lambda: TriangleOneTooFar(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault(
        "triangle on the diagonal",
        lambda: TriangleOnDiagonal(causal=True),
        _CAUSAL,
        ("equal-tokens", "allowed-tokens", "one-token"),
        "causal-mask",
    ),
    Fault(
        "triangle on the diagonal, residual",
        lambda: Residual(TriangleOnDiagonal(causal=True)),
        _CAUSAL,
        ("equal-tokens", "one-token"),
        "causal-mask",
    ),
    Fault(
        "triangle on the diagonal, block",
        lambda: Block(TriangleOnDiagonal(causal=True)),
        _CAUSAL,
        ("equal-tokens",),
        "causal-mask",
    ),
    Fault(
        "triangle with a mask only",
        lambda: TriangleWithMaskOnly(causal=True),
        _CAUSAL,
        ("later-tokens", "call-forms"),
        "causal-mask",
    ),
    Fault(
        "triangle without a mask only",
        lambda: TriangleWithoutMaskOnly(causal=True),
        _CAUSAL,
        ("later-tokens", "call-forms"),
        "causal-mask",
    ),
    Fault(
        "triangle without weights only",
        lambda: TriangleWithoutWeightsOnly(causal=True),
        _CAUSAL,
        ("later-tokens", "call-forms"),
        "pytorch",
    ),
    Fault(
        "triangle in eval only",
        lambda: TriangleInEvalOnly(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault(
        "mean over blocks of four",
        lambda: MeanOverBlocks(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault(
        "convolution over the next token",
        lambda: ConvolutionOverTime(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault(
        "triangle in a two-way layer",
        lambda: Attention(causal=True),
        {},
        ("allowed-tokens", "order"),
        "causal-mask",
    ),
    Fault("diagonal hidden", DiagonalHidden, {}, ("equal-tokens", "one-token"), "causal-mask"),
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
    Fault(
        "mask tiled by head", MaskTiledByHead, {}, ("mates-masks", "pad-content"), "padding-mask"
    ),
    Fault("mask taken for a triangle", MaskAsTriangle, {}, ("pad-content",), "padding-mask"),
    Fault("mask without its middle axis", MaskWithoutMiddle, {}, ("pad-content",), "padding-mask"),
    Fault("mask of one axis too many", MaskOneAxisTooMany, {}, ("shapes",), "padding-mask"),
    Fault("mask after the softmax", MaskAfterSoftmax, {}, ("pad-count",), "padding-mask"),
    Fault("keep as numbers", KeepAsNumbers, {}, ("pad-content",), "pytorch"),
    Fault("mask as numbers, added", NumbersAdded, {}, ("call-forms",), "pytorch"),
    Fault("fill of 0", FillZero, {}, ("pad-content",), "padding-mask"),
    Fault("fill of -1e-9", FillSmall, {}, ("pad-content",), "padding-mask"),
    Fault(
        "fill of 0, causal",
        lambda: FillZero(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "causal-mask",
    ),
    Fault("fill of -1e4", FillTenThousand, {}, ("high-scores",), "padding-mask"),
    Fault("fill of -1e4 added", FillTenThousandAdded, {}, ("high-scores",), "padding-mask"),
    Fault(
        "fill of -1e4, block",
        lambda: Block(FillTenThousand()),
        {},
        ("high-scores",),
        "padding-mask",
    ),
    Fault("softmax over heads", SoftmaxOverHeads, {}, ("equal-tokens", "one-token"), "average"),
    Fault(
        "softmax over heads, no mask",
        SoftmaxOverHeads,
        {"mask": False},
        ("equal-tokens", "one-token"),
        "average",
    ),
    Fault(
        "softmax over heads and keys",
        SoftmaxOverHeadsAndKeys,
        {"mask": False},
        ("one-token",),
        "average",
    ),
    Fault("softmax over queries", SoftmaxOverQueries, {}, ("pad-count",), "average"),
    Fault(
        "softmax over queries, causal",
        lambda: SoftmaxOverQueries(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "average",
    ),
    Fault(
        "softmax without a dimension", SoftmaxWithoutDimension, {}, ("mates-content",), "average"
    ),
    Fault("divided by the length", DividedByLength, {"mask": False}, ("one-token",), "average"),
    Fault("no scale", NoScale, {"factory": NoScale}, ("scale",), "scale"),
    Fault("scale multiplied", ScaleMultiplied, {"factory": ScaleMultiplied}, ("scale",), "scale"),
    Fault("heads merged without transpose", MergedWithoutTranspose, {}, ("order",), "pytorch"),
    Fault(
        "heads merged without transpose, causal",
        lambda: MergedWithoutTranspose(causal=True),
        _CAUSAL,
        ("later-tokens",),
        "pytorch",
    ),
    Fault("heads mixed with the batch", HeadsInBatch, {}, ("mates-content",), "pytorch"),
    Fault("sequence first", SequenceFirst, {"mask": False}, ("mates-content",), "pytorch"),
    Fault("centred over the batch", CentredOverBatch, {}, ("mates-content",), "pytorch"),
    Fault("centred over the sequence", CentredOverSequence, {}, ("pad-content",), "padding-mask"),
    Fault(
        "positions from the first place",
        PlacesFromFirst,
        {"positions": True},
        ("left-pads",),
        "padding-mask",
    ),
    Fault("positions all alike", PlacesAllAlike, {"positions": True}, ("positions",), "order"),
    Fault("positions not claimed", Rotary, {}, ("order",), "order"),
    Fault(
        "documents not kept apart", DocumentsNotApart, {"packed": True}, ("packed",), "padding-mask"
    ),
    Fault("empty rows nan", EmptyRowsNan, {}, ("empty-rows", "empty-gradients"), "causal-mask"),
    Fault(
        "empty rows zeroed too late", EmptyRowsZeroedLate, {}, ("empty-gradients",), "causal-mask"
    ),
    Fault("dropout in eval", DropoutInEval, {}, ("repetition",), "pytorch"),
    Fault("dropout not scaled", DropoutNotScaled, {}, ("dropout",), "pytorch"),
    Fault("state kept between calls", KeepsState, {}, ("repetition",), "pytorch"),
    Fault("flag against mask", FlagAgainstMask, {"mask": False}, ("call-forms",), "pytorch"),
    Fault(
        "window one too long",
        lambda: WindowOneTooLong(causal=True, window=3),
        _WINDOW,
        ("window",),
        "causal-mask",
    ),
    Fault(
        "window one too short",
        lambda: WindowOneTooShort(causal=True, window=3),
        _WINDOW,
        ("allowed-tokens",),
        "causal-mask",
    ),
    Fault(
        "window by form of call",
        lambda: WindowByForm(causal=True, window=3),
        _WINDOW,
        ("window", "call-forms"),
        "causal-mask",
    ),
    Fault("pooled over pads", PooledOverPads, {}, ("pad-content", "modes"), "padding-mask"),
    Fault("cache: corner at the first key", CornerAtFirstKey, _CACHE, ("cache",), "causal-mask"),
    Fault("cache: corner for chunks only", CornerForChunksOnly, _CACHE, ("cache",), "causal-mask"),
    Fault("cache: no triangle", NoTriangleAtAll, _CACHE, ("cache", "later-tokens"), "causal-mask"),
    Fault(
        "cache: triangle for prefill only", NoTriangleWithCache, _CACHE, ("cache",), "causal-mask"
    ),
    Fault("cache: empty slots", EmptySlots, _CACHE, ("cache",), "padding-mask"),
    Fault(
        "cache: positions restart",
        PlacesRestart,
        {**_CACHE, "positions": "absolute"},
        ("cache",),
        "order",
    ),
)
"""All faulty layers."""
