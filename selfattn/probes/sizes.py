"""Sizes that a layer takes, found by trying."""

from collections.abc import Sequence

from selfattn.probes.failures import LayerFailed, no_output
from selfattn.probes.runner import Runner

SEQUENCES = (7, 8, 11, 12, 16, 32, 64, 128, 10, 49, 50, 196, 197, 6, 5, 4, 3, 2)
"""Lengths that are tried, in this order, until the layer takes one."""

LONGER = (8, 20, 33)
"""Further lengths, even and odd, for faults that one short sequence does not show."""

LONG = (70, 33)
"""Of these the first that the layer takes is the long sequence for every form of call."""

WIDEST = 512
"""The widest window that is looked at."""

CROWD = 66
"""A batch larger than most, for the same."""

BATCH = 5


def find_sizes(runner: Runner) -> tuple[int, int]:
    """Find a batch and a length that the layer takes, with and without a mask.

    Raises:
        ProbeError: it takes none, or hangs.
    """
    taken = (runner.claims.heads, runner.claims.width)
    batch = BATCH if BATCH not in taken else 3
    failures: list[LayerFailed] = []
    only = runner.claims.seq
    for seq in (only,) if only else SEQUENCES:
        if seq in taken and seq == 7 and not only:
            continue
        for size in (batch, seq, 1):
            if size == seq and failures and failures[-1].shape:
                continue  # equal sizes would hide axes that changed places
            try:
                _try(runner, size, seq)
            except LayerFailed as failure:
                failures.append(failure)
                if failure.details == "timeout":
                    raise no_output(failures, runner.claims) from failure
            else:
                return size, seq
    raise no_output(failures, runner.claims)


def find_long(runner: Runner, seq: int) -> int:
    """Give a long sequence's length that the layer takes, `seq` if it takes none."""
    if runner.claims.seq:
        return seq
    for long in LONG:
        try:
            runner.run(runner.draw(runner.generator("long"), 2, long))
        except LayerFailed as failure:
            if failure.details == "timeout":
                break
        else:
            return long
    return seq


def some(places: Sequence[int], most: int = 12) -> list[int]:
    """Give at most `most` of the places, evenly spread, the first and the last among them."""
    if len(places) <= most:
        return list(places)
    return [places[i * (len(places) - 1) // (most - 1)] for i in range(most)]


def _try(runner: Runner, batch: int, seq: int) -> None:
    x = runner.draw(runner.generator("sizes"), batch, seq)
    if runner.claims.mask:
        try:
            runner.run(x, runner.pads(batch, seq))
        except LayerFailed as failure:
            if not failure.shape:
                raise
            runner.run(x)  # a mask alone spoils the shape: for a probe to say
    try:
        runner.run(x)
    except LayerFailed:
        if not (runner.claims.mask and runner.none_taken):
            raise
        runner.none_taken = False
        try:
            runner.run(x)
        except LayerFailed:
            runner.none_taken = True
            raise
        runner.notes.append("it takes no None for a mask, so one that blocks nothing is given")
