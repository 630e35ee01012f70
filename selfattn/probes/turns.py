"""Many changes of one input, taken together: a call for each would take longer."""

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.subject import Subject


def one_changed(x: Tensor, tokens: list[int], others: Tensor) -> tuple[Tensor, Tensor]:
    """Change another token of a sequence in each sample.

    Args:
        x: the sequence, `[1, seq, width]`.
        tokens: those that are changed, one in each sample.
        others: what they are changed to, `[tokens, width]`.

    Returns:
        As it is, all samples alike, and changed: `[tokens, seq, width]`.
    """
    x = x.expand(len(tokens), -1, -1)
    changed = x.clone()
    changed[torch.arange(len(tokens)), tokens] = others
    return x, changed


def all_changed_from(
    subject: Subject, name: str, seq: int, tokens: list[int]
) -> tuple[Tensor, Tensor]:
    """Draw a sequence, and change one of the tokens and all that follow it in each sample."""
    generator = subject.generator(name)
    x, other = (subject.draw(generator, 1, seq).expand(len(tokens), -1, -1) for _ in range(2))
    later = torch.arange(seq) >= torch.tensor(tokens).unsqueeze(1)
    return x, torch.where(later.unsqueeze(-1).to(x.device), other, x)


def in_turn(
    subject: Subject, x: Tensor, changed: Tensor, blocked: Tensor | None, form: Form
) -> tuple[Tensor, Tensor]:
    """Call with x and with each of its changes: in one batch, or one by one where that is refused.

    Args:
        subject: the layer.
        x: `[batch, seq, width]`.
        changed: `[changes, batch, seq, width]`.
        blocked: the mask of x.
        form: how to call.

    Returns:
        The outputs as it is, for each change, and changed: `[changes, batch, seq, width_out]`.

    Raises:
        LayerFailed: x alone is refused too.
    """
    count = len(changed)
    mask = None if blocked is None else blocked.repeat(count, 1)
    try:
        base = subject.run(x.repeat(count, 1, 1), mask, form)
        other = subject.run(changed.flatten(0, 1), mask, form)
    except LayerFailed:
        other = torch.cat([subject.run(one, blocked, form) for one in changed])
        base = subject.run(x, blocked, form).repeat(count, 1, 1)
    return base.unflatten(0, (count, -1)), other.unflatten(0, (count, -1))
