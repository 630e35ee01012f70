"""The parameters of a layer, by name."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import nn

Parameters = dict[str, inspect.Parameter]

WRAPPED = ("_orig_mod", "_torchdynamo_orig_callable")
"""Where torch.compile keeps what it compiled."""

SPREAD = (nn.DataParallel, nn.parallel.DistributedDataParallel)


def inside(layer: Callable[..., Any]) -> Any:
    """Look into what compiles or spreads a layer: what is in it tells how to call it."""
    while True:
        names = ("module",) if isinstance(layer, SPREAD) else WRAPPED
        found = [part for name in names if callable(part := getattr(layer, name, None))]
        if not found:
            return layer
        layer = found[0]


def parameters_of(layer: Callable[..., Any]) -> Parameters:
    """Give the parameters by name; none when they cannot be found, or when any will do."""
    layer = inside(layer)
    target = layer.forward if isinstance(layer, nn.Module) else layer
    schema = getattr(target, "schema", None)  # of what is scripted
    if schema is not None and hasattr(schema, "arguments"):
        return _scripted(schema)
    try:
        words = dict(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        return {}
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {} if any(p.kind == loose[0] for p in words.values()) else words


def _scripted(schema: Any) -> Parameters:
    kind, empty = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    return {
        argument.name: inspect.Parameter(
            argument.name,
            kind,
            default=argument.default_value if argument.has_default_value() else empty,
        )
        for argument in schema.arguments
        if argument.name != "self"
    }


def positional(words: Parameters) -> list[inspect.Parameter]:
    """Give those that may be handed over by place."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [word for word in words.values() if word.kind in kinds]


def required(words: Parameters) -> list[str]:
    """Give the names of those without a default."""
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        word.name
        for word in words.values()
        if word.default is inspect.Parameter.empty and word.kind not in loose
    ]
