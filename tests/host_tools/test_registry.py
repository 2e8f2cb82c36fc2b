"""HostToolRegistry: what is registered is found, once, in order, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.host_tools.samples import SCHEMA, context_for, define, echo, names
from toolcrib import Executor, Session, Tool, ToolContext, tool
from toolcrib.errors import DuplicateTool, InvalidTool
from toolcrib.host_tools import (
    HostToolDefinition,
    HostToolRegistry,
    Origin,
    ToolScope,
    host_tool_registry,
)
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.web_search import web_search_tool
from toolcrib.toolsets import BaseTool


@pytest.fixture
def registry() -> HostToolRegistry:
    return HostToolRegistry()


@pytest.fixture
def default_registry() -> Iterator[HostToolRegistry]:
    yield host_tool_registry
    host_tool_registry.swap("test", [])


class TestRegister:
    async def test_a_registered_tool_is_found(self, registry: HostToolRegistry) -> None:
        """R8, R10: by its name, and as what it is."""
        definition = define()

        await registry.register(definition)

        assert registry.get("search") is definition
        assert registry.get("other") is None

    async def test_a_name_is_taken_once(self, registry: HostToolRegistry) -> None:
        """R8: the second is a ValueError that names the tool, and the first stays."""
        first = define()
        await registry.register(first)

        with pytest.raises(ValueError, match="a tool named 'search' already"):
            await registry.register(define(description="Another"))

        assert registry.list_tools() == [first]

    async def test_a_replacement_is_told_from_an_addition(self, registry: HostToolRegistry) -> None:
        """R8: True only when there was something to replace, which keeps its place in the order."""
        await registry.register(define("a"))
        added = await registry.register_or_replace(define("b"))
        await registry.register(define("c"))
        replaced = await registry.register_or_replace(define("b", version="2.0.0"))

        assert (added, replaced) == (False, True)
        assert [(each.name, each.version) for each in registry.list_tools()] == [
            ("a", "0.0.0"),
            ("b", "2.0.0"),
            ("c", "0.0.0"),
        ]

    async def test_what_was_taken_away_is_gone(self, registry: HostToolRegistry) -> None:
        """R9: True once, then False, and the name is free again."""
        await registry.register(define())

        assert await registry.unregister("search")
        assert not await registry.unregister("search")
        assert registry.list_tools() == []
        await registry.register(define())

    async def test_code_that_cannot_await_adds_too(self, registry: HostToolRegistry) -> None:
        """R31: a plain setup function has a plain way."""
        registry.add(define())

        with pytest.raises(DuplicateTool):
            registry.add(define())
        assert names(registry.list_tools()) == ["search"]

    async def test_several_are_added_together_or_not_at_all(
        self, registry: HostToolRegistry
    ) -> None:
        """R30: one that is taken keeps all of them out, and both places are named."""
        shop, market = Origin("shop.yaml", ":3: tools[0]"), Origin("market.yaml", ":9: tools[1]")
        registry.add_all([(define("a"), shop)])

        with pytest.raises(DuplicateTool) as caught:
            registry.add_all([(define("b"), market), (define("a"), market)])
        with pytest.raises(DuplicateTool):
            registry.add_all([(define("b"), market), (define("b"), market)])

        assert str(caught.value) == (
            "market.yaml:9: tools[1]: there is a tool named 'a' already from shop.yaml:3: tools[0]"
        )
        assert names(registry.list_tools()) == ["a"]


class TestListing:
    async def test_tools_come_in_the_order_of_registration(
        self, registry: HostToolRegistry
    ) -> None:
        """R10: under both names of the method, always the same."""
        for name in ("c", "a", "b"):
            await registry.register(define(name))

        assert names(registry.list_tools()) == ["c", "a", "b"]
        assert registry.get_tools() == registry.list_tools()

    async def test_a_listing_is_a_snapshot(self, registry: HostToolRegistry) -> None:
        """R10: changing the list does not change the registry, nor the other way round."""
        await registry.register(define("a"))
        listed = registry.list_tools()
        await registry.register(define("b"))

        listed.clear()

        assert names(registry.list_tools()) == ["a", "b"]

    async def test_a_listing_can_be_of_one_category(self, registry: HostToolRegistry) -> None:
        """R47: tools without a category are in none."""
        await registry.register(define("a", category="data"))
        await registry.register(define("b", category="mail"))
        await registry.register(define("c"))

        assert names(registry.list_tools(category="data")) == ["a"]
        assert names(registry.get_tools(category="none")) == []
        assert [each.category for each in registry.list_tools()] == ["data", "mail", None]

    async def test_registries_are_independent(self, default_registry: HostToolRegistry) -> None:
        """R12: also of the default one."""
        one, two = HostToolRegistry(), HostToolRegistry()
        await one.register(define())
        await default_registry.register(define("shared"), origin=Origin("test"))

        assert names(one.list_tools()) == ["search"]
        assert two.list_tools() == []
        assert names(default_registry.list_tools()) == ["shared"]


class TestSessionTools:
    async def test_every_definition_becomes_a_fresh_tool(self, registry: HostToolRegistry) -> None:
        """R13: bound to the context, anew each time."""
        await registry.register(define("a"))
        await registry.register(define("b"))

        first = registry.create_session_tools("s", context_for("s"))
        second = registry.create_session_tools("s", context_for("s"))

        assert names(first) == names(second) == ["a", "b"]
        assert not {id(each) for each in first} & {id(each) for each in second}
        assert (await first[0].execute({"query": "nuts"})).value == "s: nuts"

    async def test_the_context_must_be_of_the_session(self, registry: HostToolRegistry) -> None:
        """R13: a tool bound to somebody else's context is a ValueError."""
        with pytest.raises(ValueError, match="to the session 'b', not to 'a'"):
            registry.create_session_tools("a", context_for("b"))

    async def test_tools_made_together_can_call_each_other(
        self, registry: HostToolRegistry
    ) -> None:
        """R48: through the same path, if they say so."""

        async def outer(input: dict[str, Any], context: ToolContext) -> Any:
            inner = await context.call_tool("search", {"query": "nuts"})
            refused = await context.call_tool("outer", {})
            return [inner.value, refused.failure and refused.failure.kind]

        await registry.register(define())
        await registry.register(
            define("outer", handler=outer, uses=("search",), parameters={"type": "object"})
        )
        tools = {each.name: each for each in registry.create_session_tools("s", context_for())}

        assert (await tools["outer"].execute({})).value == ["s: nuts", "not_permitted"]

    async def test_they_can_use_the_sessions_own_executor(self, registry: HostToolRegistry) -> None:
        """R17, R23: then their calls are in the session's ledger."""
        await registry.register(define())
        session = Session("s")
        executor = Executor(session, registry.list_tools())

        (found,) = registry.create_session_tools("s", context_for(), executor=executor)
        await found.execute({"query": "nuts"})

        assert [entry.text for entry in session.transcript()] == ["s: nuts"]

    async def test_input_is_checked_against_the_schema(self, registry: HostToolRegistry) -> None:
        """R45: every fault has its JSON pointer, nothing is coerced, and no handler runs."""
        called: list[Any] = []
        schema = {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"items": {"type": "string"}}},
            "required": ["a", "c"],
            "additionalProperties": False,
        }

        def handler(input: dict[str, Any], context: ToolContext) -> None:
            called.append(input)

        await registry.register(define(parameters=schema, handler=handler))
        (found,) = registry.create_session_tools("s", context_for())

        result = await found.execute({"a": "5", "b": ["x", 1], "d": None})

        assert (result.success, called) == (False, [])
        assert result.metadata == {"failure": "invalid_arguments"}
        lines = sorted(result.message.splitlines()[1:])
        assert [line.split(":")[0] for line in lines] == ["- /a", "- /b/1", "- /c", "- /d"]


