"""What the tools do, and what the policy lets through. Run it with: pytest"""

import asyncio
from pathlib import Path
from typing import Any

from workshop import order_parts, stock_level

from toolcrib import Executor, Outcome, Session, load_policy


def call(name: str, **arguments: Any) -> Outcome:
    """Call a tool under the policy of this folder."""
    policy = load_policy(Path(__file__).with_name("policy.yaml"))
    executor = Executor(Session(), tools=[stock_level, order_parts], policy=policy)
    return asyncio.run(executor.call(name, arguments))


def test_reading_runs() -> None:
    """It changes nothing, so nobody is asked."""
    assert call("stock_level", part="nuts").value == 80


def test_a_small_order_runs() -> None:
    """Up to ten are allowed."""
    assert call("order_parts", part="saws", count=10).value == 12


def test_a_large_order_waits_for_a_person() -> None:
    """More than ten need a yes."""
    assert call("order_parts", part="saws", count=11).status == "waiting"


def test_an_absurd_order_is_denied() -> None:
    """Nobody can allow that many."""
    outcome = call("order_parts", part="saws", count=5000)
    assert outcome.failure is not None
    assert outcome.failure.kind == "not_permitted"
