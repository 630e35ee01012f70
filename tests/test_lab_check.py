"""What a lab's check says of files that learners might write."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from selfattn.labs import check, starter
from selfattn.labs.answers import RIGHT, answers
from selfattn.labs.catalog import LABS, Lab

DOCS = Path(__file__).parent.parent / "docs"

# Written apart from the solutions, as learners might: other names, other ways, other prints.
LEARNERS = {
    "loops": """
import torch
from math import exp, sqrt
from selfattn.text import tokenize, vocab

words = tokenize("My card never arrived.")
torch.manual_seed(42)
table = torch.nn.Embedding(2202, 8, padding_idx=0)
wq = torch.nn.Linear(8, 8)
wk = torch.nn.Linear(8, 8)
wv = torch.nn.Linear(8, 8)
x = table(torch.tensor([vocab[w] for w in words]))
q, k, v = wq(x), wk(x), wv(x)
print("debug", x.shape)
me = words.index("card")
raw = [sum(a * b for a, b in zip(q[me].tolist(), k[j].tolist())) / sqrt(8) for j in range(5)]
row = [exp(r) / sum(exp(s) for s in raw) for r in raw]
print("Weighs most:", words[row.index(max(row))])
print("Tokens:", words)
print("Place of card:", me)
print("row:", [round(w, 6) for w in row])
print("sum of the row:", f"{sum(row):.5f}")
w = torch.softmax(q @ k.T / 8**0.5, dim=-1)
mine = sum(row[j] * v[j] for j in range(5))
print("rows differ by:", f"{(w[me] - torch.tensor(row)).abs().max().item():.6f}")
print(f"outputs differ by: {(w @ v)[me].sub(mine).abs().max().item():.6f}")
for d in (8, 512):
    torch.manual_seed(42)
    e = torch.nn.Embedding(2202, d, padding_idx=0)
    a = torch.nn.Linear(d, d)
    b = torch.nn.Linear(d, d)
    y = e(torch.tensor([vocab[w] for w in words]))
    s = a(y)[me] @ b(y).T
    print(f"6. width {d}:", s.softmax(-1).max().item(), (s / d**0.5).softmax(-1).max().item())
""",
    "masks": """
import torch
import torch.nn.functional as F
from selfattn.text import val_loader, vocab

batches = iter(val_loader)
ids = torch.cat([next(batches)[0], next(batches)[0]])
keep = ids.ne(0)
print("bytes at 512:", 64 * 512**2 * 4)
print("bytes at 48:", 64 * 48**2 * 4)
print("batch:", tuple(ids.shape))
print("shortest and longest:", keep.sum(1).min().item(), keep.sum(1).max().item())
with torch.no_grad():
    torch.manual_seed(42)
    e = torch.nn.Embedding(2202, 32, padding_idx=0)
    layers = [torch.nn.Linear(32, 32) for _ in "qkv"]
    q, k, v = [layer(e(ids)) for layer in layers]
    print("largest entry of a pad:", f"{e(ids)[~keep].abs().max():.6f}")
    print("key of a pad:", k[~keep][0, :4])

    def attend(q, k, v, blocked):
        s = q @ k.mT / 32**0.5
        w = s.masked_fill(blocked, float("-inf")).softmax(-1)
        return w @ v, w

    blocked = ~keep[:, None, :]
    out, w = attend(q, k, v, blocked)
    on_pads = [w[i][keep[i]][:, ~keep[i]].sum(-1).max() for i in range(64)]
    print(f"weight on pads: {max(on_pads):.6f}")
    worst = 0.0
    for i in range(64):
        n = int(keep[i].sum())
        one, _ = attend(q[i : i + 1, :n], k[i : i + 1, :n], v[i : i + 1, :n], torch.tensor(False))
        worst = max(worst, (one - out[i, :n]).abs().max().item())
    print(f"alone and in the batch differ by: {worst:.6f}")
    ref = F.scaled_dot_product_attention(q, k, v, attn_mask=keep[:, None, :])
    print("PyTorch differs by:", f"{(ref - out).abs().max():.6f}")
    future = torch.triu(torch.ones(48, 48), 1).bool()
    both = blocked | future
    out, _ = attend(q, k, v, both)
    print("joined mask:", both.shape)
    print(f"first output and its value differ by: {(out[0, 0] - v[0, 0]).abs().max():.6f}")
    ref = F.scaled_dot_product_attention(q, k, v, attn_mask=~both)
    print(f"PyTorch, joined, differs by: {(ref - out).abs().max():.6f}")
