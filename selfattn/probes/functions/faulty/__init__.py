"""Faulty attention functions, each one line away from the formula, for `probe_attention`.

They take `(q, k, v, blocked)`, with blocked a bool `[queries, keys]`, True = must not look.
"""

from selfattn.probes.functions.faulty.fault import FunctionFault, attend, attend_causally
from selfattn.probes.functions.faulty.modes import MODES
from selfattn.probes.functions.faulty.scores import SCORES
from selfattn.probes.functions.faulty.sizes import SIZES
from selfattn.probes.functions.faulty.weights import WEIGHTS

FUNCTION_FAULTS: tuple[FunctionFault, ...] = (*WEIGHTS, *SIZES, *SCORES, *MODES)
"""All faulty functions."""

__all__ = ["FUNCTION_FAULTS", "FunctionFault", "attend", "attend_causally"]
