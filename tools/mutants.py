"""Break the site in one place at a time, and count how often its own checks notice.

    python tools/mutants.py

Three classes of mutants are made in copies of the site, in a temporary folder:

- every number and every word of the recorded outputs,
- every number of the prose that is judged at all,
- the taught functions: each a change that someone might make by mistake.

Those that nobody notices are listed with file, line, old and new. The exit status is 1 when a
goal is missed.

The first two classes need no script to run again: one build runs them all, and the mutated text
goes through the functions that the build itself judges it by. A sample is judged by the real
command as well, which must agree. A mutant of the code is noticed by the pages when a script that
imports its file fails; whether the file's unit tests notice it is told apart.
"""

import contextlib
import hashlib
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import groupby
from pathlib import Path
from typing import TypeVar

from mkdocs.utils.meta import get_data
from tqdm import tqdm

from selfattn.fresh import compare, prose
from selfattn.fresh.batch import Result, run_all
from selfattn.fresh.check import judge
from selfattn.fresh.command import Outcome, build
from selfattn.fresh.compare import Token
from selfattn.fresh.number import Number
from selfattn.fresh.page import blocks
from selfattn.fresh.prose import Claim
from selfattn.fresh.run import run
from selfattn.fresh.settings import Settings
from selfattn.fresh.sheet import Sheet
from selfattn.fresh.snippet import Section, Snippet, parse

T = TypeVar("T")

ROOT = Path(__file__).parent.parent
CONFIG = Path("mkdocs.yml")
PROCESSES = 2
SAMPLE = 5
"""How many mutants of the outputs, and how many of the prose, the real command judges too."""

NUMBERS = "recorded numbers"
WORDS = "recorded words"
DECIMALS = "decimals in the prose"
LARGE = "integers from 13 in the prose"
SMALL = "integers below 13 in the prose"
CODE = "taught functions"
GOALS = {NUMBERS: 1.0, WORDS: 1.0, DECIMALS: 1.0, LARGE: 0.75, SMALL: 0, CODE: 1.0}
"""The classes, and the share of each that must be noticed."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes:
        kind: its class, one of `GOALS`.
        path: the file, relative to the site's folder.
        start: where in the file the old text begins.
        line: the same as a line.
        old, new: the text before and after.
        title: what the change does, for one of the code.
    """

    kind: str
    path: Path
    start: int
    line: int
    old: str
    new: str
    title: str = ""

    def applied(self, text: str) -> str:
        """Give the file's text with the change."""
        end = self.start + len(self.old)
        if text[self.start : end] != self.old:
            raise ValueError(f"expected {self.old!r} at {self.path}:{self.line}")
        return text[: self.start] + self.new + text[end:]

    def __str__(self) -> str:
        what = f"{self.title}: " if self.title else ""
        return f"{self.path}:{self.line}: {what}{self.old!r} -> {self.new!r}"


@dataclass(frozen=True)
class Verdict:
    """Who noticed a mutant: the outputs and the prose, or the unit tests."""

    mutant: Mutant
    pages: bool
    tests: bool = False

    @property
    def noticed(self) -> bool:
        return self.pages or self.tests


# The recorded outputs.


def output_mutants(result: Result) -> Iterator[Mutant]:
    """Change every number and every word that a script's file records, one at a time."""
    snippet = result.snippet
    recorded = snippet.recorded or ""
    above = line_start(snippet.path.read_text("utf-8"), snippet.recorded_line)
    for old, printed in compare.pairs(recorded, result.run.text):
        new = other_token(old, printed)
        if old.text and new is not None:  # the last pair is the end of both texts
            kind = NUMBERS if old.number or old.text in ("nan", "inf") else WORDS
            line = snippet.recorded_line + recorded.count("\n", 0, old.start)
            yield Mutant(kind, snippet.path, above + old.start, line, old.text, new)


def other_token(recorded: Token, printed: Token) -> str | None:
    """Spell a recorded token so that it no longer stands for what was printed.

    Returns:
        The other spelling; None for `‹any›`, which stands for every number.
    """
    if recorded.kind == "mark":
        return other_mark(recorded.text)
    if recorded.kind == "decimal":
        return other_decimal(recorded.text, printed.text)
    if recorded.kind == "integer":
        return next_integer(recorded.text)
    return other_word(recorded.text)


