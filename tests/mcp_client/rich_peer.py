"""A server on the official SDK that uses all of the protocol: `rich_peer.py newer|older`.

In the older era it speaks only the protocol with a handshake.
"""

from __future__ import annotations

import json
import sys
from typing import Any, Literal, cast

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

Json = dict[str, Any]

PIXEL = "iVBORw0KGgo="
PARTS: list[Json] = [
    {"type": "text", "text": "One chart:", "annotations": {"audience": ["user"], "priority": 0.5}},
    {"type": "text", "text": "as a picture and as sound", "_meta": {"example.org/line": 2}},
    {"type": "image", "data": PIXEL, "mimeType": "image/png"},
    {"type": "audio", "data": PIXEL, "mimeType": "audio/wav"},
    {
        "type": "resource",
        "resource": {"uri": "demo://inside", "mimeType": "text/plain", "text": "inside"},
    },
    {
        "type": "resource_link",
        "name": "source",
        "uri": "demo://source",
        "title": "The source",
        "description": "Where it comes from",
        "annotations": {"audience": ["assistant"]},
    },
]
POINTS: Json = {"type": "object", "properties": {"points": {"type": "array"}}}
MEDIA: Json = {"type": "object", "properties": {"content": {"type": "array"}}}

ANSWERS: dict[str, Json] = {
    "chart": {
        "content": PARTS,
        "structuredContent": {"points": [1, 2.5]},
        "_meta": {"example.org/trace": "abc"},
    },
    "media": {
        "content": [PARTS[2]],
        "structuredContent": {"content": [{"type": "image", "data": PIXEL, "mimeType": "a/b"}]},
    },
    "lines": {"content": PARTS[:2]},
    "plain": {"content": [{"type": "text", "text": "plain"}]},
    "nothing": {"content": []},
    "bare": {"content": [], "structuredContent": {"points": []}},
    "mixed_failure": {
        "content": [*PARTS[:1], PARTS[2]],
        "structuredContent": {"why": "no paper"},
        "isError": True,
        "_meta": {"example.org/trace": "err"},
    },
}
"""The result of each tool that only answers."""

CHART: Json = {
    "name": "chart",
    "title": "Draw a chart",
    "description": "Draws a chart.",
    "inputSchema": {"type": "object", "properties": {}},
    "outputSchema": POINTS,
    "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "annotations": {
        "title": "Chart",
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    },
    "_meta": {"example.org/ui": {"panel": "ui://chart"}},
}


def tool(name: str, **more: Any) -> Json:
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, **more}


TOOLS: list[Json] = [
    CHART,
    tool("media", outputSchema=MEDIA),
    *(tool(name) for name in ANSWERS if name not in ("chart", "media")),
    *(tool(name) for name in ("talk", "think", "visit", "locate", "fill_in", "build")),
]


async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
    return types.ListToolsResult.model_validate({"tools": TOOLS})


async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> Any:
    if params.name in ANSWERS:
        return types.CallToolResult.model_validate(ANSWERS[params.name])
    return await DOING[params.name](ctx, params)


def text(said: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=said)])


