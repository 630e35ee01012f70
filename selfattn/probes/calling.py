"""How a layer is called: as `(x, blocked)`, whatever its own words for that are."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError
from selfattn.probes.signatures import Parameters, inside, parameters_of, positional, required

Layer = Callable[..., Any]

WEIGHTS = (
    "need_weights",
    "return_weights",
    "return_attention",
    "return_attn",
    "return_attention_weights",
    "output_attentions",
    "with_weights",
    "need_attn",
)
"""Names of parameters by which layers are asked for their weights."""

MASKS = ("blocked", "key_padding_mask", "src_key_padding_mask", "padding_mask", "pad_mask", "mask")
"""Names of parameters that take the mask, wherever they stand; the first that there is."""

SEQUENCES = ("memory", "context", "key", "keys", "k", "encoder_hidden_states", "tgt")
"""Names of second parameters that take another sequence, and no mask."""


@dataclass(frozen=True)
class Adapted:
    """A layer in the form that the probes call.

    Attributes:
        name: what it is, in words.
        call: `(x [batch, seq, width], blocked bool [batch, seq] or None, **options)`.
        forms: options of other calls that must give the same, by name.
        others: other functions `(x, blocked)` that must give the same, by name.
        packed, cache: `(x, ids)` and `(x, cache)`, if claimed.
        biased: `(x, blocked)` with a finite bias by distance added to the scores, if it takes one.
        note: how the layer wants its mask.
    """

    name: str
    call: Layer
    forms: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    others: Mapping[str, Layer] = field(default_factory=dict)
    packed: Layer | None = None
    cache: Layer | None = None
    biased: Layer | None = None
    note: str = ""


def adapt_callable(layer: Layer, claims: Claims) -> Adapted:
    """Adapt a callable that takes `(x, blocked)` itself.

    Raises:
        ProbeError: it is no callable, or its parameters do not fit what is claimed.
    """
    if not callable(layer):
        raise ProbeError(
            f"a layer must be callable as (x, blocked); got {type(layer).__name__}. "
            "Pass the layer itself, or a function that calls it."
        )
    words = parameters_of(layer)
    forms = {
        f"{name}={not words[name].default}": {name: not words[name].default}
        for name in WEIGHTS
        if name in words and isinstance(words[name].default, bool)
    }
    return Adapted(
        name_of(layer),
        _with_mask(layer, words) if claims.mask else _without_mask(layer, words),
        forms,
        dict(claims.forms),
        _packed(layer, claims, words),
        _cached(layer, claims, words),
    )


def name_of(layer: Any) -> str:
    """Name a layer: a function by its name, anything else by its type."""
    layer = inside(layer)
    return str(getattr(layer, "__name__", None) or type(layer).__name__)


def first_tensor(result: Any) -> Any:
    """Give the output out of what a layer returned: itself, or the first tensor in it."""
    if isinstance(result, Tensor):
        return result
    state = getattr(result, "last_hidden_state", None)
    if isinstance(state, Tensor):
        return state
    parts = result.values() if isinstance(result, Mapping) else result
    if isinstance(result, Mapping | tuple | list):
        for part in parts:
            if isinstance(part, Tensor):
                return part
            if isinstance(part, tuple | list):
                return first_tensor(part)
    return result


def _with_mask(layer: Layer, words: Parameters) -> Layer:
    name = next((name for name in MASKS if name in list(words)[1:]), None)
    second = positional(words)[1:2]
    taken = name or (second[0].name if second and second[0].name not in SEQUENCES else None)
    _check_required(layer, words, taken)
    if words and taken is None:
        raise ProbeError(
            f"{name_of(layer)} takes ({', '.join(words)}) and no mask; expected (x, blocked). "
            "Say mask=False if it has none, or pass a function that hands the mask on."
        )
    if name and name not in [word.name for word in positional(words)[:2]]:
        return lambda x, blocked, **options: layer(x, **{name: blocked}, **options)
    return layer


def _without_mask(layer: Layer, words: Parameters) -> Layer:
    second = required(words)[1:2]
    _check_required(layer, words, *second)
    if second:
        return lambda x, blocked, **options: layer(x, None, **options)
    return lambda x, blocked, **options: layer(x, **options)


def _check_required(layer: Layer, words: Parameters, mask: str | None = None) -> None:
    """Look for required parameters besides x and the mask.

    Raises:
        ProbeError: there are.
    """
    more = [name for name in required(words)[1:] if name != mask]
    if more:
        raise ProbeError(
            f"{name_of(layer)} takes ({', '.join(words)}) and requires {' and '.join(more)}; "
            "expected (x, blocked). Wrap it in a function (x, blocked) that gives it the rest; "
            "probe_attention is for functions of queries, keys and values."
        )


def _packed(layer: Layer, claims: Claims, words: Parameters) -> Layer | None:
    if claims.packed is True:
        if "documents" in words:
            return lambda x, ids: layer(x, None, documents=ids)
        _third(layer, words, "packed=True", "documents")
        return lambda x, ids: layer(x, None, ids)
    return claims.packed or None


def _cached(layer: Layer, claims: Claims, words: Parameters) -> Layer | None:
    if claims.cache is True:
        _third(layer, words, "cache=True", "cache")
        return lambda x, cache: layer(x, None, cache)
    return claims.cache or None


def _third(layer: Layer, words: Parameters, claim: str, name: str) -> None:
    """Look for a third argument.

    Raises:
        ProbeError: there is none.
    """
    if words and len(positional(words)) < 3:
        raise ProbeError(
            f"{claim} is claimed, and {name_of(layer)} takes ({', '.join(words)}) alone; expected "
            f"(x, blocked, {name})"
        )
