"""After probing, a layer and torch are as they were, whatever the layer did to itself."""

import random
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from selfattn.probes import ProbeError, effective_mask, probe, random_states
from selfattn.probes.boxes import Box
from selfattn.probes.claims import claims_of
from selfattn.probes.sound import Attention
from selfattn.probes.state import State
from selfattn.probes.subject import Subject

FEW = ["pad-content", "repetition", "modes"]


class Doing(Attention):
    """A right layer that does something else in every call too."""

    def __init__(self, act: Callable[["Doing"], Any]) -> None:
        super().__init__()
        self.act = act

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        self.act(self)
        return super().forward(x, blocked)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def test_flags_that_the_layer_turns_off_are_on_again() -> None:
    layer = Doing(lambda it: it.requires_grad_(False))
    probe(layer, only=FEW)
    assert all(parameter.requires_grad for parameter in layer.parameters())


def test_gradients_keep_their_tensor_and_their_numbers() -> None:
    class Backward(Attention):
        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            out = super().forward(x, blocked)
            if torch.is_grad_enabled():
                out.sum().backward(retain_graph=True)  # adds to .grad in place
            return out

    layer = Backward()
    layer(torch.randn(1, 3, 24))
    gradient = layer.value.weight.grad
    numbers = gradient.clone()
    layer.key.bias = nn.Parameter(torch.zeros(24))  # has none yet
    probe(layer, only=FEW)
    assert layer.value.weight.grad is gradient
    assert torch.equal(gradient, numbers)
    assert layer.key.bias.grad is None


def test_every_call_starts_from_the_same_gradients() -> None:
    module = nn.Linear(2, 2)
    state = State(module)
    state.train(False)
    module(torch.ones(1, 2)).sum().backward()
    state.restore(everything=False)
    assert module.weight.grad is None


def test_modules_and_hooks_are_those_that_were_there() -> None:
    def act(it: Doing) -> None:
        it.query = nn.Linear(24, 24)
        it.late = nn.Linear(1, 1)
        it.key.register_forward_hook(lambda *_: None)

    layer = Doing(act)
    query, names = layer.query, list(layer._modules)
    probe(layer, only=FEW)
    assert layer.query is query
    assert list(layer._modules) == names
    assert not layer.key._forward_hooks
    assert "late" not in dict(layer.named_modules())


def test_modules_that_are_taken_out_come_back_in_their_order() -> None:
    layer = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
    first, second = layer
    state = State(layer)
    del layer[0]
    state.finish(everything=False)
    assert list(layer) == [first, second]


def test_containers_that_the_layer_holds_are_put_back_in_their_order() -> None:
    held = {
        "a": [1],
        "b": {"training": 1, "x": 2},
        "c": {1},
        "d": deque([1], maxlen=2),
        "e": np.array([1.0, np.nan]),
        "f": ([1],),
    }

    def act(it: Doing) -> None:
        it.a.append(2)
        it.b["training"], it.b["y"] = 3, it.b.pop("x", None)
        it.c.add(2)
        it.d.extend([2, 3])
        it.e += 1
        it.f[0].clear()

    layer = Doing(act)
    vars(layer).update(held)
    probe(layer, only=FEW)
    assert layer.a is held["a"]
    assert (layer.a, layer.c, list(layer.d), layer.f) == ([1], {1}, [1], ([1],))
    assert list(layer.b.items()) == [("training", 1), ("x", 2)]
    assert np.array_equal(layer.e, [1.0, np.nan], equal_nan=True)


def test_a_list_that_is_only_reached_is_someone_elses() -> None:
    calls: list[int] = []

    def layer(x: Tensor) -> Tensor:
        calls.append(1)
        return x * 2

    probe(layer, mask=False, only=["repetition"])
    assert len(calls) > 2


def test_a_dict_of_a_function_is_its_own() -> None:
    def layer(x: Tensor) -> Tensor:
        layer.count = getattr(layer, "count", 0) + 1
        return x * 2

    probe(layer, mask=False, only=["repetition"])
    assert not vars(layer)


def test_a_dict_in_another_order_is_not_the_same() -> None:
    held = {"a": 1, "b": 2}
    box = Box("held", held, owned=True)
    assert box.same()
    held["a"] = held.pop("a")
    assert not box.same()
    box.put_back()
    assert list(held) == ["a", "b"]


