"""A tensor that a layer holds, kept with its numbers, so that they can be put back."""

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
        """Tell whether autograd saw a change."""
        return _version(self.tensor) != self._version or self.tensor.is_leaf is not self._leaf

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


def _version(tensor: Tensor) -> int:
    return -1 if tensor.is_inference() else tensor._version
