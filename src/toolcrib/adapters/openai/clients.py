"""The SDK's clients: made when first needed, one for each event loop."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

from toolcrib.errors import UsageError


class Clients:
    """Connections belong to the event loop they were opened in, so each loop has a client of its
    own. A client that was given is used everywhere and never closed.
    """

    def __init__(self, given: Any, base_url: str | None, api_key: str | None) -> None:
        self._given = given
        self._base_url = base_url
        self._api_key = api_key
        self._made: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    def here(self) -> Any:
        """The client for the running loop."""
        if self._given is not None:
            return self._given
        loop = asyncio.get_running_loop()
        if loop not in self._made:
            self._made[loop] = self._make()
        return self._made[loop]

    async def close_here(self) -> None:
        """Close the client of the running loop, if one was made."""
        client = self._made.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    def _make(self) -> Any:
        try:
            from openai import AsyncOpenAI, OpenAIError
        except ImportError:
            raise UsageError(
                "the OpenAI SDK is not installed; run: pip install 'toolcrib[openai]'"
            ) from None
        try:
            return AsyncOpenAI(base_url=self._base_url, api_key=self._api_key)
        except OpenAIError as error:
            raise UsageError(
                f"no client for OpenAI could be made: {error} Pass api_key= or client= to the "
                "adapter, or set OPENAI_API_KEY"
            ) from None
