"""@tool: a typed function becomes a tool and stays a function."""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field

from toolcrib import tool
from toolcrib.errors import InvalidTool
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.result import ToolResult

if TYPE_CHECKING:
    from fractions import Fraction

CONTEXT = ToolContext(session_id="s1", cwd="/tmp")


@dataclass
class Filter:
    site: str
    year: int = 2020


@tool
def search(query: str, limit: int = 10, *, filter: Filter | None = None) -> list[str]:
    """Search the catalogue.

    Use it for anything that may be in stock.

    Args:
        query: What to look for,
            in plain words.
        limit: How many to return.
        filter: Where to look.
    """
    return [f"{query}@{filter.site if filter else 'any'}"] * limit


def properties(function: Any) -> dict[str, Any]:
    return prepare(function).declaration.parameters["properties"]


def test_it_is_still_the_function() -> None:
    """Calling it calls the function, and it keeps the function's name, text and signature."""
    assert search("lathe", 2) == ["lathe@any", "lathe@any"]
    assert search.__name__ == "search"
    assert (search.__doc__ or "").startswith("Search the catalogue.")
    assert list(inspect.signature(search).parameters) == ["query", "limit", "filter"]
    assert search.__wrapped__("saw", 1) == ["saw@any"]


async def test_an_async_function_stays_async() -> None:
    """T3: `async def` works, called directly and as a tool."""

    @tool
    async def double(n: int) -> int:
        """Double a number."""
        return 2 * n

    assert await double(2) == 4
    assert prepare(double).is_async
    assert await prepare(double).invoke({"n": 3}, None) == 6


def test_name_and_description_come_from_the_function() -> None:
    """The function's name is the tool's; the docstring's text before its sections describes it."""
    assert search.tool.name == "search"
    assert search.tool.description == (
        "Search the catalogue.\n\nUse it for anything that may be in stock."
    )


def test_name_description_and_rules_can_be_given() -> None:
    """What is passed to @tool wins."""

    @tool(name="find", description="Find it.", timeout=3, requires_approval=True, uses=("x",))
    def search_all(query: str) -> str:
        return query

    made = search_all.tool
    assert (made.name, made.description, made.timeout) == ("find", "Find it.", 3)
    assert (made.requires_approval, made.uses) == (True, ("x",))
    assert search_all("q") == "q"


def test_a_function_without_a_docstring_is_refused() -> None:
    """A model cannot choose a tool that says nothing about itself."""

    def silent(query: str) -> str:
        return query

    with pytest.raises(InvalidTool, match="'silent' has no description; give the function a doc"):
        tool(silent)


def test_a_name_that_breaks_the_rule_is_refused() -> None:
    """H9: the function's name must do as a tool's name, or another is given."""

    def Search(query: str) -> str:  # noqa: N802
        """Search."""
        return query

    with pytest.raises(InvalidTool, match="must match"):
        tool(Search)
    assert tool(name="search")(Search).tool.name == "search"


def test_the_parameters_become_the_schema() -> None:
    """T3: types, defaults and descriptions; what has no default is required."""
    schema = prepare(search).declaration.parameters

    assert schema["properties"]["query"] == {
        "type": "string",
        "description": "What to look for, in plain words.",
    }
    assert schema["properties"]["limit"] == {
        "type": "integer",
        "default": 10,
        "description": "How many to return.",
    }
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False


def test_arguments_are_passed_by_name() -> None:
    """T3: parsed arguments reach the function as keywords, defaults filled in."""
    prepared = prepare(search)
    arguments = prepared.parse('{"query": "saw", "filter": {"site": "hall"}}')

    assert arguments == {"query": "saw", "limit": 10, "filter": Filter("hall", 2020)}
    assert prepared.invoke({**arguments, "limit": 1}, None) == ["saw@hall"]


def by_type(context_of_call: ToolContext, query: str) -> str:
    return context_of_call.session_id + query


def by_name(ctx, query: str) -> str:  # pyright: ignore
    return ctx.session_id + query  # pyright: ignore


def by_any(context: Any, query: str) -> str:
    return context.session_id + query


