"""The README's picture: the same five tokens with three pads, without a padding mask and with it.

`python -m selfattn.figures.readme` writes it anew; a test fails when it is not what this makes.
"""

from pathlib import Path

import torch
from torch import nn

from selfattn import attention, padding_mask
from selfattn.figures.picture import svg
from selfattn.text import encode, tokenize, vocab

FILE = Path(__file__).parents[2] / "docs" / "assets" / "readme.svg"


@torch.no_grad()
def picture() -> str:
    """Draw the weights of a seeded layer as two heatmaps.

    Returns:
        An SVG: five queries over eight keys, twice.
    """
    torch.manual_seed(42)
    embedding = nn.Embedding(len(vocab), 16, padding_idx=0)
    query, key, value = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
    ids = torch.tensor([encode("Where is my card?")[:8]])
    x = embedding(ids)
    queries = tokenize("Where is my card?")
    keys = [*queries, "pad", "pad", "pad"]
    panels = []
    for title, mask in (("Mask forgotten", None), ("Padding masked", padding_mask(ids))):
        _, weights = attention(query(x), key(x), value(x), mask)
        panels.append((title, weights[0, :5], queries, keys))
    return svg(panels)


if __name__ == "__main__":
    FILE.write_text(picture(), encoding="utf-8", newline="\n")
