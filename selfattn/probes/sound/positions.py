"""Right attention with positions: rotary, by a bias, learned."""

from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes.sound.attention import Attention


class Rotary(Attention):
    """With rotary positions (Su et al., RoFormer, arXiv 2104.09864)."""

    def place(self, q: Tensor, k: Tensor, blocked: Tensor | None) -> tuple[Tensor, Tensor]:
        half = self.dim // 2
        rates = 10_000 ** (-torch.arange(half, device=q.device) / half)
        angle = torch.arange(q.shape[-2], device=q.device).unsqueeze(1) * rates
        cos, sin = angle.cos().to(q.dtype), angle.sin().to(q.dtype)
        return tuple(  # type: ignore[return-value]
            torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
            for a, b in (part.split(half, -1) for part in (q, k))
        )


class Alibi(Attention):
    """With a bias by distance (Press et al., ALiBi, arXiv 2108.12409)."""

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        place = torch.arange(q.shape[-2], device=q.device)
        slopes = 2.0 ** -torch.arange(1, self.heads + 1, device=q.device).view(-1, 1, 1)
        return super().scores(q, k) - (slopes * (place - place.unsqueeze(1)).abs()).to(q.dtype)


class Learned(Attention):
    """With a learned vector for each place, added to the input."""

    def __init__(self, width: int = 24, heads: int = 4, **words: Any) -> None:
        super().__init__(width, heads, **words)
        self.positions = nn.Embedding(64, width)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        placed: Tensor = x + self.positions(self.places(x, blocked))
        return super().forward(placed, blocked)

    def places(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        """Give each token its place among the real ones, 0 for pads before the first."""
        if blocked is None:
            return torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        return ((~blocked).cumsum(1) - 1).clamp_min(0)