def other_decimal(recorded: str, printed: str) -> str:
    """Move a decimal just beyond the rule, away from what was printed.

    That is two units of its last place, and one for a bare point, as in `1.`.
    """
    value = Decimal(recorded)
    bare = recorded.endswith(".")
    step = unit(value) * (1 if bare else 2)
    moved = value - step if Decimal(printed) > value else value + step
    return f"{moved}." if bare else f"{moved}"


def other_mark(mark: str) -> str | None:
    """Move the centre of `‹0.79±0.03›` so far that nothing that fitted fits any more."""
    centre, found, width = mark[1:-1].partition("±")
    if not found:
        return None
    value = Decimal(centre)
    return f"‹{value + max(3 * Decimal(width), unit(value))}±{width}›"


def next_integer(text: str) -> str:
    """Add 1; a group after a thousands separator keeps its zeros."""
    return str(int(text) + 1).zfill(len(text) if text.startswith("0") else 0)


OTHERS = {"True": "False", "False": "True", "nan": "0.0", "inf": "0.0"}


def other_word(word: str) -> str:
    """Change the last letter of a word, or a punctuation mark."""
    if word in OTHERS:
        return OTHERS[word]
    if re.fullmatch(r"\w+", word):
        return word[:-1] + ("y" if word.endswith("x") else "x")
    return "," if word == ";" else ";"


def unit(value: Decimal) -> Decimal:
    """One unit of the last place that a number is written with."""
    exponent = value.as_tuple().exponent
    assert isinstance(exponent, int)
    return Decimal(1).scaleb(exponent)


def judge_outputs(result: Result) -> list[Verdict]:
    """Judge all mutants of one script's recorded output."""
    return [judge_output(mutant, result) for mutant in output_mutants(result)]


def judge_output(mutant: Mutant, result: Result) -> Verdict:
    with changed(mutant):
        return Verdict(mutant, judge(replace(result, snippet=parse(mutant.path))) is not None)


# The prose.


def prose_mutants(sheet: Sheet) -> Iterator[Mutant]:
    """Change every number that a page claims, one at a time."""
    text = sheet.path.read_text("utf-8")
    for claim, binding in zip(sheet.claims, sheet.bound, strict=True):
        if sheet.choose(claim, binding) is None:
            continue  # the build found it in a block of code, where nothing is judged
        number, start = claim.number, place(text, claim)
        for new in other_numbers(number):
            yield Mutant(kind_of(number), sheet.path, start, line_at(text, start), number.text, new)


def place(text: str, claim: Claim) -> int:
    """Where in a page's file a claim stands."""
    return line_start(text, claim.line) + claim.number.start


def kind_of(number: Number) -> str:
    if not number.text.lstrip("+-").replace(",", "").isdecimal():
        return DECIMALS
    return LARGE if abs(number.value) >= 13 else SMALL


_PARTS = re.compile(r"([+-]?)([\d.,]+)(.*)")  # sign, digits, exponent


def other_numbers(number: Number) -> list[str]:
    """Spell other numbers close by, in the way of the first.

    They are the next integer, or one and two units of the last place up and down for a decimal;
    up alone where an exponent follows.
    """
    sign, digits, exponent = _PARTS.findall(number.text)[0]
    value = Decimal(digits.replace(",", ""))
    steps = (1, 2) if exponent else (1, -1, 2, -2) if "." in digits else (1,)
    moved = [value + step * unit(value) for step in steps]
    comma = "," if "," in digits else ""
    return [f"{sign}{near:{comma}}{exponent}" for near in moved if near >= 0]


def judge_page(sheet: Sheet) -> list[Verdict]:
    """Judge all mutants of one page's prose."""
    return [judge_prose(mutant, sheet) for mutant in prose_mutants(sheet)]


def judge_prose(mutant: Mutant, sheet: Sheet) -> Verdict:
    """Judge the claims of the page with the mutant in it."""
    with changed(mutant):
        text = mutant.path.read_text("utf-8")
    _, meta = get_data(text)
    page = replace(sheet, text=text, meta=meta)
    # A number in a block of code is none of the page's own, in the mutant as in the original.
    ours = sum(sheet.choose(*pair) is None for pair in zip(sheet.claims, sheet.bound, strict=True))
    theirs = sum(page.choose(*pair) is None for pair in zip(page.claims, page.bound, strict=True))
    return Verdict(mutant, theirs > ours)


