"""pydantic-ai's `OpenAIChatModel`.

Run it: `python -m tests.clients.pydantic_ai URL TOKEN`, with pydantic-ai installed, against
`tests.clients.demo_provider`. Status 0: every answer was right.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any

from pydantic import BaseModel


class Total(BaseModel):
    """What is asked for."""

    total: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(url: str, token: str) -> None:
    library: Any = import_module("pydantic_ai")
    provider = import_module("pydantic_ai.providers.openai").OpenAIProvider(
        base_url=url, api_key=token
    )
    model = import_module("pydantic_ai.models.openai").OpenAIChatModel("demo", provider=provider)
    agent = library.Agent(model)
    first = await agent.run("one")
    assert first.output == "Heard 1: one"
    again = await agent.run("two", message_history=first.all_messages())
    assert again.output == "Heard 2: two"
    async with agent.run_stream("one") as stream:
        assert await stream.get_output() == "Heard 1: one"
    assert (await library.Agent(model, tools=[add]).run("add")).output == "The tool says 42"
    for wanted in (Total, library.NativeOutput(Total)):
        answer = await library.Agent(model, output_type=wanted).run("sum")
        assert answer.output == Total(total=21)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
