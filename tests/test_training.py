"""The training loop: averages over examples, modes handed back, the bag's published figures."""

import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from selfattn.text import load
from selfattn.training import accuracy, train_epoch


class Constant(nn.Module):
    """Logits [batch, 2] that depend on the id alone: log of (1, 3) for 0 and of (1, 1) for 1."""

    def __init__(self) -> None:
        super().__init__()
        logits = torch.tensor([[1.0, 3.0], [1.0, 1.0]]).log()
        self.table = nn.Embedding.from_pretrained(logits, freeze=False)
        self.modes: list[tuple[bool, bool]] = []

    def forward(self, ids):  # [batch, 1]
        self.modes.append((self.training, torch.is_grad_enabled()))
        return self.table(ids[:, 0])


def loader(ids: list[int], labels: list[int], batch: int):
    data = TensorDataset(torch.tensor(ids).unsqueeze(1), torch.tensor(labels))
    return DataLoader(data, batch)


def test_loss_is_averaged_over_examples() -> None:
    # Batches of two and one: the losses are log(4/3) twice and log(2) once, and the average over
    # examples differs from that over batches. A learning rate of 0 keeps the model as it is.
    model = Constant()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    loss = train_epoch(model, optimizer, loader([0, 0, 1], [1, 1, 0], batch=2))
    assert loss == pytest.approx((2 * math.log(4 / 3) + math.log(2)) / 3, abs=1e-6)
    assert model.modes == [(True, True), (True, True)]


def test_each_batch_is_one_step_down_its_own_gradient() -> None:
    model = Constant()
    before = model.table.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    train_epoch(model, optimizer, loader([0, 1], [0, 0], batch=1))
    # Cross-entropy has the gradient softmax minus one-hot: (1/4, 3/4) and (1/2, 1/2) minus (1, 0).
    expected = before - torch.tensor([[-3 / 4, 3 / 4], [-1 / 2, 1 / 2]])
    torch.testing.assert_close(model.table.weight.detach(), expected)


def test_accuracy_counts_examples_in_evaluation_mode() -> None:
    model = Constant()  # says 1 for id 0; for id 1 the two are equal and argmax says 0
    assert accuracy(model, loader([0, 0, 0, 1, 1], [1, 1, 0, 0, 1], batch=2)) == pytest.approx(
        3 / 5
    )
    assert model.modes == [(False, False)] * 3
    assert model.training


def test_an_empty_loader_is_refused() -> None:
    empty: list[tuple[torch.Tensor, torch.Tensor]] = []
    model = Constant()
    with pytest.raises(ValueError, match="the loader gave no example"):
        accuracy(model, empty)
    with pytest.raises(ValueError, match="the loader gave no example"):
        train_epoch(model, torch.optim.SGD(model.parameters(), lr=0.0), empty)


def test_the_bags_three_lines_on_banking77(published) -> None:
    data = load("banking77")
    torch.manual_seed(42)
    bag = nn.EmbeddingBag(2202, 64, mode="mean", padding_idx=0)
    head = nn.Linear(64, 77)
    model = nn.Sequential(bag, head)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    lines = []
    for _ in range(10):
        loss = train_epoch(model, optimizer, data.train_loader)
        lines.append((loss, accuracy(model, data.val_loader)))
    for epoch, loss, share in ((1, 2.3178, 0.7565), (5, 0.1572, 0.8665), (10, 0.0353, 0.8760)):
        assert lines[epoch - 1][0] == pytest.approx(loss, abs=1e-4)
        assert lines[epoch - 1][1] == pytest.approx(share, abs=1e-3)