""",
}

# What to change in a learner's file, and what it must be told.
EXCHANGED = "query and key exchanged"
THEIRS = "an inverted mask for PyTorch's function"
ZERO = "the wrong softmax axis, or 0 times minus infinity"
NAN = "nan rows of pads"
UPSIDE = "a triangle upside down"
ORDER = "the wrong seed order: "
TRIANGLE = "a triangle off by one: "
AXIS = "torch.softmax(q @ k.T / sqrt(8), dim=0)[me].tolist()"
BLOCKED = "blocked = ~keep[:, None, :]"
TABLE = "table = torch.nn.Embedding(2202, 8, padding_idx=0)\n"
WRONG = [
    ("loops", {" / sqrt(8)": "", " / 8**0.5": ""}, "no scale"),
    ("loops", {"sqrt(8)": "sqrt(5)", "8**0.5": "5**0.5"}, "the wrong dimension under the root"),
    ("loops", {"sqrt(8)": "8", "8**0.5": "8"}, "the width without its root"),
    ("loops", {"[exp(r) / sum(exp(s) for s in raw) for r in raw]": AXIS}, "the wrong softmax axis"),
    ("loops", {"zip(q[me]": "zip(k[me]", " k[j].tolist()": " q[j].tolist()"}, EXCHANGED),
    ("loops", {"wq =": "w_ =", "wk =": "wq =", "w_ =": "wk ="}, ORDER + "key before query"),
    ("loops", {"    torch.manual_seed(42)\n": ""}, ORDER + "no new seed for the widths"),
    (
        "loops",
        {TABLE: "", "x = table": f"{TABLE}x = table"},
        ORDER + "projections before the embedding",
    ),
    ("loops", {"d**0.5": "8**0.5"}, "no root of the larger width"),
    ("masks", {" / 32**0.5": ""}, "no scale"),
    ("masks", {"32**0.5": "48**0.5"}, "the wrong dimension under the root"),
    ("masks", {"softmax(-1)": "softmax(1)"}, ZERO),
    ("masks", {BLOCKED: "blocked = ~keep[:, :, None]"}, "rows masked instead of keys"),
    ("masks", {BLOCKED: "blocked = keep[:, None, :]"}, "an inverted mask"),
    (
        "masks",
        {"= attend(q, k, v, blocked)": "= attend(q, k, v, ~blocked)", "v, both)": "v, ~both)"},
        "an inverted mask for one function alone",
    ),
    ("masks", {BLOCKED: f"{BLOCKED} | ~keep[:, :, None]"}, NAN),
    ("masks", {BLOCKED: "blocked = ~keep[:1, None, :]"}, "the first query's mask for all"),
    ("masks", {"blocked | future": "blocked & future"}, "masks joined with and"),
    ("masks", {"torch.triu(": "torch.tril(", "48), 1)": "48))"}, UPSIDE + ", with its diagonal"),
    ("masks", {".bool()": ".bool().T"}, UPSIDE),
    ("masks", {'s.masked_fill(blocked, float("-inf"))': "(s + blocked * -torch.inf)"}, ZERO),
    ("masks", {"~both)": "both * -torch.inf)"}, NAN),
    ("masks", {"q, k, v = [": "k, q, v = ["}, ORDER + "key before query"),
    ("loops", {"wk = torch": "torch.manual_seed(42)\nwk = torch"}, None),
    ("masks", {"attn_mask=keep": "attn_mask=~keep", "attn_mask=~both": "attn_mask=both"}, THEIRS),
    ("masks", {'float("-inf")': "0.0"}, "a fill of 0.0"),
    (
        "masks",
        {"w = attend(q, k, v, blocked)": "w = attend(q, k, v, torch.tensor(False))"},
        "no mask",
    ),
    (
        "masks",
        {"torch.ones(48, 48), 1)": "torch.ones(48, 48), 0)"},
        TRIANGLE + "the diagonal blocked",
    ),
    (
        "masks",
        {"torch.ones(48, 48), 1)": "torch.ones(48, 48), 2)"},
        TRIANGLE + "one token of the future",
    ),
    ("masks", {", padding_idx=0": ""}, "padding_idx forgotten"),
]


@pytest.fixture(scope="module", params=LABS.values(), ids=LABS)
def lab(request):
    return request.param


@pytest.fixture(scope="module")
def known():
    with torch.enable_grad():  # the solutions turn it off; this turns it back to what it was
        return {name: answers(lab) for name, lab in LABS.items()}


def printed(code):
    """Run a learner's code here, where torch is loaded already."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), torch.enable_grad():
        exec(compile(code, "learner", "exec"), {"__name__": "__main__"})
    return out.getvalue()


