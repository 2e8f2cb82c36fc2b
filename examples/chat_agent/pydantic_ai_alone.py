from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.messages import ModelMessagesTypeAdapter

outputs = [str, DeferredToolRequests]
agent = Agent("openai:gpt-5-mini", instructions="Be brief.", output_type=outputs)
past = Path("chat.json")


@agent.tool_plain
def stock(item: str) -> int:
    """How many of an item there are."""
    return {"saw": 7}.get(item, 0)


@agent.tool_plain(requires_approval=True)
def order(item: str, count: int) -> str:
    """Order some of an item."""
    return f"{count} more of {item} are ordered."


history = ModelMessagesTypeAdapter.validate_json(past.read_bytes()) if past.exists() else []
while text := input("> "):
    result = agent.run_sync(text, message_history=history)
    while isinstance(result.output, DeferredToolRequests):
        decided = DeferredToolResults()
        for call in result.output.approvals:
            yes = input(f"{call.tool_name} {call.args} y/n ") == "y"
            decided.approvals[call.tool_call_id] = yes or ToolDenied("The user said no.")
        history = result.all_messages()
        result = agent.run_sync(message_history=history, deferred_tool_results=decided)
    history = result.all_messages()
    past.write_bytes(result.all_messages_json())
    print(result.output)
