"""Layers that answer otherwise in another mode, form of call, or the second time."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention


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


class PooledOverPads(nn.Module):
    """Adds a mean over time that counts pads, whose rows differ between modes."""

    def __init__(self, width: int = 24, heads: int = 4) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, heads, 48, batch_first=True)
        self.layer = nn.TransformerEncoder(layer, 1)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out: Tensor = self.layer(x, src_key_padding_mask=blocked)
        return out + out.mean(1, keepdim=True)


FAULTS: tuple[Fault, ...] = (
    Fault("dropout in eval", DropoutInEval, {}, ("repetition",), "pytorch"),
    Fault("dropout not scaled", DropoutNotScaled, {}, ("dropout",), "pytorch"),
    Fault("state kept between calls", KeepsState, {}, ("repetition",), "pytorch"),
    Fault("flag against mask", FlagAgainstMask, {"mask": False}, ("call-forms",), "pytorch"),
    Fault("pooled over pads", PooledOverPads, {}, ("pad-content", "modes"), "padding-mask"),
)
