"""An embedded provider on a loopback port, for whoever throws requests at it.

Prints its address without `/v1` and stays until its standard input ends.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator, Sequence
from hashlib import sha256
from unittest.mock import patch

from toolcrib.embedded import (
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
    ProviderServer,
)
from toolcrib.runtime.principal import OWNER
from toolcrib.serving import login
from toolcrib.serving.tokens import Token, Tokens

TOKEN = "fuzzing-token-0123456789"


class Talker:
    """Calls the first tool of the client, if there is one, and talks otherwise."""

    name, is_scripted = "talker", False

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        if request.tools and request.tool_choice == "required":
            yield ProposedCall(request.tools[0].name, '{"input": "x"}')
        else:
            yield BackendText("done")
        yield BackendUsage(3, 2)

    async def aclose(self) -> None: ...


class HashEmbedder:
    """Vectors without a model."""

    name, size = "hashes", 8

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        return [_vector(text) for text in texts]


def _vector(text: str) -> bytes:
    numbers = [byte + 1 for byte in sha256(text.encode()).digest()[:8]]
    length = sum(number**2 for number in numbers) ** 0.5
    return struct.pack("<8f", *(number / length for number in numbers))


async def serve() -> None:
    tokens = Tokens([Token(TOKEN, OWNER)])
    # Wrong tokens by the hundred are part of the check; tests/serving has the delays.
    with patch.object(login, "FREE_FAILURES", 1_000_000):
        async with (
            EmbeddedProvider(Talker(), embedder=HashEmbedder(), any_model=True) as provider,
            ProviderServer(provider, port=0, tokens=tokens) as server,
        ):
            print(server.url.removesuffix("/v1"), flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
