"""How the fixture's tools speak to the client that called them, in either era of the protocol."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    InputResponse,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.conformance.contents import Block
from toolcrib.host_tools import ToolContext
from toolcrib.transports.mcp import McpRequest, current_request

Input = dict[str, Any]
Handler = Callable[[Input, ToolContext], Awaitable[str]]


class Asked(Exception):
    """The client has to answer first, and will call again."""


def here() -> McpRequest:
    request = current_request()
    assert request is not None, "the fixture is served over MCP alone"
    return request


def content(*blocks: Block) -> str:
    """Answer with blocks that a plain value cannot say."""
    here().answer(CallToolResult.model_validate({"content": blocks}))
    return f"{len(blocks)} blocks of content"


def form(message: str, *, is_required: bool = True, **properties: Any) -> ElicitRequest:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if is_required:
        schema["required"] = list(properties)
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str, most: int = 100) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=most)
    )


def asking(handler: Handler) -> Handler:
    """A handler that may ask. Once the client has answered, it is run again from its beginning."""

    @functools.wraps(handler)
    async def run(input: Input, context: ToolContext) -> str:
        try:
            return await handler(input, context)
        except Asked:
            return "The client was asked."

    return run


async def ask(**questions: InputRequest) -> str:
    """What the client answers, as text. Raises `Asked` when it has to be asked first."""
    request = here()
    if request.context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        answers = {key: _told(await _request(request, each)) for key, each in questions.items()}
    else:
        answers = _answered(request, questions)
    return "; ".join(f"{key}: {answers[key]}" for key in questions)


def _answered(request: McpRequest, questions: dict[str, InputRequest]) -> dict[str, str]:
    """The answers that came with this request, and those of rounds before, which are its state."""
    given = request.params.input_responses or {}
    known: dict[str, str] = json.loads(request.params.request_state or "{}")
    known |= {key: _told(each) for key, each in given.items()}
    missing = {key: each for key, each in questions.items() if key not in known}
    if missing:
        state = json.dumps(known)
        request.answer(InputRequiredResult(input_requests=missing, request_state=state))
        raise Asked
    return known


async def _request(request: McpRequest, question: InputRequest) -> InputResponse:
    match question:
        case ElicitRequest(params=ElicitRequestFormParams() as asked):
            return await request.elicit(asked.message, asked.requested_schema)
        case CreateMessageRequest():
            return await request.sample(question.params)
        case _:
            raise NotImplementedError(question.method)


def _told(answer: InputResponse) -> str:
    match answer:
        case ElicitResult():
            return f"{answer.action} {json.dumps(answer.content)}"
        case CreateMessageResult(content=TextContent(text=text)):
            return text
        case ListRootsResult():
            return ", ".join(str(each.uri) for each in answer.roots)
        case _:
            return answer.model_dump_json()
