"""Attention functions, libraries' layers, and the command."""

import argparse
import json
import math
import os
import re
import sys
import time
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
from selfattn.probes.functions.faulty import FUNCTION_FAULTS, attend, attend_causally


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
    assert [finding.name for finding in report.faults] == ["empty-row", "empty-gradients"]
    blocked = torch.eye(3, dtype=torch.bool) | torch.tensor([[True], [False], [False]])
    v = torch.randn(3, 8, requires_grad=True)
    out, _ = attention(torch.randn(3, 8), torch.randn(3, 8), v, blocked)
    out[1:].sum().backward()
    assert v.grad is not None
    assert v.grad.isnan().all()  # zero, as the loss leaves that row out, times nan


def test_right_functions_are_quiet_in_other_claims() -> None:
    for claims in ({"causal": True}, {"heads": 5}, {"heads": 2}, {"dim": 12}):
        assert probe_attention(attend_causally if "causal" in claims else attend, **claims).ok
    assert probe_attention(F.scaled_dot_product_attention, dtype=torch.float16).ok
    online = [probe_attention(online_softmax, dtype=d).ok for d in (torch.float32, torch.bfloat16)]
    assert online == [True, True]


def online_softmax(q, k, v, blocked):
    """Blocks of two keys; what there is already is rescaled when a new maximum comes."""
    hidden = torch.zeros(q.shape[-2], k.shape[-2], dtype=torch.bool) if blocked is None else blocked
    largest = torch.full_like(q[..., :1], -math.inf)
    total, out = torch.zeros_like(largest), torch.zeros(*q.shape[:-1], v.shape[-1], dtype=v.dtype)
    for i in range(0, k.shape[-2], 2):
        scores = q @ k[..., i : i + 2, :].mT * q.shape[-1] ** -0.5
        scores = scores.masked_fill(hidden[:, i : i + 2], -math.inf)
        new = torch.maximum(largest, scores.amax(-1, keepdim=True))
        finite = new.masked_fill(new == -math.inf, 0)
        weights, before = (scores - finite).exp(), (largest - finite).exp()
        total = total * before + weights.sum(-1, keepdim=True)
        out, largest = out * before + weights @ v[..., i : i + 2, :], new
    return out / total.masked_fill(total == 0, 1)


@pytest.mark.parametrize("key_heads", [8, 9, 16])
def test_more_key_heads_than_entries(key_heads: int) -> None:
    claims = {"heads": 2 * key_heads, "key_heads": key_heads}
    assert probe_attention(F.scaled_dot_product_attention, **claims)["group-map"].verdict == "ok"


def test_keys_may_be_tiled_where_values_are_not() -> None:
    def tiled(q, k, v, blocked):
        return attend(q, k.repeat(1, 3, 1, 1), v.repeat_interleave(3, 1), blocked)

    found = probe_attention(tiled, heads=6, key_heads=2)["group-map"].where["found"]
    assert found == (
        "query heads use the keys of key heads [0, 1, 0, 1, 0, 1], and not [0, 0, 0, 1, 1, 1]"
    )


BY_NAME = {fault.what.removeprefix("function: "): fault for fault in FUNCTION_FAULTS}


@pytest.mark.parametrize(
    ("what", "probe", "where"),
    [
        ("triangle of 16", "blocks", {"row": 16, "q": [2, 4, 20, 8], "mask": "none"}),
        ("mask's first slice for each chunk", "blocks", {"row": 8, "mask": "scattered"}),
        ("as many keys as queries", "shapes", {"q": [2, 4, 5, 8], "k": [2, 4, 6, 8]}),
        ("one query without scale", "scale", {"q": [2, 4, 1, 8]}),
        ("scale of width 8", "scale", {"q": [2, 4, 2, 16]}),
        ("scale of the values' width", "scale", {"v": [2, 4, 2, 16]}),
        ("samples mixed from three on", "shapes", {"q": [3, 4, 6, 8]}),
        ("mask taken by sample", "shapes", {"q": [5, 4, 5, 8], "mask": "scattered"}),
        ("corner beside a mask", "corner", {"mask": "the second key"}),
        ("all rows blocked, none is", "empty-row", {"blocked": "all rows"}),
        ("triangle lost with gradients", "modes", {"mode": "gradients on"}),
        ("memory taken as contiguous", "layout", {"memory": "last two axes transposed"}),
    ],
)
def test_a_fault_says_where_it_is(what: str, probe: str, where: dict) -> None:
    fault = BY_NAME[what]
    report = probe_attention(fault.function, **fault.claims)
    assert [finding.name for finding in report.faults] == [probe]  # and under no other name
    found = report[probe].where
    assert {name: found[name] for name in where} == where


