"""What a layer calls while it runs: seen by watching PyTorch's functions, where they can be seen.

Compiled and scripted layers call nothing that can be watched.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import Form
from selfattn.probes.noise import LOW
from selfattn.probes.subject import Subject

_LINEAR = (
    "linear matmul bmm einsum baddbmm addmm mm __matmul__ __rmatmul__ softmax _softmax "
    "scaled_dot_product_attention multi_head_attention_forward exp max amax sum view reshape "
    "view_as reshape_as expand_as transpose permute contiguous flatten unflatten chunk split "
    "tensor_split unbind cat stack concat expand repeat repeat_interleave unsqueeze squeeze "
    "__getitem__ __setitem__ to type float double half bfloat16 type_as masked_fill masked_fill_ "
    "where dropout triu tril ones zeros full arange ones_like zeros_like full_like eye empty "
    "new_zeros new_ones new_full new_tensor tensor add __add__ __radd__ __iadd__ add_ sub __sub__ "
    "__rsub__ sub_ neg __neg__ div __truediv__ __itruediv__ div_ mul __mul__ __rmul__ __imul__ "
    "mul_ logical_not __invert__ logical_or __or__ logical_and __and__ __gt__ __lt__ __ge__ __le__ "
    "__eq__ __ne__ gt lt ge le eq ne any all isnan isinf size dim numel __len__ movedim swapaxes "
    "swapdims mT T __get__ is_floating_point clone detach bool int long nan_to_num broadcast_to "
    "cumsum clamp roll flip index_select gather narrow diagonal fill_ zero_ copy_ finfo log "
    "has_names requires_grad_ get_device stride is_contiguous rearrange element_size __bool__ "
    "logsumexp"
)
LINEAR = frozenset(_LINEAR.split())
"""Names of functions that keep a layer affine in its values, whatever its weights are."""

OF_TWO = frozenset(("mul", "__mul__", "__rmul__", "__imul__", "mul_"))

ROUNDING = ("round", "floor", "ceil", "trunc", "sign", "fake_quantize_per_tensor_affine")

ATTENTION = ("softmax", "scaled_dot_product_attention", "multi_head_attention_forward", "exp")


class Instead(TorchFunctionMode):
    """Within, `call` is called in the place of PyTorch's functions, with the function first."""

    def __init__(self, call: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]) -> None:
        super().__init__()
        self._call = call

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return self._call(func, args, kwargs or {})


def is_bare(subject: Subject) -> bool:
    """Tell whether a layer calls only linear functions around its attention, as far as seen."""
    calls = _calls(subject, train=False)
    attends = any(name in ATTENTION for name, _, _ in calls)
    # With one token each softmax over keys runs over one entry; beside those, one over more is a
    # router, which weighs heads by what the token is.
    over = {entries == 1 for _, _, entries in calls if entries}
    return attends and len(over) < 2 and all(linear for _, linear, _ in calls)


def drops_late(subject: Subject) -> bool:
    """Tell whether a layer drops nothing before its last attention's weights."""
    names = [name for name, _, _ in _calls(subject, train=True)]
    attends = [i for i, name in enumerate(names) if name in ATTENTION]
    drops = [i for i, name in enumerate(names) if "dropout" in name]
    return bool(attends) and all(i > attends[-1] for i in drops)


def rounds(subject: Subject) -> bool:
    """Tell whether a layer rounds, or computes something in low precision, as far as seen."""
    found: list[str] = []

    def tell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = str(getattr(func, "__name__", func)).rstrip("_")
        if name in ROUNDING or any(isinstance(a, Tensor) and a.dtype in LOW for a in args):
            found.append(name)

    with _watching(subject, tell) as form:
        try:
            subject.run(subject.draw(subject.generator("rounds"), 2, subject.seq), None, form)
        except LayerFailed:
            return False
    return bool(found)


def _calls(subject: Subject, train: bool) -> list[tuple[str, bool, int]]:
    """Give what a layer calls for one token: names, which are linear, and a softmax's entries."""
    seen: list[tuple[str, bool, int]] = []

    def tell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = str(getattr(func, "__name__", func))
        computed = [a for a in args if isinstance(a, Tensor) and a.grad_fn is not None]
        linear = name in LINEAR and not (name in OF_TWO and len(computed) > 1)
        seen.append((name, linear, _entries(name, args, kwargs)))

    x = subject.draw(subject.generator("watch"), 2, 1)
    with _watching(subject, tell) as form:
        try:
            subject.run(x, None, replace(form, train=train))
        except LayerFailed:
            return []
    return seen


def _entries(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Give over how many entries a softmax runs, 0 for anything else."""
    if name == "scaled_dot_product_attention":
        return 1
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if name != "softmax" or not isinstance(dim, int) or not isinstance(args[0], Tensor):
        return 0
    return args[0].shape[dim]


@contextmanager
def _watching(
    subject: Subject, tell: Callable[[Any, tuple[Any, ...], dict[str, Any]], None]
) -> Iterator[Form]:
    """Give a form of call that tells of every function called."""
    call = subject.adapted.call

    def told(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tell(func, args, kwargs)
        return func(*args, **kwargs)

    def watched(x: Tensor, blocked: Tensor | None) -> Any:
        with Instead(told):
            return call(x, blocked)

    yield Form("watched", layer=watched, grad=True)


def scores_seen(subject: Subject, x: Tensor) -> tuple[float, float] | None:
    """Give the least and the largest score of a call without pads; None if none is seen.

    Those of keys that are hidden by place are left out: a finite fill is no score.
    """
    allowed = subject.allowed_pairs(x.shape[1])
    found = [
        s[..., allowed] if s.shape[-2:] == allowed.shape else s for s in scores_given(subject, x)
    ]
    finite = [s for s in (s[s.isfinite()] for s in found) if s.numel()]
    if not finite:
        return None
    return float(min(s.min() for s in finite)), float(max(s.max() for s in finite))


def scores_given(subject: Subject, x: Tensor) -> list[Tensor]:
    """Give what each softmax of a call without pads is given, fills and all."""
    found: list[Tensor] = []

    def tell(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = getattr(func, "__name__", "")
        if name in ("softmax", "_softmax", "exp") and args and isinstance(args[0], Tensor):
            found.append(args[0].detach())
        elif name == "scaled_dot_product_attention" and len(args) >= 2:
            q, k = args[0].detach().float(), args[1].detach().float()
            scale = kwargs.get("scale") or q.shape[-1] ** -0.5
            if q.shape[:-2] == k.shape[:-2]:
                found.append(q @ k.transpose(-2, -1) * scale)

    with _watching(subject, tell) as form, torch.no_grad():
        try:
            subject.run(x, None, form)
        except LayerFailed:
            return []
    return [s.cpu() for s in found if s.is_floating_point() and s.dim() >= 3]
