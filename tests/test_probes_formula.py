"""What the probes of functions hold for right, and how far they let rounding go."""

import math

import pytest
import torch
import torch.nn.functional as F

from selfattn.probes.claims import Claims
from selfattn.probes.functions.cases import KINDS, Case, masks
from selfattn.probes.functions.faulty import attend, attend_causally
from selfattn.probes.functions.gradients import _right
from selfattn.probes.functions.reference import expected
from selfattn.probes.functions.setting import Function, Setting
from selfattn.probes.subject import Subject


def setting(fn: Function = attend, heads: int = 4, key_heads: int = 4, **words) -> Setting:
    claims = Claims(width=8, dtype=words.pop("dtype", torch.float32), device="cpu", mask=False)
    causal = words.pop("causal", False)
    with Subject(lambda x: x, claims) as subject:
        return Setting(fn, heads, key_heads, 8, 8**-0.5, True, causal, True, subject)


def test_the_reference_is_pytorchs_function() -> None:
    s = setting(heads=6, key_heads=2)
    q, k, v = s.words(5, 7)
    blocked = masks(s, 5, 7)["scattered"]
    right = expected(s, (q, k, v), blocked)
    wide = [t.double() for t in (q, k, v)]
    theirs = F.scaled_dot_product_attention(*wide, attn_mask=~blocked, enable_gqa=True)
    torch.testing.assert_close(right.right, theirs)  # which gives 0 for a row without a key
    assert torch.equal(right.places[0, 0], ~blocked.all(-1))


def test_the_reference_by_hand() -> None:
    """One query of score 0 with one key and log 3 with another: weights 1/4 and 3/4."""
    s = setting(heads=1, key_heads=1)
    q, k, v = (torch.zeros(1, 1, n, 8) for n in (1, 2, 2))
    q[..., 0], k[..., 1, 0] = 1.0, math.log(3) * math.sqrt(8)
    v[..., 0, 0], v[..., 1, 0] = 4.0, 8.0
    assert expected(s, (q, k, v)).right[0, 0, 0, 0].item() == pytest.approx(7.0)
    hidden = torch.tensor([[False, True]])
    assert expected(s, (q, k, v), hidden).right[0, 0, 0, 0].item() == pytest.approx(4.0)


def test_the_last_query_sees_all_keys_under_a_triangle() -> None:
    s = setting(causal=True, heads=1, key_heads=1)
    q, k, v = s.words(2, 5)
    right = expected(s, (q, k, v)).right
    for row, seen in ((0, 4), (1, 5)):
        theirs = F.scaled_dot_product_attention(
            *(t.double() for t in (q[..., row : row + 1, :], k[..., :seen, :], v[..., :seen, :]))
        )
        torch.testing.assert_close(right[..., row : row + 1, :], theirs)


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_the_right_gradients_are_pytorchs(key_heads: int) -> None:
    s = setting(key_heads=key_heads)
    words = s.words(5, 5)
    case = Case(s, words, "scattered", masks(s, 5, 5)["scattered"])
    leaves = [t.double().requires_grad_() for t in words]
    out = F.scaled_dot_product_attention(*leaves, attn_mask=~case.blocked, enable_gqa=True)
    upstream = s.draw(5, seed=7).double() * (~case.blocked.all(-1, keepdim=True))
    (out * upstream).sum().backward()
    for right, leaf in zip(_right(case), leaves, strict=True):
        torch.testing.assert_close(right.right, leaf.grad)
        assert bool((right.allowed >= 0).all())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", ["none", *KINDS])
def test_rounding_stays_within_what_is_allowed(dtype: torch.dtype, kind: str) -> None:
    """Sum by sum in the dtype itself, which rounds more often than a matrix product does."""
    s = setting(dtype=dtype, heads=1, key_heads=1)
    q, k, v = s.words(20, 20)
    blocked = None if kind == "none" else masks(s, 20, 20)[kind]
    scores = torch.zeros(s.batch, 1, 20, 20, dtype=dtype)
    for i in range(8):
        scores = scores + q[..., :, None, i] * k[..., None, :, i]
    scores = scores * torch.tensor(s.scale, dtype=dtype)
    if blocked is not None:
        scores = scores.masked_fill(blocked, -math.inf)
    weights = scores.softmax(-1)
    out = torch.zeros_like(q)
    for j in range(20):
        out = out + weights[..., j, None] * v[..., j, None, :]
    right = expected(s, (q, k, v), blocked)
    share = ((out.double() - right.right).abs() / right.allowed)[right.places]
    assert 0.0 < float(share.max()) < 1.0
    assert float(right.allowed.max()) < 60 * torch.finfo(dtype).eps * 32


def test_what_is_allowed_is_far_below_a_lost_key() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        s = setting(dtype=dtype)
        words = s.words(5, 5)
        one_less = expected(s, words, torch.arange(5).eq(2).expand(5, 5))
        right = expected(s, words)
        assert float(((one_less.right - right.right).abs() / right.allowed).max()) > 4


def test_masks_are_of_three_kinds() -> None:
    made = masks(setting(), 4, 6)
    assert list(made) == list(KINDS)
    assert made["pads on the right"].tolist() == [[False] * 4 + [True] * 2] * 4
    assert made["pads on the left"].tolist() == [[True] * 2 + [False] * 4] * 4
    assert len({tuple(row) for row in made["scattered"].tolist()}) > 1


def test_the_triangle_of_the_right_function() -> None:
    q, k, v = setting().words(2, 5)
    out = attend_causally(q, k, v, None)
    torch.testing.assert_close(out[..., -1:, :], attend(q[..., -1:, :], k, v, None))
