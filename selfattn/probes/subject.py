"""The layer under the probes: called, timed, kept as it was, and its outputs compared.

Axes: `batch` samples, `seq` tokens, `width` entries of a token. Outputs come back in float64 on
the CPU, so that comparing them adds nothing of its own.
"""

import contextlib
import io
import random
import traceback
import warnings
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from selfattn.probes.adapters import adapt
from selfattn.probes.budget import Budget, TimeUp
from selfattn.probes.calling import Layer, first_tensor
from selfattn.probes.claims import Claims
from selfattn.probes.report import ProbeError
from selfattn.probes.state import State

SEQUENCES = (7, 8, 11, 12, 16, 32, 64, 128, 6, 5, 4, 3, 2)
"""Lengths that are tried, in this order, until the layer takes one."""

BATCH = 5
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


class LayerFailed(Exception):
    """A call of the layer gave no output: it raised, hung, or returned something else."""

    def __init__(self, what: str, details: str = "", *, shape: bool = False) -> None:
        super().__init__(what)
        self.details = details
        self.shape = shape


@dataclass(frozen=True)
class Form:
    """One way to call the layer.

    Attributes:
        name: the way, in words.
        options: keywords for the call.
        layer: another function to call instead.
        train: in training mode, with dropout as it is.
        grad: with gradients enabled and asked for.
    """

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    layer: Layer | None = None
    train: bool = False
    grad: bool = False


PLAIN = Form("eval, no gradients")


@dataclass(frozen=True)
class Movement:
    """How far an output moved when something was changed, or why that is not known.

    Attributes:
        how: what was changed, or how it was called.
        moved, allowed: see `Finding`; the smaller of the two decides.
        must: the output must move by more than `allowed`, and not at most.
        where: the place.
        failed: why there was no output to compare.
        shape: whether that was a wrong shape.
    """

    how: str
    moved: float = 0.0
    allowed: float = 0.0
    must: bool = False
    where: dict[str, Any] = field(default_factory=dict)
    failed: str = ""
    shape: bool = False

    @property
    def fault(self) -> bool:
        if self.failed:
            return False
        return self.moved <= self.allowed if self.must else not self.moved <= self.allowed

    @property
    def badness(self) -> float:
        """Order movements from good to bad; what is not finite is worst."""
        ratio = self.moved / self.allowed if self.allowed else self.moved * 1e30
        return float("inf") if ratio != ratio else -ratio if self.must else ratio


