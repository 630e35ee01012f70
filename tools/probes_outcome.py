"""What is known of one run of the probes' bench."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What a checker said of one layer, with one seed, in one dtype.

    Attributes:
        by: the checker, ours or a peer.
        kind: "fault", "right" or "PyTorch".
        found: the probes, or a peer's checks, that call it faulty.
        expected: those that must, for ours.
        error: why it could not be judged.
        seconds: of one core.
    """

    by: str
    kind: str
    name: str
    dtype: str
    seed: int
    found: tuple[str, ...]
    expected: tuple[str, ...] = ()
    error: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        if self.error:
            return False
        if self.kind == "fault":
            return set(self.expected) <= set(self.found)
        return set(self.expected) == set(self.found)
