"""The probes as a whole: quiet on right layers, loud on faulty ones, and nothing left changed."""

import json
import random
import re
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

from selfattn.probes import ClaimError, ProbeError, assert_sound, effective_mask, probe
from selfattn.probes.catalog import CATALOG
from selfattn.probes.claims import claims_of
from selfattn.probes.faulty import FAULTS
from selfattn.probes.faulty.modes import DropoutInEval
from selfattn.probes.faulty.padding_masks import NoMask
from selfattn.probes.faulty.triangles import NoTriangle
from selfattn.probes.gallery import claims_of_fault, table
from selfattn.probes.padding import pad_content
from selfattn.probes.report import VERDICTS
from selfattn.probes.run import catalog
from selfattn.probes.sound import SOUND, Attention, Block, Rotary


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(1)


# Right and faulty layers


@pytest.mark.parametrize("name", SOUND)
def test_quiet_on_right_layers(name: str) -> None:
    report = probe(SOUND[name].make(), seed=1, **SOUND[name].claims)
    assert report.ok, str(report)
    doubtful = {f.name for f in report.findings if f.verdict == "cannot tell"}
    assert doubtful <= {"dropout"}  # means do not carry over where all around is not linear


@pytest.mark.parametrize("name", ["norm before, causal", "rotary positions"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_quiet_in_other_precisions(name: str, dtype: torch.dtype) -> None:
    layer = SOUND[name].make().to(dtype)
    claims = {key: value for key, value in SOUND[name].claims.items() if key != "factory"}
    report = probe(layer, seed=1, **claims)
    assert report.ok, str(report)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.what)
def test_every_fault_is_found_by_its_probes(fault) -> None:
    layer = fault.make()
    report = probe(layer, seed=1, only=fault.found_by, **claims_of_fault(fault, layer))
    assert {finding.name for finding in report.faults} == set(fault.found_by)


@pytest.mark.parametrize("fault", FAULTS[::8], ids=lambda fault: fault.what)
def test_faults_are_found_in_bfloat16(fault) -> None:
    layer = fault.make().to(torch.bfloat16)
    report = probe(layer, seed=1, only=fault.found_by, **claims_of_fault(fault, layer))
    assert {finding.name for finding in report.faults} == set(fault.found_by)


def test_what_is_not_claimed_is_not_judged() -> None:
    assert probe(NoTriangle(causal=True)).ok  # it never said that it is causal
    assert probe(NoMask(), mask=False).ok
    assert not probe(Rotary(), only=["order"]).ok
    assert probe(Rotary(), positions="absolute", only=["order", "left-pads"]).ok


def test_outputs_at_pads_are_never_judged() -> None:
    class Garbage(Attention):
        def forward(self, x, blocked=None):
            out = super().forward(x, blocked)
            if blocked is None:
                return out
            spoilt = blocked & ~blocked.all(1, keepdim=True)
            return out.masked_fill(spoilt[..., None], float("nan"))

    assert probe(Garbage()).ok


def test_a_sink_is_no_fault_when_it_is_claimed() -> None:
    class Sink(Attention):
        def softmax(self, scores, empty):
            sink = torch.zeros_like(scores[..., :1])
            return torch.cat([scores, sink], -1).softmax(-1)[..., :-1].masked_fill(empty, 0)

    only = ["equal-tokens", "one-token", "pad-content"]
    assert {f.name for f in probe(Sink(), only=only).faults} == {"equal-tokens", "one-token"}
    assert probe(Sink(), sums_to_one=False, only=only).ok


def test_the_table_of_faults_by_probes() -> None:
    rows = table(FAULTS[:2], only=["later-tokens", "allowed-tokens", "pad-content"])
    assert [row.fault.what for row in rows] == [fault.what for fault in FAULTS[:2]]
    assert [row.found_by for row in rows] == [["later-tokens"], ["later-tokens"]]
    assert rows[0].cells["pad-content"].verdict == "ok"


# The layer is left as it was


def test_the_layer_and_all_random_states_stay() -> None:
    layer = Block(Attention())
    layer.train()
    layer.attention.query.eval()
    layer(torch.randn(2, 3, 24)).sum().backward()
    modes = [module.training for module in layer.modules()]
    weights = {name: value.clone() for name, value in layer.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in layer.parameters()]
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    threads, grad = torch.get_num_threads(), torch.is_grad_enabled()
    probe(layer)
    assert [module.training for module in layer.modules()] == modes
    assert all(torch.equal(value, weights[name]) for name, value in layer.state_dict().items())
    now = [parameter.grad for parameter in layer.parameters()]
    assert all(torch.equal(a, b) for a, b in zip(now, gradients, strict=True))
    assert torch.equal(torch.get_rng_state(), states[0])
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states[1:]
    assert (torch.get_num_threads(), torch.is_grad_enabled()) == (threads, grad)


def test_a_module_inside_a_function_is_found_and_stays() -> None:
    layer = nn.Sequential(nn.Dropout(0.5), nn.Linear(24, 24)).train()
    attention = Attention()

    def call(x, blocked):
        return attention(layer(x), blocked)

    assert probe(call).ok  # in eval mode there is no dropout
    assert layer.training


def test_state_is_a_finding_and_is_put_back() -> None:
    class Counts(Attention):
        calls = 0

        def forward(self, x, blocked=None):
            self.calls += 1
            return super().forward(x, blocked) * (1 + 0.1 * self.calls)

    layer = Counts()
    report = probe(layer)
    assert {finding.name for finding in report.faults} == {"repetition"}
    assert layer.calls == 0
    assert "layer" in report["repetition"].where["kept"]


def test_two_runs_with_one_seed_agree() -> None:
    layer = DropoutInEval()
    only = ["pad-content", "order", "repetition", "modes"]
    first, second = (probe(layer, seed=5, only=only).to_dict() for _ in range(2))
    assert first.pop("seconds") > 0
    second.pop("seconds")
    assert first == second


def test_no_gradients_are_needed() -> None:
    layer = Attention().requires_grad_(False)
    assert probe(torch.no_grad()(layer.forward)).ok


# Layers that misbehave


def test_lengths_are_found_that_the_layer_takes() -> None:
    class Picky(Attention):
        def forward(self, x, blocked=None):
            if x.shape[1] < 16 or x.shape[1] % 4:
                raise ValueError("at least 16 tokens, and fours of them")
            return super().forward(x, blocked)

    report = probe(Picky())
    assert report.ok
    assert report["pad-content"].verdict == "ok"
    assert report["pad-count"].verdict == "ok"
    assert report["one-token"].verdict == "cannot tell"
    assert "at least 16 tokens" in report["one-token"].meaning


def test_tuples_prints_and_warnings_are_no_faults(capsys: pytest.CaptureFixture[str]) -> None:
    class Loud(Attention):
        def forward(self, x, blocked=None):
            print("here")
            return super().forward(x, blocked), None

    report = probe(Loud())
    assert report.ok
    assert capsys.readouterr().out == ""
    assert any("tuple" in note for note in report.notes)
    assert any("prints" in note for note in report.notes)


@pytest.mark.parametrize("in_thread", [False, True])
def test_a_layer_that_hangs_ends_in_an_error(in_thread: bool) -> None:
    errors: list[str] = []

    def run() -> None:
        try:
            probe(lambda x, blocked: time.sleep(4), budget=1)
        except ProbeError as error:
            errors.append(str(error))

    thread = threading.Thread(target=run)
    thread.start() if in_thread else run()
    thread.join() if in_thread else None
    assert "did not come back within 0.3 s" in errors[0]


def test_a_layer_that_hangs_at_one_size_is_judged_at_others() -> None:
    attention = Attention()

    def call(x, blocked):
        if x.shape[1] == 1:
            time.sleep(60)
        return attention(x, blocked)

    report = probe(call, budget=6, only=["one-token", "pad-content"])
    assert report["pad-content"].verdict == "ok"
    assert report["one-token"].verdict == "cannot tell"
    assert "did not come back" in report["one-token"].meaning


def test_a_slow_layer_uses_up_its_budget_and_no_more() -> None:
    attention = Attention()

    def slow(x, blocked):
        time.sleep(0.05)
        return attention(x, blocked)

    report = probe(slow, budget=2)
    assert report.ok
    assert report.seconds < 4
    assert "no time was left of the 2 s" in report["shapes"].meaning


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (lambda x, blocked: x.mean(1), r"returned shape \[5, 24\] instead of \[5, 7, width_out\]"),
        (lambda x, blocked: 3, "returned int and no tensor"),
        (lambda x: x, r"takes \(x\) and no mask; expected \(x, blocked\). Say mask=False"),
        (None, "must be callable"),
    ],
)
def test_what_cannot_be_probed_is_a_clear_error(layer, said: str) -> None:
    with pytest.raises(ProbeError, match=said):
        probe(layer)