# By the first letter of what the prose's rule leaves out.
KINDS = {
    "`": "formulas",
    "[": "links to other sites",
    "]": "addresses",
    "<": "HTML tags",
    "{": "attributes",
    "#": "numbering of headings",
}


_DIGITS = re.compile(r"[-+]?\d[\d.,:]*(?:e-?\d+)?")


def unjudged(sheet: Sheet) -> Iterator[tuple[str, str]]:
    """Yield the digits outside of fences that no claim covers: what they are part of, and where."""
    text = sheet.path.read_text("utf-8")
    lines = text.split("\n")
    inside = {
        sheet.above + i
        for block in blocks("\n".join(lines[sheet.above :]))
        for i in range(block.first, block.last + 1)
    }
    claimed = {place(text, claim) for claim in sheet.claims}
    start = 0
    for i, line in enumerate(lines):
        for digits in _DIGITS.finditer(line):
            places = range(start + digits.start(), start + digits.end())
            if i not in inside and not claimed.intersection(places):
                kind = "front matter" if i < sheet.above else unjudged_kind(line, digits.start())
                yield kind, f"{sheet.path}:{i + 1}: {around(line, digits.start())}"
        start += len(line) + 1


def unjudged_kind(line: str, at: int) -> str:
    """Say what the digits at a place are part of."""
    for match in prose._UNJUDGED.finditer(line):
        if match.start() <= at < match.end():
            default = "numbering of lists, dates, times, versions"
            return KINDS.get(match[0][0], default)
    return "parts of words"


def around(line: str, at: int) -> str:
    """The piece of a line between the spaces around a place."""
    return line[line.rfind(" ", 0, at) + 1 :].split(" ", 1)[0]


# The code. Every old text stands exactly once in its file, or the tool refuses to go on.

ATTENTION = {
    "no scale": ("q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])", "q @ k.transpose(-2, -1)"),
    "scale by d": ("/ math.sqrt(q.shape[-1])", "/ q.shape[-1]"),
    "scale by the root of the length": ("math.sqrt(q.shape[-1])", "math.sqrt(k.shape[-2])"),
    "multiplied by the root": ("/ math.sqrt(q.shape[-1])", "* math.sqrt(q.shape[-1])"),
    "queries and keys swapped": ("q @ k.transpose(-2, -1)", "k @ q.transpose(-2, -1)"),
    "queries against themselves": ("q @ k.transpose(-2, -1)", "q @ q.transpose(-2, -1)"),
    "softmax over the queries": ("softmax(scores, dim=-1)", "softmax(scores, dim=-2)"),
    "softmax over dimension 1": ("softmax(scores, dim=-1)", "softmax(scores, dim=1)"),
    "softmax over dimension 0": ("softmax(scores, dim=-1)", "softmax(scores, dim=0)"),
    "a sigmoid for the softmax": ("torch.softmax(scores, dim=-1)", "torch.sigmoid(scores)"),
    "weights not normalised": ("torch.softmax(scores, dim=-1)", "scores.exp()"),
    "softmax twice": (
        "torch.softmax(scores, dim=-1)",
        "torch.softmax(torch.softmax(scores, dim=-1), dim=-1)",
    ),
    "the largest weight takes all": (
        "torch.softmax(scores, dim=-1)",
        "torch.eye(scores.shape[-1]).to(scores)[scores.argmax(dim=-1)]",
    ),
    "an empty row gives zeros": (
        "torch.softmax(scores, dim=-1)",
        "torch.softmax(scores, dim=-1).nan_to_num()",
    ),
    "fill 0.0": ("masked_fill(mask, -math.inf)", "masked_fill(mask, 0.0)"),
    "fill -1": ("masked_fill(mask, -math.inf)", "masked_fill(mask, -1.0)"),
    "fill -1e4": ("masked_fill(mask, -math.inf)", "masked_fill(mask, -1e4)"),
    "fill with the smallest float": (
        "masked_fill(mask, -math.inf)",
        "masked_fill(mask, torch.finfo(scores.dtype).min)",
    ),
    "fill +inf": ("masked_fill(mask, -math.inf)", "masked_fill(mask, math.inf)"),
    "mask inverted": ("masked_fill(mask, -math.inf)", "masked_fill(~mask, -math.inf)"),
    "mask ignored": ("if mask is not None:", "if False:"),
    "mask for the queries": (
        "masked_fill(mask, -math.inf)",
        "masked_fill(mask.transpose(-2, -1), -math.inf)",
    ),
    "mask after the softmax": (
        "        scores = scores.masked_fill(mask, -math.inf)\n"
        "    weights = torch.softmax(scores, dim=-1)\n",
        "        weights = torch.softmax(scores, dim=-1).masked_fill(mask, 0.0)\n"
        "    else:\n"
        "        weights = torch.softmax(scores, dim=-1)\n",
    ),
    "scale after the mask, forgotten with one": (
        "scores = scores.masked_fill(mask, -math.inf)",
        "scores = (q @ k.transpose(-2, -1)).masked_fill(mask, -math.inf)",
    ),
    "values not weighted": ("return weights @ v, weights", "return v, weights"),
    "mean of the values": (
        "return weights @ v, weights",
        "return v.mean(dim=-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]), weights",
    ),
    "keys averaged": ("return weights @ v, weights", "return weights @ k, weights"),
    "weights transposed": (
        "return weights @ v, weights",
        "return weights.transpose(-2, -1) @ v, weights",
    ),
    "scores handed out as weights": ("return weights @ v, weights", "return weights @ v, scores"),
    "no gradient through the weights": (
        "return weights @ v, weights",
        "return weights.detach() @ v, weights",
    ),
    "padding id off by one": ("(ids == pad)", "(ids == pad + 1)"),
    "padding id not heeded": ("(ids == pad)", "(ids == 0)"),
    "padding open, the rest blocked": ("(ids == pad)", "(ids != pad)"),
    "padding and unknown words blocked": ("(ids == pad)", "(ids <= pad + 1)"),
    "padding mask without its middle dimension": ("(ids == pad).unsqueeze(1)", "(ids == pad)"),
    "padding mask along rows": ("(ids == pad).unsqueeze(1)", "(ids == pad).unsqueeze(2)"),
    "causal diagonal 0": ("triu(diagonal=1)", "triu(diagonal=0)"),
    "causal diagonal 2": ("triu(diagonal=1)", "triu(diagonal=2)"),
    "past blocked": ("triu(diagonal=1)", "tril(diagonal=-1)"),
    "nothing causal": ("torch.ones(n, n, dtype", "torch.zeros(n, n, dtype"),
}