@pytest.mark.parametrize(
    ("what", "probe", "said"),
    [
        ("writes into the mask", "inputs", "the mask is changed"),
        ("keys detached", "backward", "k gets no gradient"),
        ("infinity added, then zeroed", "empty-gradients", "the gradient of q is not finite"),
        ("earlier mask kept", "repetition", "the second call differs"),
        ("no maximum subtracted", "high-scores", "scores of 177.4, 0 and -177.4"),
        ("scores clamped", "high-scores", "a score of 177.4 beside two of 88.72"),
        ("renormalised after the mask", "high-scores", "the score of a blocked key is 177.4"),
        ("corner beside a mask", "corner", "with 2 queries and 5 keys, the triangle is anchored"),
        ("one query without scale", "scale", "the scale is 1.0000 and not 0.3536: no scale"),
        ("scale of the values' width", "scale", "0.2500 and not 0.3536: the root of the values'"),
    ],
)
def test_a_fault_says_what_it_is(what: str, probe: str, said: str) -> None:
    fault = BY_NAME[what]
    report = probe_attention(fault.function, **fault.claims)
    assert [finding.name for finding in report.faults] == [probe]
    assert said in report[probe].where["found"]


def test_a_score_that_overflows_is_the_dtypes() -> None:
    """Twice the logarithm of the largest number: 2 * 88.72 in float32, 2 * 709.8 in float64."""
    fault = BY_NAME["no maximum subtracted"].function
    found = probe_attention(fault, dtype=torch.float64)["high-scores"].where["found"]
    assert "1420" in found
    assert float(torch.tensor(177.4).exp()) == math.inf == float(torch.tensor(1420.0).exp())


def test_inputs_written_in_place_have_one_name() -> None:
    def inverted(q, k, v, blocked):
        if blocked is None:
            return attend(q, k, v, None)
        keep = blocked.logical_not_()
        return attend(q, k, v, ~keep)

    def scaled(q, k, v, blocked):
        q *= q.shape[-1] ** -0.5
        return attend(q, k, v, blocked, scale=1.0)

    for function, said in ((inverted, "the mask is changed"), (scaled, "q is changed")):
        report = probe_attention(function)
        assert [finding.name for finding in report.faults] == ["inputs"]
        assert report["inputs"].where["found"] == said


def test_what_goes_on_only_beside_a_mask_or_between_masks() -> None:
    def dropping(q, k, v, blocked):
        out = attend(q, k, v, blocked)
        return out if blocked is None else F.dropout(out, 0.1)

    kept: dict = {}

    def first_mask(q, k, v, blocked):
        if blocked is not None:
            blocked = kept.setdefault(blocked.shape, blocked)
        return attend(q, k, v, blocked)

    found = probe_attention(dropping)["repetition"].where["found"]
    assert found == "the second call with a mask differs"
    found = probe_attention(first_mask)["repetition"].where["found"]
    assert found == "the mask of an earlier call is used, and not its own"


def test_what_a_fault_would_show_again_is_not_judged() -> None:
    report = probe_attention(BY_NAME["no scale"].function)
    assert {finding.name for finding in report.faults} == {"scale", "formula"}
    assert report["blocks"].verdict == "cannot tell"
    assert "fault of scale" in report["blocks"].meaning


def test_a_function_that_passes_no_gradients() -> None:
    report = probe_attention(lambda q, k, v, blocked: attend(q, k, v, blocked).detach())
    assert report.ok
    assert report["backward"].verdict == "not applicable"


def test_sizes_that_a_function_refuses_are_its_own_affair() -> None:
    def short(q, k, v, blocked):
        if k.shape[-2] > 32 or v.shape[-1] != 8:
            raise ValueError("too large")
        return attend(q, k, v, blocked)

    assert probe_attention(short).ok


def test_a_function_that_takes_no_none() -> None:
    report = probe_attention(lambda q, k, v, blocked: attend(q, k, v, blocked | False))
    assert report.ok
    assert any("takes no None" in note for note in report.notes)


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
    with pytest.raises(ProbeError, match="say mask=False"):
        probe_attention(lambda q, k, v: attend(q, k, v, None))
    with pytest.raises(ProbeError, match="say heads=None"):
        probe_attention(lambda q, k, v, blocked: torch.bmm(torch.bmm(q, k.mT).softmax(-1), v))
    with pytest.raises(ProbeError, match=r"did not come back .* Give budget="):
        probe_attention(lambda q, k, v, blocked: time.sleep(60), budget=1)


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        ({"heads": 5, "key_heads": 2}, "5 query heads cannot share 2 key heads"),
        ({"heads": None, "key_heads": 2}, "heads=None says that there are no heads"),
        ({"heads": -1}, "heads must be a whole number from 1, or None; got -1"),
        ({"key_heads": 0}, "key_heads must be a whole number from 1, or None; got 0"),
        ({"dim": 4}, "dim must be a whole number from 8 on"),
        ({"scale": 0.0}, "scale must be a finite number above 0; got 0.0"),
        ({"scale": -1}, "scale must be a finite number above 0; got -1"),
        ({"scale": math.inf}, "scale must be a finite number above 0; got inf"),
        ({"causal": 2}, "causal must be True or False; got 2"),
        ({"mask": "right"}, "mask must be True or False; got 'right'"),
        ({"dtype": torch.int64}, "dtype must be a floating-point dtype"),
        ({"budget": 0}, "budget must be a number of seconds above 0"),
    ],
)
def test_claims_that_make_no_sense(claims: dict, said: str) -> None:
    with pytest.raises(ClaimError, match=re.escape(said)):
        probe_attention(attend, **claims)


def test_what_is_no_function() -> None:
    with pytest.raises(ClaimError, match=re.escape("fn must be a function (q, k, v, blocked)")):
        probe_attention(3)


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
    assert out.count("\n") == 30
