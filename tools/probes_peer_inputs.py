"""What other checkers are given: the layers in the forms that they call, and inputs for them."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from selfattn.probes.calling import first_tensor
from selfattn.probes.claims import Claims

WIDTH, VOCABULARY = 24, 50

Inputs = dict[str, Tensor]


class Kept(nn.Module):
    """A layer called as `(x, keep)`, keep 1 at real tokens, as Hugging Face's models are."""

    def __init__(self, layer: Any, claims: Claims) -> None:
        super().__init__()
        self.layer, self.masked = layer, bool(claims.mask)

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        blocked = None if keep is None or not self.masked else keep == 0
        out: Tensor = first_tensor(self.layer(x, blocked))
        return out


class Tokens(Kept):
    """The same for checks that change token ids; token 0, with which they pad, is a large one."""

    def __init__(self, layer: Any, claims: Claims) -> None:
        super().__init__(layer, claims)
        self.table = torch.randn(VOCABULARY, WIDTH)
        self.table[0] *= 30

    def forward(self, ids: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(self.table[ids], keep)


class InOne(Kept):
    """The same for checkers whose models take one tensor: the mask is the last channel of x."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x[..., :-1], x[..., -1] > 0)


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Give x `[batch, seq, width]` and keep `[batch, seq]`, with other pads in each sample."""
    for batch, seq in ((4, 7), (6, 6)):
        pads = torch.arange(batch) % (seq // 2 + 1)
        keep = (torch.arange(seq) < (seq - pads).unsqueeze(1)).long()
        yield torch.randn(batch, seq, WIDTH), keep


def inputs_of(claims: Claims) -> Iterator[tuple[Inputs, Inputs | None]]:
    """Give inputs, and the same with one sample padded throughout, None without a mask."""
    for x, keep in batches():
        empty = keep.index_fill(0, torch.tensor(1), 0)
        yield ({"x": x, "keep": keep}, {"x": x, "keep": empty}) if claims.mask else ({"x": x}, None)
