"""The bench of the probes: what it runs, what it says, and how other checkers are asked."""

import sys

import pytest
import torch

from selfattn.probes.claims import claims_of
from selfattn.probes.faulty import FAULTS
from selfattn.probes.faulty.padding_masks import NoMask
from selfattn.probes.functions.faulty import FUNCTION_FAULTS
from selfattn.probes.sound import SOUND, Attention
from tools import probes_bench, probes_peers
from tools.probes_bench import OURS, Job, jobs, outcome, planned
from tools.probes_outcome import Outcome
from tools.probes_peer_inputs import InOne, Kept, Tokens
from tools.probes_peers import PEERS, Attempts, Peer, failed_checks, missing
from tools.probes_tables import tell

PYTORCHS = 3


def made(by: str, kind: str, name: str, *found: str, expected=(), error: str = "") -> Outcome:
    return Outcome(by, kind, name, "float32", 0, found, tuple(expected), error, 1.0)


# What is run


def test_every_layer_is_judged_by_us_and_by_every_peer() -> None:
    all_jobs = list(jobs())
    assert len({(job.by, job.kind, job.name) for job in all_jobs}) == len(all_jobs)
    ours = [job for job in all_jobs if job.by == OURS]
    assert len(ours) == len(FAULTS) + len(FUNCTION_FAULTS) + len(SOUND) + 1 + PYTORCHS
    assert all(job.expected for job in ours if job.kind == "fault")
    for peer in PEERS:
        layers = [job for job in all_jobs if job.by == peer.name]
        assert len(layers) == len(FAULTS) + len(SOUND)


def test_peers_have_fewer_seeds_and_one_precision() -> None:
    ours = sum(job.by == OURS for job in jobs())
    layers = len(FAULTS) + len(SOUND)
    absent = {peer.name: "no such module" for peer in PEERS}
    assert len(planned(2, absent)) == 2 * 2 * ours
    del absent["pangolinn"]
    assert len(planned(2, absent)) == 2 * 2 * ours + 2 * layers
    assert len(planned(20, absent)) == 20 * 2 * ours + 3 * layers


def test_what_is_good() -> None:
    assert made(OURS, "fault", "f", "a", "b", expected=["a"]).good
    assert not made(OURS, "fault", "f", "b", expected=["a"]).good
    assert made(OURS, "right", "r").good
    assert not made(OURS, "right", "r", "a").good
    assert made(OURS, "PyTorch", "p", "a", expected=["a"]).good
    assert not made(OURS, "PyTorch", "p", "a", "b", expected=["a"]).good
    assert not made(OURS, "right", "r", error="KeyError: 1").good


def test_a_layer_that_cannot_be_judged_does_not_end_the_others(monkeypatch) -> None:
    def raises(seed: int, dtype: str) -> list[str]:
        raise KeyError(f"{seed} {dtype}")

    monkeypatch.setattr(probes_bench, "jobs", lambda: [Job(OURS, "right", "r", (), raises)])
    found = outcome(0, 3, "float32")
    assert (found.found, found.error, found.good) == ((), "KeyError: '3 float32'", False)


@pytest.mark.parametrize(("found", "status"), [((), 0), (("order",), 1)])
def test_the_exit_status(monkeypatch, capsys, found: tuple[str, ...], status: int) -> None:
    results = [made(OURS, "fault", "f", "a", expected=["a"]), made(OURS, "right", "r", *found)]
    monkeypatch.setattr(probes_bench, "measured", lambda plan, processes: results)
    monkeypatch.setattr(probes_bench, "PYTORCH", ())
    monkeypatch.setattr("tools.probes_tables.PYTORCH", ())
    monkeypatch.setattr("sys.argv", ["bench", "--seeds", "1"])
    assert probes_bench.main() == status
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == ("a goal is missed" if status else "every goal is met")


def test_wrong_options(monkeypatch, capsys) -> None:
    monkeypatch.setattr("sys.argv", ["bench", "--seeds", "0"])
    with pytest.raises(SystemExit) as caught:
        probes_bench.main()
    assert caught.value.code == 2
    assert "must be at least 1, got 0" in capsys.readouterr().err


def test_the_tables(monkeypatch, capsys) -> None:
    monkeypatch.setattr("tools.probes_tables.PYTORCH", ())
    ours = [
        made(OURS, "fault", "one", "a", expected=["a"]),
        made(OURS, "fault", "two", error="TypeError: no"),
        made(OURS, "right", "fine", "b"),
    ]
    peers = [
        made("P", "fault", "one", "mask"),
        made("P", "fault", "two"),
        made("P", "right", "fine"),
        made("P", "right", "good", "mask"),
    ]
    tell(ours, peers, {"Q": "ModuleNotFoundError: No module named 'q'"})
    said = capsys.readouterr().out
    for line in (
        " 100%  one: a 100%",
        "   0%  two: none",
        "  not judged: two, float32, seed 0: TypeError: no",
        "1 of 2 runs of 2 faults found",
        "1 false alarms in 1 runs of 1 right layers",
        "  fine, float32, seed 0: b",
        "  Q: missing, ModuleNotFoundError: No module named 'q'",
        "  P: 50% of 2 runs of 2 faulty layers, 1 false alarms in 2 runs of 2 right ones",
        "    found by mask 1",
        "    false alarms: good (mask) 1",
        "  1 of 2 found by none of them: two",
    ):
        assert line.removeprefix(" ") in said


# Other checkers


def test_every_sense_of_a_mask_gives_the_layers_own_output() -> None:
    torch.manual_seed(0)
    layer, claims = Attention(), claims_of()
    x = torch.randn(2, 5, 24)
    keep = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    right = layer(x, keep == 0)
    assert torch.equal(Kept(layer, claims)(x, keep), right)
    assert torch.equal(InOne(layer, claims)(torch.cat([x, keep.unsqueeze(-1)], -1)), right)
    tokens = Tokens(layer, claims)
    ids = torch.tensor([[3, 1, 4, 1, 5], [9, 2, 6, 0, 0]])
    assert torch.equal(tokens(ids, keep), layer(tokens.table[ids], keep == 0))
    assert torch.equal(Kept(layer, claims_of(mask=False))(x, keep), layer(x, None))


def test_a_check_that_raises_calls_the_layer_faulty() -> None:
    def apply(make, claims, attempt: Attempts) -> None:
        layer, poisoned = make(), torch.randn(1, 5, 24)
        blocked = torch.tensor([[False, False, False, True, True]])
        real = layer(poisoned, blocked)[:, :3]
        poisoned[:, 3:] = 100

        def same() -> None:
            torch.testing.assert_close(layer(poisoned, blocked)[:, :3], real)

        attempt("pads", same)
        attempt("nothing", lambda: None)

    peer = Peer("P", "p", apply)
    assert failed_checks(peer, NoMask, {}, 0) == ["pads"]
    assert failed_checks(peer, Attention, {}, 0) == []


def test_a_missing_peer_is_named(monkeypatch) -> None:
    def nothing_but(name: str) -> None:
        if name != "torchtest2":
            raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(probes_peers.importlib, "import_module", nothing_but)
    assert missing() == {
        "pytest-torch": "ModuleNotFoundError: No module named 'pytest_torch'",
        "neural-net-checklist": "ModuleNotFoundError: No module named "
        "'neural_net_checklist.torch_diagnostics'",
        "pangolinn": "ModuleNotFoundError: No module named 'pangolinn.seq2seq'",
    }
