"""PyTorch's own layers: how each is made, and what the probes must find in it, with the reason."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import nn


@dataclass(frozen=True)
class Own:
    """One of PyTorch's layers, with the faults it has today by the probe that finds each."""

    name: str
    make: Callable[[], nn.Module]
    reasons: dict[str, str]


def _layer() -> nn.TransformerEncoderLayer:
    return nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)


PYTORCH = (
    Own(
        "nn.MultiheadAttention",
        lambda: nn.MultiheadAttention(24, 4, batch_first=True),
        {
            "empty-rows": "with weights asked for, and in its fast path, a sample that is padded "
            "throughout comes out as nan (pytorch 160064)",
            "empty-gradients": "with weights asked for, that sample makes every gradient of the "
            "projections nan (pytorch 41508)",
        },
    ),
    Own(
        "nn.TransformerEncoderLayer",
        _layer,
        {
            "modes": "its fast path reads every number of a float mask that is not 0 as blocked "
            "(pytorch 118628)",
            "empty-rows": "its fast path returns nan for a sample that is padded throughout",
        },
    ),
    Own(
        "nn.TransformerEncoder",
        lambda: nn.TransformerEncoder(_layer(), 2),
        {
            "modes": "its layers' fast path reads every number of a float mask that is not 0 as "
            "blocked (pytorch 118628)",
        },
    ),
)
