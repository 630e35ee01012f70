"""The assignment's solution: three classifiers of one class, their training, reversed queries.

Its page shows these definitions as they stand here, so their lines are as short as in a script.
"""

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from selfattn import attention, causal_mask, padding_mask
from selfattn.text import PAD, Corpus, load, vocab
from selfattn.training import accuracy, train_epoch

KINDS = ("bag", "attention", "causal")

History = list[tuple[float, float]]
"""Loss and validation accuracy, one pair an epoch."""


class Classifier(nn.Module):
    """Embed, let tokens attend unless it is a bag, average, score.

    Maps ids [batch, seq], padded on the right, to logits
    [batch, intents]. `kind` is one of KINDS, or a ValueError is raised.
    """

    def __init__(self, kind: str, intents: int):
        super().__init__()
        if kind not in KINDS:
            raise ValueError(f"kind must be in {KINDS}, got {kind!r}")
        self.kind = kind
        self.embedding = nn.Embedding(len(vocab), 64, padding_idx=PAD)
        if kind != "bag":
            self.query = nn.Linear(64, 64)
            self.key = nn.Linear(64, 64)
            self.value = nn.Linear(64, 64)
        self.head = nn.Linear(64, intents)

    def attend(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Give outputs [batch, seq, 64], weights [batch, seq, seq]."""
        x = self.embedding(ids)
        mask = padding_mask(ids)  # [batch, 1, seq]
        if self.kind == "causal":
            mask = mask | causal_mask(ids.shape[1])  # [batch, seq, seq]
        q, k, v = self.query(x), self.key(x), self.value(x)
        return attention(q, k, v, mask)

    def forward(self, ids: Tensor) -> Tensor:
        bag = self.kind == "bag"
        x = self.embedding(ids) if bag else self.attend(ids)[0]
        real = (ids != PAD).unsqueeze(-1)  # [batch, seq, 1]
        mean = (x * real).sum(dim=1) / real.sum(dim=1)  # [batch, 64]
        logits: Tensor = self.head(mean)
        return logits


def seeded(kind: str, data: Corpus, seed: int = 42) -> Classifier:
    """Build a classifier whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    return Classifier(kind, len(data.intents))


def fit(
    model: Classifier,
    data: Corpus,
    seed: int = 42,
    lr: float = 0.01,
    epochs: int = 10,
) -> History:
    """Train in place; the seed is that of the batches' order."""
    data.order.manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    history = []
    for _ in range(epochs):
        loss = train_epoch(model, optimizer, data.train_loader)
        history.append((loss, accuracy(model, data.val_loader)))
    return history


def reverse(ids: Tensor) -> Tensor:
    """Turn the real tokens of ids [batch, seq] around in place.

    The padding, all of it on the right, stays where it is.
    """
    places = torch.arange(ids.shape[1])  # [seq]
    length = (ids != PAD).sum(dim=1, keepdim=True)  # [batch, 1]
    mirrored = length - 1 - places  # [batch, seq]
    source = torch.where(places < length, mirrored, places)
    return ids.gather(1, source)


@torch.no_grad()
def read_backwards(model: Classifier, data: Corpus) -> tuple[float, ...]:
    """Let a model read the validation queries both ways.

    Returns the share of intents that stay, the accuracy on reversed
    queries, and the largest distance between two logits.
    """
    model.eval()
    ids, labels = data.val_set.tensors
    logits, turned = model(ids), model(reverse(ids))
    intents = turned.argmax(dim=-1)
    stay = (intents == logits.argmax(dim=-1)).double().mean()
    right = (intents == labels).double().mean()
    return stay.item(), right.item(), (turned - logits).abs().max().item()


@torch.no_grad()
def saturation(model: Classifier, data: Corpus) -> tuple[float, float]:
    """Measure the weights of the real rows of the validation queries.

    Returns their mean entropy in nats, and the share of rows in which
    one token has more than 0.99.
    """
    model.eval()
    ids = data.val_set.tensors[0]
    _, weights = model.attend(ids)  # [batch, seq, seq]
    rows = weights[ids != PAD]  # [real tokens, seq]
    entropy = torch.special.entr(rows).sum(dim=-1).mean()
    return entropy.item(), (rows.amax(dim=-1) > 0.99).double().mean().item()


def over_seeds(
    corpus: str, seeds: Iterable[int], lr: float = 0.01
) -> dict[tuple[str, int], tuple[Classifier, History]]:
    """Train each kind with each seed, as many at once as there are cores.

    Args:
        corpus: its name, as `load` takes it.
        seeds: for weights and order.
        lr: the learning rate.

    Returns:
        Models and histories by kind and seed.
    """
    data = load(corpus)
    jobs = [(kind, seed) for seed in seeds for kind in KINDS]
    # Built here, one by one: threads share the random state that a seed sets.
    models = [seeded(kind, data, seed) for kind, seed in jobs]

    def work(model: Classifier, seed: int) -> History:
        return fit(model, load(corpus), seed, lr)  # a loader and an order of its own

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        histories = pool.map(work, models, [seed for _, seed in jobs])
        return dict(zip(jobs, zip(models, histories, strict=True), strict=True))