def failing(items):
    return {item.label: item.reason for item in items if item.verdict != "holds"}


@pytest.mark.parametrize("name", LABS)
def test_a_learners_own_solution_passes(name, known):
    assert failing(check.compare(printed(LEARNERS[name]), known[name][RIGHT])) == {}


@pytest.mark.parametrize(("name", "changes", "told"), WRONG, ids=[f"{w[0]}-{w[2]}" for w in WRONG])
def test_a_wrong_solution_is_called_by_its_name(name, changes, told, known):
    code = LEARNERS[name]
    for old, new in changes.items():
        assert old in code
        code = code.replace(old, new)
    given = printed(code)
    assert failing(check.compare(given, known[name][RIGHT]))
    mistake = check.recognise(LABS[name], given, known[name])
    assert (mistake and mistake.name) == told


def test_each_mistake_shows_and_is_told_from_the_others(lab: Lab, known):
    for mistake in lab.mistakes:
        made = known[lab.name][mistake.name]
        assert failing(check.compare(made, known[lab.name][RIGHT])), mistake.name
        assert check.recognise(lab, made, known[lab.name]) == mistake


def test_the_right_answer_makes_no_mistake(lab: Lab, known):
    assert check.recognise(lab, known[lab.name][RIGHT], known[lab.name]) is None


def test_the_loops_are_right(known):
    torch.manual_seed(42)
    embedding = torch.nn.Embedding(2202, 8, padding_idx=0)
    query, key, _ = (torch.nn.Linear(8, 8) for _ in range(3))
    x = embedding(torch.tensor([4, 9, 248, 274, 5]))  # my card never arrived .
    eye = torch.eye(5)  # the outputs of these values are the weights
    weights = F.scaled_dot_product_attention(query(x)[None], key(x)[None], eye[None])[0]
    items = check.items(known["loops"][RIGHT])
    assert [float(w) for w in items["row"].split()] == pytest.approx(weights[1].tolist(), abs=5e-5)
    assert items["tokens"].split() == ["my", "card", "never", "arrived", "."]
    assert float(items["width 8"].split()[1]) == pytest.approx(weights[1].max().item(), abs=5e-5)


def test_the_masks_are_right(known):
    items = check.items(known["masks"][RIGHT])
    assert items["batch"].split() == ["64", "48"]
    assert items["shortest and longest"].split() == ["4", "48"]
    assert items["joined mask"].split() == ["64", "48", "48"]
    assert int(items["bytes at 48"]) == 64 * 48 * 48 * 4
    assert int(items["bytes at 512"]) == 64 * 512 * 512 * 4
    torch.manual_seed(42)
    torch.nn.Embedding(2202, 32, padding_idx=0)
    _, key, _ = (torch.nn.Linear(32, 32) for _ in range(3))
    of_pad = key(torch.zeros(32))[:4].tolist()
    assert [float(v) for v in items.pop("key of a pad").split()] == pytest.approx(of_pad, abs=5e-5)
    zeros = {label: float(v) for label, v in items.items() if "differ" in label or "pad" in label}
    assert len(zeros) == 6
    assert max(zeros.values()) <= 1e-6


def test_every_label_is_asked_for(lab: Lab, known):
    page = (DOCS / f"{lab.script}.md").read_text(encoding="utf-8").partition("## Hints")[0]
    for label in known[lab.name][RIGHT].splitlines():
        asked = label.partition(":")[0]
        assert re.search(rf"`{asked}: …", page, flags=re.IGNORECASE), asked
        assert f"#        {asked}: ..." in starter.starter(lab)


