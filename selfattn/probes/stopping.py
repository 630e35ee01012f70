"""Stopping a call that does not come back.

A call is stopped in one of two ways. In the main thread a timer signal raises an exception in the
midst of it: that ends Python loops, sleeps and waits. Elsewhere, and where there are no signals,
the call runs in a thread of its own, which is given up. A call that is stuck inside compiled code
in the main thread answers no signal; `selfattn probe` runs in a process of its own for that.
"""

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

LONGEST = 1e6
"""Seconds; timers take no more than some number of them."""


class TimeUp(BaseException):
    """Raised in the midst of a call; no Exception, so that a layer does not catch it."""


def call_within(function: Callable[[], T], limit: float) -> T:
    """Call a function, for at most `limit` seconds on the wall clock.

    Raises:
        TimeUp: it took longer.
    """
    limit = min(limit, LONGEST)
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and hasattr(signal, "setitimer"):
        return _with_signal(function, limit)
    return _in_thread(function, limit)


def _with_signal(function: Callable[[], T], limit: float) -> T:
    armed = True

    def stop(number: int, frame: FrameType | None) -> None:
        if armed:
            raise TimeUp

    before = signal.signal(signal.SIGALRM, stop)
    started = time.monotonic()
    # Again and again, should the layer swallow the exception.
    theirs = signal.setitimer(signal.ITIMER_REAL, limit, 0.5)
    try:
        return function()
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before if before is not None else signal.SIG_DFL)
        if theirs[0]:
            rest = max(0.001, theirs[0] - (time.monotonic() - started))
            signal.setitimer(signal.ITIMER_REAL, rest, theirs[1])


def _in_thread(function: Callable[[], T], limit: float) -> T:
    result: dict[str, Any] = {}

    def target() -> None:
        try:
            result["value"] = function()
        except BaseException as error:
            result["error"] = error

    thread = threading.Thread(target=target, daemon=True, name="selfattn-probe")
    thread.start()
    thread.join(limit)
    if thread.is_alive():
        raise TimeUp
    if "error" in result:
        raise result["error"]
    value: T = result["value"]
    return value
