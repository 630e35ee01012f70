"""What is known of a faulty layer."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Fault:
    """A faulty layer.

    Attributes:
        what: what is wrong, in a few words.
        make: makes a fresh layer, from the global random state.
        claims: what it claims wrongly, as keywords for `probe`.
        found_by: the probes that must find it, each of them.
        page: the lesson's page whose warning it is.
    """

    what: str
    make: Callable[[], Any]
    claims: dict[str, Any] = field(default_factory=dict)
    found_by: tuple[str, ...] = ()
    page: str = ""
