"""Tools keep their users' types: what fits is accepted, what does not is an error."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, assert_type

from toolcrib import (
    HostedTool,
    NativeTool,
    ProviderTool,
    Tool,
    ToolContext,
    ToolExample,
    ToolResult,
    tool,
)
from toolcrib.host_tools.definition import HostToolDefinition, ToolScope
from toolcrib.tools import (
    HostMount,
    OpenAICodeInterpreterTool,
    Secret,
    VfsPath,
)
from toolcrib.tools.code_interpreter import AutoContainer, CodeInterpreterResult
from toolcrib.tools.web_search import WebSearchConfig, WebSearchResult, web_search_tool


@dataclass
class Params:
    query: str


@dataclass
class Result:
    payload: dict[str, object]


def plain(params: Params) -> Result:
    return Result({"query": params.query})


def with_context(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    return ToolResult(value=Result({"session": context.session_id}))


async def later(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    return with_context(params, context=context)


async def later_plain(params: Params) -> Result:
    return plain(params)


def of_other_params(params: int) -> Result:
    return Result({"n": params})


def of_other_result(params: Params) -> int:
    return len(params.query)


# Every form of handler fits a Tool of its types.
Tool[Params, Result](name="a", description="A.", handler=plain)
Tool[Params, Result](name="a", description="A.", handler=with_context)
Tool[Params, Result](name="a", description="A.", handler=later)
Tool[Params, Result](name="a", description="A.", handler=later_plain)
Tool[Params, Result](name="a", description="A.", handler=of_other_params)  # pyright: ignore[reportArgumentType]
Tool[Params, Result](name="a", description="A.", handler=of_other_result)  # pyright: ignore[reportArgumentType]
Tool[Params, Result](name="a")  # pyright: ignore[reportCallIssue]
Tool[Params, Result](name="a", description="A.", timeout="5")  # pyright: ignore[reportArgumentType]
Tool[Params, Result](name="a", description="A.", cut="end")  # pyright: ignore[reportArgumentType]

assert_type(Tool(name="a", description="A.", handler=plain), Tool[Params, Result])

frozen = Tool[Params, Result](name="a", description="A.")
frozen.name = "b"  # pyright: ignore[reportAttributeAccessIssue]


# A native tool, as its document declares it.
native = NativeTool[Params, Result](
    name="web_search",
    description="Use the provider's built-in search to gather fresh results.",
    examples=(
        ToolExample(
            description="Search for current weather in Paris.",
            input=Params(query="current weather in Paris"),
            output=Result(payload={"results": []}),
        ),
    ),
)
assert_type(native, NativeTool[Params, Result])
assert_type(native.examples[0].input, Params)
as_tool: Tool[Params, Result] = native


# A hosted tool knows the type of its options and of its output.
search = web_search_tool(WebSearchConfig(allow_live_access=False), name="cached_search")
assert_type(search, HostedTool[WebSearchConfig, WebSearchResult])
assert_type(search.config.allow_live_access, bool)
WebSearchConfig(allow_live_access="no")  # pyright: ignore[reportArgumentType]
HostedTool(kind="k", name="n", description="d", config=AutoContainer())
assert_type(WebSearchResult("text").citations[0].span, tuple[int, int] | None)


# A provider's tool knows its result; so does its hook.
def pass_through(
    result: CodeInterpreterResult, context: ToolContext
) -> ToolResult[CodeInterpreterResult]:
    return ToolResult(message=result.stdout, value=result, success=True)


def of_other_type(result: int, context: ToolContext) -> ToolResult[int]:
    return ToolResult(value=result)


interpreter = OpenAICodeInterpreterTool(
    name="openai_python",
    description="Executes model-authored Python in a sandboxed container.",
    container={"type": "auto", "memory_limit": "4g", "file_ids": ["file_csv_upload"]},
    host_mounts=(HostMount("sunfish", VfsPath(("workspace", "sunfish"))),),
    handle_provider_output=pass_through,
)
assert_type(interpreter.container, str | dict[str, Any])
OpenAICodeInterpreterTool(handle_provider_output=of_other_type)  # pyright: ignore[reportArgumentType]
OpenAICodeInterpreterTool(container=AutoContainer("2g"))  # pyright: ignore[reportArgumentType]
OpenAICodeInterpreterTool(timeout=5.0, category="code")
OpenAICodeInterpreterTool(no_such_rule=True)  # pyright: ignore[reportCallIssue]
bound: ProviderTool[None, CodeInterpreterResult, Any] = interpreter


# @tool keeps the function's signature.
@tool
def find(query: str, limit: int = 10) -> list[str]:
    """Find things."""
    return [query] * limit


@tool(name="find_later", timeout=3.0, requires_approval=True)
async def find_later(query: str, token: Annotated[str, Secret()]) -> list[str]:
    """Find things later."""
    return [query, token]


assert_type(find("a"), list[str])
assert_type(find("a", limit=2), list[str])
find(5)  # pyright: ignore[reportArgumentType]
find()  # pyright: ignore[reportCallIssue]
find("a", depth=2)  # pyright: ignore[reportCallIssue]
same: Callable[[str], list[str]] = find
assert_type(find.tool, Tool[Any, Any])


async def use() -> None:
    assert_type(await find_later("a", token="b"), list[str])
    await find_later("a")  # pyright: ignore[reportCallIssue]


tool(timeout="soon")  # pyright: ignore[reportArgumentType]


# The example of the document on host tools.
def do_something(query: str, cwd: str) -> str:
    return query + cwd


async def my_tool_handler(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    result = do_something(input["query"], context.cwd)
    return ToolResult(success=True, output=result)


definition = HostToolDefinition(
    name="my_custom_tool",
    description="Does something useful",
    parameters={
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    },
    handler=my_tool_handler,
)
assert_type(definition.scope, ToolScope)
assert_type(definition.to_tool(), Tool[dict[str, Any], Any])


def blocking_handler(input: dict[str, Any], context: ToolContext) -> ToolResult[str]:
    return ToolResult(success=False, error=input["query"])


def too_few(input: dict[str, Any]) -> ToolResult[str]:
    return ToolResult(output=input["query"])


HostToolDefinition("b", "B.", {"type": "object"}, blocking_handler, scope=ToolScope.SESSION)
HostToolDefinition("b", "B.", {"type": "object"}, too_few)  # pyright: ignore[reportArgumentType]
HostToolDefinition("b", "B.", {"type": "object"}, blocking_handler, scope="session")  # pyright: ignore[reportArgumentType]


# A result keeps the type of its value, under both names.
assert_type(ToolResult(value=5).value, int | None)
assert_type(ToolResult(output="a").output, str | None)
assert_type(ToolResult[int](success=False, error="no").error, str | None)
wider: ToolResult[object] = ToolResult(value=5)
ToolResult(value=5).value = 6  # pyright: ignore[reportAttributeAccessIssue]


def returns_a_failure() -> ToolResult[Result]:
    return ToolResult(success=False, message="Nothing was found.")


async def awaited(made: Awaitable[ToolResult[Result]]) -> None:
    assert_type((await made).value, Result | None)


async def asking(ctx: ToolContext) -> None:
    """Answers have the type that was asked for."""
    assert_type(await ctx.ask("Which?"), str)
    assert_type(await ctx.ask("Which?", choices=["a", "b"]), str)
    assert_type(await ctx.ask("Sure?", bool), bool)
    assert_type(await ctx.ask("Which?", Params), Params)
    await ctx.ask("Which?", Params, choices=["a"])  # pyright: ignore[reportCallIssue]
