"""Attention functions, libraries' layers, and the command."""

import argparse
import json
import os
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

from selfattn import attention
from selfattn.cli import main
from selfattn.probes import ClaimError, ProbeError, probe, probe_attention
from selfattn.probes import child as probe_child
from selfattn.probes import command as probe_command
from selfattn.probes.functions.faulty import FUNCTION_FAULTS, attend


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fault", FUNCTION_FAULTS, ids=lambda fault: fault.what)
def test_faulty_functions_are_found(fault, dtype: torch.dtype) -> None:
    report = probe_attention(fault.function, dtype=dtype, **fault.claims)
    assert {finding.name for finding in report.faults} >= set(fault.found_by)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_right_functions_are_quiet(dtype: torch.dtype) -> None:
    assert probe_attention(attend, dtype=dtype).ok
    assert probe_attention(attend, heads=None, dtype=dtype).ok
    grouped = {"heads": 6, "key_heads": 2}
    assert probe_attention(F.scaled_dot_product_attention, dtype=dtype, **grouped).ok


def test_the_lessons_function_leaves_empty_rows_nan() -> None:
    report = probe_attention(attention, heads=None)
    assert [finding.name for finding in report.faults] == ["empty-row"]


def test_a_function_without_a_mask() -> None:
    report = probe_attention(lambda q, k, v: attend(q, k, v, None), mask=False)
    assert report.ok
    assert report["mask-sense"].verdict == "not applicable"


def test_flex_attention_and_its_sense() -> None:
    report = probe_attention(flex_attention, heads=2, causal=True, budget=300)
    assert report.ok, str(report)
    assert any("True = may look" in note for note in report.notes)


def test_functions_that_cannot_be_probed() -> None:
    with pytest.raises(ProbeError, match=r"(?s)returned .* it was given q, k, v \[2, 4, 5, 8\]"):
        probe_attention(lambda q, k, v, blocked: q.sum())
    with pytest.raises(ClaimError, match="5 query heads cannot share 2 key heads"):
        probe_attention(attend, heads=5, key_heads=2)


# PyTorch's own layers and Hugging Face's


def test_an_encoder_has_its_live_faults_and_no_others() -> None:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(24, 4, 48, batch_first=True)
    report = probe(nn.TransformerEncoder(layer, 2))
    assert {finding.name for finding in report.faults} == {"modes"}
    assert any("src_key_padding_mask" in note for note in report.notes)


def test_a_causal_module_of_another_layout() -> None:
    torch.manual_seed(0)
    report = probe(nn.MultiheadAttention(30, 3), causal=True)  # sequence first, another width
    assert {finding.name for finding in report.faults} == {"empty-rows", "empty-gradients"}
    assert report["later-tokens"].verdict == "ok"


def test_hugging_face_models_by_their_configuration() -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=50, n_embd=24, n_layer=1, n_head=4, bos_token_id=0, eos_token_id=0
    )
    report = probe(GPT2Model(config), budget=300)
    assert report.ok, str(report)
    assert report.claims == {"causal": True, "positions": True, "cache": "step"}
    assert report["cache"].verdict == "ok"
    assert any("1 = may look (keep)" in note for note in report.notes)


# The command


@pytest.fixture
def layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mylayers.py"
    file.write_text(
        "import os, time\n"
        "from selfattn.probes.faulty.padding_masks import NoMask\n"
        "from selfattn.probes.sound import Attention\n"
        "print('importing')\n"
        "def good(width): return Attention(width)\n"
        "def bad(): return NoMask()\n"
        "def broken(): raise RuntimeError('boom')\n"
        "def pooled(): return lambda x, blocked: x.mean(1)\n"
        "def dies(): return lambda x, blocked: os._exit(7)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mylayers", raising=False)
    return file


def child(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Run what the command runs in its child process, in this one."""
    parser = argparse.ArgumentParser()
    probe_command.add_to(parser.add_subparsers())
    given = vars(parser.parse_args(["probe", *words]))
    del given["run"]
    return probe_child.main(given), *capsys.readouterr()


def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    status = main(["probe", *words])
    return status, *capsys.readouterr()


def test_the_command_on_a_good_and_a_bad_layer(layers: Path, capsys) -> None:
    status, out, _ = command(capsys, "mylayers:good", "--width", "32", "--only", "order", "--json")
    assert status == 0
    values = json.loads(out)
    assert values["ok"] is True
    assert values["claims"] == {"width": 32}
    status, out, _ = child(capsys, "mylayers:bad", "--only", "pad-content")
    assert status == 1
    assert "pad-content: fault" in out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mylayers:nope"], "cannot import mylayers:nope: AttributeError"),
        (["nowhere:layer"], "cannot import nowhere:layer: ModuleNotFoundError"),
        (["mylayers:broken"], "boom"),
        (["mylayers:pooled"], "returned shape [5, 24] instead of [5, 7, width_out]"),
        (["mylayers:good", "--only", "nope"], "no probe 'nope'"),
    ],
)
def test_the_command_could_not_run(layers: Path, capsys, words: list[str], said: str) -> None:
    status, out, err = child(capsys, *words)
    assert status == 2
    assert out == ""
    assert said in err


def test_the_command_without_a_layer_and_with_one_that_dies(layers: Path, capsys) -> None:
    status, _, err = command(capsys)
    assert status == 2
    assert "name a layer as package.module:factory" in err
    status, _, err = command(capsys, "mylayers:dies")
    assert status == 2
    assert "ended its process with status 7" in err


def test_the_command_ends_a_layer_that_answers_no_signal(
    layers: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers.write_text(
        "import signal, time\n"
        "def stuck():\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})\n"
        "    return lambda x, blocked: time.sleep(600)\n"
    )
    monkeypatch.setattr("selfattn.probes.command.GRACE", 12.0)
    status, _, err = command(capsys, "mylayers:stuck", "--budget", "1")
    assert status == 2
    assert "was ended" in err


def test_the_command_lists_the_probes(capsys) -> None:
    status, out, _ = child(capsys, "--list")
    assert status == 0
    assert out.count("\n") == 28
