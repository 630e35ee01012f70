"""The probes on layers that change themselves, keep things, hide things, or do not run at all."""

import argparse
import json
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import transformers
from torch import Tensor, nn

from selfattn.cli import main
from selfattn.probes import ClaimError, ProbeError, effective_mask, probe
from selfattn.probes import child as probe_child
from selfattn.probes import command as probe_command
from selfattn.probes.budget import Budget
from selfattn.probes.claims import claims_of
from selfattn.probes.dropout import no_dropout
from selfattn.probes.faulty.modes import DropoutInEval
from selfattn.probes.run import catalog
from selfattn.probes.sound import Attention
from selfattn.probes.state import State
from selfattn.probes.subject import Subject


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
    transformers.logging.set_verbosity_error()


# What a layer does to itself


class Merging(nn.Linear):
    """A low-rank addition, merged into the weight in eval mode, as in Microsoft's loralib."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width)
        self.down = nn.Parameter(torch.randn(4, width) * 0.1)
        self.up = nn.Parameter(torch.randn(width, 4) * 0.1)
        self.merged = False

    def train(self, mode: bool = True) -> "Merging":
        super().train(mode)
        if self.merged is mode:
            self.weight.data += (-1 if mode else 1) * self.up @ self.down
            self.merged = not mode
        return self

    def forward(self, x: Tensor) -> Tensor:
        out = super().forward(x)
        return out if self.merged else out + x @ self.down.T @ self.up.T


def merging() -> Attention:
    layer = Attention()
    layer.query, layer.value = Merging(24), Merging(24)
    return layer


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_that_merges_weights_is_right_and_keeps_every_bit(training: bool) -> None:
    layer = merging().train(training)
    before = {name: value.clone() for name, value in layer.state_dict().items()}
    x = torch.randn(2, 6, 24)
    out = layer(x)
    report = probe(layer)
    assert report.ok, str(report)
    assert all(torch.equal(value, before[name]) for name, value in layer.state_dict().items())
    assert (layer.query.merged, layer.training) == (not training, training)
    assert torch.equal(layer(x), out)


def test_numbers_written_behind_autograd_in_a_call_are_put_back() -> None:
    class Grows(Attention):
        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            self.value.weight.data *= 1.25
            return super().forward(x, blocked)

    layer = Grows()
    before = layer.value.weight.detach().clone()
    report = probe(layer)
    assert [finding.name for finding in report.faults] == ["repetition"]
    assert torch.equal(layer.value.weight, before)


def test_a_weight_of_another_shape_is_put_back() -> None:
    module = nn.Linear(3, 3)
    before = module.weight.detach().clone()
    state = State(module)
    module.weight.data = torch.ones(5, 5)
    state.finish(everything=True)
    assert torch.equal(module.weight, before)


def test_a_buffer_that_was_written_with_gradients_keeps_no_graph() -> None:
    class Holds(Attention):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("last", torch.zeros(64, 64, 24))

        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            out = super().forward(x, blocked)
            self.last[: out.shape[0], : out.shape[1]] = out
            return out

    layer = Holds()
    assert probe(layer).ok
    assert (layer.last.requires_grad, layer.last.grad_fn) == (False, None)
    assert not layer.last.any()


def test_dropout_stays_switched_off_while_it_is_judged() -> None:
    module = nn.Sequential(nn.Dropout(0.5), nn.Linear(3, 3))
    state = State(module)
    with no_dropout(state):
        state.train(True)
        state.restore(everything=False)
        assert module[0].p == 0.0
        assert module.training
    state.finish(everything=False)
    assert module[0].p == 0.5


def test_training_with_dropout_off_is_compared_with_eval() -> None:
    class Louder(Attention):
        def __init__(self) -> None:
            super().__init__()
            self.drop = nn.Dropout(0.1)

        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            out = self.drop(super().forward(x, blocked))
            return out * 1.5 if self.training else out

    found = probe(Louder(), only=["modes"])["modes"]
    assert found.verdict == "fault"
    assert "training mode, dropout 0" in found.where["form"]


# What a layer keeps between calls


class Stale(Attention):
    """Keeps the mask of an earlier batch of the same size in an attribute."""

    kept: Tensor | None = None

    def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        if blocked is None:
            return super().forward(x)
        if self.kept is None or self.kept.shape != blocked.shape:
            self.kept = blocked
        return super().forward(x, self.kept)


def test_a_mask_that_is_kept_for_the_next_batch_is_found() -> None:
    layer, x = Stale(), torch.randn(2, 6, 24)
    first, second = torch.arange(6).expand(2, -1) >= 4, torch.arange(6).expand(2, -1) >= 2
    right = layer(x, second)
    layer.kept = None
    layer(x, first)
    by_hand = float((layer(x, second) - right)[:, :2].detach().abs().max())
    assert by_hand > 0.1
    layer.kept = None
    report = probe(layer)
    assert report.faults[0].name == "repetition"  # what else is found follows from it
    assert report["repetition"].moved > 0.1
    assert "other inputs and pads" in report["repetition"].where["changed"]
    assert layer.kept is None


def test_a_table_that_grows_is_no_fault() -> None:
    class Grows(Attention):
        table = torch.ones(0, 1)

        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            if len(self.table) < x.shape[1]:
                self.table = torch.ones(x.shape[1], 1)
            return super().forward(x * self.table[: x.shape[1]], blocked)

    assert probe(Grows(), only=["repetition"]).ok


def test_a_table_that_does_not_grow_is_found() -> None:
    class Cut(Attention):
        table: Tensor | None = None

        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            if self.table is None:
                self.table = torch.ones(x.shape[1], 1)
            long = torch.zeros(x.shape[1], 1)
            long[: len(self.table)] = self.table[: x.shape[1]]
            return super().forward(x * long, blocked)

    found = probe(Cut(), only=["repetition"])["repetition"]
    assert found.verdict == "fault"
    assert found.where["changed"] == "nothing, after a shorter input"


def test_a_fault_that_spoils_other_probes_comes_first() -> None:
    report = probe(DropoutInEval())
    assert len(report.faults) > 1
    assert report.faults[0].name == "repetition"
    assert any("does not repeat itself" in note for note in report.notes)
    assert report.to_dict()["faults"][0] == "repetition"


@pytest.mark.parametrize("seed", range(3))
def test_samples_dropped_in_training_are_no_fault(seed: int) -> None:
    class DropsSamples(Attention):
        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            out = super().forward(x, blocked)
            kept = torch.rand(len(x), 1, 1) > 0.3 if self.training else torch.ones(1, 1, 1)
            return x + out * kept

    report = probe(DropsSamples().train(), seed=seed, only=["allowed-tokens"])
    assert report.ok, str(report)


# Where a layer hides, and how it is called


class Holder:
    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Dropout(0.5), nn.Linear(24, 24))


class Slotted:
    __slots__ = ("net",)

    def __init__(self) -> None:
        self.net = nn.Sequential(nn.Dropout(0.5), nn.Linear(24, 24))

    def __call__(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
        return self.net(x)


HOLDER, SPACE = Holder(), types.SimpleNamespace(net=Holder().net)


def _in_an_object(x: Tensor) -> Tensor:
    return HOLDER.net(x)


def _in_a_namespace(x: Tensor) -> Tensor:
    return SPACE.net(x)


@pytest.mark.parametrize("layer", [_in_an_object, _in_a_namespace, Slotted()])
def test_a_module_in_another_object_is_put_into_eval(layer) -> None:
    with Subject(layer, claims_of(mask=False)) as subject:
        assert len(subject.state.modules) == 3
        x = torch.randn(5, 7, 24)
        assert torch.equal(subject.run(x), subject.run(x, afresh=False))
    assert all(module.training for module in subject.state.modules)


class NeedsFirst(Attention):
    def forward(self, x, need_weights=False, blocked=None):
        assert isinstance(need_weights, bool)
        return super().forward(x, blocked)


class PlacesFirst(Attention):
    def forward(self, x, places=None, mask=None):
        assert places is None
        return super().forward(x, mask)


class ByWordAlone(Attention):
    def forward(self, x, *, key_padding_mask=None):
        return super().forward(x, key_padding_mask)


@pytest.mark.parametrize("kind", [NeedsFirst, PlacesFirst, ByWordAlone])
def test_the_mask_is_handed_over_by_its_name(kind) -> None:
    report = probe(kind(), only=["pad-content", "mates-masks"])
    assert [finding.verdict for finding in report.findings] == ["ok", "ok"]


# What cannot be probed


class Unready(Attention):
    def train(self, mode: bool = True):
        raise RuntimeError("no mode today")


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Attention().to("meta"), "on the meta device"),
        (lambda: Unready(), "RuntimeError: no mode today"),
        (lambda: lambda x, blocked: x.to_sparse(), "returned a sparse_coo tensor"),
        (lambda: lambda x, blocked: x[..., :0], r"returned shape \[5, 7, 0\]"),
        (lambda: lambda x, blocked: x.transpose(0, 1), r"returned shape \[7, 5, 24\]"),
        (lambda: lambda x, blocked: Attention(), "returned Attention and no tensor"),
    ],
)
def test_what_cannot_be_probed_is_a_clear_error(make, said: str) -> None:
    with pytest.raises(ProbeError, match=said):
        probe(make())


def test_lazy_layers_are_a_clear_error() -> None:
    with pytest.raises(ProbeError, match=r"layer\.0 has a lazy parameter .* call the layer once"):
        probe(nn.Sequential(nn.LazyLinear(24)), mask=False)


def test_ids_and_caches_need_a_place() -> None:
    with pytest.raises(ProbeError, match=r"packed=True is claimed.* \(x, blocked, documents\)"):
        probe(Attention(), packed=True)
    with pytest.raises(ProbeError, match=r"cache=True is claimed.* \(x, blocked, cache\)"):
        probe(Attention(causal=True), causal=True, cache=True)


def test_large_seeds_and_complex_outputs_are_taken() -> None:
    assert probe(Attention(), seed=10**20, only=["order", "repetition"]).ok
    turned = probe(lambda x: torch.complex(x, x.cumsum(1)), mask=False, only=["order"])
    assert not turned.ok  # the second part depends on the order


@pytest.mark.parametrize("budget", [float("nan"), float("inf")])
def test_a_budget_must_be_a_number(budget: float) -> None:
    with pytest.raises(ClaimError, match="budget must be a number of seconds above 0"):
        probe(Attention(), budget=budget)


def test_compiling_may_take_the_whole_budget_and_nothing_else_may() -> None:
    assert Budget(30).limit <= 10
    assert 29 < Budget(30, compiles=True).limit <= 30
    compiled = torch.compile(Attention(), backend="eager")
    with Subject(compiled, claims_of(budget=60)) as subject:
        assert subject.budget.compiles


# Effective masks


def test_the_effective_mask_of_a_layer_that_writes_into_its_input() -> None:
    class Writes(Attention):
        def forward(self, x: Tensor, blocked: Tensor | None = None) -> Tensor:
            x.mul_(2.0)
            return super().forward(x, blocked)

    layer, x = Writes(), torch.randn(1, 4, 24)
    found = effective_mask(layer, x)
    torch.testing.assert_close(found, 2 * effective_mask(Attention.forward.__get__(layer), 2 * x))


def test_pytorchs_own_layers_can_be_asked_to_be_causal() -> None:
    layer = nn.MultiheadAttention(24, 4, batch_first=True)
    x = torch.randn(1, 5, 24)
    assert (effective_mask(layer, x) > 0).all()
    found = effective_mask(layer, x, causal=True)[0] > 0
    assert torch.equal(found, torch.ones(5, 5, dtype=torch.bool).tril())


# In a terminal


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "odd_layers.py").write_text(
        "import os\n"
        "from torch import nn\n"
        "from selfattn.probes.sound import Attention\n"
        "def good(): return Attention()\n"
        "def meta(): return Attention().to('meta')\n"
        "def unmasked(): return lambda x: x\n"
        "def needs(a, b): return Attention()\n"
        "class Needs(Attention):\n"
        "    def __init__(self, width, bits): super().__init__(width)\n"
        "class Writes(Attention):\n"
        "    def forward(self, x, blocked=None):\n"
        "        os.write(1, b'raw')\n"
        "        return super().forward(x, blocked)\n"
        "def leaves(): os._exit(0)\n"
        "def leaves_with_2(): os._exit(2)\n"
        "def heads(): return nn.MultiheadAttention(24, 4, batch_first=True)\n"
        "def wide(): return Attention(32)\n"
        "class fails(Attention):\n"
        "    def forward(self, x, blocked=None): raise ValueError('never')\n"
        "class interrupted(Attention):\n"
        "    def forward(self, x, blocked=None): raise KeyboardInterrupt\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "odd_layers", raising=False)
    return "odd_layers"


def child(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run what the command runs in its child process, in this one."""
    parser = argparse.ArgumentParser()
    probe_command.add_to(parser.add_subparsers())
    given = vars(parser.parse_args(["probe", *words]))
    del given["run"]
    return probe_child.main(given), *capsys.readouterr()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["meta"], "on the meta device"),
        (["needs"], r"needs\(a, b\) was taken for a layer, since a factory requires nothing but"),
        (["Needs"], "Needs requires bits, which is not known"),
        (["unmasked"], "Say --no-mask if it has none"),
        (["good", "--packed"], "--packed is claimed"),
        (["good", "--only", ""], "no probe ''"),
        (["heads", "--packed"], "--packed is claimed, and MultiheadAttention"),
        (["heads", "--heads", "3"], "--heads 3 is claimed, and MultiheadAttention has 4"),
        (["fails"], "say --no-mask; if it takes one length only, say --seq;"),
        (["wide"], "if its width is not 24, say --width;"),
    ],
)
def test_what_cannot_run_ends_with_2(layers: str, capsys, words: list[str], said: str) -> None:
    status, out, err = child(capsys, f"{layers}:{words[0]}", *words[1:])
    assert (status, out) == (2, "")
    assert re.search(said, err)


