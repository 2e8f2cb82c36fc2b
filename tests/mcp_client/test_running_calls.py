"""Which call, and which client, a message of a mounted server belongs to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from toolcrib.mcp_client.running_calls import AskingCall, RunningCalls


def call_of(session_id: str, client: object | None) -> AskingCall:
    context = SimpleNamespace(session_id=session_id)
    return AskingCall(cast("Any", context), str, cast("Any", client))


def test_a_message_after_the_call_is_for_the_only_client_that_has_called() -> None:
    """A server may log on by itself for the one client that it has."""
    running, client = RunningCalls(), object()
    assert running.listener() is None
    with running.of(call_of("one", client)):
        assert running.listener() is client

    assert running.listener() is client


def test_a_message_that_may_be_of_somebody_elses_work_is_for_nobody() -> None:
    """Once two sessions have called, a message outside of calls could show one of them the other's
    work.
    """
    running = RunningCalls()
    with running.of(call_of("one", object())):
        pass
    with running.of(call_of("two", None)):
        pass
    with running.of(call_of("three", object())):
        pass

    assert running.listener() is None


def test_calls_of_one_session_share_its_client() -> None:
    """With several calls of one client at once, its messages are still its own."""
    running, first, second = RunningCalls(), object(), object()
    calls = [call_of("one", first), call_of("one", second)]
    with running.of(calls[0]), running.of(calls[1]):
        pass
    running._running.extend(calls)  # pyright: ignore[reportPrivateUsage]

    assert running.listener() is second
    assert running.asking() is None
