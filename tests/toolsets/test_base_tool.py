"""BaseTool: a tool written as a class."""

from pathlib import Path
from typing import Any

import pytest

from tests.toolsets.samples import ReadFile, Shell, toolset_of
from toolcrib import Executor, Session, ToolContext
from toolcrib.errors import InvalidTool
from toolcrib.toolsets import BaseTool

CONTEXT = ToolContext(session_id="s", cwd="/tmp")


def test_a_tool_without_call_cannot_be_made() -> None:
    """T1: BaseTool is abstract; `call` is what a subclass must write."""

    class Nothing(BaseTool):
        name = "nothing"
        description = "Does nothing"

    with pytest.raises(TypeError, match="abstract"):
        Nothing()  # pyright: ignore[reportAbstractUsage]
    with pytest.raises(TypeError, match="abstract"):
        toolset_of(Nothing)


async def test_the_model_sees_the_class_attributes() -> None:
    """T2: name and description are what the model is told."""
    tools = await toolset_of(ReadFile).get_tools()

    assert list(tools) == ["read_file"]
    declared = tools["read_file"].tool_def
    assert (declared.name, declared.description) == ("read_file", "Read the text of a file")


@pytest.mark.parametrize("missing", ["name", "description"])
def test_a_tool_without_name_or_description_is_refused(missing: str) -> None:
    """T2: the message says which attribute to add, and to which class."""
    attributes = {"name": "a", "description": "b", "call": ReadFile.call}
    del attributes[missing]
    nameless = type("Nameless", (BaseTool,), attributes)

    with pytest.raises(InvalidTool) as caught:
        toolset_of(nameless)

    assert str(caught.value) == f"Nameless has no `{missing}`; add it as a class attribute"


class TestSignature:
    async def test_typed_parameters_are_the_schema(self) -> None:
        """T3: every parameter after the context is an argument; the context is none."""

        class Search(BaseTool):
            name = "search"
            description = "Search"

            async def call(self, ctx: ToolContext, query: str, limit: int = 10) -> list[str]:
                return [query] * limit

        toolset = toolset_of(Search)
        schema = (await toolset.get_tools())["search"].tool_def.parameters

        assert schema["properties"] == {
            "query": {"type": "string"},
            "limit": {"type": "integer", "default": 10},
        }
        assert schema["required"] == ["query"]
        assert await toolset.call_tool("search", {"query": "x", "limit": 2}) == ["x", "x"]

    async def test_the_first_parameter_is_the_context_by_any_name_and_type(self) -> None:
        """T3: what it is called and how it is typed does not make it an argument."""

        class Deps:
            pass

        class Named(BaseTool):
            name = "named"
            description = "Takes an oddly named context"

            async def call(self, run: Any, ctx: str) -> str:
                return f"{run.call_id} {ctx}"

        class Typed(BaseTool):
            name = "typed"
            description = "Takes an oddly typed context"

            async def call(self, ctx: Deps, text: str) -> str:
                return f"{getattr(ctx, 'call_id')} {text}"  # noqa: B009

        toolset = toolset_of(Named, Typed)
        tools = await toolset.get_tools()

        assert list(tools["named"].tool_def.parameters["properties"]) == ["ctx"]
        assert list(tools["typed"].tool_def.parameters["properties"]) == ["text"]
        assert await toolset.call_tool("named", {"ctx": "x"}, "c1") == "c1 x"
        assert await toolset.call_tool("typed", {"text": "x"}, "c2") == "c2 x"

    def test_a_context_that_is_not_first_is_refused(self) -> None:
        """T3: an argument in its place would be taken for the context."""

        class Late(BaseTool):
            name = "late"
            description = "Takes its context late"

            async def call(self, path: str, ctx: ToolContext) -> str:
                return path

        class Never(BaseTool):
            name = "never"
            description = "Takes no context"

            async def call(self, *, path: str) -> str:
                return path

        class Empty(BaseTool):
            name = "empty"
            description = "Takes nothing"

            async def call(self) -> str:
                return ""

        for tool in (Late, Never, Empty):
            with pytest.raises(InvalidTool) as caught:
                toolset_of(tool)
            assert str(caught.value) == (
                f"tool {tool.name!r}: the first parameter of `call` takes the context; "
                "write `async def call(self, ctx, ...)`"
            )

    def test_a_call_that_is_not_async_is_refused(self) -> None:
        """T3: `call` is async, so that it can be awaited everywhere."""

        class Blocking(BaseTool):
            name = "blocking"
            description = "Blocks"

            def call(self, ctx: ToolContext) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
                return ""

        with pytest.raises(InvalidTool) as caught:
            toolset_of(Blocking)

        assert str(caught.value) == ("tool 'blocking': `call` is not async; write `async def call`")


async def test_the_defaults_of_the_optional_methods() -> None:
    """T5, T7, T9: available, no instruction, no metadata."""
    tool = ReadFile()

    assert tool.is_available() is True
    assert tool.get_instruction(CONTEXT) is None
    assert tool.get_approval_metadata() is None


async def test_rules_set_on_the_class_are_the_tools() -> None:
    """A class carries the same rules as any other tool."""

    class Ruled(BaseTool):
        name = "ruled"
        description = "Has rules"
        timeout = 5.0
        requires_approval = True
        is_idempotent = True
        is_read_only = True
        one_at_a_time = True
        version = "1.2.3"
        category = "demo"
        max_result_chars = 100
        uses = ("read_file",)
        deprecated = "Use another."

        async def call(self, ctx: ToolContext) -> None: ...

    tool = Ruled().to_tool()

    assert (tool.timeout, tool.max_result_chars) == (5.0, 100)
    assert (tool.version, tool.category, tool.deprecated) == ("1.2.3", "demo", "Use another.")
    assert tool.uses == ("read_file",)
    assert all((tool.requires_approval, tool.is_idempotent, tool.is_read_only, tool.one_at_a_time))
    plain = ReadFile().to_tool()
    assert (plain.timeout, plain.max_result_chars, plain.version) == (None, None, "0.0.0")
    assert (plain.category, plain.deprecated, plain.uses) == (None, None, ())
    assert not any(
        (plain.requires_approval, plain.is_idempotent, plain.is_read_only, plain.one_at_a_time)
    )


async def test_a_class_can_be_used_without_a_toolset(tmp_path: Path) -> None:
    """`to_tool` gives what every executor takes, metadata for approvers included."""
    session = Session(cwd=str(tmp_path), need_user_approve_tools=["shell"])
    executor = Executor(session, [Shell().to_tool(), ReadFile().to_tool()])
    (tmp_path / "a").write_text("text", "utf-8")

    read = await executor.call("read_file", {"path": str(tmp_path / "a")})
    asked = await executor.call("shell", {"command": "ls"})

    assert read.value == "text"
    assert asked.approval is not None
    assert asked.approval.metadata == Shell().get_approval_metadata()
