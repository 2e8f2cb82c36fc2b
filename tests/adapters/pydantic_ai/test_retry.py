"""Pauses between attempts, in virtual time, and what they are bounded by."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from pydantic_ai import exceptions
from pydantic_ai.exceptions import FallbackExceptionGroup, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel

from tests.adapters.pydantic_ai.scripted_adapter import ask
from toolcrib import PromptEvaluationError
from toolcrib.adapters.model_client import Retry
from toolcrib.adapters.options import Budget
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.adapters.pydantic_ai.model_client import (
    error_text,
    is_passing,
    request_id_of,
    requested_pause,
)
from toolcrib.testing import run_in_virtual_time


def refused(status: int = 429, **headers: str) -> ModelHTTPError:
    """A server's refusal, as pydantic-ai tells it."""
    told = {name.replace("_", "-"): value for name, value in headers.items()}
    return ModelHTTPError(status, "test-model", {"message": "no"}, headers=told)


class Line:
    """A model that refuses, or answers after a while."""

    def __init__(self, *refusals: Exception, takes: float = 0.0) -> None:
        self.times: list[float] = []
        self._refusals = list(refusals)
        self._takes = takes

    @property
    def model(self) -> FunctionModel:
        return FunctionModel(self._respond)

    async def _respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.times.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self._takes)
        if self._refusals:
            raise self._refusals.pop(0)
        return ModelResponse([TextPart("Fine.")])


def waits(line: Line, retry: Retry, *, seconds: float | None = None) -> list[float]:
    """Ask over `line` in virtual time; the pauses between the attempts."""
    adapter = PydanticAIAdapter(line.model, retry=retry)
    run_in_virtual_time(adapter.evaluate_async(ask(), budget=Budget(seconds=seconds)))
    return [after - before for before, after in zip(line.times, line.times[1:], strict=False)]


def test_pauses_grow_up_to_the_longest() -> None:
    """Each pause is about twice the one before, with jitter, and never more than the longest."""
    line = Line(*(refused(500) for _ in range(4)))

    first, second, third, fourth = waits(
        line, Retry(attempts=5, first_seconds=1, longest_seconds=3)
    )

    assert 0.75 <= first <= 1.1
    assert 1.5 <= second <= 2.1
    assert 2.25 <= third <= 3.1
    assert 2.25 <= fourth <= 3.1


@pytest.mark.parametrize(
    "headers", [{"retry_after": "7"}, {"retry_after_ms": "7000", "retry_after": "1"}]
)
def test_what_the_server_asks_for_comes_first(headers: dict[str, str]) -> None:
    """Retry-After in seconds, or the more precise header, replaces our own pause."""
    (pause,) = waits(Line(refused(429, **headers)), Retry())

    assert 6.9 <= pause <= 7.1


def test_a_pause_past_the_deadline_is_not_begun() -> None:
    """The prompt ends with the provider's error, at once, when waiting would be too long."""
    line = Line(refused(429, retry_after="20"))

    with pytest.raises(PromptEvaluationError, match="status_code: 429") as caught:
        waits(line, Retry(), seconds=10)

    assert caught.value.phase == "request"
    assert len(line.times) == 1


def test_attempts_share_one_deadline() -> None:
    """A second attempt gets what the first has left, not the whole time again."""
    line = Line(refused(500), refused(500), takes=6)

    with pytest.raises(PromptEvaluationError, match="deadline") as caught:
        waits(line, Retry(first_seconds=1), seconds=10)

    assert caught.value.phase == "budget"
    assert len(line.times) == 2


def test_a_time_out_that_is_not_ours_is_not_told_as_the_deadline() -> None:
    """Whatever raises it: the budget is blamed only when it is over."""
    with pytest.raises(PromptEvaluationError, match="TimeoutError") as caught:
        waits(Line(TimeoutError("socket")), Retry(attempts=1), seconds=10)

    assert caught.value.phase == "request"


def test_one_attempt_never_retries() -> None:
    """Whoever retries elsewhere can turn it off here."""
    line = Line(refused(500))

    with pytest.raises(PromptEvaluationError):
        waits(line, Retry(attempts=1))

    assert len(line.times) == 1


PASSING: dict[str, Exception] = {
    "408": refused(408),
    "409": refused(409),
    "425": refused(425),
    "429": refused(429),
    "529": refused(529),
    "told": refused(400, x_should_retry="true"),
    "overloaded": exceptions.ModelOverloadedError("m", "overloaded", in_stream=True),
    "server": exceptions.ModelServerError("m", "sorry", provider_error_code="server_error"),
    "lost": exceptions.ModelConnectionError("m", "reset", phase="read"),
    "unread": exceptions.ModelAPIError("m", "Failed to decode response as JSON"),
    "strange": exceptions.UnexpectedModelBehavior("Streamed response ended without content"),
    "raw": httpx2.ReadError("reset"),
    "one_of_two": FallbackExceptionGroup("all failed", [refused(400), refused(503)]),
}
LASTING: dict[str, Exception] = {
    "400": refused(400),
    "401": refused(401),
    "404": refused(404),
    "413": refused(413),
    "422": refused(422),
    "told": refused(503, x_should_retry="false"),
    "quota": ModelHTTPError.for_category(
        exceptions.ModelQuotaExceededError, status_code=429, model_name="m"
    ),
    "rejected": exceptions.ModelRequestRejectedError("m", "not this", in_stream=True),
    "unknown": exceptions.ModelAPIError("m", "not this", provider_error_code="invalid_prompt"),
    "filtered": exceptions.ContentFilterError("filtered"),
    "bug": TypeError("'NoneType' object is not iterable"),
    "both": FallbackExceptionGroup("all failed", [refused(400), refused(401)]),
}


@pytest.mark.parametrize("error", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again(error: Exception) -> None:
    """Time-outs, conflicts, limits, the server's own faults and what could not be read pass."""
    assert is_passing(error)


@pytest.mark.parametrize("error", LASTING.values(), ids=LASTING)
def test_what_stays_is_not(error: Exception) -> None:
    """What is wrong with the request stays wrong, unless the server says otherwise."""
    assert not is_passing(error)


def test_models_that_take_each_others_place_are_told_of_together() -> None:
    """When all of them fail, each one's reason is told, and the longest pause is kept to."""
    group = FallbackExceptionGroup(
        "all failed",
        [refused(429, retry_after="2", request_id="req_a"), refused(503, retry_after="3")],
    )

    told = error_text(group)

    assert "status_code: 429" in told
    assert "status_code: 503" in told
    assert told.endswith("It asks to wait 3 seconds.")
    assert (requested_pause(group), request_id_of(group)) == (3, "req_a")


def test_a_fallback_of_the_librarys_works_before_ours() -> None:
    """Another model is tried at once; only when all have failed is there a pause."""
    first, second = Line(refused(500), refused(500)), Line(refused(503))
    model: Any = FallbackModel(first.model, second.model)
    adapter = PydanticAIAdapter(model, retry=Retry(first_seconds=1))

    found = run_in_virtual_time(adapter.evaluate_async(ask()))

    assert found.text == "Fine."
    assert len(first.times) == len(second.times) == 2
    assert second.times[1] - second.times[0] >= 0.75
