"""Faulty attention within packed documents."""

import torch
from torch import Tensor

from selfattn.probes.faulty.fault import Fault
from selfattn.probes.sound.attention import Attention
from selfattn.probes.sound.packed import Packed


class DocumentsForTriangle(Packed):
    """The documents' mask replaces the triangle, where both must hold."""

    def triangle(self, hidden: Tensor) -> Tensor:
        return torch.zeros_like(hidden) if self.documents is not None else super().triangle(hidden)


class DocumentsStay(Packed):
    """Without ids, those of the call before are used."""

    def forward(
        self, x: Tensor, blocked: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        self.documents = self.documents if documents is None else documents
        return Attention.forward(self, x, blocked)

    def hidden(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        fit = self.documents is not None and self.documents.shape == x.shape[:2]
        return super().hidden(x, blocked) if fit else Attention.hidden(self, x, blocked)


_PACKED = {"packed": True}

FAULTS: tuple[Fault, ...] = (
    Fault(
        "documents in place of the triangle",
        lambda: DocumentsForTriangle(causal=True),
        {**_PACKED, "causal": True},
        ("within-documents",),
        "padding-mask",
    ),
    Fault("documents of the call before", DocumentsStay, _PACKED, ("repetition",), "padding-mask"),
)
