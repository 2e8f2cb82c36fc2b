"""The fixture's tools that ask something of the client that called them."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_types import ClientCapabilities, InputRequest, ListRootsRequest, SamplingCapability

from tests.conformance.fixture_client import Handler, Input, ask, asking, form, here, sampling
from tests.conformance.fixture_tools import NOTHING, tool
from toolcrib.host_tools import HostToolDefinition, ToolContext

DEFAULTS: dict[str, Any] = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [{"const": f"value{n}", "title": f"Option {n}"} for n in (1, 2, 3)]
ENUMS: dict[str, Any] = {
    "untitledSingle": {"type": "string", "enum": _OPTIONS},
    "titledSingle": {"type": "string", "oneOf": _TITLED},
    "legacyEnum": {"type": "string", "enum": _OPTIONS, "enumNames": ["One", "Two", "Three"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
}


NAME = form("What is your name?", name={"type": "string"})
OK = form("Please confirm", ok={"type": "boolean"})


async def simple_sampling(input: Input, context: ToolContext) -> str:
    return f"LLM response: {await ask(answer=sampling(input['prompt']))}"


async def elicitation(input: Input, context: ToolContext) -> str:
    text = {"type": "string"}
    return f"User response: {await ask(user=form(input['message'], username=text, email=text))}"


async def defaults(input: Input, context: ToolContext) -> str:
    return await ask(user=form("Please fill in", is_required=False, **DEFAULTS))


async def enums(input: Input, context: ToolContext) -> str:
    return await ask(user=form("Please choose", is_required=False, **ENUMS))


async def with_logging(input: Input, context: ToolContext) -> str:
    request = here()
    for event in ("started", "processing data", "completed"):
        await request.log("info", f"Tool execution {event}")
    return "The tool has logged."


async def reconnection(input: Input, context: ToolContext) -> str:
    """End the stream of the answer, which the client then takes up again."""
    close = here().context.close_sse_stream
    if close is not None:
        await close()
    await asyncio.sleep(0.2)
    return "The stream was taken up again."


async def name(input: Input, context: ToolContext) -> str:
    return f"Hello, {await ask(user_name=NAME)}!"


async def capital(input: Input, context: ToolContext) -> str:
    return await ask(capital_question=sampling("What is the capital of France?"))


async def roots(input: Input, context: ToolContext) -> str:
    return await ask(client_roots=ListRootsRequest())


async def confirmed(input: Input, context: ToolContext) -> str:
    return f"state-ok {await ask(confirm=OK)}"


async def several(input: Input, context: ToolContext) -> str:
    return await ask(
        user_name=NAME,
        greeting=sampling("Generate a greeting", 50),
        client_roots=ListRootsRequest(),
    )


async def steps(input: Input, context: ToolContext) -> str:
    first = await ask(step1=form("Step 1: What is your name?", name={"type": "string"}))
    second = await ask(step2=form("Step 2: What is your favorite color?", color={"type": "string"}))
    return f"{first}; {second}"


async def what_it_can(input: Input, context: ToolContext) -> str:
    capabilities = here().session.client_capabilities
    questions: dict[str, InputRequest] = {}
    if capabilities and capabilities.elicitation:
        questions["user_name"] = NAME
    if capabilities and capabilities.sampling:
        questions["greeting"] = sampling("Generate a greeting")
    return await ask(**questions)


async def needs_sampling(input: Input, context: ToolContext) -> str:
    here().require(ClientCapabilities(sampling=SamplingCapability()))
    return "The client can sample."


def _asks(name: str, handler: Handler, *takes: str) -> HostToolDefinition:
    properties = {each: {"type": "string"} for each in takes}
    parameters = NOTHING | {"properties": properties, "required": list(takes)}
    return tool(name, asking(handler), parameters)


ASKING_TOOLS: tuple[HostToolDefinition, ...] = (
    _asks("test_sampling", simple_sampling, "prompt"),
    _asks("test_elicitation", elicitation, "message"),
    _asks("test_elicitation_sep1034_defaults", defaults),
    _asks("test_elicitation_sep1330_enums", enums),
    _asks("test_reconnection", reconnection),
    _asks("test_tool_with_logging", with_logging),
    _asks("test_logging_tool", with_logging),
    _asks("test_missing_capability", needs_sampling),
    _asks("test_streaming_elicitation", name),
    _asks("test_input_required_result_elicitation", name),
    _asks("test_input_required_result_sampling", capital),
    _asks("test_input_required_result_list_roots", roots),
    _asks("test_input_required_result_request_state", confirmed),
    _asks("test_input_required_result_tampered_state", confirmed),
    _asks("test_input_required_result_multiple_inputs", several),
    _asks("test_input_required_result_multi_round", steps),
    _asks("test_input_required_result_capabilities", what_it_can),
)