TEXT = {
    "encode without cutting": ("tokens[:MAX_LEN]", "tokens"),
    "encode cuts at the front": ("tokens[:MAX_LEN]", "tokens[-MAX_LEN:]"),
    "encode cuts one token too many": ("tokens[:MAX_LEN]", "tokens[: MAX_LEN - 1]"),
    "padding on the left": (
        "return ids + [PAD] * (MAX_LEN - len(ids))",
        "return [PAD] * (MAX_LEN - len(ids)) + ids",
    ),
    "padded with the unknown": ("[PAD] *", "[UNK] *"),
    "one place fewer": ("MAX_LEN = 48", "MAX_LEN = 47"),
    "unknown id 0": ("vocab.get(token, UNK)", "vocab.get(token, PAD)"),
    "ids off by one": ("enumerate(corpora.words())", "enumerate(corpora.words(), start=1)"),
    "not lower-cased": ("text.lower())", "text)"),
    "punctuation dropped": (
        r're.findall(r"\w+|[^\w\s]", text.lower())',
        r're.findall(r"\w+", text.lower())',
    ),
    "cut at white space": (r're.findall(r"\w+|[^\w\s]", text.lower())', "text.lower().split()"),
    "runs of marks kept together": (r'[^\w\s]", text', r'[^\w\s]+", text'),
    "an empty query accepted": ("if not tokens:", "if False:"),
    "training not shuffled": ("shuffle=True, generator=order", "generator=order"),
    "shuffled by the global generator": ("shuffle=True, generator=order", "shuffle=True"),
    "another seed for the order": ("Generator().manual_seed(SEED)", "Generator().manual_seed(0)"),
    "last batch dropped": (
        "shuffle=True, generator=order",
        "shuffle=True, generator=order, drop_last=True",
    ),
    "validation shuffled": (
        "DataLoader(val_set, BATCH_SIZE)",
        "DataLoader(val_set, BATCH_SIZE, shuffle=True)",
    ),
    "validation in batches of one": ("DataLoader(val_set, BATCH_SIZE)", "DataLoader(val_set, 1)"),
    "batches of 64": ("BATCH_SIZE = 32", "BATCH_SIZE = 64"),
    "sets swapped": ("train, val = split(len(rows))", "val, train = split(len(rows))"),
    "another seed for the split": ("RandomState(SEED)", "RandomState(SEED + 1)"),
    "a quarter for validation": (
        "    val = permutation[: rows // 5]\n    return sorted(permutation[rows // 5 :]), val",
        "    val = permutation[: rows // 4]\n    return sorted(permutation[rows // 4 :]), val",
    ),
    "no permutation": (
        "np.random.RandomState(SEED).permutation(rows).tolist()",
        "list(range(rows))",
    ),
    "validation sorted": (
        "    val = permutation[: rows // 5]",
        "    val = sorted(permutation[: rows // 5])",
    ),
    "training in the permutation's order": (
        "sorted(permutation[rows // 5 :])",
        "permutation[rows // 5 :]",
    ),
    "training holds the validation rows": (
        "sorted(permutation[rows // 5 :])",
        "sorted(permutation)",
    ),
    "labels off by one": (
        "corpora.INTENTS.index(rows[i][1])",
        "(corpora.INTENTS.index(rows[i][1]) + 1) % 77",
    ),
}

