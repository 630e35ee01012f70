"""Time for a layer that may never come back.

The budget counts the seconds in which a layer could run: those in which it waited for a processor
that others had are not its own, within limits. So a busy machine leaves the verdicts as they are.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from selfattn.probes.stopping import TimeUp, call_within

T = TypeVar("T")

PATIENCE = 2.0
"""How many times its seconds a budget lasts at most on the wall clock, on a starved machine."""

_WAITED = Path("/proc/self/schedstat")
"""Linux tells here for how many nanoseconds the main thread ran, and waited for a processor."""


class Budget:
    """Seconds for all calls together, and for any one at most a third of them.

    Once it is known how long calls take, one may take 100 times the slowest so far, or five
    seconds on a busy machine. One that `compiles` in its first calls may take all for these.
    """

    def __init__(self, seconds: float, *, compiles: bool = False) -> None:
        self.seconds, self.compiles = seconds, compiles
        self._started, self._waited = time.perf_counter(), waited()
        self._slowest, self._calls = 0.0, 0

    @property
    def wall(self) -> float:
        """The seconds since the start."""
        return time.perf_counter() - self._started

    @property
    def spent(self) -> float:
        """The same without those spent in waiting for a processor, as far as patience goes."""
        return max(self.wall - (waited() - self._waited), self.wall / PATIENCE)

    @property
    def left(self) -> float:
        return self.seconds - self.spent

    @property
    def limit(self) -> float:
        """The seconds on the wall clock that the next call may take."""
        limit = self.left if self.compiles else min(self.left, self.seconds / 3)
        return limit if self._calls < 10 else min(limit, max(5.0, 100 * self._slowest))

    def call(self, function: Callable[[], T]) -> T:
        """Call a function.

        Raises:
            TimeUp: it took longer than `limit`.
        """
        limit = self.limit
        if limit <= 0:
            raise TimeUp
        started = time.perf_counter()
        result = call_within(function, limit)
        self._slowest = max(self._slowest, time.perf_counter() - started)
        self._calls += 1
        return result


def waited() -> float:
    """Give the seconds for which this process waited for a processor; 0 where nothing tells."""
    try:
        return int(_WAITED.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
