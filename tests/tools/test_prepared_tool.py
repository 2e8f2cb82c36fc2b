"""PreparedTool: everything the executor needs, worked out before the first call."""

from dataclasses import dataclass
from typing import Annotated, Any

import pytest

from toolcrib import tool
from toolcrib.errors import InvalidTool, UsageError
from toolcrib.host_tools.definition import HostToolDefinition
from toolcrib.tools.context import ToolContext
from toolcrib.tools.identity import identity_of
from toolcrib.tools.prepared_tool import as_tool, prepare
from toolcrib.tools.secrets import Secret
from toolcrib.tools.tool import Tool
from toolcrib.toolsets import BaseTool

CONTEXT = ToolContext(session_id="s1", cwd="/tmp")


@dataclass
class Params:
    text: str


def declare(handler: Any, **changes: Any) -> Tool[Params, str]:
    return Tool[Params, str](name="echo", description="Echo.", handler=handler, **changes)


def plain(params: Params) -> str:
    return params.text


def with_keyword(params: Params, *, context: ToolContext) -> str:
    return params.text + context.session_id


def with_positional(params: Params, context: ToolContext) -> str:
    return params.text + context.session_id


def with_other_keyword(params: Params, *, ctx: ToolContext) -> str:
    return params.text + ctx.session_id


def with_other_name(params: Params, ctx: ToolContext) -> str:
    return params.text + ctx.session_id


def with_context_first(ctx: ToolContext, params: Params) -> str:
    return params.text + ctx.session_id


def positional_only(params: Params, context: ToolContext, /) -> str:
    return params.text + context.session_id


def with_default(params: Params, retries: int = 3, *, context: ToolContext) -> str:
    return params.text * (retries - 2) + context.session_id


WANTING: list[Any] = [
    with_keyword,
    with_positional,
    with_other_keyword,
    with_other_name,
    with_context_first,
    positional_only,
    with_default,
]


@pytest.mark.parametrize("handler", WANTING)
def test_a_handler_that_wants_the_context_gets_it(handler: Any) -> None:
    """C7: `(params, *, context)` and its variations."""
    prepared = prepare(declare(handler))

    assert prepared.wants_context
    assert prepared.invoke(prepared.parse('{"text": "a"}'), CONTEXT) == "as1"


def test_a_handler_that_does_not_want_it_is_spared() -> None:
    """C7: `context` is optional in the handler's signature."""
    prepared = prepare(declare(plain))

    assert not prepared.wants_context
    assert prepared.invoke(Params("a"), CONTEXT) == "a"


def test_a_tool_without_params_calls_its_handler_with_none_or_nothing() -> None:
    """X4: `Tool[None, R]` works with and without a parameter for the missing params."""

    def nothing() -> str:
        return "n"

    def none(params: None) -> str:
        return f"{params}"

    def only_context(*, context: ToolContext) -> str:
        return context.session_id

    def only_ctx(ctx: ToolContext) -> str:
        return ctx.session_id

    found: list[Any] = []
    handlers: list[Any] = [nothing, none, only_context, only_ctx]
    for handler in handlers:
        prepared = prepare(Tool[None, str](name="t", description="T.", handler=handler))
        found.append(prepared.invoke(prepared.parse("{}"), CONTEXT))

    assert found == ["n", "None", "s1", "s1"]


async def test_async_handlers_are_known_and_awaited_by_the_caller() -> None:
    """R6: invoke gives a coroutine for an async handler, and says so beforehand."""

    async def later(params: Params) -> str:
        return params.text

    class Later:
        async def __call__(self, params: Params, *, context: ToolContext) -> str:
            return params.text + context.session_id

    assert prepare(declare(later)).is_async
    assert await prepare(declare(later)).invoke(Params("a"), None) == "a"
    assert prepare(declare(Later())).is_async
    assert await prepare(declare(Later())).invoke(Params("a"), CONTEXT) == "as1"
    assert not prepare(declare(plain)).is_async


def two(first: Params, second: Params) -> str:
    return first.text + second.text


def keyword_only(*, params: Params) -> str:
    return params.text


