"""A tensor that a layer holds, and its gradient, kept with their numbers, to be put back."""

import torch
from torch import Tensor
from torch.nn.parameter import is_lazy

from selfattn.probes.report import ProbeError


class Kept:
    """A tensor and a copy of its numbers.

    Attributes:
        tensor: the layer's own.
        saved: the copy.

    Raises:
        ProbeError: the tensor has no numbers yet.
    """

    def __init__(self, tensor: Tensor, name: str, like: "Kept | None" = None) -> None:
        if is_lazy(tensor):
            raise ProbeError(f"{name} has a lazy parameter without a shape: call the layer once")
        if tensor.is_meta:
            raise ProbeError(
                f"{name} has a tensor on the meta device, which holds no numbers: give it a "
                "device with to_empty(device=...), and fill it"
            )
        self.tensor = tensor
        self._leaf, self._wants = tensor.is_leaf, tensor.requires_grad
        self._version = _version(tensor)
        unchanged = like is not None and like.tensor is tensor and like.holds()
        self.saved: Tensor = like.saved if like and unchanged else tensor.detach().clone()

    def touched(self) -> bool:
        """Tell whether autograd saw a change, or whether it shall take gradients changed."""
        tensor = self.tensor
        flags = tensor.is_leaf is not self._leaf or tensor.requires_grad is not self._wants
        return flags or _version(tensor) != self._version

    def holds(self) -> bool:
        """Tell whether the numbers are the same, also when they were changed behind autograd."""
        now = self.tensor.detach()
        if now.layout is not torch.strided or now.is_quantized or now.is_nested:
            return not self.touched()
        alike = now.shape == self.saved.shape and now.dtype == self.saved.dtype
        return alike and torch.equal(now, self.saved)

    def put_back(self) -> None:
        """Put the numbers back, and free the tensor of a graph that it did not have."""
        tensor = self.tensor
        if self._leaf and not tensor.is_leaf and not tensor._is_view():
            tensor.detach_()
        with torch.no_grad():
            if tensor.shape == self.saved.shape and tensor.dtype == self.saved.dtype:
                tensor.data.copy_(self.saved)
            else:
                tensor.data = self.saved.clone()
        if tensor.is_leaf and tensor.requires_grad is not self._wants:
            tensor.requires_grad_(self._wants)
        self._version = _version(tensor)


class KeptGradient:
    """The gradient of a leaf, the tensor itself and its numbers."""

    def __init__(self, leaf: Tensor) -> None:
        self._leaf, self._gradient = leaf, leaf.grad
        self._numbers = None if leaf.grad is None else Kept(leaf.grad, "a gradient")

    def put_back(self, *, closely: bool) -> None:
        """Put it back; `closely` as in `Snapshot.put_back`."""
        if self._leaf.grad is not self._gradient:
            self._leaf.grad = self._gradient
        kept = self._numbers
        if kept and (kept.touched() or (closely and not kept.holds())):
            kept.put_back()


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
