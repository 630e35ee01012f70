"""Runs a layer: quietly, in time, every time from one seed and one state."""

import contextlib
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from selfattn.probes import random_states, switches
from selfattn.probes.adapters import adapt
from selfattn.probes.budget import Budget
from selfattn.probes.calling import Layer, adapt_callable, first_tensor
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed, trace_of
from selfattn.probes.fitting import agreed, check_layer, has_own_call
from selfattn.probes.forms import PLAIN, Form
from selfattn.probes.inputs import Inputs
from selfattn.probes.state import State
from selfattn.probes.stopping import TimeUp

SHORTEST = 0.1
"""Seconds; a call that was given less and did not come back says nothing about the layer."""


class Runner(Inputs):
    """A layer that can be called.

    Attributes:
        layer: as it was given; `adapted`: in the form that is called.
        state: what it holds, put back before every call.
        remembers: whether what it only reaches is put back too.
        budget: the time.
        notes: what was seen on the way; `printed`, `warned`: what was held back.
        none_taken: whether it takes None for a mask.
    """

    def __init__(self, layer: Layer, claims: Claims) -> None:
        check_layer(layer)
        own = has_own_call(layer)
        found = (adapt_callable(layer, claims), claims) if own else adapt(layer, claims)
        self.adapted, claims = agreed(found[0], claims, found[1])
        self.layer = layer
        self.state = State(layer)
        self.budget = Budget(claims.budget, compiles=_compiles(layer, self.state))
        super().__init__(claims, *_dtype_and_device(self.state, claims))
        self.notes = [self.adapted.note] if self.adapted.note else []
        self.printed = 0
        self.warned: dict[str, None] = {}
        self.none_taken, self.remembers = True, False
        self._width_out: int | None = None
        self._hung: set[int] = set()

    def run(
        self,
        x: Tensor,
        blocked: Tensor | None = None,
        form: Form = PLAIN,
        *,
        afresh: bool = True,
    ) -> Tensor:
        """Call the layer.

        Args:
            x: `[batch, seq, width]`.
            blocked: boolean `[batch, seq]`, True at tokens that must not be looked at.
            form: how to call it.
            afresh: with the one seed and state that all calls start from.

        Returns:
            The output `[batch, seq, width_out]`, float64 on the CPU, so that comparing outputs
            adds nothing of its own.

        Raises:
            LayerFailed: there is no output of that shape.
        """
        layer = form.layer or self.adapted.call
        blocked = self.mask_for(x, blocked)
        mask = None if blocked is None else blocked.clone()
        given = x.detach().clone(memory_format=torch.preserve_format)
        if form.grad:
            given = given.requires_grad_().clone()  # no leaf: a layer may write into its input
        version = given._version
        out = self.call(lambda: layer(given, mask, **form.options), form, x, afresh=afresh)
        if given._version != version:
            self.note("it writes into its input")
        return self.checked(out, x)

    def call(
        self, function: Callable[[], Any], form: Form, x: Tensor, *, afresh: bool = True
    ) -> Any:
        """Call anything of the layer's in a form.

        Raises:
            LayerFailed: it raised, or did not come back in time.
        """
        if self.budget.left <= 0:
            raise TimeUp

        def guarded() -> Any:
            torch.set_num_threads(1)  # each thread has its own number
            self.state.train(form.train)
            with switches.kept(), torch.set_grad_enabled(form.grad):
                return function()

        if afresh:
            self.start_afresh()
        limit = self.budget.limit
        try:
            if x.shape[1] in self._hung:
                raise TimeUp
            with self._quietly():
                return self.budget.call(guarded)
        except TimeUp:
            self._give_up(limit, form, x)
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}".split("\n")[0]
            raise LayerFailed(f"{what}, {_of(x, form)}", trace_of(error)) from error

    def start_afresh(self) -> None:
        """Put the layer and all random states where every call starts from."""
        self.state.restore(everything=self.remembers)
        random_states.reseed(self.claims.seed)

    def mask_for(self, x: Tensor, blocked: Tensor | None) -> Tensor | None:
        """Give a mask that blocks nothing instead of None to a layer that takes no None."""
        if blocked is None and not self.none_taken:
            return torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return blocked

    def checked(self, out: Any, x: Tensor) -> Tensor:
        """Give the output in what a layer returned for x, float64 on the CPU.

        Raises:
            LayerFailed: it is no tensor, or its shape is wrong.
        """
        found = first_tensor(out)
        if not isinstance(found, Tensor):
            what = f"returned {type(out).__name__} and no tensor"
            raise LayerFailed(f"{what}, for x {list(x.shape)}", shape=True)
        if found.layout is not torch.strided or found.is_nested:
            kind = "nested" if found.is_nested else str(found.layout).removeprefix("torch.")
            what = f"returned a {kind} tensor and no dense one"
            raise LayerFailed(f"{what}, for x {list(x.shape)}", shape=True)
        if found is not out and type(out) is tuple:
            self.note("it returns a tuple; its first tensor is judged")
        fits = found.dim() == 3 and found.shape[:2] == x.shape[:2] and found.shape[2] > 0
        if not fits or self._width_out not in (None, found.shape[2]):
            wanted = f"[{x.shape[0]}, {x.shape[1]}, {self._width_out or 'width_out'}]"
            what = "" if found is out else f"a {type(out).__name__} whose first tensor has "
            what = f"returned {what}shape {list(found.shape)} instead of {wanted}"
            raise LayerFailed(f"{what}, for x {list(x.shape)}", shape=True)
        self._width_out = found.shape[2]
        if found.is_complex():
            found = torch.view_as_real(found.resolve_conj()).flatten(2)  # both parts are judged
        return found.detach().to("cpu", torch.float64, copy=True)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def _give_up(self, limit: float, form: Form, x: Tensor) -> NoReturn:
        """End a call that did not come back; at this length no other is made."""
        if limit < SHORTEST or (self.budget.left <= 0 and not self._hung):
            raise TimeUp
        self._hung.add(x.shape[1])
        what = f"did not come back within {limit:.1f} s"
        self.note(f"it {what}, {_of(x, form)}")
        raise LayerFailed(f"{what}, {_of(x, form)}", "timeout")

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        said = io.StringIO()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                yield
        self.printed += said.getvalue().count("\n")
        self.warned.update(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))


def _compiles(layer: Layer, state: State) -> bool:
    """Tell whether torch.compile was asked to compile something of the layer's."""
    compiled = ("_torchdynamo_orig_callable", "_orig_mod", "_compiled_call_impl")
    return any(getattr(it, name, None) for it in (layer, *state.modules) for name in compiled)


def _dtype_and_device(state: State, claims: Claims) -> tuple[torch.dtype, torch.device]:
    floats = [t for t in state.tensors if t.is_floating_point()]
    first = next(iter([t for t in floats if isinstance(t, nn.Parameter)] + floats), None)
    dtype = claims.dtype or (first.dtype if first is not None else torch.float32)
    device = claims.device or (first.device if first is not None else "cpu")
    return dtype, torch.device(device)


def _of(x: Tensor, form: Form) -> str:
    return f"for x {list(x.shape)}, {form.name}"
