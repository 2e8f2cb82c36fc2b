"""openai-agents with `OpenAIConversationsSession`, and on chat completions.

Run it: `python -m tests.clients.openai_agents URL TOKEN`, with openai-agents installed, against
`tests.clients.demo_provider`. Status 0: every answer was right.
"""

from __future__ import annotations

import asyncio
import sys
from importlib import import_module
from typing import Any


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main(url: str, token: str) -> None:
    agents: Any = import_module("agents")
    agents.set_tracing_disabled(True)
    client = import_module("openai").AsyncOpenAI(base_url=url, api_key=token)
    tool = agents.function_tool(add)
    plain = agents.Agent(name="plain", model=agents.OpenAIResponsesModel("demo", client))
    adder = agents.Agent(
        name="adder", model=agents.OpenAIResponsesModel("demo", client), tools=[tool]
    )
    chatter = agents.Agent(
        name="chatter", model=agents.OpenAIChatCompletionsModel("demo", client), tools=[tool]
    )
    run: Any = agents.Runner.run

    session = agents.OpenAIConversationsSession(openai_client=client)
    assert (await run(plain, "one", session=session)).final_output == "Heard 1: one"
    assert (await run(plain, "two", session=session)).final_output == "Heard 2: two"
    assert len(await session.get_items()) == 4
    await session.pop_item()
    assert len(await session.get_items()) == 3
    streamed = agents.Runner.run_streamed(plain, "three", session=session)
    async for _ in streamed.stream_events():
        pass
    assert streamed.final_output == "Heard 3: three"

    tools = agents.OpenAIConversationsSession(openai_client=client)
    assert (await run(adder, "add", session=tools)).final_output == "The tool says 42"
    assert len(await tools.get_items()) == 4
    await tools.clear_session()

    talk = await client.conversations.create()
    await run(plain, "one", conversation_id=talk.id)
    assert (await run(plain, "two", conversation_id=talk.id)).final_output == "Heard 2: two"
    assert (await run(chatter, "add")).final_output == "The tool says 42"


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
