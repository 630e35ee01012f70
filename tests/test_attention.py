"""The function against a loop, against PyTorch's own, and against laws that hold for all inputs."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from selfattn import attention, causal_mask, padding_mask

SIZES = st.sampled_from([1, 2, 3, 5, 7, 11])


@st.composite
def inputs(draw):
    """q [batch, queries, dim], k [batch, keys, dim], v [batch, keys, width] in float64."""
    batch, queries, keys, dim, width = (draw(SIZES) for _ in range(5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shapes = [(batch, queries, dim), (batch, keys, dim), (batch, keys, width)]
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def by_loop(q, k, v, mask):
    """One row after the other in plain Python: [queries, dim], [keys, dim], [keys, width]."""
    rows = []
    for i, query in enumerate(q.tolist()):
        shares = [
            0.0
            if mask is not None and mask[i][j]
            else math.exp(
                sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(query))
            )
            for j, key in enumerate(k.tolist())
        ]
        total = sum(shares)
        rows.append(
            [
                sum(share / total * value for share, value in zip(shares, column, strict=True))
                for column in zip(*v.tolist(), strict=True)
            ]
        )
    return torch.tensor(rows, dtype=torch.float64)


@given(inputs())
def test_equals_a_loop(qkv) -> None:
    q, k, v = (t[0] for t in qkv)
    torch.testing.assert_close(attention(q, k, v)[0], by_loop(q, k, v, None))


def test_equals_a_loop_with_a_mask() -> None:
    generator = torch.Generator().manual_seed(7)
    q, k = (torch.randn(5, 3, generator=generator, dtype=torch.float64) for _ in range(2))
    v = torch.randn(5, 2, generator=generator, dtype=torch.float64)
    mask = causal_mask(5)
    torch.testing.assert_close(attention(q, k, v, mask)[0], by_loop(q, k, v, mask.tolist()))


@given(inputs(), st.data())
def test_equals_pytorch_forward_and_backward(qkv, data) -> None:
    q, k, v = qkv
    shape = (q.shape[0], q.shape[1], k.shape[1])
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    mask = torch.rand(shape, generator=generator) < 0.5
    mask[..., 0] = False  # every query keeps a key

    gradients = []
    for function in (
        lambda q, k, v: attention(q, k, v, mask)[0],
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=~mask),
    ):
        leaves = [t.clone().requires_grad_() for t in (q, k, v)]
        output = function(*leaves)
        output.square().sum().backward()
        gradients.append([output.detach(), *(leaf.grad for leaf in leaves)])
    torch.testing.assert_close(*gradients)


@given(inputs())
def test_rows_sum_to_one_and_output_is_their_average(qkv) -> None:
    q, k, v = qkv
    output, weights = attention(q, k, v)
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(q.shape[:2], dtype=torch.float64))
    assert (weights >= 0).all()
    torch.testing.assert_close(output, torch.einsum("bqk,bkw->bqw", weights, v))


@given(inputs(), st.floats(-100, 100))
def test_what_all_keys_share_does_not_count(qkv, shift) -> None:
    q, k, v = qkv
    moved = k + shift * torch.ones_like(k)
    torch.testing.assert_close(attention(q, moved, v)[1], attention(q, k, v)[1], atol=1e-9, rtol=0)


@given(inputs(), st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_count(qkv, random) -> None:
    q, k, v = qkv
    order = list(range(k.shape[1]))
    random.shuffle(order)
    torch.testing.assert_close(attention(q, k[:, order], v[:, order])[0], attention(q, k, v)[0])


@given(inputs(), st.data())
def test_blocked_keys_count_as_absent(qkv, data) -> None:
    q, k, v = qkv
    kept = data.draw(st.integers(1, k.shape[1]))
    mask = torch.arange(k.shape[1]) >= kept  # [keys]
    output, weights = attention(q, k, v, mask)
    alone, _ = attention(q, k[:, :kept], v[:, :kept])
    torch.testing.assert_close(output, alone)
    assert (weights[..., kept:] == 0).all()


def test_one_open_key_gives_its_value_exactly() -> None:
    q, k, v = (torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(s)) for s in range(3))
    mask = ~torch.eye(5, dtype=torch.bool).roll(1, dims=1)  # query i sees key i + 1 alone
    output, _ = attention(q, k, v, mask)
    assert torch.equal(output, v.roll(-1, dims=1))


def test_scale_is_the_root_of_the_width() -> None:
    # A query of length a along one axis, the key the same, a zero key beside it: the logit of
    # the first weight is a * a / sqrt(16) = 1 for a = 2.
    q = torch.zeros(1, 16)
    q[0, 0] = 2.0
    k = torch.cat([q, torch.zeros(1, 16)])
    _, weights = attention(q, k, torch.eye(2))
    assert torch.logit(weights[0, 0]).item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("leading", [(), (2,), (2, 3), (2, 3, 5)])
def test_any_number_of_leading_dimensions(leading: tuple[int, ...]) -> None:
    q = torch.randn(*leading, 7, 3)
    k, v = torch.randn(*leading, 11, 3), torch.randn(*leading, 11, 5)
    output, weights = attention(q, k, v)
    assert output.shape == (*leading, 7, 5)
    assert weights.shape == (*leading, 7, 11)


def test_an_empty_row_is_nan_and_the_others_stay() -> None:
    q, k, v = torch.randn(3, 5, 2).unbind()
    mask = torch.zeros(5, 5, dtype=torch.bool)
    mask[2] = True
    output, _ = attention(q, k, v, mask)
    assert output[2].isnan().all()
    others = [0, 1, 3, 4]
    torch.testing.assert_close(output[others], attention(q, k, v)[0][others])


def test_inputs_and_mask_are_left_alone() -> None:
    q, k, v = torch.randn(3, 5, 2).unbind()
    mask = causal_mask(5)
    before = [t.clone() for t in (q, k, v, mask)]
    attention(q, k, v, mask)
    assert all(torch.equal(a, b) for a, b in zip(before, (q, k, v, mask), strict=True))


@pytest.mark.parametrize(
    ("q", "k", "mask"),
    [((5, 2), (5, 3), None), ((5, 2), (5, 2), torch.zeros(4, 4, dtype=torch.bool))],
)
def test_mismatched_shapes_keep_pytorchs_error(q, k, mask) -> None:
    with pytest.raises(RuntimeError, match=r"must match|cannot be multiplied"):
        attention(torch.randn(q), torch.randn(k), torch.randn(k), mask)


def test_a_mask_that_is_not_boolean_is_refused() -> None:
    x = torch.randn(5, 2)
    with pytest.raises(RuntimeError, match="bool"):
        attention(x, x, x, torch.zeros(5, 5))


def test_padding_mask_by_hand() -> None:
    ids = torch.tensor([[4, 9, 0], [3, 0, 0]])
    expected = [[[False, False, True]], [[False, True, True]]]
    assert padding_mask(ids).tolist() == expected
    assert padding_mask(ids, pad=9).tolist() == [[[False, True, False]], [[False] * 3]]


def test_causal_mask_by_hand() -> None:
    assert causal_mask(3).tolist() == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]
    assert causal_mask(1).tolist() == [[False]]
    assert causal_mask(0).shape == (0, 0)
