"""What is done now and then."""

from __future__ import annotations

from tests.embedded.tools.hosted_calls import Clock
from toolcrib.embedded.database import SweepInterval


def test_it_is_due_at_first_and_then_every_so_often() -> None:
    """By the provider's clock, and only one who asks is told so."""
    clock = Clock()
    sweeps = SweepInterval(clock, 60)
    assert sweeps.has_elapsed()
    assert not sweeps.has_elapsed()
    clock.now += 59
    assert not sweeps.has_elapsed()
    clock.now += 1
    assert sweeps.has_elapsed()
    assert not sweeps.has_elapsed()