def test_the_error_ends_with_the_layers_own_traceback() -> None:
    def broken(x, blocked):
        raise KeyError("no such luck")

    with pytest.raises(ProbeError) as caught:
        probe(broken)
    text = str(caught.value)
    assert "KeyError: 'no such luck', for x [5, 7, 24]" in text
    assert text.rstrip().endswith("KeyError: 'no such luck'")
    assert "selfattn/probes" not in text


def test_compiled_and_scripted_layers() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.query, self.key, self.value = (nn.Linear(24, 24) for _ in range(3))

        def forward(self, x: torch.Tensor, blocked: torch.Tensor | None = None) -> torch.Tensor:
            scores = self.query(x) @ self.key(x).transpose(-2, -1) / 24**0.5
            if blocked is not None:
                hidden = blocked.unsqueeze(1)
                scores = scores.masked_fill(hidden & (~hidden.all(-1, keepdim=True)), -1e30)
            return scores.softmax(-1) @ self.value(x)

    with pytest.warns(DeprecationWarning, match="jit.script"):
        scripted = torch.jit.script(Plain())
    assert probe(scripted).ok
    only = ["pad-content"]
    assert probe(torch.compile(Attention(), backend="eager"), only=only).ok
    found = probe(torch.compile(NoMask(), backend="eager"), only=only)
    assert [finding.name for finding in found.faults] == ["pad-content"]


