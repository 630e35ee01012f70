"""The random states of torch, numpy and Python: set from one seed, kept and put back."""

import random
from typing import Any

import numpy as np
import torch


def reseed(seed: int) -> None:
    """Start all three from a seed of any size."""
    torch.manual_seed(seed % 2**63)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def drew(seed: int) -> bool:
    """Tell whether torch drew something since `reseed`."""
    fresh = torch.Generator().manual_seed(seed % 2**63)
    return not torch.equal(torch.get_rng_state(), fresh.get_state())


def kept() -> tuple[Any, ...]:
    """Give the states as they are, for `put_back`."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return torch.get_rng_state(), random.getstate(), np.random.get_state(), cuda


def put_back(states: tuple[Any, ...]) -> None:
    """Set the states to what `kept` gave."""
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state_all(states[3])
