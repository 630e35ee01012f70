"""Layers of libraries, found by their type and called in their own way."""

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from selfattn.probes.calling import Adapted, Layer, adapt_callable
from selfattn.probes.claims import Claims
from selfattn.probes.signatures import inside


def adapt(layer: Layer, claims: Claims) -> tuple[Adapted, Claims]:
    """Put a layer into the form that the probes call, and complete its claims.

    Raises:
        ProbeError: it does not fit what is claimed.
    """
    known = inside(layer)
    for kind, adapter in ADAPTERS.items():
        if isinstance(known, kind):
            return adapter(layer, known, claims)
    if _is_hugging_face(known):
        from selfattn.probes.huggingface import adapt_model

        return adapt_model(layer, known, claims)
    return adapt_callable(layer, claims), claims


def triangle(x: Tensor) -> Tensor:
    """Give `[seq, seq]`, True strictly above the diagonal."""
    seq = x.shape[1]
    return torch.ones(seq, seq, dtype=torch.bool, device=x.device).triu(1)


def additive(blocked: Tensor | None, x: Tensor) -> Tensor | None:
    """Give 0 where a token may be looked at and minus infinity where not, in x's dtype."""
    if blocked is None:
        return None
    return torch.zeros(blocked.shape, dtype=x.dtype, device=x.device).masked_fill(
        blocked, float("-inf")
    )


def _multi_head(
    layer: Layer, known: nn.MultiheadAttention, claims: Claims
) -> tuple[Adapted, Claims]:
    def call(
        x: Tensor, blocked: Tensor | None, need_weights: bool = False, numbers: bool = False
    ) -> Tensor:
        mask = triangle(x) if claims.causal else None
        if numbers:
            blocked, mask = additive(blocked, x), additive(mask, x)
        turned = x if known.batch_first else x.transpose(0, 1)
        out: Tensor = layer(
            turned,
            turned,
            turned,
            key_padding_mask=blocked,
            attn_mask=mask,
            need_weights=need_weights,
        )[0]
        return out if known.batch_first else out.transpose(0, 1)

    extra = known.bias_k is not None or known.add_zero_attn
    claims = replace(
        claims,
        width=known.embed_dim,
        heads=known.num_heads,
        sums_to_one=claims.sums_to_one and not extra,
    )
    forms = {
        "weights asked for": {"need_weights": True},
        "mask of numbers": {"numbers": True},
    }
    note = "MultiheadAttention wants key_padding_mask, True or minus infinity = must not look"
    return Adapted("MultiheadAttention", call, forms, dict(claims.forms), note=note), claims


def _encoder_layer(
    layer: Layer, known: nn.TransformerEncoderLayer, claims: Claims
) -> tuple[Adapted, Claims]:
    return _encoder(layer, "TransformerEncoderLayer", known, "src_mask", claims)


def _encoder_stack(
    layer: Layer, known: nn.TransformerEncoder, claims: Claims
) -> tuple[Adapted, Claims]:
    return _encoder(layer, "TransformerEncoder", known.layers[0], "mask", claims)


def _encoder(
    layer: Layer, name: str, one: Any, mask_name: str, claims: Claims
) -> tuple[Adapted, Claims]:
    """Adapt a layer or a stack; `one` is a layer of it."""
    batch_first = one.self_attn.batch_first
    claims = replace(claims, width=one.self_attn.embed_dim, heads=one.self_attn.num_heads)

    def call(x: Tensor, blocked: Tensor | None, numbers: bool = False, bias: float = 0.0) -> Tensor:
        mask = triangle(x) if claims.causal else None
        if numbers:
            blocked, mask = additive(blocked, x), additive(mask, x)
        if bias:
            mask, blocked = _distances(x, mask, bias), additive(blocked, x)
        turned = x if batch_first else x.transpose(0, 1)
        out: Tensor = layer(turned, src_key_padding_mask=blocked, **{mask_name: mask})
        return out if batch_first else out.transpose(0, 1)

    note = f"{name} wants src_key_padding_mask, True or minus infinity = must not look"
    adapted = Adapted(
        name,
        call,
        {"mask of numbers": {"numbers": True}},
        dict(claims.forms),
        biased=lambda x, blocked: call(x, blocked, bias=-0.5),
        note=note,
    )
    return adapted, claims


def _distances(x: Tensor, mask: Tensor | None, step: float) -> Tensor:
    """Give `[seq, seq]`: `step` for every place between two tokens, minus infinity at `mask`."""
    place = torch.arange(x.shape[1], device=x.device)
    bias = step * (place.unsqueeze(1) - place).abs().to(x.dtype)
    return bias if mask is None else bias.masked_fill(mask, float("-inf"))


def _is_hugging_face(layer: Any) -> TypeGuard[nn.Module]:
    """Tell a Hugging Face model without importing the library."""
    homes = (base.__module__.split(".")[0] for base in inspect.getmro(type(layer)))
    return isinstance(layer, nn.Module) and hasattr(layer, "config") and "transformers" in homes


ADAPTERS: dict[type, Callable[[Layer, Any, Claims], tuple[Adapted, Claims]]] = {
    nn.MultiheadAttention: _multi_head,
    nn.TransformerEncoderLayer: _encoder_layer,
    nn.TransformerEncoder: _encoder_stack,
}
