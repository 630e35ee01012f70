"""Measure the probes: how many faults they find, and whether they keep quiet on right layers.

    python tools/probes_bench.py [--seeds 20] [--processes 2] [--json FILE]

Every faulty layer and function, and every right one, is made and probed anew for each seed, in
float32 and bfloat16. Of PyTorch's own layers the findings must equal a list that is written down
here with its reasons. The exit status is 1 when a goal is missed: every fault found on every seed
by every probe that is named for it, no false alarm, PyTorch's list as written.
"""

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from selfattn.probes.faulty_functions import FUNCTION_FAULTS, attend
from torch import nn

from selfattn.probes import probe, probe_attention
from selfattn.probes.faulty import FAULTS
from selfattn.probes.gallery import claims_of_fault
from selfattn.probes.sound import SOUND

DTYPES = (torch.float32, torch.bfloat16)

PYTORCH: dict[str, tuple[Any, dict[str, str]]] = {
    "nn.MultiheadAttention": (
        lambda: nn.MultiheadAttention(24, 4, batch_first=True),
        {
            "empty-rows": "with weights asked for, and in its fast path, a sample that is padded "
            "throughout comes out as nan (pytorch 160064)",
            "empty-gradients": "with weights asked for, that sample makes every gradient of the "
            "projections nan (pytorch 41508)",
        },
    ),
    "nn.TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(24, 4, 48, batch_first=True),
        {
            "modes": "its fast path reads every number of a float mask that is not 0 as blocked "
            "(pytorch 118628)",
            "empty-rows": "its fast path returns nan for a sample that is padded throughout",
        },
    ),
    "nn.TransformerEncoder": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(24, 4, 48, batch_first=True), 2),
        {
            "modes": "its layers' fast path reads every number of a float mask that is not 0 as "
            "blocked (pytorch 118628)",
        },
    ),
}
"""PyTorch's own layers: how each is made, and what the probes must find in it, with the reason."""

UNSEEN = {
    "softmax over queries, without a mask": "weights sum to 1 over another axis; equal tokens, "
    "doubled sequences and permutations change nothing. With q, k and v it is seen",
    "the root of all heads' width as scale": "a constant factor that the weights could have "
    "learned; level over widths. With q, k and v it is seen",
    "key heads tiled, not repeated": "another layer that is as good; wrong for loaded weights "
    "only. With q, k and v it is seen",
    "two finite fills added": "only rows of pads before the first token are wrong, and what "
    "comes out there is nobody's business",
    "padded rows that differ between modes": "the same; a pool over them is seen",
    "a row without a key that averages all": "finite, and at a padded place. With q, k and v it "
    "is seen",
    "a softmax over heads and keys inside a block": "with one token the layer is a function of "
    "that token, and so is a gate; with more, the share of a head is too",
}
"""What no black box can see, and why."""


@dataclass(frozen=True)
class Outcome:
    """What the probes said of one layer, with one seed, in one dtype."""

    kind: str
    name: str
    dtype: str
    seed: int
    found: tuple[str, ...]
    expected: tuple[str, ...]
    seconds: float

    @property
    def good(self) -> bool:
        if self.kind == "fault":
            return set(self.expected) <= set(self.found)
        return set(self.expected) == set(self.found)


def outcomes(seed: int, dtype: torch.dtype) -> list[Outcome]:
    """Probe everything with one seed, in one dtype."""
    short = str(dtype).removeprefix("torch.")
    results = []

    def add(kind: str, name: str, expected: Any, run: Any) -> None:
        torch.manual_seed(seed)
        started = time.process_time()
        found = tuple(finding.name for finding in run().faults)
        took = time.process_time() - started
        results.append(Outcome(kind, name, short, seed, found, tuple(expected), took))

    for fault in FAULTS:
        add("fault", fault.what, fault.found_by, lambda f=fault: _probe(f, seed, dtype))
    for wrong in FUNCTION_FAULTS:
        add("fault", wrong.what, wrong.found_by, lambda f=wrong: _function(f, seed, dtype))
    for name, sample in SOUND.items():
        add("right", name, (), lambda s=sample: _probe(s, seed, dtype))
    add("right", "function", (), lambda: probe_attention(attend, dtype=dtype, seed=seed))
    for name, (make, reasons) in PYTORCH.items():
        add("PyTorch", name, reasons, lambda m=make: probe(m().to(dtype), seed=seed))
    return results


def _probe(sample: Any, seed: int, dtype: torch.dtype) -> Any:
    layer = sample.make().to(dtype)
    return probe(layer, seed=seed, budget=300, **claims_of_fault(sample, layer))


def _function(wrong: Any, seed: int, dtype: torch.dtype) -> Any:
    return probe_attention(wrong.function, seed=seed, dtype=dtype, **wrong.claims)


def tell(results: list[Outcome]) -> bool:
    """Print the tables; tell whether every goal is met."""
    by_name: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in results:
        by_name[one.kind, one.name].append(one)
    print("share  fault, and the probes that found it, with the share of runs")
    for (kind, name), runs in by_name.items():
        if kind == "fault":
            share = sum(one.good for one in runs) / len(runs)
            counts = Counter(probe for one in runs for probe in one.found)
            found = ", ".join(f"{p} {c / len(runs):.0%}" for p, c in counts.most_common())
            print(f"{share:5.0%}  {name}: {found or 'none'}")
    faults = [one for one in results if one.kind == "fault"]
    rest = [one for one in results if one.kind != "fault"]
    names = {one.name for one in faults}
    print(f"\n{sum(one.good for one in faults)} of {len(faults)} runs of {len(names)} faults found")
    alarms = [one for one in rest if one.kind == "right" and not one.good]
    right = [one for one in rest if one.kind == "right"]
    print(
        f"{len(alarms)} false alarms in {len(right)} runs of {len({o.name for o in right})} layers"
    )
    for one in alarms:
        print(f"  {one.name}, {one.dtype}, seed {one.seed}: {', '.join(one.found)}")
    for name, (_, reasons) in PYTORCH.items():
        runs = by_name["PyTorch", name]
        print(f"\n{name}: as written in {sum(one.good for one in runs)} of {len(runs)} runs")
        for probe_name, reason in reasons.items():
            print(f"  {probe_name}: {reason}")
        for one in runs:
            if not one.good:
                print(f"  but {one.dtype}, seed {one.seed}: {', '.join(one.found) or 'nothing'}")
    print("\nnot to be seen from outside:")
    for name, reason in UNSEEN.items():
        print(f"  {name}: {reason}")
    slowest = max(results, key=lambda one: one.seconds)
    print(f"\nslowest: {slowest.name}, {slowest.seconds:.1f} s of one core")
    return all(one.good for one in results)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome there")
    args = parser.parse_args()
    jobs = [(seed, dtype) for seed in range(args.seeds) for dtype in DTYPES]
    with ProcessPoolExecutor(args.processes, get_context("spawn")) as pool:
        results = [one for many in pool.map(outcomes, *zip(*jobs, strict=True)) for one in many]
    if args.json:
        args.json.write_text(json.dumps([vars(one) for one in results], indent=1))
    met = tell(results)
    print("every goal is met" if met else "a goal is missed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
