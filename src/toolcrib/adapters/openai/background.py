"""Responses that the provider makes in the background: waited for, streamed, cancelled, deleted.

A response is asked for by its id until it is there, so that who waits may be another process than
the one that made the request.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.items import mapping_of, maybe_int, maybe_text, plain
from toolcrib.adapters.model_client import Retry, late, send_with_retries
from toolcrib.adapters.openai.request_errors import asked_pause, error_text, is_passing
from toolcrib.adapters.openai.stream import Streamed
from toolcrib.errors import DeadlinePassed, PromptEvaluationError, ReplyBroken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.openai.stream_watcher import StreamWatcher

logger = logging.getLogger(__name__)

UNFINISHED: Final = frozenset({"queued", "in_progress"})
"""The statuses of a response that the provider still works on."""
POLL_SECONDS: Final = 1.0
_LONGEST_PAUSE: Final = 15.0
_CANCEL_SECONDS: Final = 10.0
_OPTIONS: Final = {"max_retries": 0, "security": {"bearer_auth": True}}


def is_unfinished(body: RawItem) -> bool:
    """Whether the provider still works on a response."""
    return maybe_text(body, "status") in UNFINISHED and bool(maybe_text(body, "id"))


async def first_of(stream: AsyncIterator[Any]) -> dict[str, Any]:
    """The response as the first event of a stream has it. Raises `ReplyBroken` without one."""
    async for raw in stream:
        response = plain(mapping_of(plain(raw), "response"))
        if maybe_text(response, "id"):
            return response
    raise ReplyBroken("the connection ended before the response had an id")


@dataclass(slots=True)
class BackgroundResponses:
    """The responses of a client, an `AsyncOpenAI`, by their ids."""

    client: Any
    retry: Retry = field(default_factory=Retry)
    poll_seconds: float = POLL_SECONDS

    async def wait(
        self,
        response_id: str,
        prompt_name: str,
        *,
        watcher: StreamWatcher | None,
        deadline: float | None,
    ) -> dict[str, Any]:
        """The response when it is there. With a `watcher`, its events are followed meanwhile, from
        the first; a lost connection is opened again after the last event that came.

        Raises `PromptEvaluationError`; at the deadline, the provider goes on.
        """
        try:
            body = await self._follow(response_id, watcher, deadline) if watcher else None
            return body or await self._poll(response_id, deadline)
        except DeadlinePassed as error:
            raise late(prompt_name) from error
        except Exception as error:
            if getattr(error, "status_code", None) == 404:
                return _lost(response_id)
            raise PromptEvaluationError(
                f"the response {response_id} could not be read: {error_text(error, self.client)}; "
                "`resume` asks for it again",
                prompt_name=prompt_name,
                phase="request",
                request_id=getattr(error, "request_id", None),
            ) from error

    async def cancel(self, response_id: str) -> bool:
        """Cancel a response; whether the provider says that it ended."""
        post = self.client.post(
            f"/responses/{response_id}/cancel", cast_to=object, options=_OPTIONS
        )
        try:
            async with asyncio.timeout(_CANCEL_SECONDS):
                return not is_unfinished(plain(await post))
        except Exception as error:
            text = error_text(error, self.client)
            logger.warning("response %s could not be cancelled: %s", response_id, text)
            return False

    async def delete(self, response_id: str) -> None:
        """Let the provider forget a response. What fails is logged."""
        try:
            await self.client.responses.delete(response_id)
        except Exception as error:
            text = error_text(error, self.client)
            logger.warning("response %s was not deleted: %s", response_id, text)

    async def _poll(self, response_id: str, deadline: float | None) -> dict[str, Any]:
        clock = asyncio.get_running_loop().time
        pause = self.poll_seconds
        while True:
            body = await self._sent(lambda: self._retrieve(response_id), deadline)
            if not is_unfinished(body):
                return body
            if deadline is not None and clock() + pause >= deadline:
                raise DeadlinePassed("the deadline passed before the response was there")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, max(_LONGEST_PAUSE, self.poll_seconds))

    async def _retrieve(self, response_id: str) -> dict[str, Any]:
        return plain(
            await self.client.get(f"/responses/{response_id}", cast_to=object, options=_OPTIONS)
        )

    async def _follow(
        self, response_id: str, watcher: StreamWatcher, deadline: float | None
    ) -> dict[str, Any] | None:
        """Follow the events to the end; None when the provider does not give them again."""
        watcher.begin_attempt()
        following = _Following(self.client, response_id, watcher)
        try:
            return await self._sent(following.run, deadline)
        except Exception as error:
            # A response that was made without a stream has none.
            if getattr(error, "status_code", None) == 400:
                return None
            raise

    async def _sent(self, send: Callable[[], Any], deadline: float | None) -> dict[str, Any]:
        return await send_with_retries(
            send, self.retry, deadline, is_passing=is_passing, requested_pause=asked_pause
        )


@dataclass(slots=True)
class _Following:
    """The events of one response, over one connection after another."""

    client: Any
    response_id: str
    watcher: StreamWatcher
    streamed: Streamed = field(default_factory=Streamed)
    last: int | None = None

    async def run(self) -> dict[str, Any]:
        from openai import AsyncStream

        query: dict[str, Any] = {"stream": "true"}
        if self.last is not None:
            query["starting_after"] = self.last
        stream = await self.client.get(
            f"/responses/{self.response_id}",
            cast_to=object,
            options={**_OPTIONS, "params": query},
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            try:
                async for raw in stream:
                    await self._take(plain(raw))
            except json.JSONDecodeError:
                raise ReplyBroken("an event of the stream is not whole JSON") from None
        return self.streamed.body()

    async def _take(self, event: RawItem) -> None:
        number = maybe_int(event, "sequence_number")
        if number is not None:
            if self.last is not None and number <= self.last:
                return
            self.last = number
        self.streamed.add(plain(event))
        await self.watcher.add(event)


def _lost(response_id: str) -> dict[str, Any]:
    message = f"the provider no longer has response {response_id}"
    return {"id": response_id, "status": "failed", "error": {"code": "lost", "message": message}}
