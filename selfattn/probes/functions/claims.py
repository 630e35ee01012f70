"""What is claimed of an attention function."""

from collections.abc import Callable
from typing import Any

import torch

from selfattn.probes.claims import is_count, is_positive
from selfattn.probes.report import ClaimError


def check(
    fn: Callable[..., Any],
    heads: int | None,
    key_heads: int | None,
    dim: int,
    scale: float | None,
    causal: bool,
    mask: bool,
    dtype: torch.dtype,
) -> None:
    """Look whether the claims make sense.

    Raises:
        ClaimError: one does not, or two contradict each other.
    """
    count = "a whole number from 1, or None"
    claims = [
        (callable(fn), "fn", "a function (q, k, v, blocked)", fn),
        (heads is None or is_count(heads), "heads", count, heads),
        (key_heads is None or is_count(key_heads), "key_heads", count, key_heads),
        (is_count(dim, 8), "dim", "a whole number from 8 on, so that one-hot values fit", dim),
        (scale is None or is_positive(scale), "scale", "a finite number above 0", scale),
        (isinstance(causal, bool), "causal", "True or False", causal),
        (isinstance(mask, bool), "mask", "True or False", mask),
        (_floating(dtype), "dtype", "a floating-point dtype, such as torch.float32", dtype),
    ]
    for is_right, name, expected, given in claims:
        if not is_right:
            raise ClaimError(f"{name} must be {expected}; got {given!r}")
    if heads is None and key_heads is not None:
        raise ClaimError(f"heads=None says that there are no heads, and key_heads is {key_heads}")
    if (heads or 1) % (key_heads or heads or 1):
        raise ClaimError(f"{heads} query heads cannot share {key_heads} key heads evenly")


def _floating(dtype: Any) -> bool:
    return isinstance(dtype, torch.dtype) and dtype.is_floating_point and dtype.itemsize > 1
