"""Faulty decoding with a cache."""

from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.decoder import Decoder


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


class LongChunks(Decoder):
    """No triangle in chunks of eight or more that come after others."""

    def corner(self, queries: int, keys: int) -> int:
        return keys if 8 <= queries < keys else super().corner(queries, keys)


class Evicts(Decoder):
    """Keeps the last 24 keys only, though no window is claimed."""

    def keep(self, k: Tensor, v: Tensor) -> Any:
        return k[:, :, -24:], v[:, :, -24:]


_CACHE = {"causal": True, "cache": True}

FAULTS: tuple[Fault, ...] = (
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
    Fault("cache: no triangle in long chunks", LongChunks, _CACHE, ("cache",), "causal-mask"),
    Fault("cache: keys beyond 24 are dropped", Evicts, _CACHE, ("cache",), "causal-mask"),
)
