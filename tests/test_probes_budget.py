"""The budget: what counts as a layer's own time."""

from pathlib import Path

import pytest

from selfattn.probes import budget
from selfattn.probes.budget import Budget, waited


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """The seconds since the start, and those of them that were waited, to be set by hand."""
    now = {"wall": 100.0, "waited": 40.0}
    monkeypatch.setattr(budget.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(budget, "waited", lambda: now["waited"])
    return now


def test_waiting_for_a_processor_is_not_the_layers_own_time(clock: dict[str, float]) -> None:
    ten = Budget(10)
    clock.update(wall=108, waited=44)
    assert (ten.wall, ten.spent, ten.left) == (8, 4, 6)


def test_patience_ends(clock: dict[str, float]) -> None:
    ten = Budget(10)
    clock.update(wall=120, waited=60)  # it waited all the time
    assert (ten.wall, ten.spent, ten.left) == (20, 10, 0)


def test_one_call_may_take_a_third_and_later_a_hundred_times_the_slowest(
    clock: dict[str, float],
) -> None:
    many = Budget(90)
    assert many.limit == 30

    def call(seconds: float) -> None:
        many.call(lambda: clock.update(wall=clock["wall"] + seconds))

    for _ in range(10):
        call(0.125)
    assert many.limit == 12.5
    quick = Budget(90)
    for _ in range(10):
        quick.call(lambda: None)
    assert quick.limit == 5
    call(70.0)
    assert many.limit == 90 - 1.25 - 70


def test_what_linux_says_of_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = tmp_path / "schedstat"
    monkeypatch.setattr(budget, "_WAITED", said)
    assert waited() == 0  # no such file elsewhere
    said.write_text("112130 2500000000 4\n")  # nanoseconds run, nanoseconds waited, turns
    assert waited() == 2.5
    said.write_text("")
    assert waited() == 0
