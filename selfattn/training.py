"""The training loop of the lesson's classifiers: one epoch, and the accuracy after it."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim import Optimizer
from torch.utils.data import DataLoader


def train_epoch(
    model: nn.Module, optimizer: Optimizer, loader: "DataLoader[tuple[Tensor, ...]]"
) -> float:
    """Go once through `loader`, stepping the optimizer after each batch.

    Args:
        model: maps ids `[batch, seq]` to logits `[batch, classes]`; left in training mode.
        optimizer: holds the model's parameters.
        loader: batches of ids `[batch, seq]` and labels `[batch]`.

    Returns:
        The cross-entropy in nats, averaged over examples: a last batch that is smaller than the
        others counts for less.

    Raises:
        ValueError: the loader is empty.
    """
    model.train()
    total, count = 0.0, 0
    for ids, labels in loader:
        loss = F.cross_entropy(model(ids), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(labels)
        count += len(labels)
    return _mean(total, count)


@torch.no_grad()
def accuracy(model: nn.Module, loader: "DataLoader[tuple[Tensor, ...]]") -> float:
    """Measure the fraction of examples whose largest logit is at their label.

    Args:
        model: maps ids `[batch, seq]` to logits `[batch, classes]`. Runs in evaluation mode
            without gradients and is handed back in training mode.
        loader: batches of ids `[batch, seq]` and labels `[batch]`.

    Returns:
        A fraction between 0 and 1.

    Raises:
        ValueError: the loader is empty.
    """
    model.eval()
    right, count = 0, 0
    for ids, labels in loader:
        right += int((model(ids).argmax(dim=-1) == labels).sum())
        count += len(labels)
    model.train()
    return _mean(right, count)


def _mean(total: float, count: int) -> float:
    if count == 0:
        raise ValueError("the loader gave no example, expected at least one; is its set empty?")
    return total / count