def test_an_error_of_the_probes_themselves_ends_with_2(layers: str, capsys, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("ours")

    monkeypatch.setattr(probe_child, "probe", broken)
    status, _, err = child(capsys, f"{layers}:good")
    assert status == 2
    assert "ZeroDivisionError: ours" in err


def test_names_of_probes_may_have_spaces_between_them(layers: str, capsys) -> None:
    status, out, _ = child(capsys, f"{layers}:good", "--only", "finite, order")
    assert status == 0
    assert "2 of 2 probes ok" in out


def test_positions_leave_the_target_alone(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    seen: list[str] = []

    def ran(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        seen.append(command[-1])
        return subprocess.CompletedProcess(command, 0, "report", "")

    monkeypatch.setattr(probe_command.subprocess, "run", ran)
    for words in (["--positions", "a:b"], ["a:b", "--positions"], ["--positions=absolute", "a:b"]):
        assert main(["probe", *words]) == 0
        assert '"target": "a:b"' in seen[-1]
    assert '"positions": "absolute"' in seen[-1]
    assert '"positions": true' in seen[0]
    assert '"positions": true' in seen[1]
    assert main(["probe", "a:b", "--positions", "relative"]) == 2
    assert "takes the word absolute" in capsys.readouterr().err


@pytest.mark.parametrize("budget", ["nan", "inf", "0", "-1"])
def test_a_budget_in_a_terminal(budget: str, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["probe", "a:b", f"--budget={budget}"])
    assert ended.value.code == 2
    assert "above 0" in capsys.readouterr().err


def test_what_is_written_behind_pythons_back_is_no_part_of_the_report(layers: str, capsys) -> None:
    assert main(["probe", f"{layers}:Writes", "--only", "order", "--json"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("{")
    assert "raw" not in out
    assert "raw" in err


def test_a_process_that_ends_without_a_report_could_not_run(layers: str, capsys) -> None:
    assert main(["probe", f"{layers}:leaves"]) == 2
    assert "ended its process with status 0" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["meta"], ["fails"], ["no_such"], ["good", "--only", "x"]])
def test_what_cannot_run_is_one_json_object_too(layers: str, capsys, words: list[str]) -> None:
    status, out, err = child(capsys, f"{layers}:{words[0]}", *words[1:], "--json")
    assert status == 2
    told = json.loads(out)
    assert f"selfattn probe: {told['error']}" in err
    assert ("never" in told["traceback"]) is (words == ["fails"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a layer"),
        (["a:b", "--positions", "c:d"], "takes the word absolute"),
        (["a:b", "--budget", "nan"], "above 0"),
        (["a:b", "--no-such-word"], "unrecognized arguments: --no-such-word"),
        (["odd_layers:leaves_with_2"], "ended its process with status 2"),
    ],
)
def test_a_wrong_use_is_one_json_object_too(layers: str, capsys, words, said: str) -> None:
    try:
        status = main(["probe", *words, "--json"])
    except SystemExit as ended:
        status = ended.code
    out, err = capsys.readouterr()
    assert status == 2
    assert said in json.loads(out)["error"]
    assert said in err


def test_the_list_is_one_json_object_too(capsys) -> None:
    assert main(["probe", "--list", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["probes"]
    assert [entry["name"] for entry in listed] == list(catalog())
    assert all(entry["changes"] for entry in listed)


def test_an_interrupt_is_one_line(layers: str, capsys, monkeypatch) -> None:
    status, out, err = child(capsys, f"{layers}:interrupted")
    assert (status, out, err.count("\n")) == (130, "", 1)
    assert "interrupted (KeyboardInterrupt)" in err
    status, out, _ = child(capsys, f"{layers}:interrupted", "--json")
    assert status == 130
    assert "interrupted" in json.loads(out)["error"]
    assert main(["probe", f"{layers}:interrupted"]) == 130  # handed on from the process

    def pressed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(probe_command.subprocess, "run", pressed)
    capsys.readouterr()
    assert main(["probe", "a:b"]) == 130
    assert capsys.readouterr().err.count("\n") == 1


# Hugging Face's models


def _config(kind: str, **more: object):
    return getattr(transformers, kind)(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        vocab_size=50,
        max_position_embeddings=64,
        **more,
    )


def _model(kind: str, config: object) -> nn.Module:
    return getattr(transformers, kind)(config).eval()


def test_a_stack_of_windows_claims_what_the_whole_stack_sees() -> None:
    model = _model(
        "MistralModel", _config("MistralConfig", num_key_value_heads=2, sliding_window=3)
    )
    report = probe(model, only=["window", "later-tokens"])
    assert report.claims["window"] == 1 + 2 * (3 - 1)
    assert [finding.verdict for finding in report.findings] == ["ok", "ok"]


def test_a_window_too_long_to_try_is_said_and_costs_nothing() -> None:
    model = _model("MistralModel", _config("MistralConfig", num_key_value_heads=2))
    report = probe(model, only=["window"])
    assert report["window"].verdict == "not applicable"
    assert any("8191 keys back, too far to try" in note for note in report.notes)
    assert report.seconds < 20


def test_windows_that_alternate_with_full_attention_claim_none() -> None:
    config = _config("Gemma2Config", num_key_value_heads=2, head_dim=8, sliding_window=4)
    report = probe(_model("Gemma2Model", config), only=["window", "allowed-tokens"])
    assert report["window"].verdict == "not applicable"
    assert report.ok


def test_robertas_places_start_behind_its_pads() -> None:
    model = transformers.RobertaModel(_config("RobertaConfig"), add_pooling_layer=False).eval()
    report = probe(model, only=["pad-count", "call-forms", "left-pads"])
    assert report.ok, str(report)


@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
        ("Mpt", {"d_model": 32, "n_layers": 2, "n_heads": 4}),
        ("Mamba", {"hidden_size": 32, "num_hidden_layers": 1, "state_size": 8}),
    ],
)
def test_causal_models_are_known_without_a_flag(kind: str, config: dict[str, int]) -> None:
    made = getattr(transformers, f"{kind}Config")(vocab_size=50, **config)
    report = probe(_model(f"{kind}Model", made), only=["later-tokens", "allowed-tokens"])
    assert report.claims["causal"] is True
    assert [finding.verdict for finding in report.findings] == ["ok", "ok"]


def test_a_claim_of_the_users_wins() -> None:
    model = transformers.BertModel(_config("BertConfig"), add_pooling_layer=False).eval()
    assert probe(model, only=["later-tokens"])["later-tokens"].verdict == "not applicable"
    assert probe(model, causal=True, only=["later-tokens"])["later-tokens"].verdict == "fault"


def test_an_encoder_with_a_decoder_is_a_clear_error() -> None:
    small = {
        f"{side}_{what}": n
        for side in ("encoder", "decoder")
        for what, n in (("layers", 1), ("attention_heads", 4), ("ffn_dim", 8))
    }
    model = transformers.BartModel(transformers.BartConfig(d_model=32, vocab_size=50, **small))
    with pytest.raises(ProbeError, match="BartModel is an encoder and a decoder; pass one of them"):
        probe(model)


def test_falcons_mask_is_added_as_booleans_where_weights_are_asked_for() -> None:
    # In transformers 5.24 the bool mask that is made for the fused kernel, True where a token may
    # be looked at, is added to the scores when weights are asked for: 1 more, and nothing hidden.
    config = transformers.FalconConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=4, vocab_size=50
    )
    model = transformers.FalconModel(config).eval()
    x, later = torch.randn(1, 6, 32), torch.randn(1, 6, 32)
    later[:, :3] = x[:, :3]
    moved = []
    for options in ({"output_attentions": True}, {}):
        with torch.no_grad():
            out, other = (model(inputs_embeds=e, **options)[0] for e in (x, later))
        moved.append(float((out - other)[:, :3].abs().max()))
    assert moved[0] > 1e-3
    assert moved[1] < 1e-5
    report = probe(model, only=["later-tokens"])
    assert report["later-tokens"].where["form"].startswith("weights asked for")
    assert report["later-tokens"].verdict == "fault"