TRAINING = {
    "loss averaged over batches": (
        "total += loss.item() * len(labels)\n        count += len(labels)",
        "total += loss.item()\n        count += 1",
    ),
    "loss of the last batch": ("total += loss.item() * len(labels)", "total = loss.item() * count"),
    "loss summed over a batch": (
        "F.cross_entropy(model(ids), labels)",
        'F.cross_entropy(model(ids), labels, reduction="sum")',
    ),
    "labels smoothed": (
        "F.cross_entropy(model(ids), labels)",
        "F.cross_entropy(model(ids), labels, label_smoothing=0.1)",
    ),
    "softmax before the loss": (
        "F.cross_entropy(model(ids), labels)",
        "F.cross_entropy(model(ids).softmax(dim=-1), labels)",
    ),
    "without zero_grad": ("        optimizer.zero_grad()\n", ""),
    "zero_grad after backward": (
        "        optimizer.zero_grad()\n        loss.backward()\n",
        "        loss.backward()\n        optimizer.zero_grad()\n",
    ),
    "without backward": ("        loss.backward()\n", ""),
    "without step": ("        optimizer.step()\n", ""),
    "two steps a batch": (
        "        optimizer.step()\n",
        "        optimizer.step()\n        optimizer.step()\n",
    ),
    "training in evaluation mode": ("model.train()\n    total", "model.eval()\n    total"),
    "accuracy in training mode": ("    model.eval()\n", ""),
    "accuracy keeps the model in evaluation mode": (
        "    model.train()\n    return _mean(right",
        "    return _mean(right",
    ),
    "accuracy with gradients": ("@torch.no_grad()\n", ""),
    "accuracy of the smallest logit": ("argmax(dim=-1)", "argmin(dim=-1)"),
    "accuracy over batches": (
        "right += int((model(ids).argmax(dim=-1) == labels).sum())\n        count += len(labels)",
        "right += float((model(ids).argmax(dim=-1) == labels).float().mean())\n        count += 1",
    ),
    "accuracy of the first batch": (
        "    model.train()\n    return _mean(right",
        "        break\n    model.train()\n    return _mean(right",
    ),
    "errors counted": ("argmax(dim=-1) == labels", "argmax(dim=-1) != labels"),
    "an empty loader accepted": ("if count == 0:", "if count < 0:"),
}

TAUGHT = {
    Path("selfattn/attention.py"): ATTENTION,
    Path("selfattn/text.py"): TEXT,
    Path("selfattn/training.py"): TRAINING,
}


def code_mutants(root: Path) -> list[Mutant]:
    """Find the places of all changes of the code.

    Raises:
        ValueError: an old text is not there, or more than once, as after a refactoring.
    """
    found = []
    for path, changes in TAUGHT.items():
        text = (root / path).read_text("utf-8")
        for title, (old, new) in changes.items():
            if text.count(old) != 1:
                raise ValueError(f"{path}: {title}: {text.count(old)} times {old!r}, expected once")
            start = text.index(old)
            found.append(Mutant(CODE, path, start, line_at(text, start), old, new, title))
    return found


