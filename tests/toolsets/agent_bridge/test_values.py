"""What the model gets of a result, and what is recorded of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import Field, SecretStr
from pydantic_ai import (
    BinaryContent,
    DocumentUrl,
    ImageUrl,
    RunContext,
    ToolReturn,
    UploadedFile,
)
from pydantic_ai.messages import UserPromptPart

from tests.toolsets.agent_bridge.agents import call, endings, invocations, returns, run, told
from toolcrib import ToolContext, ToolResult
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, GlobalHooks, Toolset

PNG = BinaryContent(b"\x89PNG\xff\x00", media_type="image/png")
PNG_RECORD = {"kind": "binary", "media_type": "image/png", "bytes": 6}


def returning(value: Any, **attributes: Any) -> type[BaseTool]:
    """A tool that returns `value`."""

    class Give(BaseTool):
        name = "give"
        description = "Gives something"

        async def call(self, ctx: RunContext[Any]) -> Any:
            return value

    return type("Give", (Give,), attributes)


@dataclass
class Order:
    number: int
    items: list[str]


@dataclass
class Weather:
    degrees: int

    def render(self) -> str:
        return f"It is {self.degrees} degrees."


@pytest.mark.parametrize("value", ["text", 7, None, True, [1, 2], {"a": [1]}, Order(7, ["bolt"])])
async def test_plain_values_arrive_as_they_are(value: Any) -> None:
    """R22: the agent gets the typed value and renders it as JSON itself."""
    result = await run(Toolset(AgentContext(), [returning(value)]), [call("give")])

    assert told(result) == ("success", value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Weather(21), "It is 21 degrees."),
        (ToolResult(value={"long": "story"}, message="In short."), "In short."),
    ],
)
async def test_what_is_rendered_for_the_model_is_what_it_gets(value: Any, text: str) -> None:
    """R22: a text of the tool's own comes before its value, which the ledger keeps."""
    ctx = AgentContext()
    result = await run(Toolset(ctx, [returning(value)]), [call("give")])

    assert told(result) == ("success", text)
    assert invocations(ctx.session)[0].message == text


async def test_a_failed_tool_result_is_a_failure() -> None:
    """R19: the model reads why, and is not asked to try again."""
    failed = ToolResult[None](value=None, message="No such order.", success=False)
    ctx = AgentContext()
    result = await run(Toolset(ctx, [returning(failed)]), [call("give")])

    assert told(result) == ("failed", "No such order.")
    assert endings(ctx.session) == [("c1", "tool_error")]


async def test_a_value_that_is_not_json_is_a_failure() -> None:
    """R20: one rule for all transports; the model is told, the run goes on."""
    ctx = AgentContext()
    result = await run(Toolset(ctx, [returning(object())]), [call("give")])

    assert told(result)[0] == "failed"
    assert "cannot be turned into JSON" in told(result)[1]
    assert endings(ctx.session) == [("c1", "invalid_result")]


async def test_a_long_result_is_cut() -> None:
    """R22: the model gets the head and a note; the whole text is in the session."""
    ctx = AgentContext()
    toolset = Toolset(ctx, [returning("x" * 5000, max_result_chars=100)])
    result = await run(toolset, [call("give")])

    content = told(result)[1]
    assert content.startswith("x" * 100 + "\n[")
    assert "4900 of 5000 characters were cut" in content
    assert ctx.session.artifacts.read("artifact_c1").text == "x" * 5000


async def test_secrets_do_not_reach_the_model() -> None:
    """R46: a tool that repeats its secret argument is scrubbed, for the model and the ledger."""

    class Login(BaseTool):
        name = "login"
        description = "Log in"

        async def call(self, ctx: RunContext[Any], token: SecretStr) -> dict[str, str]:
            return {"used": token.get_secret_value()}

    ctx = AgentContext()
    result = await run(Toolset(ctx, [Login]), [call("login", token="tok-12345")])

    assert told(result) == ("success", '{"used":"[secret]"}')
    assert "tok-12345" not in "".join(str(record) for record in ctx.session.records())


