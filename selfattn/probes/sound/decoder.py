"""Right decoding with a cache."""

from typing import Any

import torch
from torch import Tensor

from selfattn.probes.sound.attention import Attention


class Decoder(Attention):
    """Causal attention with a cache of keys and values, called as `(x, None, cache)`."""

    Cache = tuple[Tensor, Tensor]

    def __init__(self, width: int = 24, heads: int = 4, **words: Any) -> None:
        super().__init__(width, heads, causal=True, **words)

    def forward(self, x: Tensor, blocked: Tensor | None = None, cache: Any = None) -> Any:
        q, k, v = self.split(x)
        k, v = self.join(cache, k, v)
        q, k_placed = self.place_chunk(q, k)
        scores = self.scores(q, k_placed)
        weights = self.softmax(*self.hide(scores, self.later(scores, blocked)))
        return self.output(self.merge(weights @ v)), self.keep(k, v)

    def place_chunk(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return q, k

    def keep(self, k: Tensor, v: Tensor) -> Any:
        return k, v

    def join(self, cache: Any, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if cache is None:
            return k, v
        return torch.cat([cache[0], k], -2), torch.cat([cache[1], v], -2)

    def later(self, scores: Tensor, blocked: Tensor | None) -> Tensor:
        """Hide the keys after each query, the last query being at the last key."""
        queries, keys = scores.shape[-2:]
        hidden = scores.new_ones(1, 1, queries, keys, dtype=torch.bool)
        hidden = hidden.triu(self.corner(queries, keys))
        return hidden if blocked is None else hidden | self.pads(blocked)

    def corner(self, queries: int, keys: int) -> int:
        return 1 + keys - queries