def by_keyword(query: str, *, context: ToolContext) -> str:
    return context.session_id + query


def in_the_middle(query: str, ctx: ToolContext, suffix: str = "") -> str:
    return ctx.session_id + query + suffix


def optional(query: str, ctx: ToolContext | None = None) -> str:
    return (ctx.session_id if ctx else "") + query


CONTEXT_TAKERS: list[Any] = [by_type, by_name, by_any, by_keyword, in_the_middle, optional]


@pytest.mark.parametrize("function", CONTEXT_TAKERS)
def test_the_context_is_passed_and_not_in_the_schema(function: Any) -> None:
    """T3: found by its type, or by its name when it has none; the model never sees it."""
    prepared = prepare(tool(name="t", description="T.")(function))

    assert "query" in prepared.declaration.parameters["properties"]
    assert not {"ctx", "context", "context_of_call"} & set(
        prepared.declaration.parameters["properties"]
    )
    assert prepared.wants_context
    assert prepared.invoke(prepared.parse('{"query": "q"}'), CONTEXT) == "s1q"


def test_a_run_context_of_another_library_is_the_context() -> None:
    """T3: `ctx: RunContext[Deps]` is recognised without importing what defines it."""

    class RunContext: ...

    def read(ctx: RunContext, path: str) -> str:
        return f"{ctx}{path}"

    prepared = prepare(tool(name="t", description="T.")(read))

    assert list(prepared.declaration.parameters["properties"]) == ["path"]


def test_a_typed_parameter_called_context_is_an_argument() -> None:
    """A text called `context` is what the model should send, not our context."""

    @tool
    def summarise(context: str, query: str) -> str:
        """Summarise a text."""
        return context + query

    prepared = prepare(summarise)

    assert not prepared.wants_context
    assert prepared.invoke(prepared.parse('{"context": "c", "query": "q"}'), None) == "cq"


def test_a_tool_may_take_nothing() -> None:
    """No parameters: an empty object, and nothing else."""

    @tool
    def now() -> str:
        """Tell the time."""
        return "noon"

    prepared = prepare(now)

    assert prepared.invoke(prepared.parse("{}"), None) == "noon"
    with pytest.raises(ValueError, match="now"):
        prepared.parse('{"now": 1}')


def positional_only(query: str, /) -> str:
    return query


def collects(*queries: str) -> str:
    return "".join(queries)


def collects_keywords(**queries: str) -> str:
    return "".join(queries)


def untyped(query) -> str:  # pyright: ignore
    return query  # pyright: ignore


def yields(query: str) -> Any:
    yield query


async def yields_later(query: str) -> Any:
    yield query


UNSOUND: list[tuple[Any, str]] = [
    (positional_only, "'query' is positional-only"),
    (collects, "'queries' collects positional"),
    (collects_keywords, "'queries' collects keywords"),
    (untyped, "'query' has no type"),
    (yields, "the handler yields"),
    (yields_later, "the handler yields"),
]


@pytest.mark.parametrize(("function", "fault"), UNSOUND)
def test_signatures_that_cannot_be_called_are_refused(function: Any, fault: str) -> None:
    """T3: found out when the tool is declared, with the name of the parameter."""
    with pytest.raises(InvalidTool, match=fault):
        tool(name="t", description="T.")(function)


def test_a_type_that_is_not_there_at_runtime_is_refused() -> None:
    """An import for type checkers only cannot be checked against; the message says what to do."""

    def halve(number: Fraction) -> str:
        """Halve a number."""
        return str(number / 2)

    with pytest.raises(InvalidTool, match=r"'Fraction' is not defined.*module level"):
        prepare(tool(halve))


def test_a_type_that_json_cannot_carry_is_refused() -> None:
    """Registration fails, not the first call."""

    class Opaque: ...

    def use(thing: Any) -> str:
        """Use a thing."""
        return str(thing)

    use.__annotations__["thing"] = Opaque

    with pytest.raises(InvalidTool, match="'use': its arguments have a type that cannot be read"):
        prepare(tool(use))