class Subject:
    """A layer with its claims, ready to be probed.

    Use it as a context: on leaving, the layer and all random states are as they were. Within,
    torch uses one thread.

    Attributes:
        claims: what the layer claims, as its adapter completed it.
        batch, seq: sizes that the layer takes.
        forms: the ways to call it in which every claim must hold.
        random: whether two calls with one seed and one state differ.
        remembers: whether what it keeps between calls changes its output.
        dropping: whether training mode is random, as with dropout.
        notes: what was seen on the way.

    Raises:
        ProbeError: the layer gives no output at any size, or one of another shape.
    """

    def __init__(self, layer: Layer, claims: Claims) -> None:
        self.budget = Budget(claims.budget)
        self.notes: list[str] = []
        self.adapted, self.claims = adapt(layer, claims)
        if self.adapted.note:
            self.notes.append(self.adapted.note)
        self.layer = layer
        self.state = State(layer)
        self.dtype, self.device = self._dtype_and_device()
        self.random = self.remembers = self.dropping = False
        self.printed = 0
        self.warned: dict[str, None] = {}
        self.forms: list[Form] = [PLAIN]
        self.width_out: int | None = None
        self.none_taken = True
        self.hung: set[int] = set()
        self._random_states = _random_states()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)  # small tensors are faster so, by far on a busy machine
        try:
            self._get_ready()
        except TimeUp:
            self.close()
            raise ProbeError(
                f"the {claims.budget:g} s were over before any probe could run; "
                "the layer is too slow or hangs: give budget= more seconds"
            ) from None
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "Subject":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Put everything back."""
        self.state.finish(everything=self.remembers)
        _set_random_states(self._random_states)
        torch.set_num_threads(self._threads)

    # Inputs

    def generator(self, name: str) -> torch.Generator:
        """Give the generator of one probe: the same for a seed, whatever ran before."""
        number = self.claims.seed * 1_000_003 + zlib.crc32(name.encode())
        return torch.Generator().manual_seed(number % 2**63)

    def draw(self, generator: torch.Generator, *shape: int, scale: float = 1.0) -> Tensor:
        """Draw an input, normal with a spread of `scale`."""
        drawn = torch.randn(*shape, self.claims.width, generator=generator, dtype=torch.float64)
        return self.cast(drawn * scale)

    def cast(self, x: Tensor) -> Tensor:
        return x.to(dtype=self.dtype, device=self.device)

    def pads(self, batch: int, seq: int, side: str = "right", least: int = 0) -> Tensor:
        """Block a different number of pads in each sample, from `least` up to half of `seq`.

        Returns:
            `[batch, seq]`, True at pads.
        """
        most = max(least, seq // 2)
        counts = torch.tensor([least + i % (most - least + 1) for i in range(batch)])
        place = torch.arange(seq)
        place = place if side == "left" else seq - 1 - place
        return (place < counts.unsqueeze(1)).to(self.device)

    def masks(self, batch: int, seq: int) -> dict[str, Tensor | None]:
        """Give the masks that the claims allow, by name."""
        if not self.claims.mask:
            return {"no mask": None}
        masks = {"no mask": None, "pads on the right": self.pads(batch, seq)}
        if self.claims.mask is True:
            masks["pads on the left"] = self.pads(batch, seq, "left")
        return masks

    # Calls

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
            The output `[batch, seq, width_out]`, float64.

        Raises:
            LayerFailed: there is no output of that shape.
        """
        layer = form.layer or self.adapted.call
        blocked = self._mask(x, blocked)
        mask = None if blocked is None else blocked.clone()
        given = x.detach().clone(memory_format=torch.preserve_format)
        if form.grad:
            given = given.requires_grad_().clone()  # no leaf: a layer may write into its input
        version = given._version
        out = self.call(lambda: layer(given, mask, **form.options), form, x, afresh=afresh)
        if given._version != version:
            self._note("it writes into its input")
        return self._checked(out, x).detach().to("cpu", torch.float64, copy=True)

    def reseed(self) -> None:
        """Put all random states where every call starts from."""
        torch.manual_seed(self.claims.seed)
        random.seed(self.claims.seed)
        np.random.seed(self.claims.seed % 2**32)

    def call(self, function: Any, form: Form, x: Tensor, *, afresh: bool = True) -> Any:
        """Call anything of the layer's in a form: quiet, timed, from one seed and state.

        Raises:
            LayerFailed: it raised, or did not come back in time.
        """
        if self.budget.left <= 0:
            raise TimeUp

        def guarded() -> Any:
            torch.set_num_threads(1)  # each thread has its own number
            with torch.set_grad_enabled(form.grad):
                return function()

        if afresh:
            self.state.restore(everything=self.remembers)
            self.reseed()
        self.state.train(form.train)
        limit = self.budget.limit
        try:
            if x.shape[1] in self.hung:
                raise TimeUp
            with self._quietly():
                return self.budget.call(guarded)
        except TimeUp:
            if self.budget.left <= 0 and not self.hung:
                raise
            self.hung.add(x.shape[1])
            what = f"did not come back within {limit:.1f} s"
            self._note(f"it {what}, {_of(x, form)}")
        except (Exception, SystemExit) as error:
            what = f"{type(error).__name__}: {error}".split("\n")[0]
            raise LayerFailed(f"{what}, {_of(x, form)}", _trace(error)) from error
        raise LayerFailed(f"{what}, {_of(x, form)}", "timeout")

    # Comparisons

    def allowed(self, base: Tensor, places: Tensor | None = None, same: bool = False) -> float:
        """Give how far an output may move by rounding alone.

        The noise was measured on this layer, relative to its output, when the subject was made:
        by nudging every entry of the input by at most one rounding step, and by how far the
        output is from straight under a small step, whichever moved it more. It is scaled to the
        outputs that are compared.
        """
        judged = base[places] if places is not None else base
        finite = judged[judged.isfinite()]
        size = max(float(finite.abs().max()) if finite.numel() else 0.0, self.scale * 1e-3)
        return margin(self.dtype, same) * self.noise * size

    def still(
        self,
        how: str,
        base: Tensor,
        other: Tensor,
        places: Tensor | None = None,
        form: Form = PLAIN,
        *,
        same: bool = False,
        **where: Any,
    ) -> Movement:
        """Compare two outputs `[batch, seq, width_out]` that must be equal at `places`.

        `same` says that the inputs had one shape and one form of call, and differed only in what
        must not be looked at.
        """
        places = _all(base) if places is None else places.cpu()
        if not places.any():
            return Movement(how, failed="there is no place to compare")
        places = places & base.isfinite().all(-1)
        if not places.any():
            return Movement(how, failed="the output is not finite, whatever is changed")
        distance = (base - other).abs().amax(-1)
        distance = distance.masked_fill(~distance.isfinite(), float("inf")).masked_fill(~places, -1)
        at = int(distance.flatten().argmax())
        batch, row = divmod(at, base.shape[1])
        moved = float(distance[batch, row])
        place = {"form": form.name, "changed": how, "batch": batch, "row": row, **where}
        if moved == float("inf"):
            moved = float("nan")
        return Movement(how, moved, self.allowed(base, places, same), where=place)

    # Getting ready

    def _get_ready(self) -> None:
        self.batch, self.seq = self._sizes()
        generator = self.generator("ready")
        x = self.draw(generator, self.batch, self.seq)
        self._measure_scale(x)
        self.remembers, self.random = self._habits(x)
        if not self.random:
            self._measure_noise(x, generator)
        self.forms += [form for form in self._other_forms() if self._works(form, x)]

    def _dtype_and_device(self) -> tuple[torch.dtype, torch.device]:
        floats = [t for t, _, _ in self.state.tensors if t.is_floating_point()]
        first = next(iter([t for t in floats if isinstance(t, nn.Parameter)] + floats), None)
        dtype = self.claims.dtype or (first.dtype if first is not None else torch.float32)
        device = self.claims.device or (first.device if first is not None else "cpu")
        return dtype, torch.device(device)

    def _sizes(self) -> tuple[int, int]:
        """Find sizes that the layer takes, with and without a mask."""
        taken = (self.claims.heads, self.claims.width)
        batch = BATCH if BATCH not in taken else 3
        failures: list[LayerFailed] = []
        for seq in SEQUENCES:
            if seq in taken and seq == 7:
                continue
            for size in (batch, seq, 1):
                try:
                    self._try(size, seq)
                except LayerFailed as failure:
                    failures.append(failure)
                    if failure.details == "timeout":
                        raise _no_output(failures, self.claims) from failure
                else:
                    return size, seq
        raise _no_output(failures, self.claims)

    def _try(self, batch: int, seq: int) -> None:
        x = self.draw(self.generator("sizes"), batch, seq)
        if self.claims.mask:
            try:
                self.run(x, self.pads(batch, seq))
            except LayerFailed as failure:
                if not failure.shape:
                    raise
                self.run(x)  # a mask alone spoils the shape: for a probe to say
        try:
            self.run(x)
        except LayerFailed:
            if not (self.claims.mask and self.none_taken):
                raise
            self.none_taken = False
            try:
                self.run(x)
            except LayerFailed:
                self.none_taken = True
                raise
            self.notes.append("it takes no None for a mask, so one that blocks nothing is given")

    def _measure_scale(self, x: Tensor) -> None:
        base = self.run(x)
        finite = base[base.isfinite()]
        self.scale = float(finite.abs().max()) if finite.numel() else 0.0
        self.noise = torch.finfo(self.dtype).eps * 4

    def _measure_noise(self, x: Tensor, generator: torch.Generator) -> None:
        base, step = self.run(x), torch.finfo(self.dtype).eps
        wide = x.to("cpu", torch.float64)
        moved = [0.0]
        for _ in range(3):
            sign = torch.randint(-1, 2, wide.shape, generator=generator)
            nudged = self.run(self.cast(wide * (1 + step * sign)))
            small = 1e-4 * torch.randn(wide.shape, generator=generator, dtype=torch.float64)
            bent = self.run(self.cast(wide + small)) + self.run(self.cast(wide - small)) - 2 * base
            moved += [float(d.abs().nan_to_num(0).max()) for d in (nudged - base, bent / 2)]
        self.noise = max(step, max(moved) / self.scale if self.scale else 0.0)

    def _habits(self, x: Tensor) -> tuple[bool, bool]:
        """Tell whether the layer remembers, and whether nothing makes it repeat itself."""
        first, again = self.run(x), self.run(x)
        if not self.still("again", first, again).fault:
            return False, False
        self.remembers = True
        first, again = self.run(x), self.run(x)
        return True, self.still("again", first, again).fault

    def _other_forms(self) -> Iterator[Form]:
        yield Form("eval with gradients", grad=True)
        if self.state.modules and not any(map(_shares_a_batch, self.state.modules)):
            yield Form("training mode", train=True, grad=True)
        for name, options in self.adapted.forms.items():
            yield Form(name, options=dict(options))
            yield Form(f"{name}, with gradients", options=dict(options), grad=True)
        for name, layer in self.adapted.others.items():
            yield Form(name, layer=layer)
            yield Form(f"{name}, with gradients", layer=layer, grad=True)

    def _works(self, form: Form, x: Tensor) -> bool:
        """Tell whether a form gives outputs, the same ones for one seed."""
        try:
            first, again = (self.run(x, None, form) for _ in range(2))
        except LayerFailed as failure:
            self.notes.append(f"not judged in the form {form.name!r}: {failure}")
            return False
        if self.still("again", first, again).fault and not self.still("", first, first).fault:
            self.notes.append(f"not judged in the form {form.name!r}: one seed gives two outputs")
            return False
        if form.train:
            other_seed = self.run(x, None, form, afresh=False)  # the random states went on
            self.dropping = self.still("seed", first, other_seed).fault
        return True

    def _mask(self, x: Tensor, blocked: Tensor | None) -> Tensor | None:
        if blocked is None and not self.none_taken:
            return torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return blocked

    def _checked(self, out: Any, x: Tensor) -> Tensor:
        found = first_tensor(out)
        if not isinstance(found, Tensor):
            what = f"returned {type(out).__name__} and no tensor"
            raise LayerFailed(f"{what}, for x {list(x.shape)}")
        if found is not out and type(out) is tuple:
            self._note("it returns a tuple; its first tensor is judged")
        fits = found.dim() == 3 and found.shape[:2] == x.shape[:2]
        if not fits or self.width_out not in (None, found.shape[2]):
            wanted = f"[{x.shape[0]}, {x.shape[1]}, {self.width_out or 'width_out'}]"
            raise LayerFailed(
                f"returned shape {list(found.shape)} instead of {wanted}, for x {list(x.shape)}",
                shape=True,
            )
        self.width_out = found.shape[2]
        return found

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        said = io.StringIO()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                yield
        self.printed += said.getvalue().count("\n")
        self.warned.update(dict.fromkeys(f"{w.category.__name__}: {w.message}" for w in caught))


