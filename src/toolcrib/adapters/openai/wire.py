"""One request to the Responses API: sent, retried, streamed or not, and read as plain JSON."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, cast

from toolcrib.adapters.items import maybe_text, plain
from toolcrib.errors import PromptEvaluationError, ToolcribError

StreamEvent = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request came to."""

    body: dict[str, Any]
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Retry:
    """How often, and how patiently, a request is tried again after 429, 5xx or a lost line."""

    attempts: int = 4
    first_seconds: float = 0.5
    longest_seconds: float = 30.0

    def pause(self, attempt: int, asked: float | None) -> float:
        """Seconds before the next attempt: what the server asked for, else growing, with jitter."""
        if asked is not None:
            return asked
        grown = min(self.longest_seconds, self.first_seconds * 2 ** (attempt - 1))
        return grown * random.uniform(0.75, 1.25)


class StreamBroken(ToolcribError):
    """The stream ended before the response was complete."""


@dataclass(slots=True)
class Wire:
    """The line to the provider. `client` is an `AsyncOpenAI`; retries are ours, not the SDK's,
    because they must end with the prompt's deadline.
    """

    client: Any
    retry: Retry = field(default_factory=Retry)

    async def ask(
        self,
        body: dict[str, Any],
        *,
        prompt_name: str,
        on_event: Callable[[StreamEvent], None] | None = None,
        deadline: float | None = None,
    ) -> Reply:
        """Send a request until it is answered. With `on_event` it is streamed."""
        attempt = 1
        while True:
            try:
                async with asyncio.timeout_at(deadline):
                    return await self._once(body, on_event)
            except Exception as error:
                pause = self._pause(error, attempt, deadline)
                if pause is None:
                    raise _explained(error, prompt_name) from error
                await asyncio.sleep(pause)
                attempt += 1

    async def _once(
        self, body: dict[str, Any], on_event: Callable[[StreamEvent], None] | None
    ) -> Reply:
        responses = self.client.with_options(max_retries=0).responses
        if on_event is None:
            found = await responses.create(**body)
            return Reply(plain(found), getattr(found, "_request_id", None))
        stream = await responses.create(**body, stream=True)
        request_id = stream.response.headers.get("x-request-id")
        async with stream:
            return Reply(await _collect(stream, on_event), request_id)

    def _pause(self, error: Exception, attempt: int, deadline: float | None) -> float | None:
        """How long to wait before trying again; None when there is no point."""
        if attempt >= self.retry.attempts or not _is_passing(error):
            return None
        pause = self.retry.pause(attempt, _retry_after(error))
        loop = asyncio.get_running_loop()
        if deadline is not None and loop.time() + pause >= deadline:
            return None
        return pause


async def _collect(
    stream: AsyncIterator[Any], on_event: Callable[[StreamEvent], None]
) -> dict[str, Any]:
    """Read a stream to its end. The final response counts; items that came before fill it in
    where a server leaves its output out.
    """
    items: dict[int, dict[str, Any]] = {}
    final: dict[str, Any] | None = None
    async for raw in stream:
        event = plain(raw)
        kind = maybe_text(event, "type") or ""
        if kind == "response.output_item.done":
            items[len(items)] = plain(event.get("item"))
        elif kind in ("response.completed", "response.incomplete", "response.failed"):
            final = plain(event.get("response"))
        elif kind == "error":
            raise StreamBroken(f"the provider broke off: {maybe_text(event, 'message') or event}")
        on_event(event)
    if final is None:
        raise StreamBroken("the connection ended before the response was complete")
    if not final.get("output") and items:
        final = {**final, "output": list(items.values())}
    return final


def _is_passing(error: Exception) -> bool:
    if isinstance(error, StreamBroken):
        return True
    status = getattr(error, "status_code", None)
    if isinstance(status, int):
        return status in (408, 409, 429) or status >= 500
    return _is_lost_line(error)


def _is_lost_line(error: Exception) -> bool:
    import openai

    if isinstance(error, openai.APIStatusError | openai.APIResponseValidationError):
        return False
    # A line that is lost in the middle of a stream comes up as the HTTP library's own error.
    module = type(error).__module__.partition(".")[0]
    return isinstance(error, openai.APIConnectionError) or module in (
        "httpx",
        "httpx2",
        "httpcore2",
    )


def _retry_after(error: Exception) -> float | None:
    response = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None) or {}
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = cast("str | None", headers.get(name))
        if value is not None:
            try:
                return max(0.0, float(value) * unit)
            except ValueError:
                continue
    return None


def _explained(error: Exception, prompt_name: str) -> Exception:
    """A provider's error as ours: what was wrong, where, and the id to ask the provider about."""
    if isinstance(error, PromptEvaluationError):
        return error
    if isinstance(error, TimeoutError):
        message = "the deadline passed before the provider answered"
        return PromptEvaluationError(message, prompt_name=prompt_name, phase="budget")
    request_id = getattr(error, "request_id", None)
    status = getattr(error, "status_code", None)
    text = str(getattr(error, "message", None) or error) or type(error).__name__
    if is_expired_container(status, text):
        text += (
            " The container is gone and so are its files; use a new one (AutoContainer), and drop "
            "replayed calls that ran in it."
        )
    where = f"HTTP {status}: " if status else ""
    return PromptEvaluationError(
        f"the provider did not answer: {where}{text}",
        prompt_name=prompt_name,
        phase="request",
        request_id=request_id,
    )


def is_expired_container(status: int | None, message: str) -> bool:
    """Whether an error says that a container has expired. There is no code for it, only words."""
    lower = message.lower()
    return status in (400, 404) and "container" in lower and ("expired" in lower)
