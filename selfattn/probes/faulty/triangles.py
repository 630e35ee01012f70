"""Faulty triangles: of causal attention, and one where there must be none."""

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention, Dropping
from selfattn.probes.sound.blocks import Block, Residual


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


class TriangleInShortTraining(Attention):
    """The triangle of training is made for 16 places, and forgotten beyond."""

    def triangle(self, hidden: Tensor) -> Tensor:
        return super().triangle(hidden) & (not self.training or hidden.shape[-1] <= 16)


class MeanOverBlocks(Attention):
    """Adds the mean of each block of four tokens before the attention."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        blocks = x.split(4, dim=1)
        return super().forward(
            x + torch.cat([b.mean(1, keepdim=True).expand_as(b) for b in blocks], 1), blocked
        )


class ConvolutionOverTime(Attention):
    """A convolution centred on each token, before causal attention."""

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return super().forward(x + F.pad(x, (0, 0, 0, 1))[:, 1:], blocked)


class DiagonalHidden(Attention):
    def by_place(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        return torch.eye(x.shape[1], dtype=torch.bool, device=x.device)[None, None]


_CAUSAL = {"causal": True}

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
        "triangle in training up to 16 only",
        lambda: TriangleInShortTraining(causal=True),
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
)
