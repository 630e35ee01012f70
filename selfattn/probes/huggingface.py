"""Hugging Face's models, by their configuration; nothing is downloaded.

They take vectors as `inputs_embeds`, a mask in the opposite sense (1 = keep), and, where they
accept `position_ids`, places counted from the first real token: left to themselves, models with
absolute positions count pads too.
"""

import inspect
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from selfattn.probes.calling import Adapted
from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError

CACHES = ("past_key_values", "cache")
"""What models call their cache, as a parameter and in their result."""

WIDTHS = ("hidden_size", "n_embd", "d_model", "dim")


def adapt_model(model: nn.Module, claims: Claims) -> tuple[Adapted, Claims]:
    """Call a model with vectors, a mask of ones and zeros, and places.

    Raises:
        ProbeError: the model takes no `inputs_embeds`, or its configuration names no width.
    """
    config: Any = model.config
    words = inspect.signature(model.forward).parameters
    if "inputs_embeds" not in words:
        raise ProbeError(f"{type(model).__name__} takes no inputs_embeds; pass one of its layers")
    width = next((getattr(config, name) for name in WIDTHS if hasattr(config, name)), None)
    if not isinstance(width, int):
        raise ProbeError(f"the configuration names no width, as one of {', '.join(WIDTHS)}")
    causal = any(getattr(module, "is_causal", False) for module in model.modules())
    relative = any("rotary" in type(m).__name__.lower() for m in model.modules())
    by_mask = relative or "position_ids" in words

    def call(x: Tensor, blocked: Tensor | None, **options: Any) -> Any:
        given: dict[str, Any] = {"use_cache": False} if hasattr(config, "use_cache") else {}
        if blocked is not None:
            given["attention_mask"] = (~blocked).long()
            if "position_ids" in words:
                given["position_ids"] = ((~blocked).cumsum(1) - 1).clamp_min(0)
        return model(inputs_embeds=x, **given, **options)

    def step(x: Tensor, cache: Any) -> Any:
        result = model(inputs_embeds=x, **{str(past): cache}, use_cache=True)
        return result[0], next(result[name] for name in CACHES if name in result)

    past = next((name for name in CACHES if name in words), None)
    cached = causal and past is not None and hasattr(config, "use_cache")
    adapted = Adapted(
        type(model).__name__,
        call,
        {"weights asked for": {"output_attentions": True}},
        dict(claims.forms),
        cache=step if cached else None,
        note=f"{type(model).__name__} wants attention_mask, 1 = may look (keep)"
        + (", and position_ids counted from the first real token" if by_mask else ""),
    )
    completed = replace(
        claims,
        width=width,
        causal=causal,
        cache=step if cached else False,
        positions=claims.positions or (True if by_mask else "absolute"),
        window=claims.window or getattr(config, "sliding_window", None),
        heads=None,
    )
    return adapted, completed
