"""The embedded provider that the client scripts talk to, on a loopback port.

Run it: `python -m tests.clients.demo_provider PORT`. It calls the first tool that it is given,
fills in schemas, and repeats what it hears. Its token is `TOKEN`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
    ProviderServer,
)
from toolcrib.embedded.search import MiniLmEmbedder
from toolcrib.serving.tokens import Token, Tokens

TOKEN: Final = "a-token-of-the-client-scripts"


class DemoBackend:
    """Answers as the scripts expect it."""

    name, is_scripted = "demo", False

    async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        results = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
        users = [
            turn.text
            for turn in request.history
            if isinstance(turn, BackendMessage) and turn.role == "user"
        ]
        if request.tools and not results and request.tool_choice != "none":
            tool = request.tools[0]
            yield ProposedCall(tool.name, json.dumps(_filled(tool.parameters)))
        elif request.output.is_json:
            yield BackendText(json.dumps(_filled(request.output.schema or {})))
        elif results:
            yield BackendText(f"The tool says {results[-1].text}")
        else:
            yield BackendText(f"Heard {len(users)}: ")
            yield BackendText(users[-1])
        yield BackendUsage(7, 3)

    async def aclose(self) -> None: ...


def _filled(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    return {
        name: 21 if kind.get("type") in ("integer", "number") else "x"
        for name, kind in properties.items()
    }


async def serve(port: int) -> None:
    embedder = MiniLmEmbedder()
    async with (
        EmbeddedProvider(DemoBackend(), embedder=embedder) as provider,
        ProviderServer(provider, port=port, tokens=Tokens([Token(TOKEN)])) as server,
    ):
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