def judge_code(mutant: Mutant, scripts: list[Path], settings: Settings) -> Verdict:
    """Judge a mutant of the code.

    Args:
        mutant: of the code.
        scripts: those that import its file.
        settings: the site's.
    """
    with changed(mutant):
        pages = scripts_notice(mutant, scripts, settings)
        return Verdict(mutant, pages, tests_notice(mutant.path))


_noticed: Counter[Path] = Counter()
"""How many mutants each script noticed in this process; the best go first."""


def scripts_notice(mutant: Mutant, scripts: list[Path], settings: Settings) -> bool:
    """Run scripts, one after another, until one fails."""
    root = Path.cwd()
    for script in sorted(scripts, key=lambda script: -_noticed[script]):
        snippet = parse(root / script, root)
        result = run_all([snippet], replace(settings, root=root))[snippet.name]
        if not result.run.fault:
            confirm(mutant, result)
        if judge(result):
            _noticed[script] += 1
            return True
    return False


def confirm(mutant: Mutant, result: Result) -> None:
    """Make sure that a script imported the mutant and not the project's own file."""
    checksum = hashlib.sha256(mutant.path.read_bytes()).hexdigest()
    if result.run.files.get(str(mutant.path)) != checksum:
        raise RuntimeError(f"{result.snippet.path} did not import the copy's {mutant.path}")


def tests_notice(path: Path) -> bool:
    """Run a module's unit tests, as a script: forked from a process that has torch loaded."""
    words = ["-q", "-x", "-p", "no:cacheprovider", "--assert=plain", f"tests/test_{path.stem}.py"]
    code = f"import pytest\nprint(int(pytest.main({words})))\n"
    script = Snippet(Path("tests.md"), "", code, 1, (Section("tests", 1, 2, code),), None, 1)
    done = run(script, Path.cwd(), ("torch", "numpy", "pytest"))
    return done.fault is not None or done.text.splitlines()[-1] != "0"


# Copies of the site.


def copy_site(origin: Path, folder: Path) -> Path:
    """Copy the site without what was made from it."""
    ignored = shutil.ignore_patterns(".*", "__pycache__", "site")
    return Path(shutil.copytree(origin, folder, ignore=ignored))


def enter(site: Path) -> None:
    """Make a copy the folder in which this process works and from which its scripts import."""
    os.chdir(site)
    os.environ["PYTHONPATH"] = str(site)
    # A mutant may have its original's size and time stamp, by which Python trusts what it compiled.
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def enter_own(site: Path) -> None:
    enter(copy_site(site, site.with_name(f"site-{os.getpid()}")))


@contextlib.contextmanager
def changed(mutant: Mutant) -> Iterator[None]:
    """Change a file of the copy, for a moment."""
    before = mutant.path.read_text("utf-8")
    mutant.path.write_text(mutant.applied(before), "utf-8")
    try:
        yield
    finally:
        mutant.path.write_text(before, "utf-8")


def line_at(text: str, start: int) -> int:
    """The line of a place; lines count from 1."""
    return 1 + text.count("\n", 0, start)


def line_start(text: str, line: int) -> int:
    """Where a line begins; lines count from 1."""
    return sum(len(one) + 1 for one in text.split("\n")[: line - 1])


# All of it.


def judge_all(site: Path, outcome: Outcome) -> list[Verdict]:
    """Make and judge all mutants, each process in a copy of its own.

    Args:
        site: the copy that they copy.
        outcome: of its build.
    """
    results, sheets = outcome.plugin.results.values(), outcome.plugin.sheets.values()
    ran = [result for result in results if not result.missing]
    mutants = code_mutants(site)
    with ProcessPoolExecutor(PROCESSES, initializer=enter_own, initargs=(site,)) as pool:

        def judge_by_all(mutant: Mutant) -> Future[Verdict]:
            scripts = [r.snippet.path for r in ran if str(mutant.path) in r.run.files]
            return pool.submit(judge_code, mutant, scripts, outcome.plugin.settings)

        judged = [pool.submit(judge_outputs, result) for result in ran]
        judged += [pool.submit(judge_page, sheet) for sheet in sheets]
        texts = [verdict for future in progress("texts", judged) for verdict in future.result()]
        sampled = [(v, pool.submit(command_notices, v.mutant)) for v in sample(texts)]
        unchanged = [judge_by_all(Mutant(CODE, path, 0, 1, "", "", "nothing")) for path in TAUGHT]
        codes = [judge_by_all(mutant) for mutant in mutants]
        for verdict, real in progress("the command", sampled):
            if verdict.pages != real.result():
                raise RuntimeError(f"`selfattn check` disagrees on {verdict}")
        for verdict in (future.result() for future in unchanged):
            if verdict.noticed:  # or all that follows would seem to be noticed too
                raise RuntimeError(f"fails without any mutant: {verdict}")
        return texts + [future.result() for future in progress("code", codes)]