class TestContent:
    @pytest.mark.parametrize(
        ("value", "record"),
        [
            (PNG, PNG_RECORD),
            ([PNG, "a picture"], [PNG_RECORD, "a picture"]),
            ({"front": [PNG]}, {"front": [PNG_RECORD]}),
            (
                ImageUrl("https://example.com/a.png"),
                {"kind": "image-url", "url": "https://example.com/a.png"},
            ),
            (
                (DocumentUrl("https://example.com/a.pdf"),),
                [{"kind": "document-url", "url": "https://example.com/a.pdf"}],
            ),
            (
                UploadedFile("file-1", "openai"),
                {"kind": "uploaded-file", "file_id": "file-1", "provider": "openai"},
            ),
        ],
    )
    async def test_content_passes_through(self, value: Any, record: Any) -> None:
        """R21: the model gets the image itself; the ledger says what it was, without its bytes."""
        ctx = AgentContext()
        result = await run(Toolset(ctx, [returning(value)]), [call("give")])

        assert told(result) == ("success", value)
        (invoked,) = invocations(ctx.session)
        assert invoked.value == {"content": record}
        assert invoked.success

    async def test_a_tool_return_passes_through(self) -> None:
        """R21: return value, further content and the application's metadata each go their way."""
        marker = object()
        value = ToolReturn("two pictures", content=["Look:", PNG], metadata={"raw": marker})
        ctx = AgentContext()
        result = await run(Toolset(ctx, [returning(value)]), [call("give")])

        part = returns(result)["c1"]
        assert (part.content, part.metadata) == ("two pictures", {"raw": marker})
        prompts = [
            part.content
            for message in result.all_messages()
            for part in message.parts
            if isinstance(part, UserPromptPart)
        ]
        assert prompts[1:] == [["Look:", PNG]]
        (invoked,) = invocations(ctx.session)
        assert invoked.value == {"return_value": "two pictures", "content": ["Look:", PNG_RECORD]}
        assert invoked.message == "two pictures"

    async def test_hooks_see_and_replace_it(self) -> None:
        """T18: post hooks get the very object that the tool returned, and may return another."""
        value = ToolReturn("one", metadata=1)
        seen: list[Any] = []

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            seen.append(result)
            return result

        async def global_post(ctx: RunContext[Any], name: str, result: Any) -> Any:
            seen.append(result)
            return ToolReturn(PNG, metadata=2)

        toolset = Toolset(
            AgentContext(),
            [returning(value)],
            post_hooks={"give": post},
            global_hooks=GlobalHooks(post=global_post),
        )
        result = await run(toolset, [call("give")])

        assert [each is value for each in seen] == [True, True]
        part = returns(result)["c1"]
        assert (part.content, part.metadata) == (PNG, 2)

    async def test_a_tool_return_is_cut_too(self) -> None:
        """R22: its text is bound by the same limit; the rest of it passes."""
        value = ToolReturn("x" * 500, metadata="kept")
        toolset = Toolset(AgentContext(), [returning(value, max_result_chars=100)])
        part = returns(await run(toolset, [call("give")]))["c1"]

        assert str(part.content).startswith("x" * 100 + "\n[400 of 500")
        assert part.metadata == "kept"

    async def test_a_tool_that_calls_a_tool_gets_the_content(self) -> None:
        """R48: the outcome of a nested call has the value as the other tool returned it."""
        seen: list[Any] = []

        class Outer(BaseTool):
            name = "outer"
            description = "Calls another"
            uses = ("give",)

            async def call(self, ctx: ToolContext) -> str:
                seen.append((await ctx.call_tool("give", {})).value)
                return "looked"

        result = await run(Toolset(AgentContext(), [Outer, returning(PNG)]), [call("outer")])

        assert told(result) == ("success", "looked")
        assert seen == [PNG]

    async def test_content_in_a_tool_result(self) -> None:
        """R21: a `ToolResult` around an image says in its message what the model reads."""
        value = ToolResult(value=PNG, message="a picture")
        ctx = AgentContext()
        result = await run(Toolset(ctx, [returning(value)]), [call("give")])

        assert told(result) == ("success", "a picture")
        assert invocations(ctx.session)[0].value == {"content": PNG_RECORD}


async def test_annotated_arguments_keep_their_types() -> None:
    """T3: the tool gets typed values, although the agent passed them on as JSON."""
    seen: list[Any] = []

    class Book(BaseTool):
        name = "book"
        description = "Book a table"

        async def call(
            self,
            ctx: RunContext[Any],
            day: date,
            order: Order,
            guests: Annotated[int, Field(alias="n", ge=1)],
        ) -> None:
            seen.extend([day, order, guests])

    args: dict[str, Any] = {"day": "2031-02-03", "order": {"number": 1, "items": []}, "n": 2}
    await run(Toolset(AgentContext(), [Book]), [call("book", **args)])

    assert seen == [date(2031, 2, 3), Order(1, []), 2]