def test_constraints_beside_a_type_hold() -> None:
    """What pydantic reads from Annotated is checked and shown."""

    @tool
    def page(number: Annotated[int, Field(ge=1, description="Counted from 1.")] = 1) -> int:
        """Turn to a page.

        Args:
            number: Not this text.
        """
        return number

    assert properties(page)["number"] == {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "Counted from 1.",
    }
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        prepare(page).parse('{"number": 0}')


def test_a_field_as_default_is_read() -> None:
    """`= Field(...)` is understood as beside the type."""

    @tool
    def page(number: int = Field(default=3, ge=1), size: int = Field(ge=1)) -> int:
        """Turn to a page."""
        return number * size

    prepared = prepare(page)

    assert prepared.parse('{"size": 2}') == {"number": 3, "size": 2}
    with pytest.raises(ValueError, match="size"):
        prepared.parse("{}")


def test_an_alias_is_the_name_in_json() -> None:
    """A parameter can be called what Python does not allow, and keeps its description."""

    @tool
    def mail(sender: Annotated[str, Field(alias="from")], to: str) -> str:
        """Send a mail.

        Args:
            sender: Who writes.
            to: Who reads.
        """
        return f"{sender}>{to}"

    prepared = prepare(mail)

    assert properties(mail)["from"] == {"type": "string", "description": "Who writes."}
    assert prepared.invoke(prepared.parse('{"from": "a", "to": "b"}'), None) == "a>b"
    with pytest.raises(ValueError, match="from"):
        prepared.parse('{"sender": "a", "to": "b"}')


def test_an_alias_with_more_than_one_place_is_refused() -> None:
    """One argument has one name."""
    from pydantic import AliasChoices

    def mail(sender: Annotated[str, Field(validation_alias=AliasChoices("a", "b"))]) -> str:
        """Send a mail."""
        return sender

    mail.__annotations__["sender"] = Annotated[str, Field(validation_alias=AliasChoices("a", "b"))]

    with pytest.raises(InvalidTool, match="'sender' has more than one place"):
        prepare(tool(mail))


def test_a_mutable_default_is_not_shared_between_calls() -> None:
    """T21: what one call does to its arguments does not reach the next."""

    @tool
    def collect(item: str, into: list[str] = []) -> list[str]:  # noqa: B006
        """Collect an item."""
        into.append(item)
        return into

    prepared = prepare(collect)

    for _ in range(2):
        assert prepared.invoke(prepared.parse('{"item": "a"}'), None) == ["a"]


def test_the_result_type_is_the_return_annotation() -> None:
    """ToolResult[R] means R; an annotation that cannot be read is no result type."""

    @tool
    def plain(n: int) -> int:
        """Plain."""
        return n

    @tool
    def wrapped(n: int) -> ToolResult[int]:
        """Wrapped."""
        return ToolResult(value=n)

    @tool
    def unread(n: int) -> Fraction:
        """Unread."""
        raise NotImplementedError

    assert (plain.tool.result_type, wrapped.tool.result_type) == (int, int)
    assert unread.tool.result_type is None


def test_partials_and_callable_objects_can_be_tools() -> None:
    """Whatever can be called with typed parameters can be a tool."""

    class Greeter:
        async def __call__(self, name: str) -> str:
            return f"Hello, {name}"

    def greet(greeting: str, name: str) -> str:
        return f"{greeting}, {name}"

    partial: Any = functools.partial(greet, "Hi")
    greeter = prepare(tool(name="greet", description="Greet.")(Greeter()))
    short = prepare(tool(name="greet", description="Greet.")(partial))

    assert greeter.is_async
    assert short.invoke({"name": "Jo"}, None) == "Hi, Jo"


def test_a_bound_method_can_be_a_tool() -> None:
    """T3: the object is already there, so only the rest are arguments."""

    class Shop:
        def search(self, query: str) -> str:
            """Search the shop."""
            return query

    assert list(properties(tool(Shop().search))) == ["query"]


def test_the_repr_names_the_tool() -> None:
    """What is in a list of tools can be told apart."""
    assert repr(search).startswith("<tool 'search': <function search")
