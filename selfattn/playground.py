"""The playground's numbers: a layer and the vocabulary as one script for the browser."""

import base64
import json
from collections.abc import Iterable

import torch
from torch import nn

FILE = "assets/javascripts/playground-weights.js"
"""Where the site puts the script, seen from its root."""


def script(words: Iterable[str], embedding: nn.Embedding, *projections: nn.Linear) -> str:
    """Write a layer as an HTML script element, which the site moves to `FILE`.

    The script sets `playgroundWeights`: `words`, the tokens by id with a space between two, and
    `floats`, little-endian float32 in base64: the embedding row by row, then each projection's
    weight `[out, in]` row by row and its bias `[out]`.

    Args:
        words: the vocabulary in the order of its ids, `embedding.num_embeddings` tokens.
        embedding: float32 `[words, dim]`.
        projections: of the query, the key and the value.

    Raises:
        ValueError: a word holds white space, or there are more or fewer words than embeddings.
    """
    known = list(words)
    if any(len(word.split()) != 1 for word in known) or len(known) != embedding.num_embeddings:
        raise ValueError(
            f"expected {embedding.num_embeddings} words without white space, got {len(known)}, "
            f"among them {[word for word in known if len(word.split()) != 1][:3]}"
        )
    layers = (embedding, *projections)
    parameters = [parameter.flatten() for layer in layers for parameter in layer.parameters()]
    numbers = torch.cat(parameters).detach().numpy().astype("<f4")
    data = {"words": " ".join(known), "floats": base64.b64encode(numbers.tobytes()).decode()}
    text = json.dumps(data).replace("<", "\\u003c")  # no word may end the element
    return f'<script data-file="{FILE}">const playgroundWeights = {text}</script>'
