import asyncio

from toolcrib import ApprovalRequested, RuntimeConfig, SqliteStore, TextDelta, create_runtime, tool
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter


@tool
def stock(item: str) -> int:
    """How many of an item there are."""
    return {"saw": 7}.get(item, 0)


@tool(requires_approval=True)
def order(item: str, count: int) -> str:
    """Order some of an item."""
    return f"{count} more of {item} are ordered."


async def show(chat, turn):
    async for event in turn:
        if isinstance(event, TextDelta):
            print(event.text, end="", flush=True)
        elif isinstance(event, ApprovalRequested):
            ask = f"{event.request.tool.name} {event.request.arguments} {event.request.reason} y/n "
            yes = await asyncio.to_thread(input, ask) == "y"
            await (chat.approve(event) if yes else chat.deny(event, "The user said no."))
    print(turn.result.error or "")


async def main():
    llm, store = PydanticAIAdapter("anthropic:claude-sonnet-4-5"), SqliteStore("chat.db")
    config = RuntimeConfig(tools=[stock, order], adapter=llm, store=store, instructions="Be brief.")
    async with llm, create_runtime(config) as runtime:
        chat = await runtime.chat("shop")
        if await chat.is_unfinished():
            await show(chat, chat.resume())
        while text := await asyncio.to_thread(input, "> "):
            await show(chat, chat.send(text))


asyncio.run(main())
