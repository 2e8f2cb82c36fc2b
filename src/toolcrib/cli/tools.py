"""`toolcrib tools`: see the tools of this machine or of a server, and call them."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.approver import ApproveOption, approver_for
from toolcrib.cli.arguments import parse_arguments
from toolcrib.cli.other_server import Mcp, McpUrl, with_server
from toolcrib.cli.output import show_json
from toolcrib.cli.results import finish_call, place_of
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    TOOL_OPTIONS,
    RuntimeOptions,
    takes_runtime_options,
)
from toolcrib.cli.service import (
    TokenFile,
    Url,
    chosen_url,
    open_hosted_service,
    plain,
)
from toolcrib.cli.store_options import Json
from toolcrib.cli.tool_list import plain_list
from toolcrib.cli.tool_table import show_tool, show_tools
from toolcrib.errors import Refused

if TYPE_CHECKING:
    from toolcrib.runtime.blocking_operations import BlockingOperations
    from toolcrib.runtime.messages import CallResult
    from toolcrib.runtime.typed_operations import TypedOperations

app = typer.Typer(help="List tools, and call them without a model.", no_args_is_help=True)

ToolName = Annotated[str, typer.Argument(metavar="TOOL", help="The tool, as listed.")]


@app.command("list")
@takes_runtime_options(*TOOL_OPTIONS, "policy")
def list_command(
    options: RuntimeOptions,
    category: Annotated[
        str | None, typer.Option("--category", metavar="NAME", help="One category only.")
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--source", metavar="NAME", help="One source only, such as host or mcp:files."
        ),
    ] = None,
    mcp: Mcp = None,
    mcp_url: McpUrl = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print the available tools, and the unavailable ones with the reason.

    With a policy, the column `approval` says what its rules decide; without one, whether the tool
    itself asks. In a pipe it is a tool a line, with tabs between the columns.

    Example: toolcrib tools list --host-tools host-tools.yaml --policy policy.yaml
    """
    options = with_server(options, mcp, mcp_url)
    is_remote = chosen_url(url) is not None
    listed = None if json or is_remote else plain_list(options, category)
    if listed is None:
        with (
            open_hosted_service(options, url, token_file) as service,
            session_of(service, is_temporary=True) as session_id,
        ):
            listed = plain(service.list_tools(session_id, category=category))
    tools: list[dict[str, Any]] = [
        each for each in listed["tools"] if source in (None, each["source"])
    ]
    if json:
        show_json({**listed, "tools": tools})
        return
    show_tools(tools, listed["unavailable"], options.policy)


@app.command("show")
@takes_runtime_options(*TOOL_OPTIONS)
def show_command(
    options: RuntimeOptions,
    tool: ToolName,
    mcp: Mcp = None,
    mcp_url: McpUrl = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Print everything about one tool, with the schema of its arguments.

    Example: toolcrib tools show stock_level --host-tools host-tools.yaml
    """
    options = with_server(options, mcp, mcp_url)
    with (
        open_hosted_service(options, url, token_file) as service,
        session_of(service, is_temporary=True) as session_id,
    ):
        facts = plain(service.get_tool(session_id, tool))
    if json:
        show_json(facts)
        return
    show_tool(facts)


@app.command()
@takes_runtime_options(*HOST_OPTIONS)
def call(
    options: RuntimeOptions,
    tool: ToolName,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Arguments, read by the tool's schema."),
    ] = None,
    arguments: Annotated[
        str | None, typer.Option("--arguments", help="All arguments, as a JSON object.")
    ] = None,
    approve: ApproveOption = "ask",
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Call in this session; else in a new one."),
    ] = None,
    call_id: Annotated[
        str | None,
        typer.Option("--call-id", metavar="ID", help="Continue a call that waited."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the approval that it needs, then go on.")
    ] = False,
    mcp: Mcp = None,
    mcp_url: McpUrl = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Call one tool, under policy and approval like any other call.

    The result goes to stdout. The exit status is 0 when it completed, 1 when it failed, 3 when it
    was denied, 4 while it waits for approval.

    Example: toolcrib tools call stock_level part=bolts --host-tools host-tools.yaml

    Example: toolcrib tools call echo message=hi --mcp "npx -y some-mcp-server"
    """
    options = with_server(options, mcp, mcp_url)
    options = replace(options, approver=approver_for(approve, has_store=options.store is not None))
    place = place_of(options.store, chosen_url(url), token_file)
    if wait and place is None:
        raise typer.BadParameter("--wait needs a place to decide at: --store FILE or --url URL")
    with (
        open_hosted_service(options, url, token_file) as service,
        session_of(service, session) as session_id,
    ):
        facts = plain(service.get_tool(session_id, tool))
        call_arguments = parse_arguments(words or [], arguments, facts["parameters"])
        result = make_call(service, session_id, tool, call_arguments, call_id)
        if wait and place is not None and result["status"] == "waiting":
            from toolcrib.cli.decision_wait import result_after_decision

            result = result_after_decision(service, session_id, result, place)
    finish_call(result, session_id, place, json=json)


def make_call(
    service: BlockingOperations,
    session_id: str,
    tool: str,
    arguments: dict[str, Any],
    call_id: str | None = None,
) -> dict[str, Any]:
    """Make the call; at a terminal, with its progress and its output as they come."""
    if not sys.stderr.isatty():
        return plain(service.call_tool(session_id, tool, arguments, call_id=call_id))
    from toolcrib.cli.call_progress import with_progress

    async def call_watched(operations: TypedOperations) -> CallResult:
        def call() -> Awaitable[CallResult]:
            return operations.call_tool(session_id, tool, arguments, call_id=call_id)

        return await with_progress(operations, session_id, call)

    return plain(service.complete(call_watched(service.operations)))


@contextmanager
def session_of(
    service: BlockingOperations, session_id: str | None = None, *, is_temporary: bool = False
) -> Generator[str]:
    """The session of the command. A new one is closed afterwards; it stays in the store, where a
    waiting call can be continued, unless it is temporary.
    """
    if session_id is not None:
        service.resume_session(session_id)
        yield session_id
        return
    metadata = {"made_by": "toolcrib tools"}
    created = service.create_session(metadata=metadata, is_temporary=is_temporary).session_id
    try:
        yield created
    finally:
        with suppress(Refused):
            service.close_session(created)
