"""The fixture for a test suite: `def test_it(assert_sound): assert_sound(layer, width=64)`."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def assert_sound() -> Callable[..., Any]:
    """The function `selfattn.probes.assert_sound`, which fails a test with the faults it found."""
    from selfattn.probes.run import assert_sound

    return assert_sound