@pytest.mark.parametrize(
    ("source", "draw", "state"),
    [
        (
            torch.Generator().manual_seed(3),
            lambda it: torch.rand(1, generator=it),
            lambda it: it.get_state().tolist(),
        ),
        (random.Random(3), lambda it: it.random(), lambda it: it.getstate()),
        (np.random.default_rng(3), lambda it: it.random(), lambda it: str(it.bit_generator.state)),
        (np.random.RandomState(3), lambda it: it.rand(), lambda it: str(it.get_state())),
        (np.random.PCG64(3), lambda it: it.random_raw(), lambda it: str(it.state)),
    ],
)
def test_generators_of_its_own_are_where_they_were(source, draw, state) -> None:
    starts: list[Any] = []
    layer = Doing(lambda it: (starts.append(state(it.source)), draw(it.source)))
    layer.source = source
    before = state(source)
    with Subject(layer, claims_of()) as subject:
        starts.clear()
        for _ in range(2):
            subject.run(torch.randn(5, 7, 24))
    assert starts == [before, before]  # every call starts from the same state
    assert state(source) == before


def test_a_generator_of_its_own_hides_no_dropout_in_eval() -> None:
    class Draws(Attention):
        def __init__(self) -> None:
            super().__init__()
            self.source = torch.Generator().manual_seed(0)

        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            return super().forward(x, blocked) + torch.rand(1, generator=self.source)

    assert [finding.name for finding in probe(Draws()).faults] == ["repetition"]


def test_seeding_leaves_nothing_for_devices_that_are_not_there() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    queued = len(torch.cuda._queued_calls)
    random_states.reseed(5)
    assert torch.equal(torch.rand(3), expected)
    probe(Attention(), only=["pad-content"])
    assert len(torch.cuda._queued_calls) == queued


SWITCHES: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "dtype": (lambda: torch.set_default_dtype(torch.float64), torch.get_default_dtype),
    "device": (lambda: torch.set_default_device("meta"), torch.get_default_device),
    "kernel": (
        lambda: torch.backends.cuda.enable_flash_sdp(False),
        torch.backends.cuda.flash_sdp_enabled,
    ),
    "deterministic": (
        lambda: torch.use_deterministic_algorithms(True, warn_only=True),
        torch.get_deterministic_debug_mode,
    ),
    "gradients": (lambda: torch.set_grad_enabled(False), torch.is_grad_enabled),
    "threads": (lambda: torch.set_num_threads(3), torch.get_num_threads),
    "fast path": (
        lambda: torch.backends.mha.set_fastpath_enabled(False),
        torch.backends.mha.get_fastpath_enabled,
    ),
}


SWITCH_BACK: dict[str, Callable[[Any], Any]] = {
    "dtype": torch.set_default_dtype,
    "device": lambda _: torch.set_default_device(None),
    "kernel": torch.backends.cuda.enable_flash_sdp,
    "deterministic": torch.set_deterministic_debug_mode,
    "gradients": torch.set_grad_enabled,
    "threads": torch.set_num_threads,
    "fast path": torch.backends.mha.set_fastpath_enabled,
}


@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_torch_are_as_they_were(name: str) -> None:
    turn, read = SWITCHES[name]
    before, seen = read(), []

    def act(it: Doing) -> None:
        seen.append(read())
        turn()

    act(None)  # it does change something
    assert read() != before
    SWITCH_BACK[name](before)
    probe(Doing(act), only=["pad-content"])
    assert read() == before
    assert name in ("gradients", "threads") or set(seen) == {before}  # every call starts so


def test_a_layer_that_cannot_be_called_twice_is_reported() -> None:
    layer = Doing(lambda it: it.left.pop())
    layer.left = [1]
    report = probe(layer, only=["repetition"])
    assert "IndexError" in report["repetition"].meaning


# Where a probe is called from


def test_probing_in_inference_mode_finds_what_it_finds_without() -> None:
    layer = Attention()
    with torch.inference_mode():
        report = probe(layer)
        assert torch.is_inference_mode_enabled()
    assert report.ok
    assert report.findings == probe(layer).findings
    with torch.inference_mode():
        x = torch.randn(1, 4, 24)
        inside = effective_mask(layer, x)
    torch.testing.assert_close(inside, effective_mask(layer, x.clone()))


