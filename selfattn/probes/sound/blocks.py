"""Right attention in a block, or with a residual connection."""

from torch import Tensor, nn

from selfattn.probes.sound.attention import Attention


class Block(nn.Module):
    """Attention and a feed-forward part, each with a residual and a norm before or after it."""

    def __init__(self, attention: Attention, before: bool = True) -> None:
        super().__init__()
        width = attention.output.out_features
        self.attention, self.before = attention, before
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.feed = nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        first, second = self.norms
        if self.before:
            x = x + self.attention(first(x), blocked)
            out: Tensor = x + self.feed(second(x))
            return out
        x = first(x + self.attention(x, blocked))
        out = second(x + self.feed(x))
        return out


class Residual(nn.Module):
    """A layer and its input added."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out: Tensor = x + self.layer(x, blocked)
        return out
