"""Small right layers, which the faulty ones are one line away from and probes keep quiet on."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from selfattn.probes.sound.attention import Attention, Dropping, OneHead
from selfattn.probes.sound.blocks import Block, Residual
from selfattn.probes.sound.decoder import Decoder
from selfattn.probes.sound.packed import Packed
from selfattn.probes.sound.positions import Alibi, Learned, Rotary

__all__ = [
    "SOUND",
    "Alibi",
    "Attention",
    "Block",
    "Decoder",
    "Dropping",
    "Learned",
    "OneHead",
    "Packed",
    "Residual",
    "Rotary",
    "Sample",
]


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
