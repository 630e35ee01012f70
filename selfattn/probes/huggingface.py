"""Hugging Face's models, by their configuration; nothing is downloaded.

They take vectors as `inputs_embeds`, a mask in the opposite sense (1 = keep), and, where they
accept `position_ids`, places counted from the first real token: left to themselves, models with
absolute positions count pads too.
"""

import inspect
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from selfattn.probes.calling import Adapted, Layer
from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError

CACHES = ("past_key_values", "cache")
"""What models call their cache, as a parameter and in their result."""

WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")

FARTHEST = 128
"""The longest reach of a stack that is claimed; a longer one takes too many tokens to try."""


def adapt_model(layer: Layer, model: nn.Module, claims: Claims) -> tuple[Adapted, Claims]:
    """Call a model with vectors, a mask of ones and zeros, and places.

    `layer` is what is called: the model, or what compiles it.

    What the user claims wins over the configuration.

    Raises:
        ProbeError: the model takes no `inputs_embeds`, needs a decoder's input too, or its
            configuration names no width.
    """
    config: Any = model.config
    words = inspect.signature(model.forward).parameters
    width = _width(model, words)
    causal = claims.causal or _is_causal(model)
    relative = any("rotary" in type(m).__name__.lower() for m in model.modules())
    by_mask = relative or "position_ids" in words
    first = _first_place(model)

    def call(x: Tensor, blocked: Tensor | None, **options: Any) -> Any:
        given: dict[str, Any] = {"use_cache": False} if hasattr(config, "use_cache") else {}
        if blocked is not None:
            given["attention_mask"] = (~blocked).long()
            if "position_ids" in words:
                given["position_ids"] = ((~blocked).cumsum(1) - 1).clamp_min(0) + first
        return layer(inputs_embeds=x, **given, **options)

    def step(x: Tensor, cache: Any) -> Any:
        result = layer(inputs_embeds=x, **{str(past): cache}, use_cache=True)
        return result[0], next(result[name] for name in CACHES if name in result)

    past = next((name for name in CACHES if name in words), None)
    cached = causal and past is not None and hasattr(config, "use_cache")
    reach = _reach(config) if causal else None
    adapted = Adapted(
        type(model).__name__,
        call,
        {"weights asked for": {"output_attentions": True}},
        dict(claims.forms),
        cache=step if cached else None,
        note=f"{type(model).__name__} wants attention_mask, 1 = may look (keep)"
        + (", and position_ids counted from the first real token" if by_mask else "")
        + (f"; its stack sees {reach} keys back, too far to try" if _too_far(reach) else ""),
    )
    completed = replace(
        claims,
        width=width,
        causal=causal,
        cache=step if cached else False,
        positions=claims.positions or (True if by_mask else "absolute"),
        window=claims.window or (None if _too_far(reach) else reach),
        heads=None,
    )
    return adapted, completed


def _width(model: nn.Module, words: Any) -> int:
    name = type(model).__name__
    if "inputs_embeds" not in words:
        raise ProbeError(
            f"{name} takes no inputs_embeds, as a whole model of text does; wrap it in a function "
            "(x, blocked) that calls it with its own kind of mask and returns the output"
        )
    if "decoder_input_ids" in words or "decoder_inputs_embeds" in words:
        raise ProbeError(f"{name} is an encoder and a decoder; pass one of them, as model.encoder")
    config: Any = model.config
    width = next((getattr(config, name) for name in WIDTHS if hasattr(config, name)), None)
    if not isinstance(width, int):
        raise ProbeError(f"the configuration names no width, as one of {', '.join(WIDTHS)}")
    return width


def _is_causal(model: nn.Module) -> bool:
    """Tell by the attention's own flag, or by the library's list of causal language models.

    That list has encoders too, which can be made decoders; their configuration says so.
    """
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    if any(getattr(module, "is_causal", False) for module in model.modules()):
        return True
    config: Any = model.config
    both_ways = getattr(config, "use_bidirectional_attention", False)
    decodes = hasattr(config, "use_cache") and getattr(config, "is_decoder", True)
    listed = getattr(config, "model_type", None) in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    return bool(listed and decodes and not both_ways)


def _first_place(model: nn.Module) -> int:
    """Give the position of the first real token: RoBERTa and its kin keep those up to the pad's."""
    for name, module in model.named_modules():
        if name.endswith("position_embeddings") and isinstance(module, nn.Embedding):
            return 0 if module.padding_idx is None else module.padding_idx + 1
    return 0


def _reach(config: Any) -> int | None:
    """Give how many keys back a whole stack sees, if every layer has a window."""
    window = getattr(config, "sliding_window", None)
    layers = getattr(config, "num_hidden_layers", None)
    kinds = getattr(config, "layer_types", None) or ()
    if window is None or layers is None or any(kind != "sliding_attention" for kind in kinds):
        return None
    return 1 + int(layers) * (int(window) - 1)


def _too_far(reach: int | None) -> bool:
    return reach is not None and reach > FARTHEST
