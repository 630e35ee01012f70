"""Many changes of one input, taken together: a call for each would take longer."""

import torch
from torch import Tensor

from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.subject import Subject


def one_changed(
    subject: Subject, name: str, seq: int, tokens: list[int], spreads: tuple[float, float]
) -> tuple[Tensor, Tensor]:
    """Draw a sequence, and change another token of it in each sample.

    Args:
        subject: the layer.
        name: of the generator.
        seq: the length.
        tokens: those that are changed, one in each sample.
        spreads: of the sequence, and of what a token is changed to.

    Returns:
        As it is, all samples alike, and changed: `[tokens, seq, width]`.
    """
    generator = subject.generator(name)
    x = subject.draw(generator, 1, seq, scale=spreads[0]).expand(len(tokens), -1, -1)
    changed = x.clone()
    others = subject.draw(generator, len(tokens), scale=spreads[1])
    changed[torch.arange(len(tokens)), tokens] = others
    return x, changed


def all_changed_from(
    subject: Subject, name: str, seq: int, tokens: list[int]
) -> tuple[Tensor, Tensor]:
    """Do the same, with each of the tokens changed and all that follow it."""
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
