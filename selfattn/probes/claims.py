"""What a layer claims of itself. Only what it claims is judged."""

import difflib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from selfattn.probes.report import ClaimError


@dataclass(frozen=True)
class Claims:
    """The claims, with what holds of a plain bidirectional layer as defaults.

    Attributes:
        width: the last dimension of the input.
        causal: no output depends on a later token.
        positions: False: the layer is blind to order. True: order matters, and positions do not
            depend on padding on the left (relative, or derived from the mask). "absolute": order
            matters, and nothing else is claimed.
        heads: how many query heads there are, if known; sizes are then chosen to differ from it,
            and to be equal to it on purpose.
        seed: of everything that is drawn.
        mask: True: takes `blocked` with pads on either side. "right": with pads on the right
            only. False: takes no mask.
        window: how many keys back a query sees, its own counted, so that 1 is itself alone; to
            both sides when not causal. A stack of n layers of window w has 1 + n * (w - 1).
        full: every token that causal, window and packed leave is looked at. False: others are
            hidden by place too, as in block-local, dilated or global-token attention.
        seq: the only length that it takes. None: try which it takes.
        packed: the layer keeps documents apart that share a row. True: it takes their ids
            `[batch, seq]` (int64, 0, 1, ...) as third argument, or by the keyword `documents`.
            Or a function `(x, ids)` that gives its output.
        cache: the layer decodes in chunks. True: `layer(x, None, cache)` returns the pair of
            output and cache, and starts from None. Or a function `(x, cache)` that does.
        forms: other ways to call the same layer, by name: functions `(x, blocked)` that must give
            what the layer gives, such as with an additive mask.
        sums_to_one: the weights of a query over the tokens sum to 1. Not so with sinks, registers,
            an extra key, or attention without a softmax.
        estimated: its gradients are estimates on purpose, as with a straight-through step.
        bare: nothing but linear maps around the attention, so that with one token the layer is
            affine in it. None: look at which functions it calls.
        factory: a function from a width to a fresh layer; the scale is judged with it.
        dtype, device: those of the input; None: those of the layer's first parameter.
        budget: seconds for all probes together; on a busy machine, those in which it could run.
    """

    width: int = 24
    causal: bool = False
    positions: bool | str = False
    heads: int | None = None
    seed: int = 0
    mask: bool | str = True
    window: int | None = None
    full: bool = True
    seq: int | None = None
    packed: bool | Callable[..., Any] = False
    cache: bool | Callable[..., Any] = False
    forms: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    sums_to_one: bool = True
    estimated: bool = False
    bare: bool | None = None
    factory: Callable[[int], Callable[..., Any]] | None = None
    dtype: Any = None
    device: Any = None
    budget: float = 30.0

    def __post_init__(self) -> None:
        _check_values(self)
        _check_together(self)

    def said(self) -> dict[str, Any]:
        """Give the claims that differ from the defaults, as plain values."""
        plain = Claims()
        return {
            f.name: _in_words(getattr(self, f.name))
            for f in fields(self)
            if f.name != "budget" and getattr(self, f.name) != getattr(plain, f.name)
        }

    def allows(self, query: int, key: int) -> bool:
        """Tell whether a query may look at a key, by their places."""
        if self.causal and key > query:
            return False
        return self.window is None or abs(query - key) < self.window


def claims_of(**given: Any) -> Claims:
    """Make claims from keywords.

    Raises:
        ClaimError: a claim is unknown, has a wrong value, or contradicts another.
    """
    known = [f.name for f in fields(Claims)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ClaimError(f"unknown claim {name!r}{hint} Known are {', '.join(known)}.")
    return Claims(**given)


def _check_values(claims: Claims) -> None:
    wrong = [
        (not is_count(claims.width), "width", "a whole number of at least 1"),
        (claims.causal not in (True, False), "causal", "True or False"),
        (claims.positions not in (True, False, "absolute"), "positions", 'False, True, "absolute"'),
        (not (claims.heads is None or is_count(claims.heads)), "heads", "a whole number from 1"),
        (not isinstance(claims.seed, int), "seed", "a whole number"),
        (claims.mask not in (True, False, "right"), "mask", 'True, "right" or False'),
        (not (claims.window is None or is_count(claims.window)), "window", "a whole number from 1"),
        (claims.full not in (True, False), "full", "True or False"),
        (not (claims.seq is None or is_count(claims.seq)), "seq", "a whole number from 1"),
        (not _flag_or_callable(claims.packed), "packed", "True, False or a function (x, ids)"),
        (not _flag_or_callable(claims.cache), "cache", "True, False or a function (x, cache)"),
        (not _functions(claims.forms), "forms", "a dict from names to functions (x, blocked)"),
        (claims.sums_to_one not in (True, False), "sums_to_one", "True or False"),
        (claims.estimated not in (True, False), "estimated", "True or False"),
        (claims.bare not in (True, False, None), "bare", "True, False or None"),
        (not (claims.factory is None or callable(claims.factory)), "factory", "a function (width)"),
        (not is_positive(claims.budget), "budget", "a number of seconds above 0"),
    ]
    for is_wrong, name, expected in wrong:
        if is_wrong:
            raise ClaimError(f"{name} must be {expected}; got {getattr(claims, name)!r}")


def _check_together(claims: Claims) -> None:
    if claims.heads and claims.width % claims.heads:
        raise ClaimError(f"width {claims.width} cannot be shared by {claims.heads} heads")
    if claims.cache and not claims.causal:
        raise ClaimError(
            "cache and causal=False contradict each other: an output that depends on later tokens "
            "cannot be computed before they come; say causal=True, or leave cache out"
        )


def is_count(value: Any, least: int = 1) -> bool:
    """Tell whether a claim is a whole number from `least` on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_positive(value: Any) -> bool:
    """Tell whether a claim is a finite number above 0."""
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _flag_or_callable(value: Any) -> bool:
    return value is True or value is False or callable(value)


def _functions(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and callable(function) for name, function in value.items()
    )


def _in_words(value: Any) -> Any:
    if isinstance(value, Mapping):
        return sorted(value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return value if isinstance(value, bool | int | float | str) or value is None else str(value)
