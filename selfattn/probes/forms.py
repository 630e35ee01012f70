"""The ways to call a layer in which every claim must hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from selfattn.probes.calling import Adapted, Layer


@dataclass(frozen=True)
class Form:
    """One way to call the layer.

    Attributes:
        name: the way, in words.
        options: keywords for the call.
        layer: another function to call instead.
        train: in training mode, with dropout as it is.
        grad: with gradients enabled and asked for.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    layer: Layer | None = None
    train: bool = False
    grad: bool = False


PLAIN = Form("eval, no gradients")


def other_forms(adapted: Adapted, modules: list[nn.Module]) -> Iterator[Form]:
    """Give all ways to call a layer but the plain one."""
    yield Form("eval with gradients", grad=True)
    if modules and not any(map(_shares_a_batch, modules)):
        yield Form("training mode", train=True, grad=True)
    for name, options in adapted.forms.items():
        yield Form(name, options=dict(options))
        yield Form(f"{name}, with gradients", options=dict(options), grad=True)
    for name, layer in adapted.others.items():
        yield Form(name, layer=layer)
        yield Form(f"{name}, with gradients", layer=layer, grad=True)


def _shares_a_batch(module: nn.Module) -> bool:
    """Tell whether training mode mixes samples on purpose."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
