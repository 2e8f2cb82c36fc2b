"""A host with tools of every temper, and a scripted model, to be served over any transport."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule
from toolcrib.host_tools import HostToolDefinition, HostToolRegistry, ToolContext
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.tools.result import ToolResult

LARGE = "Grüße, 世界, 🐚, \u2028, \x7f " * 1_000
HUGE = LARGE * 5

NAMED: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}


def greet(input: dict[str, Any], context: ToolContext) -> str:
    return f"Hello, {input['name']}!"


def broken(input: dict[str, Any], context: ToolContext) -> str:
    raise ValueError("the till is jammed")


async def endless(input: dict[str, Any], context: ToolContext) -> str:
    context.output("begun")
    await asyncio.Event().wait()
    return "never"


def large(input: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    return {"text": LARGE, "none": None, "number": 1.5}


def huge(input: dict[str, Any], context: ToolContext) -> str:
    return HUGE


def annotated(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(value="kept", metadata={"source": "till 3", "pages": [1, 2]})


async def stepping(input: dict[str, Any], context: ToolContext) -> str:
    context.progress(1, 2, "half of it")
    context.output("a piece")
    return "stepped"


def noisy(input: dict[str, Any], context: ToolContext) -> str:
    """Prints in every way there is, and reads what is not its own."""
    print("noise of Python")
    os.write(1, b"noise of the system\n")
    subprocess.run(["sh", "-c", "echo noise of a child; cat"], check=True)
    return sys.stdin.read() + "quiet"


def _tool(name: str, handler: Any, **rules: Any) -> HostToolDefinition:
    parameters = rules.pop("parameters", NOTHING)
    return HostToolDefinition(name, f"The tool {name}.", parameters, handler, **rules)


TOOLS = (
    _tool("greet", greet, parameters=NAMED, category="words"),
    _tool("broken", broken),
    _tool("slow", endless, timeout=0.05),
    _tool("endless", endless),
    _tool("large", large),
    _tool("huge", huge),
    _tool("annotated", annotated),
    _tool("stepping", stepping),
    _tool("noisy", noisy),
    _tool("guarded", greet, parameters=NAMED, requires_approval=True),
    _tool("forbidden", greet, parameters=NAMED),
)

POLICY = Policy(
    rules=(Rule("deny", tool="forbidden", reason="not in this shop"),), unmatched="allow"
)


def registry() -> HostToolRegistry:
    made = HostToolRegistry()
    for tool in TOOLS:
        made.add(tool)
    return made


def model() -> Any:
    """The first prompt greets; the second one calls the tool that needs an approval."""
    from toolcrib.adapters.openai import OpenAIAdapter

    script = ScriptedOpenAI(
        [calls("greet", {"name": "Ada"}, call_id="call_model_1")],
        [says("Ada was greeted.")],
        [calls("guarded", {"name": "Bob"}, call_id="call_model_2")],
        [says("Bob was greeted.")],
    )
    return OpenAIAdapter(model="scripted", client=script.client())


def shop(*, has_model: bool = False, **changes: Any) -> Runtime:
    config = RuntimeConfig(host_tool_registry=registry(), policy=POLICY, cwd="/")
    if has_model:
        config = replace(config, adapter=model())
    return create_runtime(replace(config, **changes))


def main() -> None:
    """Serve the shop on stdio; with --model there is a model in it."""
    from toolcrib.transports.pipes import claim_pipes
    from toolcrib.transports.stdio import serve_stdio

    pipes = claim_pipes()
    print("a module that prints as it is loaded")
    flags = sys.argv[1:]
    changes: dict[str, Any] = {"drain_seconds": 0.3} if "--hasty" in flags else {}
    if "--small" in flags:
        changes |= {"max_payload_bytes": 20_000, "event_backlog": 50}
    asyncio.run(serve_stdio(shop(has_model="--model" in flags, **changes), pipes))


if __name__ == "__main__":
    main()
