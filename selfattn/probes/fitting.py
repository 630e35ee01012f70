"""Whether a layer can be asked at all, and whether it fits what is claimed of it."""

import inspect
from dataclasses import replace
from typing import Any

import torch.nn.functional as F
from torch import nn

from selfattn.probes.calling import Adapted, name_of
from selfattn.probes.claims import Claims
from selfattn.probes.report import ClaimError, ProbeError
from selfattn.probes.signatures import inside

LIBRARY_CALLS: dict[type[nn.Module], tuple[int, tuple[str, ...]]] = {
    nn.MultiheadAttention: (3, ("key_padding_mask", "attn_mask", "need_weights")),
    nn.TransformerEncoderLayer: (1, ("src_key_padding_mask", "src_mask")),
    nn.TransformerEncoder: (1, ("src_key_padding_mask", "mask")),
}
"""How PyTorch's own layers are called: how many sequences, and which keywords."""


def check_layer(layer: Any) -> None:
    """Look for what is no self-attention layer.

    Raises:
        ProbeError: it is a class, takes queries, keys and values, or takes two sequences.
    """
    layer = inside(layer)
    if inspect.isclass(layer):
        raise ProbeError(
            f"{layer.__name__} is a class and no layer; pass one that is made from it, as "
            f"{layer.__name__}(...), or a function (x, blocked)"
        )
    if layer is F.scaled_dot_product_attention or layer is F.multi_head_attention_forward:
        raise ProbeError(
            f"{name_of(layer)} takes queries, keys and values, and a layer takes (x, blocked); "
            "probe it with probe_attention, or wrap it in a function (x, blocked)"
        )
    if isinstance(layer, nn.MultiheadAttention) and not has_own_call(layer):
        sizes = {"embed_dim": layer.embed_dim, "kdim": layer.kdim, "vdim": layer.vdim}
        if len(set(sizes.values())) > 1:
            said = ", ".join(f"{name} {size}" for name, size in sizes.items())
            raise ProbeError(
                f"{name_of(layer)} has {said}, so it cannot attend to its own input; wrap it in a "
                "function (x, blocked) that makes its keys and values"
            )


def has_own_call(layer: Any) -> bool:
    """Tell whether a subclass of PyTorch's has a `forward` that is not called as its parent's."""
    layer = inside(layer)
    for kind, (sequences, words) in LIBRARY_CALLS.items():
        if isinstance(layer, kind) and type(layer).forward is not kind.forward:
            try:
                inspect.signature(layer.forward).bind(*[None] * sequences, **dict.fromkeys(words))
            except TypeError:
                return True
    return False


def agreed(adapted: Adapted, given: Claims, completed: Claims) -> tuple[Adapted, Claims]:
    """Look whether an adapter honours what was given to it, and let functions that were given win.

    Raises:
        ClaimError: it does not, or the layer's own sizes contradict what was given.
    """
    for name in ("width", "heads"):
        wanted, has = getattr(given, name), getattr(completed, name)
        if has not in (None, wanted) and wanted != getattr(Claims(), name):
            raise ClaimError(
                f"{name}={wanted} is claimed, and {adapted.name} has {has}; leave {name} out"
            )
    for name, third in (("packed", "documents"), ("cache", "cache")):
        wanted = getattr(given, name)
        if callable(wanted):
            adapted = replace(adapted, **{name: wanted})
            completed = replace(completed, **{name: wanted})
        elif wanted and getattr(adapted, name) is None:
            raise ClaimError(
                f"{name}=True is claimed, and {adapted.name} is called without; wrap it in a "
                f"function (x, blocked, {third}), or leave {name} out"
            )
    return adapted, completed