def generator(params: Params) -> Any:
    yield params


@pytest.mark.parametrize(
    ("handler", "fault"),
    [
        (two, "the handler takes first, second"),
        (keyword_only, "one params object"),
        (generator, "the handler yields"),
    ],
)
def test_a_handler_that_cannot_be_called_is_refused(handler: Any, fault: str) -> None:
    """C7: found out at registration, not at the first call."""
    with pytest.raises(InvalidTool, match=fault):
        prepare(declare(handler))


def test_a_tool_without_a_handler_can_be_declared_but_not_invoked() -> None:
    """N8: nothing runs here for a tool that runs elsewhere."""
    prepared = prepare(declare(None))

    assert prepared.declaration.name == "echo"
    with pytest.raises(UsageError, match="'echo' has no handler here; its place is 'client'"):
        prepared.invoke(Params("a"), CONTEXT)


def test_the_ref_names_the_tool_exactly() -> None:
    """R50: name, source, version, place and the digest of what it promises."""
    prepared = prepare(declare(plain, version="1.2.0"))
    ref = prepared.ref

    assert (ref.name, ref.source, ref.version, ref.place) == ("echo", "python", "1.2.0", "local")
    assert ref.digest == identity_of(prepared.tool, prepared.params.schema).digest


def test_the_declaration_is_what_the_model_is_told() -> None:
    """Name, description and schema, the same object each time."""
    prepared = prepare(declare(plain))

    assert (prepared.declaration.name, prepared.declaration.description) == ("echo", "Echo.")
    assert prepared.declaration.parameters is prepared.params.schema


def test_a_deprecation_is_told_to_the_model() -> None:
    """R50: the note is in the description the model reads; the promise is still the same."""
    old = prepare(declare(plain, deprecated="Use echo2."))

    assert old.declaration.description == "Echo.\n\nDeprecated: Use echo2."
    assert old.ref.digest == prepare(declare(plain)).ref.digest


def test_only_tools_with_secrets_have_a_redactor() -> None:
    """Others pay nothing."""

    @tool
    def login(user: str, token: Annotated[str, Secret()]) -> str:
        """Log in."""
        return user + token

    redactor = prepare(login).redactor

    assert redactor is not None
    assert redactor.redact({"user": "u", "token": "t"})["token"] == "[secret]"
    assert prepare(declare(plain)).redactor is None


def test_three_ways_to_write_a_tool_become_one() -> None:
    """Tool, @tool and HostToolDefinition all give a Tool."""

    @tool
    def echo(text: str) -> str:
        """Echo."""
        return text

    def run(input: dict[str, Any], context: ToolContext) -> str:
        return input["text"]

    definition = HostToolDefinition(
        name="echo", description="Echo.", parameters={"type": "object"}, handler=run
    )
    written = declare(plain)

    assert as_tool(written) is written
    assert as_tool(echo) is echo.tool
    assert as_tool(definition) == definition.to_tool()
    assert [prepare(way).ref.name for way in (written, echo, definition)] == ["echo"] * 3


class Lamp(BaseTool):
    name = "lamp"
    description = "Switch the lamp."

    async def call(self, ctx: Any, on: bool) -> str:
        return "on" if on else "off"


@pytest.mark.parametrize(
    ("thing", "hint"),
    [
        (plain, r"is not a tool; put @tool above it$"),
        (Lamp, r"it is a class of tools: give an instance, Lamp\(\.\.\.\)$"),
        (Params, r"it is a class: put @tool above a function, or write a BaseTool"),
        ("echo", "is not a tool$"),
        (None, "None"),
    ],
)
def test_what_is_not_a_tool_is_refused(thing: Any, hint: str) -> None:
    """F2: a plain function and a class are common slips, and the message says what is missing."""
    with pytest.raises(InvalidTool, match=hint):
        as_tool(thing)


def test_parse_is_the_prepared_validator_itself() -> None:
    """Nothing of ours stands between the executor and pydantic-core on the hot path."""
    assert "built-in method validate_json" in repr(prepare(declare(plain)).parse)
