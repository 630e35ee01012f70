"""Functions that are right for ordinary scores only."""

from torch import Tensor

from selfattn.probes.functions.faulty.fault import FunctionFault


def _scores(q: Tensor, k: Tensor) -> Tensor:
    scores: Tensor = q @ k.mT * q.shape[-1] ** -0.5
    return scores


def _share(weights: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    """Average values by what is left of the weights, made to sum to 1."""
    if blocked is not None:
        weights = weights.masked_fill(blocked, 0)
    return weights @ v / weights.sum(-1, keepdim=True).clamp(min=1e-7)


def _no_maximum(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return _share(_scores(q, k).exp(), v, blocked)


def _one_maximum(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    scores = _scores(q, k)
    return _share((scores - scores.max()).exp(), v, blocked)


def _clamped(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return _share(_scores(q, k).clamp(-50, 50).softmax(-1), v, blocked)


def _renormalised(q: Tensor, k: Tensor, v: Tensor, blocked: Tensor | None) -> Tensor:
    return _share(_scores(q, k).softmax(-1), v, blocked)


SCORES: tuple[FunctionFault, ...] = (
    FunctionFault("function: no maximum subtracted", _no_maximum, ("high-scores",)),
    FunctionFault("function: one maximum for all rows", _one_maximum, ("high-scores",)),
    FunctionFault("function: scores clamped", _clamped, ("high-scores",)),
    FunctionFault("function: renormalised after the mask", _renormalised, ("high-scores",)),
)
"""Wrong where scores are high."""