def test_a_layer_made_in_inference_mode_is_probed_without_gradients() -> None:
    with torch.inference_mode():
        layer = Attention()
    report = probe(layer, only=["pad-content", "later-tokens"], causal=True)
    assert [finding.verdict for finding in report.findings] == ["ok", "fault"]


def test_a_probe_in_another_thread_waits_for_its_turn() -> None:
    inside, reports, real = threading.Barrier(2), {}, sys.stdout
    states = torch.get_rng_state()
    layers = [Attention(causal=causal) for causal in (True, False)]
    torch.set_rng_state(states)

    def go(layer: Attention, causal: bool) -> None:
        inside.wait(60)
        reports[causal] = probe(layer, causal=causal)

    threads = [
        threading.Thread(target=go, args=pair) for pair in zip(layers, (True, False), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert [reports[causal].ok for causal in (True, False)] == [True, True]
    for causal, layer in zip((True, False), layers, strict=True):
        assert reports[causal].findings == probe(layer, causal=causal).findings
    assert sys.stdout is real
    assert torch.equal(torch.get_rng_state(), states)


def test_an_error_gives_the_turn_to_the_next_thread() -> None:
    with pytest.raises(ProbeError):
        probe(Attention)
    done = []
    other = threading.Thread(
        target=lambda: done.append(probe(Attention(), only=["order"]).ok), daemon=True
    )
    other.start()
    other.join(60)
    assert done == [True]


# Programs whose mode is fixed


@pytest.mark.filterwarnings("ignore:.torch.jit.*:DeprecationWarning")
def test_a_frozen_script_is_probed() -> None:
    example = torch.randn(2, 5, 24), torch.zeros(2, 5, dtype=torch.bool)
    for causal in (True, False):
        frozen = torch.jit.freeze(torch.jit.trace(Attention(causal=causal).eval(), example))
        report = probe(frozen, causal=True, only=["later-tokens", "pad-content"])
        verdicts = [finding.verdict for finding in report.findings]
        assert verdicts == ["ok", "ok" if causal else "fault"]


def test_an_exported_program_is_probed_in_the_mode_it_has() -> None:
    example = torch.randn(5, 7, 24), torch.zeros(5, 7, dtype=torch.bool)
    exported = torch.export.export(Attention(causal=True).eval(), example).module()
    was = exported.training
    report = probe(exported, causal=True, only=["later-tokens", "pad-content"])
    assert [finding.verdict for finding in report.findings] == ["ok", "ok"]
    assert any("is exported" in note for note in report.notes)
    assert exported.training is was


def test_an_exported_program_of_other_sizes_says_what_to_do() -> None:
    example = torch.randn(2, 9, 24), torch.zeros(2, 9, dtype=torch.bool)
    exported = torch.export.export(Attention().eval(), example).module()
    with pytest.raises(ProbeError, match="export it with dynamic_shapes for batch and seq"):
        probe(exported)


# Effective masks


@pytest.mark.parametrize("length", [7, 9, 20, 40])
@pytest.mark.parametrize("gradients", [None, False])
def test_an_effective_mask_needs_no_size_but_that_of_x(length: int, gradients) -> None:
    def layer(x: Tensor) -> Tensor:
        assert x.shape == (2, length, 3)
        return x.cumsum(1)

    x = torch.randn(2, length, 3, dtype=torch.float64)
    found = effective_mask(layer, x, gradients=gradients)
    expected = 3**0.5 * torch.ones(length, length, dtype=torch.float64).tril().expand(2, -1, -1)
    torch.testing.assert_close(found, expected)


def test_an_effective_mask_needs_no_mask_but_the_one_given() -> None:
    blocked = torch.tensor([[True, False, False]])

    def layer(x: Tensor, mask: Tensor) -> Tensor:
        assert torch.equal(mask, blocked)
        return x.masked_fill(mask.unsqueeze(-1), 0).cumsum(1)

    found = effective_mask(layer, torch.randn(1, 3, 4), blocked)[0] > 0
    assert found.tolist() == [[False] * 3, [False, True, False], [False, True, True]]