class TestStyles:
    async def test_a_tool_of_any_style_can_be_registered(self, registry: HostToolRegistry) -> None:
        """R31: `@tool`, `Tool` and `BaseTool` become host tools that their own types check."""

        @tool(category="sums", version="1.2.0")
        async def add(a: int, b: int = 1) -> int:
            """Add two numbers."""
            return a + b

        class Twice(BaseTool):
            name = "twice"
            description = "Repeat a text."

            async def call(self, ctx: ToolContext, text: str) -> str:
                return text * 2

        await registry.register(add)
        await registry.register(Twice())
        tools = {each.name: each for each in registry.create_session_tools("s", context_for())}

        assert (await tools["add"].execute({"a": 2})).value == 3
        assert (await tools["twice"].execute({"text": "ab"})).value == "abab"
        wrong = await tools["add"].execute({"a": "2"})
        assert wrong.metadata == {"failure": "invalid_arguments"}
        listed = registry.get("add")
        assert listed is not None
        assert (listed.category, listed.version, listed.ref.id) == ("sums", "1.2.0", "host/add")
        assert listed.parameters["required"] == ["a"]

    def test_a_converted_tool_is_the_same_tool(self) -> None:
        """R50: a definition's reference is the one that calls are recorded with."""

        @tool
        def add(a: int) -> int:
            """Add one."""
            return a + 1

        converted = HostToolDefinition.of(add)
        for definition in (define(), converted):
            assert prepare(definition).ref == definition.ref
        assert converted == HostToolDefinition.of(add)

    def test_what_runs_elsewhere_is_no_host_tool(self) -> None:
        """R4: a tool without a handler here would fail on its first call."""
        with pytest.raises(InvalidTool, match="runs in the place 'client'"):
            HostToolDefinition.of(Tool[None, str](name="ask", description="Ask."))

    async def test_a_tool_of_the_provider_is_served_otherwise(
        self, registry: HostToolRegistry
    ) -> None:
        """Finding 3: who registers it is told how it is served."""
        with pytest.raises(InvalidTool, match=r"offer it with RuntimeConfig\(hosted_tools="):
            await registry.register(web_search_tool())