def progress(what: str, steps: list[T]) -> "tqdm[T]":
    return tqdm(steps, what, leave=False, disable=None)


def sample(verdicts: list[Verdict]) -> list[Verdict]:
    """Draw the same few each time: of the outputs, and of the prose."""
    draw = random.Random(42)
    recorded = [v for v in verdicts if v.mutant.kind in (NUMBERS, WORDS)]
    claimed = [v for v in verdicts if v.mutant.kind not in (NUMBERS, WORDS)]
    return [v for part in (recorded, claimed) for v in draw.sample(part, min(SAMPLE, len(part)))]


def command_notices(mutant: Mutant) -> bool:
    """Ask `selfattn check` itself."""
    command = [str(Path(sys.executable).with_name("selfattn")), "check", str(mutant.path)]
    with changed(mutant):
        done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{command} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.returncode == 1


# What is printed.


def report(verdicts: list[Verdict], outcome: Outcome) -> bool:
    """Print everything; tell whether all goals are met."""
    for kind in GOALS:
        survivors = [v.mutant for v in verdicts if v.mutant.kind == kind and not v.noticed]
        print_list(f"Not noticed, {kind}", map(str, survivors))
    alone = [str(v.mutant) for v in verdicts if v.tests and not v.pages]
    print_list("Noticed by the unit tests alone", alone)
    print_unjudged(outcome.plugin.sheets.values())
    unknown = [r for r in outcome.plugin.results.values() if r.missing]
    print_list("Not run here", (f"{r.snippet.path}, needs {', '.join(r.missing)}" for r in unknown))
    print_code([v for v in verdicts if v.mutant.kind == CODE])
    return print_kinds(verdicts)


def print_list(title: str, lines: Iterable[str]) -> None:
    found = list(lines)
    if found:
        print(f"\n{title} ({len(found)}):", *found, sep="\n  ")


def print_unjudged(sheets: Iterable[Sheet]) -> None:
    found = defaultdict(list)
    for sheet in sheets:
        for kind, place in unjudged(sheet):
            found[kind].append(place)
    for kind, places in sorted(found.items()):
        print_list(f"Not judged at all, {kind}", places)


def print_code(verdicts: list[Verdict]) -> None:
    print(f"\n{'taught functions':32} mutants  by pages and scripts  by unit tests  by either")
    for path, group in groupby(verdicts, key=lambda v: v.mutant.path):
        found = list(group)
        pages, tests, either = (
            sum(getattr(v, by) for v in found) for by in ("pages", "tests", "noticed")
        )
        print(f"{path!s:32} {len(found):7}  {pages:20}  {tests:13}  {either:9}")


def print_kinds(verdicts: list[Verdict]) -> bool:
    print(f"\n{'class':32} mutants  noticed    rate   goal")
    met = True
    for kind, goal in GOALS.items():
        found = [v.noticed for v in verdicts if v.mutant.kind == kind]
        rate = sum(found) / len(found) if found else 1.0
        verdict = "missed" if rate < goal else ""
        met = met and not verdict
        aim = f"{goal:5.0%}" if goal else "    -"
        print(f"{kind:32} {len(found):7}  {sum(found):7}  {rate:6.1%}  {aim} {verdict}".rstrip())
    return met


def main() -> int:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, contextlib.chdir(folder):
        site = copy_site(ROOT, Path(folder, "site"))
        enter(site)
        outcome = build(CONFIG, [], cached=False)
        if outcome.faults or outcome.problems:
            print(*outcome.faults, *outcome.problems, sep="\n", file=sys.stderr)
            print("The site fails its checks as it is; mend it first.", file=sys.stderr)
            return 1
        met = report(judge_all(site, outcome), outcome)
    print(f"\n{time.monotonic() - start:.0f} s. The goals are {'met' if met else 'missed'}.")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
