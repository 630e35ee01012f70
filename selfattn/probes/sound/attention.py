"""Right attention: what the other layers, right or faulty, are one line away from.

Every step that can go wrong is a method of its own. Axes: `[batch, heads, seq, dim]` within.
"""

import math

import torch
from torch import Tensor, nn


class Attention(nn.Module):
    """Multi-head self-attention with a padding mask.

    Args:
        width: of tokens and outputs.
        heads, key_heads: of queries, and of keys and values; neighbours share a key head.
        causal: whether later tokens are hidden.
        window: how many places back a query sees, its own counted; to both sides if not causal.
    """

    def __init__(
        self,
        width: int = 24,
        heads: int = 4,
        key_heads: int | None = None,
        causal: bool = False,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.key_heads = heads, key_heads or heads
        self.causal, self.window = causal, window
        self.dim = width // heads
        self.query = nn.Linear(width, width)
        self.key = nn.Linear(width, self.dim * self.key_heads)
        self.value = nn.Linear(width, self.dim * self.key_heads)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        """Attend: x `[batch, seq, width]`, blocked bool `[batch, seq]`, True = must not look."""
        q, k, v = self.split(x)
        q, k = self.place(q, k, blocked)
        weights = self.softmax(*self.hide(self.scores(q, k), self.hidden(x, blocked)))
        out: Tensor = self.output(self.merge(self.drop(weights) @ v))
        return out

    def split(self, x: Tensor) -> list[Tensor]:
        parts = [self.query(x), self.key(x), self.value(x)]
        heads = [part.unflatten(-1, (-1, self.dim)).transpose(1, 2) for part in parts]
        return [self.share(part) for part in heads]

    def share(self, part: Tensor) -> Tensor:
        return part.repeat_interleave(self.heads // part.shape[1], dim=1)

    def place(self, q: Tensor, k: Tensor, blocked: Tensor | None) -> tuple[Tensor, Tensor]:
        return q, k

    def scores(self, q: Tensor, k: Tensor) -> Tensor:
        return q @ k.transpose(-2, -1) / math.sqrt(self.dim)

    def hidden(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        """Give `[batch or 1, 1, seq, seq]`, True where a query must not look at a key."""
        hidden = self.by_place(x, blocked)
        return hidden if blocked is None else hidden | self.pads(blocked)

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, None, :]

    def by_place(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        seq = x.shape[1]
        hidden = x.new_zeros(1, 1, seq, seq, dtype=torch.bool)
        if self.causal:
            hidden = hidden | self.triangle(hidden)
        return hidden if self.window is None else hidden | self.far(hidden, self.window)

    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.ones_like(hidden).triu(1)

    def far(self, hidden: Tensor, window: int) -> Tensor:
        return torch.ones_like(hidden).triu(window) | torch.ones_like(hidden).tril(-window)

    def hide(self, scores: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Fill what is hidden; a row that would be hidden throughout is left to be zeroed."""
        empty = hidden.all(-1, keepdim=True)
        return scores.masked_fill(hidden & ~empty, -math.inf), empty

    def softmax(self, scores: Tensor, empty: Tensor) -> Tensor:
        return scores.softmax(-1).masked_fill(empty, 0)

    def drop(self, weights: Tensor) -> Tensor:
        return weights

    def merge(self, mixed: Tensor) -> Tensor:
        return mixed.transpose(1, 2).flatten(2)


class OneHead(nn.Module):
    """One head written by hand, without an axis for it: scores `[batch, seq, seq]`."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        scores = self.query(x) @ self.key(x).transpose(-2, -1) / math.sqrt(x.shape[-1])
        if blocked is not None:
            hidden = self.pads(blocked)
            scores = scores.masked_fill(hidden & ~hidden.all(-1, keepdim=True), -math.inf)
        out: Tensor = self.softmax(scores) @ self.value(x)
        return out

    def pads(self, blocked: Tensor) -> Tensor:
        return blocked[:, None, :]

    def softmax(self, scores: Tensor) -> Tensor:
        return scores.softmax(-1)


class Dropping(Attention):
    """With dropout on the weights, in training only."""

    def drop(self, weights: Tensor) -> Tensor:
        return nn.functional.dropout(weights, 0.2, self.training)
