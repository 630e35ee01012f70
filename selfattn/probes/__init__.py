"""Probes: is your attention silently wrong?

    from selfattn.probes import probe

    report = probe(layer, width=24, causal=True)
    print(report)

Names load on first use, so that importing the package does not import torch.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selfattn.probes.effective import effective_mask
    from selfattn.probes.functions.run import probe_attention
    from selfattn.probes.report import ClaimError, Finding, ProbeError, Report
    from selfattn.probes.run import assert_sound, probe

_HOMES = {
    "ClaimError": "report",
    "Finding": "report",
    "ProbeError": "report",
    "Report": "report",
    "assert_sound": "run",
    "effective_mask": "effective",
    "probe": "run",
    "probe_attention": "functions.run",
}

__all__ = [
    "ClaimError",
    "Finding",
    "ProbeError",
    "Report",
    "assert_sound",
    "effective_mask",
    "probe",
    "probe_attention",
]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(importlib.import_module(f"selfattn.probes.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'selfattn.probes' has no attribute {name!r}")