class TestVersions:
    def test_a_digest_is_of_what_a_tool_promises(self) -> None:
        """R50: name, description, schema, version, rules and the code of its handler."""
        first = define()

        def otherwise(input: dict[str, Any], context: ToolContext) -> None:
            """Do nothing."""

        assert first.digest == define().digest
        assert first.digest == define(deprecated="Use find.").digest
        others = [
            define(version="2.0.0").digest,
            define(timeout=3).digest,
            define(handler=otherwise).digest,
            define("other").digest,
            define(description="Other").digest,
            define(parameters={**SCHEMA, "required": []}).digest,
        ]
        assert len({first.digest, *others}) == 7

    def test_a_deprecation_reaches_the_model(self) -> None:
        """R50: the note is part of what the model reads."""
        shown = prepare(define(deprecated="Use find.")).declaration.description

        assert shown == "Search the shop\n\nDeprecated: Use find."


def make(context: ToolContext) -> Any:
    return echo


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"handler": None}, "has no handler; give it one, or a factory"),
        ({"handler": echo, "factory": make}, "has both handler and factory"),
        ({"factory": make, "scope": ToolScope.GLOBAL}, "scope=ToolScope.SESSION"),
        ({"factory": "echo"}, "factory must be callable"),
        ({"factory": echo}, "the factory must be a plain function"),
        ({"visible_when": "always"}, "visible_when must be callable"),
        ({"requires": ["fs"]}, "requires must be a tuple"),
    ],
)
def test_a_definition_that_cannot_work_is_refused(parts: dict[str, Any], fault: str) -> None:
    """R4, R14: when it is defined, with what to change."""
    whole: dict[str, Any] = {"scope": ToolScope.SESSION, **parts}

    with pytest.raises(InvalidTool, match=fault):
        define(**whole)
