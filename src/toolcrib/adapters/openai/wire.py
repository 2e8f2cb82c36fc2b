"""One request to the Responses API: sent, retried, streamed or not, and read as plain JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

from toolcrib.adapters.items import plain
from toolcrib.adapters.openai.retry import ReplyBroken, asked_pause, is_passing
from toolcrib.adapters.openai.said import is_container_gone, said
from toolcrib.adapters.openai.streamed import Streamed
from toolcrib.adapters.retry import Retry
from toolcrib.errors import ContainerGone, PromptEvaluationError

StreamEvent = dict[str, Any]

_OPTIONS: Final = {"max_retries": 0, "security": {"bearer_auth": True}}


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request came to."""

    body: dict[str, Any] = field(repr=False)
    """Not shown: the provider may repeat in it what it was sent."""
    request_id: str | None


@dataclass(slots=True)
class _Attempt:
    """One try at a request, and the id that the provider gave it, also when it breaks off."""

    request_id: str | None = None


@dataclass(slots=True)
class Wire:
    """The line to the provider. `client` is an `AsyncOpenAI`; retries are ours, not the SDK's,
    because they must end with the prompt's deadline.
    """

    client: Any
    retry: Retry = field(default_factory=Retry)

    async def ask(
        self,
        body: bytes,
        *,
        prompt_name: str,
        on_event: Callable[[StreamEvent], None] | None = None,
        deadline: float | None = None,
    ) -> Reply:
        """Send a request until it is answered. With `on_event` it asks for a stream."""
        number = 0
        while True:
            number += 1
            attempt = _Attempt()
            try:
                async with asyncio.timeout_at(deadline):
                    return Reply(await self._once(body, on_event, attempt), attempt.request_id)
            except Exception as error:
                pause = self._pause(error, number, deadline)
                if pause is None:
                    raise self._explained(error, attempt, prompt_name) from error
            await asyncio.sleep(pause)

    async def _once(
        self,
        body: bytes,
        on_event: Callable[[StreamEvent], None] | None,
        attempt: _Attempt,
    ) -> dict[str, Any]:
        from openai import AsyncStream, HttpxBinaryResponseContent

        # Past `responses.create`, which would look at every item of the history again, and would
        # read the reply into classes that may be too old for it.
        post = partial(self.client.post, "/responses", content=body, options=_OPTIONS)
        if on_event is None:
            raw = await post(cast_to=HttpxBinaryResponseContent)
            attempt.request_id = raw.response.headers.get("x-request-id")
            return _read(raw.content)
        stream = await post(cast_to=object, stream=True, stream_cls=AsyncStream[object])
        attempt.request_id = stream.response.headers.get("x-request-id")
        async with stream:
            return await _collect(stream, on_event)

    def _pause(self, error: Exception, attempt: int, deadline: float | None) -> float | None:
        """How long to wait before trying again; None when there is no point."""
        if attempt >= self.retry.attempts or not is_passing(error):
            return None
        pause = self.retry.pause(attempt, asked_pause(error))
        if pause is None or deadline is None:
            return pause
        return pause if asyncio.get_running_loop().time() + pause < deadline else None

    def _explained(
        self, error: Exception, attempt: _Attempt, prompt_name: str
    ) -> PromptEvaluationError:
        """A provider's error as ours: what was wrong, and the id to ask the provider about."""
        request_id = attempt.request_id or getattr(error, "request_id", None)
        if isinstance(error, TimeoutError):
            return PromptEvaluationError(
                "the deadline passed before the provider answered; allow more seconds in the "
                "prompt's Budget, or to the call that evaluates it",
                prompt_name=prompt_name,
                phase="budget",
                request_id=request_id,
            )
        kind = ContainerGone if is_container_gone(error) else PromptEvaluationError
        return kind(
            f"the provider did not answer: {said(error, self.client)}",
            prompt_name=prompt_name,
            phase="request",
            request_id=request_id,
        )


def _read(content: bytes) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError:
        raise ReplyBroken("the reply is not whole JSON: it was cut off, or is no reply") from None
    if not isinstance(found, dict):
        raise ReplyBroken("the reply is JSON, but no response")
    return cast("dict[str, Any]", found)


async def _collect(
    stream: AsyncIterator[Any], on_event: Callable[[StreamEvent], None]
) -> dict[str, Any]:
    """Read a stream to its end."""
    streamed = Streamed()
    try:
        async for raw in stream:
            event = plain(raw)
            streamed.hear(event)
            on_event(event)
    except json.JSONDecodeError:
        raise ReplyBroken("an event of the stream is not whole JSON") from None
    return streamed.body()
