"""Who really reaches whom, from the sizes of the Jacobian's blocks."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from selfattn.figures.heatmap import heatmap
from selfattn.probes.calling import Layer, first_tensor
from selfattn.probes.claims import claims_of
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.report import ClaimError, ProbeError
from selfattn.probes.stopping import TimeUp
from selfattn.probes.subject import Subject


def effective_mask(
    layer: Layer,
    x: Tensor,
    blocked: Tensor | None = None,
    *,
    causal: bool = False,
    gradients: bool | None = None,
) -> Tensor:
    """Measure how much every output depends on every input token.

    Row i, column j holds the Frobenius norm of d output[i] / d x[j], a block of `[width_out,
    width]` of the Jacobian. It is 0 where nothing of token j reaches row i, on any path: values,
    keys, queries, residuals.

    Args:
        layer: as for `probe`, whole blocks and encoders too.
        x: `[batch, seq, width]`; the layer is called at this size alone.
        blocked: boolean `[batch, seq]`, True where a token must not be looked at, or None.
        causal: ask PyTorch's own layers to be causal; other layers know it themselves.
        gradients: by automatic differentiation (True), or by central differences of the outputs
            (False), which need no gradients; None: by gradients if the layer passes them. What
            is detached is seen by differences alone.

    Returns:
        `[batch, seq, seq]`, float64, at least 0.

    Raises:
        ClaimError: x or blocked has another shape, or x another width than PyTorch's own layer.
        ProbeError: the layer raises, or returns another shape.
    """
    _check(x, blocked)
    claims = claims_of(
        width=x.shape[-1],
        causal=causal,
        mask=blocked is not None,
        dtype=x.dtype,
        device=x.device,
        budget=600,
    )
    try:
        with Subject(layer, claims, only=(x, blocked)) as subject:
            found = _by_gradients(subject, x, blocked) if gradients is not False else None
            if found is None and gradients:
                raise ProbeError("the layer passes no gradients; leave gradients=True out")
            return _by_differences(subject, x, blocked) if found is None else found
    except LayerFailed as failure:
        hint = "; if it takes no None for a mask, give blocked"
        said = f"{failure}{hint}" if blocked is None and "NoneType" in str(failure) else failure
        raise ProbeError(f"the layer {said}\n\n{failure.details}") from failure
    except TimeUp:
        raise ProbeError("the layer takes more than 600 s; give it a shorter x") from None


def _check(x: Tensor, blocked: Tensor | None) -> None:
    if x.dim() != 3 or not x.is_floating_point() or not x.numel():
        raise ClaimError(
            f"x must be [batch, seq, width] of floats; got {list(x.shape)} of {x.dtype}"
        )
    if blocked is not None and (blocked.dtype, blocked.shape) != (torch.bool, x.shape[:2]):
        got = f"{list(blocked.shape)} of {blocked.dtype}"
        raise ClaimError(f"blocked must be bool {list(x.shape[:2])}, as x; got {got}")


def figure(mask: Tensor, tokens: Sequence[str], caption: str) -> str:
    """Draw one sample's effective mask `[seq, seq]` as the site's heatmap; each row sums to 1."""
    share = mask / mask.sum(-1, keepdim=True).clamp_min(torch.finfo(mask.dtype).tiny)
    return heatmap(
        share, queries=tokens, keys=tokens, caption=caption, mask=mask == 0, compact=len(tokens) > 8
    )


def _by_gradients(subject: Subject, x: Tensor, blocked: Tensor | None) -> Tensor | None:
    """One backward pass for each entry of a row, all rows of a sample's copies at once."""
    out = subject.run(x, blocked)
    batch, seq, width = out.shape
    squares = torch.zeros(batch, seq, seq, dtype=torch.float64)
    form = Form("gradients", grad=True)
    leaf = x.detach().clone().requires_grad_()
    mask = subject.mask_for(x, blocked)

    def blocks() -> Tensor | None:
        given = leaf.clone()  # a layer may write into its input, and not into a leaf
        result = first_tensor(subject.adapted.call(given, mask))
        if not result.requires_grad:
            return None
        for row in range(seq):
            for entry in range(width):
                (one,) = torch.autograd.grad(
                    result[:, row, entry].sum(), leaf, retain_graph=True, allow_unused=True
                )
                if one is not None:
                    squares[:, row] += one.double().cpu().square().sum(-1)
        return squares.sqrt()

    found: Tensor | None = subject.call(blocks, form, x)
    return found


def _by_differences(subject: Subject, x: Tensor, blocked: Tensor | None) -> Tensor:
    """Central differences, one entry of one token at a time."""
    base = subject.run(x, blocked)
    batch, seq = base.shape[:2]
    wide = x.detach().to("cpu", torch.float64)
    step = max(torch.finfo(x.dtype).eps, subject.noise) ** (1 / 3)
    squares = torch.zeros(batch, seq, seq, dtype=torch.float64)
    for token in range(seq):
        for entry in range(x.shape[2]):
            ends: list[Tensor] = []
            inputs: list[Any] = []
            for sign in (1, -1):
                moved = wide.clone()
                moved[:, token, entry] += sign * step
                inputs.append(moved.to(x.dtype)[:, token, entry].double())
                ends.append(subject.run(moved.to(x), blocked, PLAIN))
            slope = (ends[0] - ends[1]) / (inputs[0] - inputs[1]).view(-1, 1, 1)
            squares[:, :, token] += slope.square().sum(-1)
    return squares.sqrt()
