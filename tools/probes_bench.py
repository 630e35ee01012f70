"""Measure the probes: how many faults they find, and whether they keep quiet on right layers.

    python -m tools.probes_bench [--seeds 20] [--processes 2] [--json FILE]

Every faulty layer and function, and every right one, is made and probed anew for each seed, in
float32 and bfloat16. Of PyTorch's own layers the findings must equal a list that is written down
with its reasons. On a few of the seeds other checkers judge the same layers, in float32; one that
cannot be imported is named. What is done goes to stderr, the tables at the end to stdout.

The exit status is 0 when every goal is met: every fault found on every seed by every probe that is
named for it, no false alarm, PyTorch's list as written; 1 when one is missed, also by a layer that
could not be probed; 2 for wrong options. What other checkers say is no goal.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

import torch

from selfattn.probes import probe, probe_attention
from selfattn.probes.faulty import FAULTS
from selfattn.probes.faulty.fault import Fault
from selfattn.probes.functions.faulty import FUNCTION_FAULTS, FunctionFault, attend
from selfattn.probes.gallery import claims_of_fault
from selfattn.probes.report import Report
from selfattn.probes.sound import SOUND, Sample
from tools.probes_outcome import Outcome
from tools.probes_peers import PEERS, Peer, failed_checks, missing
from tools.probes_pytorch import PYTORCH
from tools.probes_tables import tell

DTYPES = ("float32", "bfloat16")
PEER_SEEDS = 3
OURS = "selfattn"
BUDGET = 300.0
"""Seconds for one layer, so that a busy machine is no reason for a fault that is not found."""


@dataclass(frozen=True)
class Job:
    """A layer to be judged: by whom, and from a seed and a dtype to what was found."""

    by: str
    kind: str
    name: str
    expected: tuple[str, ...]
    run: Callable[[int, str], list[str]]


def jobs() -> Iterator[Job]:
    """Give all that is judged, in an order that is the same in every process."""
    for fault in FAULTS:
        yield Job(OURS, "fault", fault.what, fault.found_by, _layer(fault))
    for wrong in FUNCTION_FAULTS:
        yield Job(OURS, "fault", wrong.what, wrong.found_by, _function(wrong))
    for name, sample in SOUND.items():
        yield Job(OURS, "right", name, (), _layer(sample))
    yield Job(OURS, "right", "function", (), _function(FunctionFault("function", attend, ())))
    for own in PYTORCH:
        yield Job(OURS, "PyTorch", own.name, tuple(own.reasons), _layer(Sample(own.make)))
    for peer in PEERS:
        for fault in FAULTS:
            yield Job(peer.name, "fault", fault.what, (), _peer(peer, fault))
        for name, sample in SOUND.items():
            yield Job(peer.name, "right", name, (), _peer(peer, sample))


def _layer(sample: Fault | Sample) -> Callable[[int, str], list[str]]:
    def run(seed: int, dtype: str) -> list[str]:
        layer = sample.make().to(getattr(torch, dtype))
        return _names(probe(layer, seed=seed, budget=BUDGET, **claims_of_fault(sample, layer)))

    return run


def _function(wrong: FunctionFault) -> Callable[[int, str], list[str]]:
    def run(seed: int, dtype: str) -> list[str]:
        words = {"seed": seed, "dtype": getattr(torch, dtype), "budget": BUDGET}
        return _names(probe_attention(wrong.function, **words, **wrong.claims))

    return run


def _peer(peer: Peer, sample: Fault | Sample) -> Callable[[int, str], list[str]]:
    return lambda seed, dtype: failed_checks(peer, sample.make, sample.claims, seed)


def _names(report: Report) -> list[str]:
    return [finding.name for finding in report.faults]


def outcome(number: int, seed: int, dtype: str) -> Outcome:
    """Do one job, by its number."""
    job = list(jobs())[number]
    missing()  # which also makes the others importable in this process
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    started = time.process_time()
    found, error = [], ""
    try:
        found = job.run(seed, dtype)
    except Exception as raised:  # one layer that cannot be probed must not end the others
        error = f"{type(raised).__name__}: {raised}".split("\n")[0]
    seconds = time.process_time() - started
    names = (job.by, job.kind, job.name, dtype, seed)
    return Outcome(*names, tuple(found), job.expected, error, seconds)


def planned(seeds: int, absent: dict[str, str]) -> list[tuple[int, int, str]]:
    """Give the number of a job, the seed and the dtype of all that is to be done."""
    plan = []
    for number, job in enumerate(jobs()):
        if job.by == OURS:
            plan += [(number, seed, dtype) for seed in range(seeds) for dtype in DTYPES]
        elif job.by not in absent:
            plan += [(number, seed, DTYPES[0]) for seed in range(min(seeds, PEER_SEEDS))]
    return plan


def measured(plan: list[tuple[int, int, str]], processes: int) -> list[Outcome]:
    """Do all that is planned, and say on stderr how far it is."""
    started, results = time.monotonic(), {}
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting = {pool.submit(outcome, *one): one for one in plan}
        for done, future in enumerate(as_completed(waiting), 1):
            results[waiting[future]] = future.result()
            if done % max(1, len(plan) // 20) == 0 or done == len(plan):
                took = time.monotonic() - started
                print(f"{done} of {len(plan)} runs, {took:.0f} s", file=sys.stderr, flush=True)
    return [results[one] for one in plan]


def _count(text: str) -> int:
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {text}")
    return int(text)


def main() -> int:
    about, _, rest = __doc__.partition("\n")
    parser = argparse.ArgumentParser(
        prog="python -m tools.probes_bench", description=about, epilog=rest.split("\n\n")[-1]
    )
    parser.add_argument("--seeds", type=_count, default=20)
    parser.add_argument("--processes", type=_count, default=2)
    parser.add_argument("--json", type=Path, help="write every outcome there")
    args = parser.parse_args()
    absent = missing()
    results = measured(planned(args.seeds, absent), args.processes)
    if args.json:
        args.json.write_text(json.dumps([asdict(one) for one in results], indent=1))
    ours = [one for one in results if one.by == OURS]
    tell(ours, [one for one in results if one.by != OURS], absent)
    met = all(one.good for one in ours)
    print("\nevery goal is met" if met else "\na goal is missed")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
