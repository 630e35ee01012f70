"""Right attention for packed documents."""

from torch import Tensor

from selfattn.probes.sound.attention import Attention


class Packed(Attention):
    """Attention within documents, called as `(x, blocked, documents)`, ids `[batch, seq]`."""

    documents: Tensor | None = None

    def forward(
        self, x: Tensor, blocked: Tensor | None = None, documents: Tensor | None = None
    ) -> Tensor:
        self.documents = documents
        return super().forward(x, blocked)

    def hidden(self, x: Tensor, blocked: Tensor | None) -> Tensor:
        hidden = super().hidden(x, blocked)
        return hidden if self.documents is None else hidden | self.apart(self.documents)

    def apart(self, documents: Tensor) -> Tensor:
        return documents[:, None, :, None] != documents[:, None, None, :]