def test_the_answer_is_not_given_away(known):
    right = known["loops"][RIGHT]
    told = failing(check.compare(right.replace("0.", "0.9"), right))
    assert told
    for label, value in check.items(right).items():
        for number in re.findall(r"0\.\d{4}", value):
            assert number not in told.get(label, "")


@pytest.mark.parametrize(
    ("given", "right", "reason"),
    [
        ("a: 1 2", "a: 1 2", ""),
        ("A:  [1, 2]", "a: 1 2", ""),
        ("2. a: 1", "a: 1", ""),
        ("- a: 1", "a: 1", ""),
        ("\x1b[32ma: 1\x1b[0m", "a: 1", ""),
        ("a: tensor([0.12345], grad_fn=<MaxBackward1>)", "a: 0.1234", ""),
        ("a: np.float64(0.12345)", "a: 0.1234", ""),
        ("a: torch.Size([64, 48])", "a: 64 48", ""),
        ("a: 589,824", "a: 589824", ""),
        ("a: 589_824", "a: 589824", ""),
        ("a: ['my', 'card', '.']", "a: my card .", ""),
        ("a: \u201cmy\u201d", "a: my", ""),
        ("a: my card.", "a: my card .", "2 values printed, 3 asked for"),
        ("a: My card .", "a: my card .", "value 1 of 3 is My, and should not be"),
        ("a: 0.1236", "a: 0.1234", "the value is 0.1236, and should not be"),
        ("a: 0.12", "a: 0.1234", "the value is 0.12: right so far, but 4 decimals are asked for"),
        ("a: 0", "a: 0.1234", "the value is 0, and should not be"),
        ("a: 1.4", "a: 1", "the value is 1.4, and should not be"),
        ("a: -inf", "a: 0.1234", "the value is -inf, and should not be"),
        (f"a: {1e30:.6f}", "a: 0.1234", f"the value is {1e30:.6f}, and should not be"),
        ("a: 1 3", "a: 1 2", "value 2 of 2 is 3, and should not be"),
        ("a: 1", "a: 1 2", "1 value printed, 2 asked for"),
        ("a: nan", "a: 0.0000", "the value is nan, and should not be"),
        ("a: 1e-7", "a: 0.000000", ""),
        ("a: 0.0001", "a: 0.000000", "the value is 0.0001, and should not be"),
        ("a: 1\na: 2", "a: 2", ""),
        ("b: 2", "a: 2", "no line begins with `a:`"),
        ("a: ", "a: 2", "0 values printed, 1 asked for"),
    ],
)
def test_items(given, right, reason):
    assert check.compare(given, right)[0].reason == reason


MAIN = "import sys; from selfattn.cli import main; sys.exit(main())"


class Files:
    """Runs `selfattn lab` in a folder."""

    def __init__(self, folder):
        self.folder = folder

    def lab(self, *words, cwd=None):
        command = [sys.executable, "-P", "-c", MAIN, "lab", *words]
        return subprocess.run(
            command, cwd=cwd or self.folder, capture_output=True, text=True, timeout=120
        )

    def check(self, code, *words, name="loops.py"):
        code = code.encode() if isinstance(code, str) else code
        (self.folder / name).write_bytes(code)
        return self.lab("check", name, *words)


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


def test_from_the_start_to_the_end(files):
    assert files.lab("list").stdout.splitlines()[:2] == [
        "loops   one row of attention by plain loops",
        "masks   the masks on a batch of real queries",
    ]
    assert files.lab("start", "masks", "new/folder").returncode == 0
    before = (files.folder / "new/folder/masks.py").read_text(encoding="utf-8")
    again = files.lab("start", "masks", "new/folder")
    assert again.returncode == 2
    assert "exists already" in again.stderr
    assert (files.folder / "new/folder/masks.py").read_text(encoding="utf-8") == before
    unsolved = files.lab("check", "new/folder/masks.py")
    assert unsolved.returncode == 1
    assert "0 of 12 items hold" in unsolved.stdout
    solved = files.check(files.lab("solution", "masks").stdout, name="masks.py")
    assert solved.returncode == 0
    assert "12 of 12 items hold" in solved.stdout
    assert "Well done." in solved.stdout
    assert "Next: the assignment" in solved.stdout