# Claims


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"casual": True}, "unknown claim 'casual'; did you mean 'causal'"),
        ({"positions": "relative"}, "positions must be False, True, \"absolute\"; got 'relative'"),
        ({"heads": 5}, "width 24 cannot be shared by 5 heads"),
        ({"cache": True}, "cache and causal=False contradict each other"),
        ({"window": 0}, "window must be a whole number from 1; got 0"),
        ({"budget": 0}, "budget must be a number of seconds above 0; got 0"),
        ({"mask": "left"}, "mask must be True, \"right\" or False; got 'left'"),
        ({"only": ["pads"]}, "no probe 'pads'; there are pad-content"),
    ],
)
def test_wrong_claims(claims: dict, said: str) -> None:
    with pytest.raises(ClaimError, match=re.escape(said)):
        probe(Attention(), **claims)


# Reports


def test_a_report_in_words_and_as_values() -> None:
    report = probe(NoMask(), heads=4)
    text = str(report)
    assert text.startswith("NoMask: ")
    assert all(finding.name in text for finding in report.findings)
    assert "Pads take part" in text
    values = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert values["ok"] is False
    assert values["claims"] == {"heads": 4}
    assert values["faults"] == [finding.name for finding in report.faults]
    assert {finding["verdict"] for finding in values["findings"]} <= set(VERDICTS)
    for finding in report.faults:
        assert finding.meaning
        assert finding.causes
        assert finding.page


def test_the_lessons_pages_exist() -> None:
    from pathlib import Path

    docs = Path(__file__).parent.parent / "docs"
    pages = {entry.page for entry in catalog().values()} | {fault.page for fault in FAULTS}
    assert all((docs / f"{page}.md").exists() for page in pages)


def test_a_probe_can_be_called_alone() -> None:
    finding = pad_content(NoMask(), width=24)
    assert (finding.name, finding.verdict) == ("pad-content", "fault")
    assert pad_content(Attention()).verdict == "ok"
    assert set(CATALOG) == set(catalog())


def test_the_assertion() -> None:
    only = ["pad-content", "order"]
    assert assert_sound(Attention(), only=only).ok
    with pytest.raises(AssertionError, match=r"(?s)NoMask has 1 fault:.*pad-content: fault"):
        assert_sound(NoMask(), only=only)


def test_the_fixture(tmp_path) -> None:
    file = tmp_path / "test_layer.py"
    file.write_text(
        "from selfattn.probes.faulty.padding_masks import NoMask\n"
        "def test_it(assert_sound):\n"
        "    assert_sound(NoMask(), only=['pad-content'])\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "selfattn.probes.pytest_plugin",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1
    assert "NoMask has 1 fault:" in done.stdout


def test_importing_the_package_leaves_torch_alone() -> None:
    code = "import sys, selfattn.probes, selfattn.probes.pytest_plugin, selfattn.probes.command\n"
    done = subprocess.run(
        [sys.executable, "-c", code + "print('torch' in sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"


# Effective masks


def test_the_effective_mask_is_the_attention_mask() -> None:
    x, blocked = torch.randn(2, 5, 24), torch.zeros(2, 5, dtype=torch.bool)
    blocked[0, 3:] = True
    found = effective_mask(Attention(causal=True), x, blocked)
    assert found.shape == (2, 5, 5)
    reached = torch.ones(5, 5, dtype=torch.bool).tril()
    assert torch.equal(found[1] > 0, reached)
    # Pads reach nobody but, as queries, themselves.
    expected = reached & ~blocked[0]
    expected[3, 3] = expected[4, 4] = True
    assert torch.equal(found[0] > 0, expected)


def test_the_effective_mask_by_differences_agrees() -> None:
    x = torch.randn(1, 4, 24, dtype=torch.float64)
    layer = Block(Attention()).double()
    exact = effective_mask(layer, x)
    near = effective_mask(layer, x, gradients=False)
    torch.testing.assert_close(near, exact, rtol=1e-4, atol=1e-8)
    assert torch.equal(effective_mask(torch.no_grad()(layer.forward), x), near)


def test_the_effective_mask_of_a_linear_map_is_its_norm() -> None:
    weight = torch.randn(24, 3)
    found = effective_mask(lambda x: x.cumsum(1) @ weight, torch.randn(1, 3, 24))
    norm = float(weight.norm())
    torch.testing.assert_close(found[0], norm * torch.ones(3, 3, dtype=torch.float64).tril())


def test_claims_say_what_is_not_default() -> None:
    assert claims_of(causal=True, budget=5).said() == {"causal": True}
