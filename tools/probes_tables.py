"""The tables of `make probes-bench`."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from selfattn.probes.unseen import UNSEEN
from tools.probes_outcome import Outcome
from tools.probes_pytorch import PYTORCH


def tell(ours: Sequence[Outcome], peers: Sequence[Outcome], absent: dict[str, str]) -> None:
    """Print all tables.

    Args:
        ours: what the probes said.
        peers: what other checkers said.
        absent: the checkers that could not be imported, with the reason.
    """
    _faults([one for one in ours if one.kind == "fault"])
    _right([one for one in ours if one.kind == "right"])
    _pytorch([one for one in ours if one.kind == "PyTorch"])
    print("\nnot to be seen from outside:")
    for one in UNSEEN:
        seen = f"; with q, k and v {one.with_qkv} sees it" if one.with_qkv else ""
        print(f"  {one.what}: {one.why}{seen}")
    _peers(peers, absent)
    slowest = max(ours, key=lambda one: one.seconds)
    print(f"\nslowest: {slowest.name}, {slowest.seconds:.1f} s of one core")


def _faults(runs: Sequence[Outcome]) -> None:
    print("share  fault, and the probes that found it, with the share of runs")
    for name, same in _by_name(runs).items():
        counts = Counter(probe for one in same for probe in one.found)
        found = ", ".join(f"{p} {c / len(same):.0%}" for p, c in counts.most_common())
        print(f"{_share(same):5.0%}  {name}: {found or 'none'}")
        _errors(same)
    good = sum(one.good for one in runs)
    print(f"\n{good} of {len(runs)} runs of {len(_by_name(runs))} faults found")


def _right(runs: Sequence[Outcome]) -> None:
    alarms = [one for one in runs if one.found]
    print(f"{len(alarms)} false alarms in {len(runs)} runs of {len(_by_name(runs))} right layers")
    for one in alarms:
        print(f"  {one.name}, {one.dtype}, seed {one.seed}: {', '.join(one.found)}")
    _errors(runs)


def _pytorch(runs: Sequence[Outcome]) -> None:
    for own in PYTORCH:
        same = _by_name(runs)[own.name]
        print(f"\n{own.name}: as written in {sum(one.good for one in same)} of {len(same)} runs")
        for probe, reason in own.reasons.items():
            print(f"  {probe}: {reason}")
        for one in same:
            if not one.good and not one.error:
                print(f"  but {one.dtype}, seed {one.seed}: {', '.join(one.found) or 'nothing'}")
        _errors(same)


def _peers(runs: Sequence[Outcome], absent: dict[str, str]) -> None:
    print("\nother checkers on the same layers, float32:")
    for name, reason in absent.items():
        print(f"  {name}: missing, {reason}")
    for name in dict.fromkeys(one.by for one in runs):
        mine = [one for one in runs if one.by == name]
        faults, right = ([one for one in mine if one.kind == k] for k in ("fault", "right"))
        alarms = Counter(f"{one.name} ({', '.join(one.found)})" for one in right if one.found)
        print(
            f"  {name}: {_found(faults):.0%} of {len(faults)} runs of {len(_by_name(faults))} "
            f"faulty layers, {sum(alarms.values())} false alarms in {len(right)} runs of "
            f"{len(_by_name(right))} right ones"
        )
        checks = Counter(check for one in faults for check in one.found)
        print(f"    found by {', '.join(f'{c} {n}' for c, n in checks.most_common()) or 'none'}")
        if alarms:
            print(f"    false alarms: {', '.join(f'{a} {n}' for a, n in alarms.items())}")
        _errors(mine)
    if runs:
        faults = _by_name(one for one in runs if one.kind == "fault")
        none = [name for name, same in faults.items() if not any(one.found for one in same)]
        print(f"  {len(none)} of {len(faults)} found by none of them: {', '.join(none) or '-'}")


def _errors(runs: Iterable[Outcome]) -> None:
    for one in runs:
        if one.error:
            print(f"  not judged: {one.name}, {one.dtype}, seed {one.seed}: {one.error}")


def _by_name(runs: Iterable[Outcome]) -> dict[str, list[Outcome]]:
    names: dict[str, list[Outcome]] = defaultdict(list)
    for one in runs:
        names[one.name].append(one)
    return names


def _share(runs: Sequence[Outcome]) -> float:
    return sum(one.good for one in runs) / len(runs)


def _found(runs: Sequence[Outcome]) -> float:
    return sum(bool(one.found) for one in runs) / len(runs)