async def talk(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """Log on every level, and report progress."""
    levels: list[types.LoggingLevel] = ["debug", "info", "warning", "error"]
    for number, level in enumerate(levels, 1):
        note = types.LoggingMessageNotificationParams(
            level=level, logger="rich", data={"step": number, "token": "canary-5f1c9d07"}
        )
        await ctx.session.send_notification(
            types.LoggingMessageNotification(params=note), ctx.request_id
        )
        await ctx.session.report_progress(number, 4, f"step {number}")
    return text("talked")


async def ask(ctx: Any, params: types.CallToolRequestParams, request: Any, answer: Any) -> Any:
    """The client's response to a request, over the connection or by a second call."""
    if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        responses = params.input_responses or {}
        if "it" not in responses:
            return types.InputRequiredResult(input_requests={"it": request}, request_state="s")
        return text(responses["it"].model_dump_json(by_alias=True, exclude_none=True))
    response = await ctx.session.send_request(request, answer)
    return text(response.model_dump_json(by_alias=True, exclude_none=True))


async def think(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """Have the client's model answer."""
    words = types.TextContent(type="text", text="What is 6 times 7?")
    message = types.SamplingMessage(role="user", content=words)
    asked = types.CreateMessageRequestParams(messages=[message], max_tokens=10)
    return await ask(
        ctx, params, types.CreateMessageRequest(params=asked), types.CreateMessageResult
    )


async def visit(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """Send the person to an address."""
    asked = types.ElicitRequestURLParams(
        message="Sign in", url="https://example.org/in", elicitation_id="e1"
    )
    answer = await ask(ctx, params, types.ElicitRequest(params=asked), types.ElicitResult)
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        over = types.ElicitCompleteNotificationParams(elicitation_id="e1")
        note = types.ElicitCompleteNotification(params=over)
        await ctx.session.send_notification(note, ctx.request_id)
    return answer


async def fill_in(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """Have the person fill in a form."""
    schema: Json = {"type": "object", "properties": {"colour": {"type": "string"}}}
    asked = types.ElicitRequestFormParams(message="Which colour?", requested_schema=schema)
    return await ask(ctx, params, types.ElicitRequest(params=asked), types.ElicitResult)


async def locate(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """List the client's roots."""
    return await ask(ctx, params, types.ListRootsRequest(), types.ListRootsResult)


class OneTask(types.RequestParams):
    task_id: str


class TaskUpdate(OneTask):
    input_responses: Json


TASK: Json = {
    "taskId": "task-1",
    "status": "working",
    "createdAt": "2026-11-18T12:00:00Z",
    "lastUpdatedAt": "2026-11-18T12:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 50,
}
states: list[Json] = []
"""What `tasks/get` says next; the last state stays."""


async def build(ctx: Any, params: types.CallToolRequestParams) -> Any:
    """Become a task that asks before it ends. With the argument `endless` it never ends."""
    schema: Json = {"type": "object", "properties": {"colour": {"type": "string"}}}
    form: Json = {"mode": "form", "message": "Which colour?", "requestedSchema": schema}
    request: Json = {"method": "elicitation/create", "params": form}
    states[:] = [{**TASK, "status": "working"}]
    if not (params.arguments or {}).get("endless"):
        states.append({**TASK, "status": "input_required", "inputRequests": {"q": request}})
    return {**TASK, "resultType": "task"}


async def get_task(ctx: Any, params: OneTask) -> Any:
    assert params.task_id == TASK["taskId"]
    ANSWERS["plain"]["content"][0]["text"] = f"{params.task_id} was polled"
    state = states.pop(0) if len(states) > 1 else states[0]
    return {**state, "resultType": "complete"}


async def update_task(ctx: Any, params: TaskUpdate) -> Any:
    said = str(params.input_responses["q"]["content"]["colour"])
    content = [{"type": "text", "text": f"built in {said}"}]
    done: Json = {"resultType": "complete", "content": content, "isError": False}
    states[:] = [{**TASK, "status": "completed", "result": done}]
    return {"resultType": "complete"}


async def cancel_task(ctx: Any, params: OneTask) -> Any:
    ANSWERS["plain"]["content"][0]["text"] = f"{params.task_id} was cancelled"
    return {"resultType": "complete"}


DOING = {
    "build": build,
    "talk": talk,
    "think": think,
    "visit": visit,
    "locate": locate,
    "fill_in": fill_in,
}


async def serve() -> None:
    server = Server[Any](
        "rich", version="1", on_list_tools=cast("Any", list_tools), on_call_tool=call_tool
    )
    server.add_request_handler("logging/setLevel", types.SetLevelRequestParams, set_level)
    server.add_request_handler("tasks/get", OneTask, get_task)
    server.add_request_handler("tasks/update", TaskUpdate, update_task)
    server.add_request_handler("tasks/cancel", OneTask, cancel_task)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


async def set_level(ctx: Any, params: types.SetLevelRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


def refuse_the_newer_era() -> None:
    """Answer the question for the newer era as a server does that has never heard of it."""
    asked = json.loads(sys.stdin.buffer.readline())
    error = {"code": types.METHOD_NOT_FOUND, "message": "Method not found"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}), flush=True)


def main(era: Literal["newer", "older"]) -> None:
    if era == "older":
        refuse_the_newer_era()
    anyio.run(serve)


if __name__ == "__main__":
    main(cast("Any", sys.argv[1]))
