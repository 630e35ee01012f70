"""Calls whose right answer is known: of which sizes, with which mask; and the first that is off."""

import functools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.functions.catalog import Verdict
from selfattn.probes.functions.reference import Expected, expected
from selfattn.probes.functions.setting import ORDINARY, Setting, Way, Words
from selfattn.probes.report import CANNOT_TELL, FAULT, OK


@dataclass(frozen=True)
class Case:
    """One call: of a function at some width, with inputs, and a mask and its name."""

    setting: Setting
    words: Words
    mask: str = "none"
    blocked: Tensor | None = None

    def out(self, way: Way = ORDINARY) -> Tensor:
        return self.setting.out(*self.words, self.blocked, way)

    @functools.cached_property
    def expected(self) -> Expected:
        return expected(self.setting, self.words, self.blocked)

    @property
    def where(self) -> dict[str, Any]:
        q, k, v = (list(t.shape) for t in self.words)
        return {"q": q, "k": k, "v": v, "mask": self.mask}


ONE = ("scattered",)
"""The kind of mask that tells most: it is not alike in all rows."""

KINDS = ("pads on the right", "pads on the left", *ONE)


def masked(s: Setting, words: Words, kinds: tuple[str, ...] = KINDS) -> Iterator[Case]:
    """Give a call without a mask, then with each kind of mask; a row may be left without a key."""
    case = Case(s, words)
    yield case
    if s.mask:
        queries, keys = words[0].shape[-2], words[1].shape[-2]
        made = masks(s, queries, keys)
        for name in kinds:
            yield replace(case, mask=name, blocked=made[name])


def masks(s: Setting, queries: int, keys: int) -> dict[str, Tensor]:
    """Give masks `[queries, keys]`, True = must not look: pads, and a random one."""
    pads = max(1, keys // 3)
    place = torch.arange(keys).expand(queries, keys)
    generator = s.subject.generator(f"mask {queries} {keys}")
    scattered = torch.rand(queries, keys, generator=generator) < 0.5
    scattered[:, 0] = torch.arange(queries) % 2 == 1  # not alike in all rows, whatever is drawn
    scattered[0, -1] = True
    return dict(zip(KINDS, (place >= keys - pads, place < pads, scattered), strict=True))


def against(cases: Iterable[Case], said: str) -> Verdict:
    """Compare each call with what is right; `said` is what was found at the first that is off.

    A call that the function refuses is left out.
    """
    good: Verdict | None = None
    failed = ""
    for case in cases:
        try:
            out = case.out()
        except LayerFailed as failure:
            failed = str(failure)
            continue
        verdict = compared(out, case.expected, said, case.where)
        if verdict.verdict == FAULT:
            return verdict
        good = max(good or verdict, verdict, key=_share)
    return good or Verdict(CANNOT_TELL, said=failed or "there is nothing to compare")


def compared(out: Tensor, right: Expected, said: str, where: dict[str, Any]) -> Verdict:
    """Compare an output with what is right, at the rows that have a key."""
    off = (out - right.right).abs().nan_to_num(math.inf, math.inf)
    share = torch.where(right.places.unsqueeze(-1), off / (right.allowed + _LEAST), 0.0)
    if not share.numel():
        return Verdict(OK, 0.0, 0.0)
    worst = tuple(int(i) for i in torch.unravel_index(share.argmax(), share.shape))
    moved = float((out - right.right)[worst].abs())
    allowed = float(right.allowed[worst])
    if share[worst] <= 1:
        return Verdict(OK, moved, allowed)
    axes = ("batch", "head", "row") if share.dim() == 4 else ("batch", "row")
    first = torch.nonzero((share > 1).any(-1))[0].tolist()
    return Verdict(FAULT, moved, allowed, said, {**where, **dict(zip(axes, first, strict=True))})


_LEAST = 1e-30
"""Where nothing may be off: a row whose only value is zero."""


def _share(verdict: Verdict) -> float:
    return (verdict.moved or 0.0) / ((verdict.allowed or 0.0) + _LEAST)
