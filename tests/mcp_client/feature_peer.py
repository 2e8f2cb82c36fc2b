"""A server on the official SDK with resources, templates and prompts: `feature_peer.py ERA [URI]`.

`ERA` is newer or older. With a URI it has one more resource there.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import anyio
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.exceptions import MCPError
from mcp_types import (
    Annotations,
    CallToolResult,
    CompleteResult,
    Completion,
    EmptyResult,
    GetPromptResult,
    Icon,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    Prompt,
    PromptArgument,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ResourceLink,
    ResourceListChangedNotification,
    ResourceTemplate,
    ResourceUpdatedNotification,
    ResourceUpdatedNotificationParams,
    TextContent,
    TextResourceContents,
    Tool,
)

ERA = sys.argv[1]
SECRET = os.environ.get("PEER_SECRET", "")
MORE = sys.argv[2:]
BUS = InMemorySubscriptionBus()
SUBSCRIBED: set[str] = set()
EXTRA: list[Resource] = []


async def list_resources(ctx: Any, params: Any) -> ListResourcesResult:
    readme = Resource(
        uri="notes://readme",
        name="readme",
        title="Read me",
        description=f"How it works{SECRET}.",
        mime_type="text/plain",
        size=12,
        annotations=Annotations(audience=["user"], priority=0.5),
        icons=[Icon(src="https://example.org/note.png")],
        _meta={"org.example/kind": "note"},
    )
    if params is not None and params.cursor == "more":
        more = [Resource(uri=uri, name="more") for uri in MORE]
        return ListResourcesResult(resources=[*more, *EXTRA])
    return ListResourcesResult(resources=[readme], next_cursor="more")


async def list_templates(ctx: Any, params: Any) -> ListResourceTemplatesResult:
    day = ResourceTemplate(uri_template="notes://days/{day}", name="day", title="A day")
    return ListResourceTemplatesResult(resource_templates=[day])


async def read(ctx: Any, params: Any) -> ReadResourceResult:
    uri = params.uri
    if uri.endswith("missing"):
        raise MCPError(-32602 if ERA == "newer" else -32002, f"nothing at {uri}")
    text = f"the text of {uri}{SECRET}"
    contents = TextResourceContents(uri=uri, mime_type="text/plain", text=text)
    return ReadResourceResult(contents=[contents])


async def list_prompts(ctx: Any, params: Any) -> ListPromptsResult:
    topic = PromptArgument(name="topic", description="About what.", required=True)
    return ListPromptsResult(prompts=[Prompt(name="sum_up", title="Sum up", arguments=[topic])])


async def get_prompt(ctx: Any, params: Any) -> GetPromptResult:
    text = TextContent(type="text", text=f"Sum up {(params.arguments or {})['topic']}.")
    return GetPromptResult(messages=[PromptMessage(role="user", content=text)])


async def complete(ctx: Any, params: Any) -> CompleteResult:
    values = [f"{params.argument.value}-{number}" for number in (1, 2)]
    return CompleteResult(completion=Completion(values=values, total=2))


async def list_tools(ctx: Any, params: Any) -> ListToolsResult:
    schema = {"type": "object"}
    names = ("link", "touch", "grow", "die")
    return ListToolsResult(tools=[Tool(name=name, input_schema=schema) for name in names])


async def call_tool(ctx: Any, params: Any) -> CallToolResult:
    if params.name == "link":
        link = ResourceLink(type="resource_link", uri="hidden://report", name="report")
        return CallToolResult(content=[link])
    if params.name == "die":
        os._exit(1)
    if params.name == "touch":
        uri = str(params.arguments["uri"])
        await BUS.publish(ResourceUpdated(uri=uri))
        if uri in SUBSCRIBED:
            update = ResourceUpdatedNotificationParams(uri=uri)
            await ctx.session.send_notification(ResourceUpdatedNotification(params=update))
        return CallToolResult(content=[TextContent(type="text", text=" ".join(sorted(SUBSCRIBED)))])
    arguments: dict[str, Any] = params.arguments or {}
    for _ in range(int(arguments.get("times", 1))):
        EXTRA.append(Resource(uri=f"notes://grown/{len(EXTRA)}", name="grown"))
        await BUS.publish(ResourcesListChanged())
        if ERA == "older":
            await ctx.session.send_notification(ResourceListChangedNotification())
    return CallToolResult(content=[TextContent(type="text", text=" ".join(sorted(SUBSCRIBED)))])


async def subscribe(ctx: Any, params: Any) -> EmptyResult:
    SUBSCRIBED.add(params.uri)
    return EmptyResult()


async def unsubscribe(ctx: Any, params: Any) -> EmptyResult:
    SUBSCRIBED.discard(params.uri)
    return EmptyResult()


class Peer(Server[Any]):
    def create_initialization_options(self, *given: Any, **more: Any) -> Any:
        return super().create_initialization_options(
            NotificationOptions(resources_changed=True, tools_changed=True, prompts_changed=True)
        )


async def main() -> None:
    listens: dict[str, Any] = (
        {"on_subscriptions_listen": ListenHandler(BUS)}
        if ERA == "newer"
        else {"on_subscribe_resource": subscribe, "on_unsubscribe_resource": unsubscribe}
    )
    server = Peer(
        "features",
        version="1.0.0",
        on_list_resources=list_resources,
        on_list_resource_templates=list_templates,
        on_read_resource=read,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
        on_completion=complete,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        **listens,
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if ERA == "older":
    asked = json.loads(sys.stdin.buffer.readline())
    unknown = {"code": -32601, "message": "Method not found"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": unknown}), flush=True)
anyio.run(main)
