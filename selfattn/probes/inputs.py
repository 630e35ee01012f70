"""Inputs and masks, drawn as the claims allow."""

import zlib

import torch
from torch import Tensor

from selfattn.probes.claims import Claims


class Inputs:
    """What a layer is given.

    Attributes:
        claims: what the layer claims.
        dtype, device: those of the inputs.
    """

    def __init__(self, claims: Claims, dtype: torch.dtype, device: torch.device) -> None:
        self.claims, self.dtype, self.device = claims, dtype, device

    def generator(self, name: str) -> torch.Generator:
        """Give the generator of one probe: the same for a seed, whatever ran before."""
        number = self.claims.seed * 1_000_003 + zlib.crc32(name.encode())
        return torch.Generator().manual_seed(number % 2**63)

    def draw(self, generator: torch.Generator, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw an input `[*shape, width]` in the layer's dtype, normal with a spread of `scale`."""
        drawn = torch.randn(*shape, self.claims.width, generator=generator, dtype=torch.float64)
        return self.cast(drawn * scale)

    def cast(self, x: Tensor) -> Tensor:
        """Give x in the layer's dtype, on its device."""
        return x.to(dtype=self.dtype, device=self.device)

    def pads(self, batch: int, seq: int, side: str = "right", least: int = 0) -> Tensor:
        """Block a different number of pads in each sample, from `least` up to half of `seq`.

        Returns:
            `[batch, seq]`, True at pads.
        """
        most = max(least, seq // 2)
        counts = torch.tensor([least + i % (most - least + 1) for i in range(batch)])
        place = torch.arange(seq)
        place = place if side == "left" else seq - 1 - place
        return (place < counts.unsqueeze(1)).to(self.device)

    def masks(self, batch: int, seq: int) -> dict[str, Tensor | None]:
        """Give the masks `[batch, seq]` that the claims allow, True at pads, by name."""
        if not self.claims.mask:
            return {"no mask": None}
        masks = {"no mask": None, "pads on the right": self.pads(batch, seq)}
        if self.claims.mask is True:
            masks["pads on the left"] = self.pads(batch, seq, "left")
        return masks

    def allowed_pairs(self, seq: int) -> Tensor:
        """Give boolean `[seq, seq]`, True where the claims let a query look at a key."""
        places = range(seq)
        return torch.tensor([[self.claims.allows(i, j) for j in places] for i in places])
