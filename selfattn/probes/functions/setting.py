"""A function under the probes, called with queries, keys and values that are drawn for it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.calling import first_tensor
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN
from selfattn.probes.noise import LOW
from selfattn.probes.subject import Subject

Function = Callable[..., Any]


@dataclass(frozen=True)
class Setting:
    """A function under the probes, with what it claims.

    Attributes:
        call: `(q, k, v, blocked)`; blocked a bool `[queries, keys]`, True = must not look, or None.
        heads, key_heads: of queries, and of keys and values; 0 for a function without heads.
        dim: the last dimension.
        scale: what scores are multiplied by.
        causal: the function blocks later keys by itself; the last query sees all keys.
        mask: whether it takes a mask.
    """

    call: Function
    heads: int
    key_heads: int
    dim: int
    scale: float
    causal: bool
    mask: bool
    subject: Subject

    def draw(self, count: int, keys: bool = False, batch: int = 2, seed: int = 0) -> Tensor:
        generator = self.subject.generator(f"function {seed} {keys}")
        heads = self.key_heads if keys else self.heads
        shape = (batch, heads, count, self.dim) if heads else (batch, count, self.dim)
        return self.cast(torch.randn(shape, generator=generator, dtype=torch.float64))

    def cast(self, t: Tensor) -> Tensor:
        return t.to(dtype=self.subject.dtype, device=self.subject.device)

    def out(self, q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None = None) -> Tensor:
        words = (q.clone(), k.clone(), v.clone())
        mask = None if blocked is None else blocked.to(q.device)
        result = first_tensor(self.subject.call(lambda: self.call(*words, mask), PLAIN, q))
        expected = [*q.shape[:-1], v.shape[-1]]
        if not isinstance(result, Tensor) or list(result.shape) != expected:
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise LayerFailed(f"returned {got} instead of {expected}", shape=True)
        return result.detach().to("cpu", torch.float64)

    def weights(self, q: Tensor, k: Tensor, blocked: Tensor | None = None) -> Tensor:
        """Give the weights `[..., queries, keys]`: the output for one-hot values."""
        keys = k.shape[-2]
        hot = torch.eye(keys, self.dim, dtype=torch.float64).expand(*k.shape[:-1], self.dim)
        return self.out(q, k, self.cast(hot.contiguous()), blocked)[..., :keys]

    @property
    def slack(self) -> float:
        """How far a weight may be off: weights are at most 1."""
        low = self.subject.dtype in LOW
        return (6 if low else 64) * float(torch.finfo(self.subject.dtype).eps)
