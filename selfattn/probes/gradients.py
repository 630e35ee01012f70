"""The gradients of a layer."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from selfattn.probes.calling import first_tensor
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.subject import Subject

Loss = Callable[[Tensor], Tensor]


def gradients_of(
    subject: Subject, x: Tensor, blocked: Tensor | None, form: Form, loss: Loss
) -> list[Tensor | None]:
    """Give the gradients of the input and of all parameters, None where none arrives.

    Args:
        subject: the layer.
        x: `[batch, seq, width]`.
        blocked: boolean `[batch, seq]`, True at tokens that must not be looked at.
        form: how to call it.
        loss: from the outputs of the real tokens, `[real, width_out]`, to a number.

    Raises:
        LayerFailed: the layer gives no output, or passes no gradients.
    """
    layer = form.layer or subject.adapted.call
    leaf = x.clone().requires_grad_()
    wanted = [leaf, *subject.state.parameters]

    def backward() -> Sequence[Tensor | None]:
        taken = subject.mask_for(x, blocked)
        mask = None if taken is None else taken.clone()
        out = first_tensor(layer(leaf.clone(), mask, **form.options))
        if not out.requires_grad:
            return ()
        return torch.autograd.grad(loss(real_of(out, blocked)), wanted, allow_unused=True)

    found = subject.call(backward, form, x)
    if not found:
        raise LayerFailed("the layer passes no gradients")
    return list(found)


def real_of(out: Tensor, blocked: Tensor | None) -> Tensor:
    """Cut the real tokens out of `[batch, seq, width_out]`, to `[real, width_out]`.

    Cut out, not multiplied by 0: what is left out of a loss must have no say in it.
    """
    return out.flatten(0, 1) if blocked is None else out[~blocked.to(out.device)]
