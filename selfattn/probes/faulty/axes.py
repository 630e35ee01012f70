"""Axes mixed up: heads, the batch, the sequence, documents in one row."""

import torch
from torch import Tensor, nn

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention
from selfattn.probes.sound.packed import Packed


class MergedWithoutTranspose(Attention):
    def merge(self, mixed: Tensor) -> Tensor:
        batch, heads, seq, dim = mixed.shape
        return mixed.reshape(batch, seq, heads * dim)


class HeadsInBatch(Attention):
    """Heads are folded into the batch in another order than they come out of it."""

    def merge(self, mixed: Tensor) -> Tensor:
        batch, heads, seq, dim = mixed.shape
        turned = mixed.reshape(heads, batch, seq, dim).transpose(0, 1)
        return turned.transpose(1, 2).flatten(2)


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


class CentredOverSequence(Attention):
    """Subtracts the mean over all places, pads among them."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x - x.mean(1, keepdim=True), blocked)


class DocumentsNotApart(Packed):
    def apart(self, documents: Tensor) -> Tensor:
        return torch.zeros_like(documents[:, None, None, :], dtype=torch.bool)


_CAUSAL = {"causal": True}

FAULTS: tuple[Fault, ...] = (
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
        "documents not kept apart", DocumentsNotApart, {"packed": True}, ("packed",), "padding-mask"
    ),
)
