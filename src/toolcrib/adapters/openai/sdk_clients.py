"""Clients of the OpenAI SDK: one for each event loop, or the one that was given.

The adapter is asynchronous. A blocking client is taken too: its requests are made in threads.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from typing import Any, Self
from weakref import WeakKeyDictionary

from toolcrib.errors import UsageError
from toolcrib.extras import install_command


class SdkClients:
    """Connections belong to the event loop they were opened in, so each loop has a client of its
    own. A client that was given is used everywhere and never closed.
    """

    def __init__(self, client: Any, base_url: str | None, api_key: str | None) -> None:
        self._client = None if client is None else as_async(client)
        self._base_url = base_url
        self._api_key = api_key
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def here(self) -> Any:
        """The client for the running loop."""
        if self._client is not None:
            return self._client
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = self._make()
        return self._clients[loop]

    async def close_here(self) -> None:
        """Close the client of the running loop, if one was made."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _make(self) -> Any:
        try:
            from openai import AsyncOpenAI, OpenAIError
        except ImportError:
            raise UsageError(
                f"the OpenAI SDK is not installed; run: {install_command('openai')}"
            ) from None
        try:
            return AsyncOpenAI(base_url=self._base_url, api_key=self._api_key)
        except OpenAIError as error:
            raise UsageError(
                f"no client for OpenAI could be made: {error} Pass api_key= or client= to the "
                "adapter, or set OPENAI_API_KEY"
            ) from None


def is_blocking(client: Any) -> bool:
    """Whether a client of the SDK blocks. Raises `UsageError` for what is no client at all."""
    post = getattr(client, "post", None)
    if not callable(post) or isinstance(client, type):
        raise UsageError(
            f"client must be an AsyncOpenAI or an OpenAI of the OpenAI SDK, not "
            f"{type(client).__name__}; an API key is given as api_key"
        )
    return not inspect.iscoroutinefunction(post)


def as_async(client: Any) -> Any:
    """The client itself, or a blocking one with asynchronous methods."""
    return BlockingClient(client) if is_blocking(client) else client


def check_blocking(client: Any, instead: str) -> None:
    """Raise `UsageError`, before any request, for an asynchronous client in blocking code."""
    if not is_blocking(client):
        raise UsageError(f"this needs a blocking client (OpenAI); with AsyncOpenAI use {instead}")


class BlockingClient:
    """A blocking client, or a part of one, whose methods are awaited: each call runs in a thread.

    A request that is given up goes on in its thread until the client's own timeout.
    """

    def __init__(self, blocking: Any) -> None:
        self.blocking = blocking

    def __getattr__(self, name: str) -> Any:
        member = getattr(self.blocking, name)
        if inspect.ismethod(member):
            return _in_thread(member)
        # The resources of the SDK, such as `files`, are objects with a client of their own.
        return BlockingClient(member) if hasattr(member, "with_raw_response") else member

    def with_options(self, **options: Any) -> BlockingClient:
        """A copy of the client with other options."""
        return BlockingClient(self.blocking.with_options(**options))

    async def post(self, path: str, **request: Any) -> Any:
        """Send a request. A stream is read in threads too."""
        return await self._send(self.blocking.post, path, request)

    async def get(self, path: str, **request: Any) -> Any:
        """Read a resource. A stream is read in threads too."""
        return await self._send(self.blocking.get, path, request)

    async def _send(self, send: Any, path: str, request: dict[str, Any]) -> Any:
        if not request.get("stream"):
            return await asyncio.to_thread(send, path, **request)
        from openai import Stream

        request["stream_cls"] = Stream[object]
        return ThreadedStream(await asyncio.to_thread(send, path, **request))


def _in_thread(method: Any) -> Any:
    async def call(*args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(method, *args, **options)

    return call


_END = object()


class ThreadedStream:
    """A blocking stream that is read with `async for`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.response: Any = stream.response

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self._stream.close)

    async def __aiter__(self) -> AsyncIterator[Any]:
        events = iter(self._stream)
        while (event := await asyncio.to_thread(next, events, _END)) is not _END:
            yield event
