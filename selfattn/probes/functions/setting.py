"""A function under the probes, called with queries, keys and values that are drawn for it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.calling import first_tensor
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.noise import LOW
from selfattn.probes.subject import Subject

Function = Callable[..., Any]
Words = tuple[Tensor, Tensor, Tensor]
"""Queries, keys and values."""


@dataclass(frozen=True)
class Way:
    """A way to call a function: in which mode, and how q, k and v are handed over.

    Attributes:
        form: whether gradients are on.
        arrange: makes what is handed over, which must be a copy.
        context: makes what surrounds the call.
    """

    form: Form = PLAIN
    arrange: Callable[[Tensor], Tensor] = torch.clone
    context: Callable[[], Any] = field(default=contextlib.nullcontext)


ORDINARY = Way()


@dataclass(frozen=True)
class Setting:
    """A function under the probes, with what it claims.

    Attributes:
        call: `(q, k, v, blocked)`; blocked a bool `[queries, keys]`, True = must not look, or None.
        heads, key_heads: of queries, and of keys and values; 0 for a function without heads.
        dim: the last dimension.
        scale: what scores are multiplied by.
        any_width: whether the scale is that of the width, for every width.
        causal: the function blocks later keys by itself; the last query sees all keys.
        mask: whether it takes a mask.
    """

    call: Function
    heads: int
    key_heads: int
    dim: int
    scale: float
    any_width: bool
    causal: bool
    mask: bool
    subject: Subject

    @property
    def batch(self) -> int:
        """A number of samples that is not by chance that of the heads."""
        return 3 if 2 in (self.heads, self.key_heads) else 2

    @property
    def count(self) -> int:
        """A number of tokens that is not by chance another size."""
        return next(n for n in (5, 7, 6) if n not in (self.heads, self.key_heads))

    def of_width(self, dim: int) -> "Setting":
        """Give the same function at another width, with the scale of that width."""
        return replace(self, dim=dim, scale=dim**-0.5)

    def draw(
        self, count: int, keys: bool = False, seed: int = 0, *, batch: int = 0, width: int = 0
    ) -> Tensor:
        """Draw queries, or keys or values, `[batch, heads, count, width]`."""
        generator = self.subject.generator(f"function {seed} {keys}")
        shape = self.shape(count, keys, batch=batch, width=width)
        return self.cast(torch.randn(shape, generator=generator, dtype=torch.float64))

    def shape(self, count: int, keys: bool, *, batch: int = 0, width: int = 0) -> tuple[int, ...]:
        heads = self.key_heads if keys else self.heads
        return (batch or self.batch, *(heads,) * bool(heads), count, width or self.dim)

    def words(
        self, queries: int, keys: int, *, batch: int = 0, value: int = 0, seed: int = 0
    ) -> Words:
        """Draw queries, keys, and values of width `value`."""
        return (
            self.draw(queries, seed=3 * seed, batch=batch),
            self.draw(keys, True, 3 * seed, batch=batch),
            self.draw(keys, True, 3 * seed + 1, batch=batch, width=value),
        )

    def cast(self, t: Tensor) -> Tensor:
        return t.to(dtype=self.subject.dtype, device=self.subject.device)

    def result(
        self,
        words: Words,
        blocked: Tensor | None = None,
        *,
        arrange: Callable[[Tensor], Tensor] = torch.clone,
    ) -> Tensor:
        """Call the function as it is called within `subject.call`.

        Raises:
            LayerFailed: it gives no output of the right shape.
        """
        q, _, v = words
        mask = None if blocked is None else blocked.to(q.device, copy=True)
        result = first_tensor(self.call(*(arrange(t) for t in words), mask))
        expected = [*q.shape[:-1], v.shape[-1]]
        if not isinstance(result, Tensor) or list(result.shape) != expected:
            got = list(result.shape) if isinstance(result, Tensor) else type(result).__name__
            raise LayerFailed(f"returned {got} instead of {expected}", shape=True)
        return result

    def out(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        blocked: Tensor | None = None,
        way: Way = ORDINARY,
    ) -> Tensor:
        """Give the output `[batch, heads, queries, width of v]`, float64 on the CPU.

        Raises:
            LayerFailed: there is none of that shape.
        """

        def called() -> Tensor:
            with way.context():
                return plain(self.result((q, k, v), blocked, arrange=way.arrange))

        out: Tensor = self.subject.call(called, way.form, q)
        return out

    def weights(self, q: Tensor, k: Tensor, blocked: Tensor | None = None) -> Tensor:
        """Give the weights `[..., queries, keys]`: the outputs for one-hot values."""
        keys = k.shape[-2]
        hot = torch.eye(keys, -(-keys // self.dim) * self.dim, dtype=torch.float64)
        parts = [
            self.out(q, k, self.cast(part.expand(*k.shape[:-1], self.dim).contiguous()), blocked)
            for part in hot.split(self.dim, dim=-1)
        ]
        return torch.cat(parts, dim=-1)[..., :keys]

    @property
    def slack(self) -> float:
        """How far a weight may be off: weights are at most 1."""
        low = self.subject.dtype in LOW
        return (6 if low else 64) * float(torch.finfo(self.subject.dtype).eps)


def plain(t: Tensor) -> Tensor:
    """Give a tensor for comparing: float64 on the CPU, apart from any graph."""
    return t.detach().to("cpu", torch.float64, copy=True)
