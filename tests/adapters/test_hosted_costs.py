"""What provider-run calls cost: containers by the time that a provider bills at once."""

import pytest

from toolcrib import Session
from toolcrib.adapters.codec import Invocation
from toolcrib.adapters.hosted_costs import HostedCosts
from toolcrib.testing import FakeClock
from toolcrib.tools.code_interpreter import CodeInterpreterResult, CodeRun, code_interpreter_tool

RUN = Invocation(
    item_id="run_1",
    kind="code_interpreter",
    params=CodeRun("1", "c1"),
    value=CodeInterpreterResult(code="1", container_id="c1"),
    message="",
    success=True,
    error=None,
    raw={},
)


@pytest.mark.parametrize(
    ("provider", "seconds", "nanos"),
    [("openai", 20 * 60, 30_000_000), ("anthropic", 5 * 60, 4_166_667)],
)
async def test_a_container_costs_once_for_the_time_that_is_billed_at_once(
    provider: str, seconds: int, nanos: int
) -> None:
    """A later run in the same time adds nothing; one after it is billed again, never as free."""
    clock = FakeClock(1_780_000_000.0)
    costs, tool = HostedCosts(Session(clock=clock), provider), code_interpreter_tool()

    billed = [(await costs.cost(RUN, tool)).nanos]
    for passed in (seconds - 1, 2):
        clock.advance(passed)
        billed.append((await costs.cost(RUN, tool)).nanos)

    assert billed == [nanos, 0, nanos]
