"""What the fixture serves beside tools: resources, prompts and completions."""

from __future__ import annotations

import json
import re
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError

from tests.conformance import contents
from tests.conformance.fixture_client import form
from toolcrib.transports.mcp import McpServer

Request = ServerRequestContext[Any, Any]
CONTEXT = form("What context should the prompt use?", context={"type": "string"})
RESOURCES = (
    types.Resource(
        uri="test://static-text", name="static-text", description="Words.", mime_type="text/plain"
    ),
    types.Resource(
        uri="test://static-binary",
        name="static-binary",
        description="A picture.",
        mime_type="image/png",
    ),
    types.Resource(
        uri="test://watched-resource", name="watched", description="Words.", mime_type="text/plain"
    ),
)
TEMPLATE = types.ResourceTemplate(
    uri_template="test://template/{id}/data",
    name="template",
    description="Data by its id.",
    mime_type="application/json",
)


def _argument(name: str) -> types.PromptArgument:
    return types.PromptArgument(name=name, description=f"The argument {name}.", required=True)


PROMPTS = (
    types.Prompt(name="test_simple_prompt", description="Words."),
    types.Prompt(
        name="test_prompt_with_arguments",
        description="Words with two of the caller's.",
        arguments=[_argument("arg1"), _argument("arg2")],
    ),
    types.Prompt(
        name="test_prompt_with_embedded_resource",
        description="A resource.",
        arguments=[_argument("resourceUri")],
    ),
    types.Prompt(name="test_prompt_with_image", description="A picture."),
    types.Prompt(name="test_input_required_result_prompt", description="Asks before it answers."),
)


async def list_resources(
    request: Request, params: types.PaginatedRequestParams
) -> types.ListResourcesResult:
    return types.ListResourcesResult(resources=list(RESOURCES))


async def list_templates(
    request: Request, params: types.PaginatedRequestParams
) -> types.ListResourceTemplatesResult:
    return types.ListResourceTemplatesResult(resource_templates=[TEMPLATE])


async def read_resource(
    request: Request, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    return types.ReadResourceResult(contents=[_read(str(params.uri))])


def _read(uri: str) -> types.TextResourceContents | types.BlobResourceContents:
    if uri == "test://static-binary":
        return types.BlobResourceContents(uri=uri, mime_type="image/png", blob=contents.PICTURE)
    if uri in ("test://static-text", "test://watched-resource"):
        words = "This is the content of the static text resource."
        return types.TextResourceContents(uri=uri, mime_type="text/plain", text=words)
    if match := re.fullmatch(r"test://template/([^/]+)/data", uri):
        data = {"id": match[1], "templateTest": True, "data": f"Data for ID: {match[1]}"}
        return types.TextResourceContents(
            uri=uri, mime_type="application/json", text=json.dumps(data)
        )
    raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})


async def subscribe(request: Request, params: types.SubscribeRequestParams) -> types.EmptyResult:
    return types.EmptyResult()


async def unsubscribe(
    request: Request, params: types.UnsubscribeRequestParams
) -> types.EmptyResult:
    return types.EmptyResult()


async def list_prompts(
    request: Request, params: types.PaginatedRequestParams
) -> types.ListPromptsResult:
    return types.ListPromptsResult(prompts=list(PROMPTS))


async def get_prompt(
    request: Request, params: types.GetPromptRequestParams
) -> types.GetPromptResult | types.InputRequiredResult:
    given = params.arguments or {}
    match params.name:
        case "test_simple_prompt":
            return _prompt(contents.text("This is a simple prompt for testing."))
        case "test_prompt_with_arguments":
            words = f"Prompt with arguments: arg1='{given['arg1']}', arg2='{given['arg2']}'"
            return _prompt(contents.text(words))
        case "test_prompt_with_embedded_resource":
            words = "Embedded resource content for testing."
            return _prompt(
                contents.resource(given["resourceUri"], words),
                contents.text("Please process the embedded resource above."),
            )
        case "test_prompt_with_image":
            return _prompt(contents.image(), contents.text("Please analyze the image above."))
        case "test_input_required_result_prompt":
            return _asking_prompt((params.input_responses or {}).get("user_context"))
        case _:
            raise MCPError(types.INVALID_PARAMS, f"there is no prompt {params.name!r}")


def _prompt(*blocks: contents.Block) -> types.GetPromptResult:
    messages = [{"role": "user", "content": each} for each in blocks]
    return types.GetPromptResult.model_validate({"messages": messages})


def _asking_prompt(
    answer: types.InputResponse | None,
) -> types.GetPromptResult | types.InputRequiredResult:
    if not isinstance(answer, types.ElicitResult):
        return types.InputRequiredResult(input_requests={"user_context": CONTEXT})
    return _prompt(contents.text(f"Use this: {(answer.content or {}).get('context')}"))


async def complete(request: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
    known = ("paris", "park", "party")
    values = [each for each in known if each.startswith(params.argument.value)]
    return types.CompleteResult(
        completion=types.Completion(values=values, total=len(values), has_more=False)
    )


def extend(server: McpServer) -> None:
    """Have a server answer for resources, prompts and completions too."""
    add = server.add_request_handler
    add("resources/list", types.PaginatedRequestParams, list_resources)
    add("resources/templates/list", types.PaginatedRequestParams, list_templates)
    add("resources/read", types.ReadResourceRequestParams, read_resource)
    add("resources/subscribe", types.SubscribeRequestParams, subscribe)
    add("resources/unsubscribe", types.UnsubscribeRequestParams, unsubscribe)
    add("prompts/list", types.PaginatedRequestParams, list_prompts)
    add("prompts/get", types.GetPromptRequestParams, get_prompt)
    add("completion/complete", types.CompleteRequestParams, complete)
