"""What a layer holds, put back before every call and in the end, in each of its modes."""

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from selfattn.probes.kept import KeptGradient
from selfattn.probes.snapshot import Snapshot


class State:
    """A layer's state as it was given, and as every call in one mode starts from it.

    A mode is entered from the state as given: a layer may do more in `train()` and `eval()` than
    set a flag, such as merge two weights into one.

    Attributes:
        closely: whether numbers are compared before every call, and not only autograd's versions.
        one_mode: whether a part of it refuses to change its mode, so that it stays as given.
    """

    def __init__(self, layer: Any) -> None:
        self._layer = layer
        self._given = self._now = Snapshot(layer)
        self._gradients = [KeptGradient(tensor) for tensor in self.tensors if tensor.is_leaf]
        self._modes: dict[bool, Snapshot] = {}
        self._mode: bool | None = None
        self._held: list[tuple[nn.Module, str, Any]] = []
        self._numbers: list[tuple[Tensor, Tensor]] = []
        self.closely, self.one_mode = True, False

    @property
    def modules(self) -> list[nn.Module]:
        return self._given.modules

    @property
    def tensors(self) -> list[Tensor]:
        return [kept.tensor for kept in self._given.tensors]

    @property
    def parameters(self) -> list[Tensor]:
        """All floating-point tensors that take gradients."""
        return [t for t in self.tensors if t.requires_grad and t.is_floating_point()]

    @property
    def sly(self) -> bool:
        """Whether a call changed numbers behind autograd."""
        return any(seen.sly for seen in self._modes.values())

    def train(self, mode: bool) -> None:
        """Put every module in a mode, from the state as given."""
        if self._mode is mode:
            return
        self._mode = None
        self._given.put_back(everything=False, closely=True)
        self._switch(mode)
        if mode not in self._modes:
            self._modes[mode] = Snapshot(self._layer, self._given)
        self._now, self._mode = self._modes[mode], mode
        self.restore(everything=False)

    def _switch(self, mode: bool) -> None:
        try:
            for root in self._given.roots:
                root.train(mode)
        except NotImplementedError:  # as of exported programs
            self.one_mode = True
            self._given.put_back(everything=False, closely=True)

    def changed(self) -> list[str]:
        """Name what is not as it was."""
        return self._now.changed()

    def hold(self, held: list[tuple[nn.Module, str, Any]]) -> None:
        """Give attributes other values, in all calls until the next `hold`."""
        self._held = held
        self._mode = None

    @contextlib.contextmanager
    def numbers(self, others: list[tuple[Tensor, Tensor]]) -> Iterator[None]:
        """Let tensors of the layer have the numbers of others, in all calls, for a while."""
        before = [(tensor, tensor.detach().clone()) for tensor, _ in others]
        self._numbers = others
        try:
            _write(others)
            yield
        finally:
            self._numbers = []
            _write(before)

    def restore(self, *, everything: bool) -> None:
        """Put back what every call in this mode starts from; see `Snapshot.put_back`."""
        self._now.put_back(everything=everything, closely=self.closely)
        for gradient in self._gradients:
            gradient.put_back(closely=False)
        for module, name, value in self._held:
            setattr(module, name, value)
        _write(self._numbers)

    def finish(self, *, everything: bool) -> None:
        """Put everything back as it was given, gradients too."""
        self._given.put_back(everything=everything, closely=True)
        for gradient in self._gradients:
            gradient.put_back(closely=True)


def _write(pairs: list[tuple[Tensor, Tensor]]) -> None:
    """Write numbers into tensors behind autograd, which would count a change of the layer's own."""
    for tensor, numbers in pairs:
        tensor.data.copy_(numbers)
