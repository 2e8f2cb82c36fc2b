"""Pauses between attempts, and what they are bounded by."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from email.utils import formatdate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import PromptEvaluationError
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.openai.model_client import ResponsesEndpoint, ResponsesReply
from toolcrib.adapters.openai.request_errors import asked_pause, is_passing
from toolcrib.errors import UsageError
from toolcrib.testing import run_in_virtual_time


class Refused(Exception):
    """A server's refusal, as the SDK tells it."""

    def __init__(self, status: int = 429, headers: Mapping[str, str] | None = None) -> None:
        super().__init__("refused")
        self.status_code = status
        self.response = SimpleNamespace(headers=dict(headers or {}))


class Line:
    """The part of an SDK client that is used: it refuses, or answers after a while."""

    def __init__(self, *refusals: Exception, takes: float = 0.0) -> None:
        self.times: list[float] = []
        self._refusals = list(refusals)
        self._takes = takes

    async def post(self, path: str, *, options: Any, **_: Any) -> Any:
        assert options["max_retries"] == 0, "retries are ours: the SDK's know no deadline"
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._takes)
        if self._refusals:
            raise self._refusals.pop(0)
        return SimpleNamespace(response=SimpleNamespace(headers={}), content=b"{}")


def waits(line: Line, retry: Retry, *, seconds: float | None = None) -> list[float]:
    """Ask over `line` in virtual time; the pauses between the attempts."""

    async def asking() -> ResponsesReply:
        now = asyncio.get_running_loop().time()
        deadline = None if seconds is None else now + seconds
        return await ResponsesEndpoint(line, retry).ask(b"{}", prompt_name="p", deadline=deadline)

    run_in_virtual_time(asking())
    return [after - before for before, after in zip(line.times, line.times[1:], strict=False)]


def test_pauses_grow_up_to_the_longest() -> None:
    """Each pause is about twice the one before, with jitter, and never more than the longest."""
    line = Line(*(Refused(500) for _ in range(4)))

    first, second, third, fourth = waits(
        line, Retry(attempts=5, first_seconds=1, longest_seconds=3)
    )

    assert 0.75 <= first <= 1.1
    assert 1.5 <= second <= 2.1
    assert 2.25 <= third <= 3.1
    assert 2.25 <= fourth <= 3.1


@pytest.mark.parametrize(
    "headers", [{"retry-after": "7"}, {"retry-after-ms": "7000", "retry-after": "1"}]
)
def test_what_the_server_asks_for_comes_first(headers: dict[str, str]) -> None:
    """Retry-After in seconds, or the more precise header, replaces our own pause."""
    (pause,) = waits(Line(Refused(429, headers)), Retry())

    assert 6.9 <= pause <= 7.1


def test_a_pause_past_the_deadline_is_not_begun() -> None:
    """The prompt ends with the provider's error, at once, when waiting would be too long."""
    line = Line(Refused(429, {"retry-after": "20"}))

    with pytest.raises(PromptEvaluationError, match="HTTP 429") as caught:
        waits(line, Retry(), seconds=10)

    assert caught.value.phase == "request"
    assert len(line.times) == 1


def test_attempts_share_one_deadline() -> None:
    """A second attempt gets what the first has left, not the whole time again."""
    line = Line(Refused(500), Refused(500), takes=6)

    with pytest.raises(PromptEvaluationError, match="deadline") as caught:
        waits(line, Retry(first_seconds=1), seconds=10)

    assert caught.value.phase == "budget"
    assert len(line.times) == 2


def test_one_attempt_never_retries() -> None:
    """Whoever retries elsewhere can turn it off here."""
    line = Line(Refused(500))

    with pytest.raises(PromptEvaluationError):
        waits(line, Retry(attempts=1))

    assert len(line.times) == 1


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"attempts": 0}, "attempts must be 1 or more"),
        ({"first_seconds": -1}, "first_seconds"),
        ({"longest_seconds": float("inf")}, "longest_seconds"),
        ({"longest_seconds": float("nan")}, "longest_seconds"),
    ],
)
def test_a_retry_that_cannot_be_meant_is_refused(fields: dict[str, Any], text: str) -> None:
    """A slip is told when it is made, not when the first request fails."""
    with pytest.raises(UsageError, match=text):
        Retry(**fields)


def test_a_date_is_a_pause_too() -> None:
    """Retry-After may be a date; one that is past is no pause."""
    soon = asked_pause(Refused(503, {"retry-after": formatdate(time.time() + 90, usegmt=True)}))
    past = asked_pause(Refused(503, {"retry-after": formatdate(0, usegmt=True)}))

    assert soon is not None
    assert 80 < soon <= 91
    assert past == 0


@given(st.text() | st.floats().map(str))
def test_no_header_breaks_a_prompt(value: str) -> None:
    """Whatever a server writes there is a number of seconds, or nothing."""
    found = asked_pause(Refused(429, {"retry-after": value}))

    assert found is None or found >= 0


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504])
def test_passing_statuses_are_tried_again(status: int) -> None:
    """Time-outs, conflicts, rate limits and the server's own faults pass."""
    assert is_passing(Refused(status))
    assert not is_passing(Refused(status, {"x-should-retry": "false"}))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422])
def test_other_statuses_are_not(status: int) -> None:
    """What is wrong with the request stays wrong, unless the server says otherwise."""
    assert not is_passing(Refused(status))
    assert is_passing(Refused(status, {"x-should-retry": "true"}))
