"""Small faulty layers, each one line away from a right one, with the probes that must find them.

Silent, all of them: no error, no nan where none is meant, the right shape. There is a module for
each kind of fault.
"""

from selfattn.probes.faulty import (
    axes,
    caches,
    documents,
    fills,
    gradients,
    modes,
    padding_masks,
    positions,
    softmax,
    triangles,
    windows,
)
from selfattn.probes.faulty.fault import Fault

KINDS = (
    triangles,
    padding_masks,
    fills,
    softmax,
    axes,
    positions,
    modes,
    gradients,
    windows,
    documents,
    caches,
)

FAULTS: tuple[Fault, ...] = tuple(fault for kind in KINDS for fault in kind.FAULTS)
"""All faulty layers."""

__all__ = ["FAULTS", "KINDS", "Fault"]
