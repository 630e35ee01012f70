"""The probe of the way back, on gradients that are known."""

import math

import pytest
import torch
from torch import Tensor, nn

from selfattn.probes import probe
from selfattn.probes.backward import Walk
from selfattn.probes.report import CANNOT_TELL, FAULT, NOT_APPLICABLE, OK, Finding
from selfattn.probes.sound import Attention


def found(layer, **claims) -> Finding:
    return probe(layer, only=["backward"], **claims).findings[0]


class PartOfTheSlope(nn.Module):
    """Right outputs; its gradients are `share` of what they must be."""

    def __init__(self, share: float) -> None:
        super().__init__()
        self.layer, self.share = Attention(), share

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        out = self.layer(x, blocked)
        return self.share * out + ((1 - self.share) * out).detach()


def test_a_walk_gives_the_slopes_of_a_known_function():
    # Of the sum of 3 x^2 the gradient is 6 x; a sum over both sides is exact for a parabola.
    x = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    walk = Walk("x", [x], [6 * x], lambda at: (3 * at[0] ** 2).sum())
    ways = [[torch.tensor([1.0, 0.0, 0.0])], [torch.tensor([0.5, 1.0, -2.0])]]
    told, seen = walk.slopes(ways, 1e-3)
    assert told.tolist() == pytest.approx([6.0, 3.0 - 12.0 - 6.0])
    assert seen.tolist() == pytest.approx([6.0, -15.0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("share", "verdict"), [(1.0, OK), (0.99, FAULT), (0.5, FAULT), (0, FAULT)])
def test_it_says_by_which_share_gradients_are_wrong(share, verdict, dtype):
    torch.manual_seed(0)
    finding = found(PartOfTheSlope(share).to(dtype))
    assert finding.verdict == verdict
    assert finding.moved == pytest.approx(1 - share, abs=1e-6)


def test_gradients_that_are_estimates_on_purpose_are_not_judged():
    assert found(PartOfTheSlope(-1.0), estimated=True).verdict == NOT_APPLICABLE
    assert found(PartOfTheSlope(-1.0)).verdict == FAULT


def test_outputs_that_jump_tell_nothing():
    class Rounded(Attention):
        def forward(self, x, blocked=None):
            out = super().forward(x, blocked)
            return out + ((out * 64).round() / 64 - out).detach()

    finding = found(Rounded())
    assert finding.verdict == CANNOT_TELL
    assert "it rounds" in finding.meaning


@pytest.mark.parametrize("low", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("seed", range(3))
def test_low_precision_within_tells_nothing(low, seed):
    class Within(Attention):
        def scores(self, q, k):
            return (q.to(low) @ k.to(low).mT / math.sqrt(self.dim)).to(q.dtype)

    torch.manual_seed(seed)
    assert found(Within(), seed=seed).verdict == CANNOT_TELL
    assert found(Within().bfloat16(), seed=seed).verdict == CANNOT_TELL


def test_a_backward_that_leaks_the_future_is_found():
    class Leaks(Attention):
        def softmax(self, scores, empty):
            right = super().softmax(scores, empty)
            without = (scores.masked_fill(scores.isinf(), 0)).softmax(-1)
            return without + (right - without).detach()

    torch.manual_seed(0)
    assert found(Attention(causal=True), causal=True).verdict == OK
    assert found(Leaks(causal=True), causal=True).verdict == FAULT


def test_a_function_is_judged_in_its_own_precision():
    torch.manual_seed(0)
    first, second = nn.Linear(24, 48), nn.Linear(48, 24)

    def layer(x, blocked):
        hidden = torch.zeros_like(x[..., 0], dtype=torch.bool) if blocked is None else blocked
        scores = (x @ x.mT / math.sqrt(24)).masked_fill(hidden.unsqueeze(1), -math.inf)
        mixed = scores.softmax(-1).nan_to_num(0) @ x
        return mixed + second(torch.relu(first(mixed)))

    def detached(x, blocked):
        return x + (layer(x, blocked) - x).detach()

    assert found(layer).verdict == OK
    assert found(detached).verdict == FAULT


def test_a_function_in_low_precision_cannot_be_judged():
    finding = found(lambda x, blocked: x * x.sigmoid(), dtype=torch.bfloat16)
    assert finding.verdict == CANNOT_TELL
    assert "rounding hides small steps" in finding.meaning


@pytest.mark.parametrize("seed", range(3))
def test_the_kinks_of_relu_are_no_fault(seed):
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    assert found(layer, seed=seed).verdict == OK


def test_only_parameters_that_gradients_reach_are_judged():
    class Frozen(Attention):
        def split(self, x):
            key = nn.functional.linear(x, self.key.weight.detach(), self.key.bias.detach())
            parts = [self.query(x), key, self.value(x)]
            heads = [part.unflatten(-1, (-1, self.dim)).transpose(1, 2) for part in parts]
            return [self.share(part) for part in heads]

    assert found(Frozen()).verdict == OK
