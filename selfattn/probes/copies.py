"""Copies of a layer in another precision."""

import contextlib
import copy
import warnings
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import nn

from selfattn.probes.failures import LayerFailed
from selfattn.probes.report import ProbeError
from selfattn.probes.subject import Subject


@contextlib.contextmanager
def copy_in(subject: Subject, dtype: torch.dtype) -> Iterator[Subject]:
    """Give a copy of a layer in another dtype, with its claims and what is left of its time.

    Raises:
        LayerFailed: there is no copy that runs; only modules that are not scripted have one.
    """
    layer = subject.layer
    name = str(dtype).removeprefix("torch.")
    if not isinstance(layer, nn.Module) or isinstance(layer, torch.jit.ScriptModule):
        raise LayerFailed(f"no copy in {name} can be made of what is no plain module")
    budget = max(subject.budget.left, 1e-3)
    # Functions that were given, as for packed documents, call the layer itself and no copy.
    packed = subject.claims.packed is True
    claims = replace(
        subject.claims, dtype=dtype, budget=budget, forms={}, packed=packed, cache=False
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wide = copy.deepcopy(layer).to(dtype)
        copied = Subject(wide, claims)
    except (ProbeError, RuntimeError, TypeError) as error:
        first = str(error).split("\n")[0]
        raise LayerFailed(f"no copy in {name} runs: {first}") from error
    with copied:
        yield copied
