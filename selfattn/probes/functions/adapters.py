"""PyTorch's own functions, each called in its own sense of a mask."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from selfattn.probes.functions.setting import Function
from selfattn.probes.signatures import inside


def adapt(fn: Function, causal: bool, grouped: bool) -> tuple[Function, str]:
    """Give a function in the form `(q, k, v, blocked)`, and how it wants its mask."""
    from torch.nn.attention.flex_attention import flex_attention  # slow to import

    original = inside(fn)
    if original is F.scaled_dot_product_attention:
        note = "scaled_dot_product_attention wants attn_mask, True = may look (keep)"
        return _scaled_dot_product(fn, causal, grouped), note
    if original is flex_attention:
        note = "flex_attention wants a block mask whose function is True = may look (keep)"
        return _flex(fn, causal, grouped), note
    return fn, ""


def _scaled_dot_product(fn: Function, causal: bool, grouped: bool) -> Function:
    def call(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
        keep = None if blocked is None else ~blocked
        if causal and keep is not None:  # it refuses a mask beside the flag
            keep = keep & torch.ones_like(keep).tril(keep.shape[-1] - keep.shape[-2])
        result: Tensor = fn(
            q, k, v, attn_mask=keep, is_causal=causal and keep is None, enable_gqa=grouped
        )
        return result

    return call


def _flex(fn: Function, causal: bool, grouped: bool) -> Function:
    from torch.nn.attention.flex_attention import create_block_mask

    def call(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Any:
        block = None
        if blocked is not None or causal:
            size = (q.shape[-2], k.shape[-2])
            hidden = blocked if blocked is not None else torch.zeros(size, dtype=torch.bool)
            if causal:
                hidden = hidden | torch.ones(size, dtype=torch.bool).triu(1 + size[1] - size[0])
            block = create_block_mask(
                lambda b, h, i, j: ~hidden[i, j], None, None, *size, device=str(q.device)
            )
        return fn(q, k, v, block_mask=block, enable_gqa=grouped)

    return call
