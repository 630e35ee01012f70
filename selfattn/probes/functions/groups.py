"""Grouped heads: which key head a query head looks at, and whose values it takes."""

import torch
from torch import Tensor

from selfattn.probes.functions.catalog import Verdict, near, probe
from selfattn.probes.functions.setting import Setting
from selfattn.probes.report import NOT_APPLICABLE


@probe(
    "group-map",
    fault="Query heads use the wrong key heads.",
    causes=("key heads are tiled (repeat) where each must be repeated (repeat_interleave)",),
    page="pytorch",
)
def group_map(s: Setting) -> Verdict:
    """Let each key head spell its number in bits: in its values, then by which key it favours."""
    if not s.heads or s.key_heads == s.heads:
        return Verdict(NOT_APPLICABLE, said="the heads are not grouped")
    right = [head // (s.heads // s.key_heads) for head in range(s.heads)]
    verdict = None
    for mask in (None, _last_blocked(3)) if s.mask else (None,):
        for what, found in (("values", _values(s, mask)), ("keys", _keys(s, mask))):
            said = f"query heads use the {what} of key heads {found}, and not {right}"
            wrong = float(sum(a != b for a, b in zip(found, right, strict=True)))
            verdict = near(wrong, 0.0, said, mask="none" if mask is None else "the last key")
            if wrong:
                return verdict
    assert verdict
    return verdict


def _bits(s: Setting) -> Tensor:
    """Give the number of each key head in bits `[key_heads, bits]`."""
    count = max(1, (s.key_heads - 1).bit_length())
    return torch.arange(s.key_heads).unsqueeze(1) >> torch.arange(count) & 1


def _values(s: Setting, blocked: Tensor | None) -> list[int]:
    spelt = _bits(s).double()
    number = torch.zeros(s.key_heads, 1, max(s.dim, spelt.shape[1]), dtype=torch.float64)
    number[:, 0, : spelt.shape[1]] = spelt
    v = s.cast(number.expand(s.batch, -1, 3, -1).contiguous())
    out = s.out(s.draw(3), s.draw(3, True), v, blocked)
    return _read(out[0, :, -1, : spelt.shape[1]] > 0.5)


def _keys(s: Setting, blocked: Tensor | None) -> list[int]:
    """Let a key head's first key score higher than its second where the bit is 1."""
    a = (8 / s.scale) ** 0.5
    q = torch.zeros(s.shape(3, False), dtype=torch.float64)
    q[..., 0] = a
    read = []
    for bit in _bits(s).unbind(1):
        k = torch.zeros(s.shape(3, True), dtype=torch.float64)
        k[..., 0, 0] = a * (2 * bit - 1)
        weights = s.weights(s.cast(q), s.cast(k), blocked)[0, :, -1]
        read.append(weights[:, 0] > weights[:, 1])
    return _read(torch.stack(read, dim=-1))


def _read(bits: Tensor) -> list[int]:
    numbers: list[int] = (bits.long() << torch.arange(bits.shape[-1])).sum(-1).tolist()
    return numbers


def _last_blocked(count: int) -> Tensor:
    return (torch.arange(count) == count - 1).expand(count, count)
