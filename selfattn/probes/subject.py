"""The layer under the probes: called, kept as it was, and its outputs compared.

Axes: `batch` samples, `seq` tokens, `width` entries of a token.
"""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from selfattn.probes import noise, random_states, switches
from selfattn.probes.calling import Layer
from selfattn.probes.claims import Claims
from selfattn.probes.failures import LayerFailed
from selfattn.probes.forms import PLAIN, Form, other_forms
from selfattn.probes.movement import Movement, everywhere, farthest
from selfattn.probes.report import ProbeError
from selfattn.probes.runner import Runner
from selfattn.probes.sizes import find_long, find_sizes
from selfattn.probes.stopping import TimeUp

Given = tuple[Tensor, Tensor | None]
"""x `[batch, seq, width]` and blocked, bool `[batch, seq]` or None."""

_ONE_AT_A_TIME = threading.RLock()
"""Random states, switches and the standard output belong to the whole process."""


class Subject(Runner):
    """A layer with its claims, ready to be probed.

    Use it as a context: on leaving, the layer, all random states and torch's switches are as they
    were. Within, torch uses one thread, and a subject in another thread waits.

    Attributes:
        claims: what the layer claims, as its adapter completed it.
        batch, seq: sizes that the layer takes; `long`: a length for what one short sequence does
            not show, `seq` if it takes none.
        forms: the ways to call it in which every claim must hold.
        random: whether two calls with one seed and one state differ.
        remembers: whether what it keeps between calls changes its output.
        dropping: whether training mode is random, as with dropout.
        noise: how far rounding moves an output, relative to it.

    Args:
        only: an input of the layer's sizes; then no others are tried, and no form but the plain
            one. If None, sizes are looked for.

    Raises:
        ProbeError: the layer gives no output at any size, or one of another shape.
    """

    def __init__(self, layer: Layer, claims: Claims, only: Given | None = None) -> None:
        self.random = self.dropping = self._ready = False
        self._last: list[tuple[Tensor, Tensor | None, Form]] = []
        self.forms: list[Form] = [PLAIN]
        with contextlib.ExitStack() as leaving:
            leaving.enter_context(_ONE_AT_A_TIME)
            leaving.enter_context(torch.inference_mode(False))
            leaving.enter_context(switches.kept())
            leaving.callback(random_states.put_back, random_states.kept())
            leaving.callback(torch.set_num_threads, torch.get_num_threads())
            super().__init__(layer, claims)
            leaving.callback(lambda: self.state.finish(everything=self.remembers))
            torch.set_num_threads(1)  # small tensors are faster so, by far on a busy machine
            try:
                self._get_ready(only)
            except TimeUp:
                raise ProbeError(
                    f"the {claims.budget:g} s were over before any probe could run; "
                    "the layer is too slow or hangs: give it more with budget="
                ) from None
            self._leaving = leaving.pop_all()

    def __enter__(self) -> "Subject":
        return self

    def __exit__(self, *_: object) -> None:
        """Put everything back."""
        self._leaving.close()

    def ways(self, *, dropping: bool = True) -> Iterator[tuple[Form, str, Tensor | None]]:
        """Give every form of call with every mask of the subject's own sizes, and its name.

        Without `dropping`, forms in which dropout draws are left out.
        """
        for form in self.forms:
            if dropping or not (form.train and self.dropping):
                for name, blocked in self.masks(self.batch, self.seq).items():
                    yield form, name, blocked

    def compare(
        self,
        how: str,
        first: Given,
        second: Given,
        places: Tensor | None = None,
        forms: tuple[Form, Form] = (PLAIN, PLAIN),
        *,
        same: bool = False,
        **where: Any,
    ) -> Movement:
        """Call twice; the outputs must be equal at `places`, all real tokens if None.

        See `still`.
        """
        try:
            base, other = self.run(*first, forms[0]), self.run(*second, forms[1])
        except LayerFailed as failure:
            return Movement(how, failed=str(failure))
        if places is None and first[1] is not None:
            places = ~first[1]
        return self.still(how, base, other, places, forms[1], same=same, **where)

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
        places = everywhere(base) if places is None else places.cpu()
        if not places.any():
            return Movement(how, failed="there is no place to compare")
        places = places & base.isfinite().all(-1)
        if not places.any():
            return Movement(how, failed="the output is not finite, whatever is changed")
        moved, batch, row = farthest(base, other, places)
        place = {"form": form.name, "changed": how, "batch": batch, "row": row, **where}
        allowed = self.allowed(base, places, same)
        if moved > allowed and not same:
            allowed = max(allowed, self._allowed_nearby())
        return Movement(how, moved, allowed, where=place)

    def allowed(self, base: Tensor, places: Tensor | None = None, same: bool = False) -> float:
        """Give how far an output may move by rounding alone.

        That is a multiple of the noise, scaled to the outputs that are compared.
        """
        judged = base[places] if places is not None else base
        size = max(noise.largest(judged), self._scale * 1e-3)
        return noise.margin(self.dtype, same) * self.noise * size

    def run(
        self, x: Tensor, blocked: Tensor | None = None, form: Form = PLAIN, *, afresh: bool = True
    ) -> Tensor:
        """Call the layer, see `Runner.run`, and keep what it was given, the last two times."""
        self._last = [*self._last[-1:], (x, blocked, form)]
        return super().run(x, blocked, form, afresh=afresh)

    def _allowed_nearby(self) -> float:
        """Give how far rounding may move the last output but one, in low precision.

        The last one may be of loud numbers that leak, whose rounding is no excuse for that.
        """
        if not self._ready or self.random or self.dtype not in noise.LOW:
            return 0.0
        last, generator = self._last, self.generator("nearby")
        moved = noise.nearby(self, *last[0], generator)
        self._last = last
        return noise.margin(self.dtype, same=False) * moved

    def _get_ready(self, only: Given | None) -> None:
        generator = self.generator("ready")
        if only:
            given, (self.batch, self.seq) = only, only[0].shape[:2]
        else:
            self.batch, self.seq = find_sizes(self)
            given = self.draw(generator, self.batch, self.seq), None
        self._scale = noise.largest(self.run(*given))
        self.noise = torch.finfo(self.dtype).eps * 4  # until it is measured
        self.remembers, self.random = self._habits(given)
        if not self.random:
            self.noise = noise.measured(self, *given, generator)
        self.long = self.seq if only else find_long(self, self.seq)
        if not only:
            modules = [] if self.state.one_mode else self.state.modules
            others = other_forms(self.adapted, modules)
            self.forms += [form for form in others if self._works(form, given[0])]
        if self.state.one_mode:
            self.note("a part of it is exported, so it is probed in the mode that it was given in")
        self.state.closely = self.state.sly
        self._ready = True

    def _habits(self, given: Given) -> tuple[bool, bool]:
        """Tell whether the layer remembers, and whether nothing makes it repeat itself."""
        if not self.compare("again", given, given).fault:
            return False, False
        self.remembers = True
        return True, self.compare("again", given, given).fault

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
            self.dropping = self._drops(form, x, first)
        return True

    def _drops(self, form: Form, x: Tensor, first: Tensor) -> bool:
        """Tell whether outputs differ while the random states go on."""
        # Draws of whole samples may well come out the same once.
        tries = 12 if random_states.drew(self.claims.seed) else 1
        try:
            others = (self.run(x, None, form, afresh=False) for _ in range(tries))
            return any(self.still("seed", first, other).fault for other in others)
        except LayerFailed:
            return False  # it cannot be called twice in a row: for a probe to say
