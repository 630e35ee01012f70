"""The random states of torch, numpy and Python: set from one seed, kept and put back.

Those of generators that a layer has for itself are kept and put back too.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

SOURCES = (
    torch.Generator,
    random.Random,
    np.random.Generator,
    np.random.BitGenerator,
    np.random.RandomState,
)
"""Types of objects that draw, each with a state of its own."""


@dataclass(frozen=True)
class Source:
    """An object that draws, with the state it had."""

    state: Any
    set_state: Callable[[Any], object]

    def put_back(self) -> None:
        self.set_state(self.state)


def source_of(thing: Any) -> Source | None:
    """Keep the state of an object that draws; None for anything else."""
    if not isinstance(thing, SOURCES) or isinstance(thing, random.SystemRandom):
        return None
    if isinstance(thing, torch.Generator | np.random.RandomState):
        return Source(thing.get_state(), thing.set_state)
    if isinstance(thing, random.Random):
        return Source(thing.getstate(), thing.setstate)
    bits = thing.bit_generator if isinstance(thing, np.random.Generator) else thing
    return Source(bits.state, lambda state: setattr(bits, "state", state))


def reseed(seed: int) -> None:
    """Start all three from a seed of any size."""
    if torch.accelerator.is_available():
        torch.manual_seed(seed % 2**63)
    else:  # the former also queues a call, with its traceback, for every kind of device
        torch.default_generator.manual_seed(seed % 2**63)
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
