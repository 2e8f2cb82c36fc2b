"""An adapter for the embedded provider, which may start and end it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.adapters.openai.adapter import OpenAIAdapter
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from httpx2 import Request, Response

    from toolcrib.adapters.history import History
    from toolcrib.portal import Portal


class StartableProvider(Protocol):
    """What the adapter needs of a provider."""

    @property
    def models(self) -> Sequence[Mapping[str, Any]]:
        """Its models, as `/v1/models` lists them."""
        ...

    @property
    def is_started(self) -> bool:
        """Whether it was started."""
        ...

    @property
    def app(self) -> Any:
        """It as an ASGI application."""
        ...

    @property
    def portal(self) -> Portal:
        """The way to its event loop."""
        ...

    def __enter__(self) -> object: ...

    def __exit__(self, *_: object) -> None: ...


class EmbeddedAdapter(OpenAIAdapter):
    """Evaluates prompts on an embedded provider, in this process.

    A provider that was not started runs on a thread of its own, from the first request until this
    adapter is closed. The conversation is kept in the session's ledger, so a provider without a
    `data` folder loses nothing of it at a restart.
    """

    def __init__(
        self,
        provider: StartableProvider,
        *,
        model: str | None = None,
        history: History = "client",
        **options: Any,
    ) -> None:
        self._running = RunningProvider(provider)
        super().__init__(
            model=_chosen(provider, model),
            client=_client(self._running),
            history=history,
            **options,
        )

    async def aclose(self) -> None:
        """End the provider, if this adapter started it."""
        await super().aclose()
        await self._running.aclose()


class RunningProvider:
    """A provider that is started when it is needed, unless somebody else has started it."""

    def __init__(self, provider: StartableProvider) -> None:
        self._provider = provider
        self._lock = threading.Lock()
        self._is_own = False

    async def send(self, request: Request) -> Response:
        """Send a request, from any event loop."""
        from toolcrib.embedded.client import InProcessTransport

        if not self._provider.is_started:
            await asyncio.to_thread(self._start)
        transport = InProcessTransport(self._provider.app, self._provider.portal)
        return await transport.handle_async_request(request)

    async def aclose(self) -> None:
        """End the provider, if it was started here."""
        if self._is_own:
            self._is_own = False
            await asyncio.to_thread(self._provider.__exit__)

    def _start(self) -> None:
        with self._lock:
            if not self._provider.is_started:
                self._provider.__enter__()
                self._is_own = True


def _chosen(provider: StartableProvider, model: str | None) -> str:
    names = [entry["id"] for entry in provider.models]
    own = [entry["id"] for entry in provider.models if "root" not in entry]
    if model is None and len(own) == 1:
        return own[0]
    if model is None or model not in names:
        wrong = "the provider has several models" if model is None else f"there is no {model!r}"
        raise UsageError(f"{wrong}; pass model= one of: {', '.join(names)}")
    return model


def _client(running: RunningProvider) -> Any:
    try:
        from httpx2 import AsyncBaseTransport, AsyncClient
        from openai import AsyncOpenAI
    except ImportError:
        raise UsageError(
            "the embedded provider needs the OpenAI SDK; run: pip install 'toolcrib[openai,server]'"
        ) from None
    from toolcrib.embedded.client import BASE_URL

    class Transport(AsyncBaseTransport):
        async def handle_async_request(self, request: Request) -> Response:
            return await running.send(request)

    http = AsyncClient(transport=Transport())
    return AsyncOpenAI(api_key="none", base_url=BASE_URL, http_client=http, max_retries=0)
