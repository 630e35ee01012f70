"""What a layer claims to hide, by its mask, by place and by document, with few keys left."""

from dataclasses import dataclass

import torch
from torch import Tensor

from selfattn.probes.calling import Layer
from selfattn.probes.subject import Subject

WIDE = 64
"""The widest window for which there is one."""


@dataclass(frozen=True)
class Hiding:
    """Tokens that are hidden from some places of their sample.

    Attributes:
        name: the tokens, in words.
        hidden: boolean `[batch, seq]`, True at these tokens.
        places: boolean `[batch, seq]`, True at the places whose outputs they must not move.
        blocked: the padding mask `[batch, seq]` that hides them, if one does.
        ids: the documents `[batch, seq]` that hide them, if they do.
    """

    name: str
    hidden: Tensor
    places: Tensor
    blocked: Tensor | None = None
    ids: Tensor | None = None

    def call(self, subject: Subject) -> Layer:
        """Give the function `(x, blocked)` that is called, which knows the documents."""
        packed, ids = subject.adapted.packed, self.ids
        if packed is None or ids is None:
            return subject.adapted.call
        return lambda x, _: packed(x, ids)


def hidings(subject: Subject, batch: int, most: int) -> list[Hiding]:
    """Give one for each claim that hides tokens; 1 to `most` tokens are looked at, by sample."""
    claims, seq = subject.claims, subject.seq
    keep = 1 + torch.arange(batch).unsqueeze(1) % max(1, min(most, seq - 1))
    behind = (torch.arange(seq) >= keep).to(subject.device)
    before = behind.flip(1)
    found = []
    if claims.mask:
        found.append(Hiding("pads", behind, ~behind, behind))
    if claims.causal:
        found.append(Hiding("later tokens", behind, ~behind))
    if claims.packed:
        found.append(Hiding("other documents", before, ~before, ids=(~before).long()))
    if claims.window and claims.window <= WIDE:
        place = torch.arange(max(seq, claims.window + 4), device=subject.device).expand(batch, -1)
        last = place == place[0, -1]
        found.append(
            Hiding("tokens beyond the window", place <= place[0, -1] - claims.window, last)
        )
    return found
