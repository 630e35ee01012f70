"""Small right layers: what the faulty ones are one line away from, and what probes keep quiet on.

Every step that can go wrong is a method of its own. Axes: `[batch, heads, seq, dim]` within.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

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


class Block(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm before or after it."""

    def __init__(self, attention: Attention, before: bool = True) -> None:
        super().__init__()
        width = attention.output.out_features
        self.attention, self.before = attention, before
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        first, second = self.norms
        if self.before:
            x = x + self.attention(first(x), blocked)
            out: Tensor = x + self.feed(second(x))
            return out
        x = first(x + self.attention(x, blocked))
        out = second(x + self.feed(x))
        return out


class Residual(nn.Module):
    """A layer and its input added."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out: Tensor = x + self.layer(x, blocked)
        return out


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


class Packed(Attention):
    """Attention within documents, called as `(x, blocked, documents)`, ids `[batch, seq]`."""

    documents: Tensor | None = None

    def forward(
        self, x: Tensor, blocked: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        self.documents = documents
        return super().forward(x, blocked)

    def hidden(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        hidden = super().hidden(x, blocked)
        return hidden if self.documents is None else hidden | self.apart(self.documents)

    def apart(self, documents: Tensor) -> Tensor:
        return documents[:, None, :, None] != documents[:, None, None, :]


class Dropping(Attention):
    """With dropout on the weights, in training only."""

    def drop(self, weights: Tensor) -> Tensor:
        return nn.functional.dropout(weights, 0.2, self.training)


@dataclass(frozen=True)
class Sample:
    """A layer for the probes: how it is made, and what it claims.

    Attributes:
        make: makes a fresh layer, from the global random state.
        claims: keywords for `probe`.
    """

    make: Callable[[], Any]
    claims: dict[str, Any] = field(default_factory=dict)


SOUND: dict[str, Sample] = {
    "bidirectional": Sample(Attention, {"heads": 4, "factory": Attention}),
    "causal": Sample(lambda: Attention(causal=True), {"causal": True}),
    "grouped heads": Sample(lambda: Attention(heads=6, key_heads=2), {"heads": 6}),
    "one key head": Sample(lambda: Attention(key_heads=1), {"heads": 4}),
    "one head": Sample(OneHead, {"heads": 1}),
    "learned positions": Sample(Learned, {"positions": True}),
    "learned positions, causal": Sample(
        lambda: Learned(causal=True), {"positions": True, "causal": True}
    ),
    "rotary positions": Sample(Rotary, {"positions": True}),
    "rotary positions, causal": Sample(
        lambda: Rotary(causal=True), {"positions": True, "causal": True}
    ),
    "ALiBi": Sample(lambda: Alibi(causal=True), {"positions": True, "causal": True}),
    "window": Sample(lambda: Attention(causal=True, window=3), {"causal": True, "window": 3}),
    "window to both sides": Sample(lambda: Attention(window=3), {"window": 3}),
    "norm before": Sample(lambda: Block(Attention())),
    "norm after": Sample(lambda: Block(Attention(), before=False)),
    "norm before, causal": Sample(lambda: Block(Attention(causal=True)), {"causal": True}),
    "residual": Sample(lambda: Residual(Attention())),
    "cache": Sample(Decoder, {"causal": True, "cache": True}),
    "packed documents": Sample(Packed, {"packed": True}),
    "dropout": Sample(Dropping),
    "no mask": Sample(Attention, {"mask": False}),
}
"""Right layers by name."""