def _trace(error: BaseException) -> str:
    """Give the traceback from the layer's own first line on."""
    trace = error.__traceback__
    while trace and Path(trace.tb_frame.f_code.co_filename).parent == Path(__file__).parent:
        trace = trace.tb_next
    return "".join(traceback.format_exception(type(error), error, trace or error.__traceback__))


def _all(out: Tensor) -> Tensor:
    return torch.ones(out.shape[:2], dtype=torch.bool)


def _of(x: Tensor, form: Form) -> str:
    return f"for x {list(x.shape)}, {form.name}"


def _shares_a_batch(module: nn.Module) -> bool:
    """Tell whether training mode mixes samples on purpose."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm)


def _no_output(failures: Sequence[LayerFailed], claims: Claims) -> ProbeError:
    shapes = [f for f in failures if f.shape]
    first = (shapes or list(failures))[0]
    tried = f"[batch, seq, {claims.width}] in {len(failures)} sizes"
    said = "the layer " + (f"{first}".replace("\n", " "))
    hints = []
    if claims.mask and not first.shape and first.details != "timeout":
        hints.append("if it takes no mask, say mask=False")
    hints.append(f"it was given x {tried} and blocked, bool [batch, seq] or None")
    trace = "" if first.details in ("", "timeout") else f"\n\n{first.details}"
    return ProbeError(f"{said}; {'; '.join(hints)}.{trace}")


def _random_states() -> tuple[Any, ...]:
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    return torch.get_rng_state(), random.getstate(), np.random.get_state(), cuda


def _set_random_states(states: tuple[Any, ...]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])
    if states[3] is not None:
        torch.cuda.set_rng_state_all(states[3])
