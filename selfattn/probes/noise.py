"""The noise of a layer: how far rounding alone moves its outputs, and how far they may move."""

import torch
from torch import Tensor

from selfattn.probes.forms import Form
from selfattn.probes.movement import everywhere
from selfattn.probes.runner import Runner

LOW = (torch.float16, torch.bfloat16)


def margin(dtype: torch.dtype, same: bool) -> float:
    """Give how many times the measured noise an output may move.

    In float32 and float64 faults are so far above the noise that a wide margin costs nothing. In
    low precision it is 4; and 1 for two inputs of the same shape that differ only in what must
    not be looked at, since then a right layer computes the same numbers in the same order.
    """
    if dtype in LOW:
        return 1.0 if same else 4.0
    return 16.0


def largest(out: Tensor) -> float:
    """Give the largest finite size of an entry, 0 if there is none."""
    finite = out[out.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


def measured(
    runner: Runner, x: Tensor, blocked: Tensor | None, generator: torch.Generator
) -> float:
    """Measure the noise relative to the output, for x `[batch, seq, width]` and a mask.

    By nudging every entry of the input by at most one rounding step, and by how far the output
    is from straight under a small step, whichever moved it more.
    """
    base = runner.run(x, blocked)
    size = largest(base)
    wide = x.to("cpu", torch.float64)
    moved = [0.0]
    for _ in range(3):
        nudged = runner.run(_nudged(runner, x, generator), blocked)
        small = 1e-4 * torch.randn(wide.shape, generator=generator, dtype=torch.float64)
        ends = [runner.run(runner.cast(wide + way * small), blocked) for way in (1, -1)]
        bent = ends[0] + ends[1] - 2 * base
        moved += [float(d.abs().nan_to_num(0).max()) for d in (nudged - base, bent / 2)]
    return max(torch.finfo(runner.dtype).eps, max(moved) / size if size else 0.0)


def nearby(
    runner: Runner, x: Tensor, blocked: Tensor | None, form: Form, generator: torch.Generator
) -> float:
    """Measure how far an output moves when this very input is nudged by rounding steps.

    In low precision some rows are far noisier than others, as where a norm follows a weight that
    is near 0, so what was measured on one input does not hold for another.
    """
    base = runner.run(x, blocked, form)
    real = everywhere(base) if blocked is None else ~blocked.cpu()
    nudged = (runner.run(_nudged(runner, x, generator), blocked, form) for _ in range(3))
    return max(largest((out - base)[real]) for out in nudged)


def _nudged(runner: Runner, x: Tensor, generator: torch.Generator) -> Tensor:
    """Give x `[batch, seq, width]` with each entry a rounding step up, down, or as it is."""
    sign = torch.randint(-1, 2, x.shape, generator=generator)
    return runner.cast(x.to("cpu", torch.float64) * (1 + torch.finfo(runner.dtype).eps * sign))