def test_windows_line_ends_and_another_folder(files):
    code = ("\ufeff" + LEARNERS["loops"] + "\nopen('beside.txt', 'w').close()").replace(
        "\n", "\r\n"
    )
    (files.folder / "inner").mkdir()
    (files.folder / "inner/loops.py").write_bytes(code.encode())
    done = files.lab("check", "inner/loops.py")
    assert done.returncode == 0, done.stdout
    assert (files.folder / "inner/beside.txt").exists()  # it ran where it lies


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("print('tokens: a', flush=True)\nwhile True: pass", "still running after 6 s"),
        ("name = input('Name? ')", "asks with input() cannot be checked"),
        ("", "0 of 9 items hold"),
        ("print('tokens: my card\n", "SyntaxError"),
        ("raise ValueError('mine')", "ValueError: mine"),
        ("import sys\nsys.exit(3)", "exit status 3"),
        ("while True: print('row: 1' * 99)", "printed more than 1,000,000 bytes"),
        (b"import sys\nsys.stdout.buffer.write(b'\\xff\\xfe')", "0 of 9 items hold"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11"),
        ("import os, time\nif os.fork() == 0: time.sleep(600)", "0 of 9 items hold"),
    ],
    ids=["hangs", "asks", "empty", "syntax", "raises", "exits", "prints", "bytes", "dies", "forks"],
)
def test_what_goes_wrong_by_accident(files, code, told):
    done = files.check(code, "--timeout", "6")
    assert done.returncode == 1
    assert told in done.stdout
    assert "Traceback" not in done.stderr


def test_what_changes_by_itself_is_no_seed(files):
    code = "import time\nprint('place of card:', 2)\nprint('seconds:', time.time())"
    done = files.check(code)
    assert done.returncode == 1
    assert "no seed" not in done.stdout


def test_a_link_runs_the_file_it_names(files):
    (files.folder / "other").mkdir()
    (files.folder / "other/mine.py").write_text("print('hello')", encoding="utf-8")
    (files.folder / "loops.py").symlink_to(files.folder / "other/mine.py")
    done = files.lab("check", "loops.py")
    assert done.returncode == 1
    assert "0 of 9 items hold" in done.stdout


def test_a_module_that_hides_another(files):
    (files.folder / "random.py").write_text("print('mine')", encoding="utf-8")
    done = files.check(LEARNERS["loops"])
    assert done.returncode == 1
    assert "random.py beside it hides the module" in done.stdout


def test_a_notebook_is_checked_too(files):
    cells = [
        {"cell_type": "markdown", "source": ["# Lab"]},
        {"cell_type": "code", "source": LEARNERS["loops"].splitlines(keepends=True)},
    ]
    assert files.check(json.dumps({"cells": cells}), name="loops.ipynb").returncode == 0
    assert files.check("no JSON", name="loops.ipynb").returncode == 2


def test_interrupted_it_ends_what_it_started(files):
    (files.folder / "loops.py").write_text(
        "import os\nopen('pid', 'w').write(str(os.getpid()))\nwhile True: pass", encoding="utf-8"
    )
    command = [sys.executable, "-c", MAIN, "lab", "check", "loops.py"]
    started = subprocess.Popen(command, cwd=files.folder, stderr=subprocess.PIPE, text=True)
    pid = files.folder / "pid"
    while not (pid.exists() and pid.read_text(encoding="utf-8")):
        time.sleep(0.05)
    started.send_signal(signal.SIGINT)
    _, errors = started.communicate(timeout=60)
    assert (started.returncode, errors) == (130, "\nInterrupted.\n")
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text(encoding="utf-8")), 0)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "soon"])
def test_a_time_limit_is_a_positive_number(files, seconds):
    assert files.check("print(1)", "--timeout", seconds).returncode == 2


def test_numbers_that_change_are_unseeded(files):
    done = files.check(LEARNERS["loops"].replace("torch.manual_seed(42)", "torch.seed()"))
    assert done.returncode == 1
    assert "no seed" in done.stdout


def test_which_lab(files):
    named = files.check(starter.solved(LABS["loops"]), name="mine.py")
    assert named.returncode == 0  # the starter's first lines say it
    unnamed = files.check("print(1)", name="other.py")
    assert unnamed.returncode == 2
    assert "--lab" in unnamed.stderr
    told = files.check("print(1)", "--lab", "loops", name="other.py")
    assert told.returncode == 1
    assert files.lab("check", "nothing.py").returncode == 2
