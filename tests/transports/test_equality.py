"""Every transport tells the same."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from tests.transports.scenarios import SCENARIOS, prompts
from tests.transports.suite import COLUMNS, Json, Scenario, columns_with, normal

for _module in sorted(Path(__file__).parent.glob("*_driver.py")):
    import_module(f"tests.transports.{_module.stem}")


async def told(column: str, scenario: Scenario, has_model: bool) -> Json:
    async with COLUMNS[column](has_model) as driver:
        return normal(await scenario(driver))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("column", columns_with("calls"))
async def test_a_call_comes_to_the_same(column: str, scenario: str) -> None:
    """R36: a call has the same result over every transport as in the process."""
    run = SCENARIOS[scenario]

    assert await told(column, run, False) == await told("in-process", run, False)


@pytest.mark.parametrize("column", columns_with("prompts"))
async def test_a_model_calls_host_tools_with_and_without_approval(column: str) -> None:
    """R36, R40, R42: a prompt calls the host's tools, and waits for a person, over every
    transport alike.
    """
    assert await told(column, prompts, True) == await told("in-process", prompts, True)
