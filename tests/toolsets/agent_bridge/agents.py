"""Real pydantic-ai agents on a model that follows a script, and tools for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import (
    Agent,
    AgentRunResult,
    DeferredToolRequests,
    ModelMessage,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AgentToolset

from toolcrib.context import AgentContext
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.record import events
from toolcrib.session.session import Session
from toolcrib.toolsets import BaseTool

Output = str | DeferredToolRequests
Step = str | Sequence[ToolCallPart]
"""What the model does in one step: say something, or call tools."""


def call(name: str, call_id: str = "c1", /, **args: Any) -> ToolCallPart:
    """A call as most providers send it: the arguments are JSON text."""
    return ToolCallPart(name, json.dumps(args), call_id)


def scripted(*steps: Step) -> FunctionModel:
    """A model that takes these steps and then says "done", wherever its history comes from."""

    async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        taken = sum(isinstance(message, ModelResponse) for message in messages)
        step: Step = steps[taken] if taken < len(steps) else "done"
        parts = [TextPart(step)] if isinstance(step, str) else list(step)
        return ModelResponse(parts=parts)

    return FunctionModel(respond)


def agent_of(*toolsets: AgentToolset[Any], steps: Sequence[Step], **options: Any) -> Any:
    """An agent with these toolsets that may end with deferred calls."""
    kinds: Any = [str, DeferredToolRequests]
    return Agent(scripted(*steps), toolsets=list(toolsets), output_type=kinds, **options)


async def run(toolset: AgentToolset[Any], *steps: Step, **options: Any) -> AgentRunResult[Output]:
    """One run of a new agent with one toolset."""
    return await agent_of(toolset, steps=steps).run("go", **options)


def returns(result: AgentRunResult[Any]) -> dict[str, ToolReturnPart]:
    """What the model was told of each call, by call id: the last word."""
    return {
        part.tool_call_id: part
        for message in result.all_messages()
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    }


def told(result: AgentRunResult[Any], call_id: str = "c1") -> tuple[str, Any]:
    """How one call ended for the model, and with what content."""
    part = returns(result)[call_id]
    return part.outcome, part.content


def deferred(result: AgentRunResult[Any]) -> DeferredToolRequests:
    """The calls that a run ended with."""
    assert isinstance(result.output, DeferredToolRequests)
    return result.output


def invocations(session: Session) -> list[ToolInvoked]:
    """The calls in the ledger, in the order they ended."""
    return [event for event in events(session.records()) if isinstance(event, ToolInvoked)]


def endings(session: Session) -> list[tuple[str, str | None]]:
    """Of every call in the ledger its id, and the kind of its failure if it failed."""
    return [
        (each.call_id, None if each.failure is None else each.failure.kind)
        for each in invocations(session)
    ]


class Greet(BaseTool):
    name = "greet"
    description = "Greet somebody"

    async def call(self, ctx: RunContext[AgentContext], who: str, times: int = 1) -> str:
        return " ".join([f"Hello, {who}."] * times)


class Shell(BaseTool):
    """Appends its command to a file in the session's directory: proof that it ran."""

    name = "shell"
    description = "Run a command"

    def get_approval_metadata(self) -> dict[str, Any] | None:
        return {"warning": "This will run a command", "risk_level": "high"}

    async def call(self, ctx: RunContext[AgentContext], command: str) -> str:
        _note_run(Path(ctx.deps.session.cwd), command)
        return f"ran {command}"


def _note_run(cwd: Path, command: str) -> None:
    with (cwd / "ran").open("a", encoding="utf-8") as ran:
        ran.write(f"{command}\n")


def commands_run(cwd: Path) -> list[str]:
    """What `Shell` was made to run in `cwd`."""
    ran = cwd / "ran"
    return ran.read_text("utf-8").splitlines() if ran.exists() else []
