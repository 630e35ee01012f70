"""The lesson's attention: five lines of matrix products and two masks.

Axes: `batch` sequences, `seq` tokens, `dim` entries of a vector. Queries and keys share their
last dimension; keys and values share their sequence length. A mask's True means "must not look".
"""

import math

import torch
from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Average the values, weighted by how well each query matches each key.

    Scaled dot-product attention, `softmax(q k^T / sqrt(dim)) v`: equation 1 in section 3.2.1 of
    Vaswani et al., "Attention Is All You Need", arXiv 1706.03762.

    Args:
        q: queries `[..., queries, dim]`, floating point.
        k: keys `[..., keys, dim]`, of the dtype of `q`.
        v: values `[..., keys, width]`, of the dtype of `q`.
        mask: boolean, broadcastable to `[..., queries, keys]`. True in row i, column j means
            that query i must not look at key j. A row that is True throughout leaves its query
            nothing to average and comes out as nan.

    Returns:
        The output `[..., queries, width]` and the weights `[..., queries, keys]`; each row of
        the weights sums to 1.

    Raises:
        RuntimeError: PyTorch's own, when shapes do not fit each other or the mask is not boolean.
    """
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if mask is not None:
        scores = scores.masked_fill(mask, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


def padding_mask(ids: Tensor, pad: int = 0) -> Tensor:
    """Block the keys that are padding.

    Args:
        ids: token ids `[batch, seq]`, integers.
        pad: the id of the padding token.

    Returns:
        Boolean `[batch, 1, seq]`, True at padding. The middle dimension makes one row of keys
        serve every query of the same sequence.
    """
    return (ids == pad).unsqueeze(1)


def causal_mask(n: int) -> Tensor:
    """Block the keys that come after the query.

    Args:
        n: the number of tokens, at least 0.

    Returns:
        Boolean `[n, n]`, True strictly above the diagonal: every query keeps its own key.
    """
    return torch.ones(n, n, dtype=torch.bool).triu(diagonal=1)
