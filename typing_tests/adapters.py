"""Adapters give responses of the prompt's type, and take no option that they do not have."""

from dataclasses import dataclass
from typing import assert_type

from pydantic_ai.models.test import TestModel

from toolcrib import Event, MarkdownSection, NativeTool, Prompt, PromptResponse, Session
from toolcrib.adapters import PromptStream, pydantic_ai
from toolcrib.adapters.pydantic_ai import (
    Budget,
    Governance,
    PydanticAIAdapter,
    Retry,
    default_codecs,
)
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.citations import AnyCitation
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.image_generation import ImageGenerationResult, image_generation_tool
from toolcrib.tools.web_search import WebSearchResult, web_search_tool


@dataclass
class Answer:
    text: str


task = MarkdownSection(title="Task", key="task", template="Go.")
prompt = Prompt[Answer](ns="demo", key="go", sections=[task])
session = Session()

# What is lazy is typed all the same.
pydantic_ai.PydanticAiAdapter  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]

# A name or a model, with options that are checked.
by_name = PydanticAIAdapter("anthropic:claude-sonnet-5", retry=Retry(attempts=2))
given = PydanticAIAdapter(TestModel(), provider="google", on_unsupported="drop")
PydanticAIAdapter(5)  # pyright: ignore[reportArgumentType]
PydanticAIAdapter("test", on_unsupported="dorp")  # pyright: ignore[reportArgumentType]
PydanticAIAdapter("test", hosted_tool_codecs=default_codecs("anthropic"))

# The response knows the type of the answer.
assert_type(by_name.evaluate(prompt), PromptResponse[Answer])
assert_type(by_name.evaluate(prompt).output, Answer | None)
assert_type(given.resume(prompt, session=session), PromptResponse[Answer])
given.resume(prompt)  # pyright: ignore[reportCallIssue]


async def wait() -> None:
    budget = Budget(seconds=10)
    found = await given.evaluate_async(prompt, budget=budget, governance=Governance())
    assert_type(found, PromptResponse[Answer])
    async for item in given.stream(prompt, session=session, budget=budget):
        assert_type(item, Event | PromptResponse[Answer])
        if isinstance(item, PromptResponse):
            assert_type(item, PromptResponse[Answer])
    async with given.stream_resume(prompt, session=session) as events:
        assert_type(events, PromptStream[Answer])
    assert_type(events.response, PromptResponse[Answer])
    assert_type(await given.stream(prompt), PromptResponse[Answer])
    given.stream(prompt, budgets=budget)  # pyright: ignore[reportCallIssue]
    await given.evaluate_async(prompt, budgets=budget)  # pyright: ignore[reportCallIssue]
    await given.evaluate_async(prompt, stream="yes")  # pyright: ignore[reportArgumentType]


# A provider-run tool's output has the tool's own type.
@dataclass
class Query:
    text: str


@dataclass
class Sources:
    payload: dict[str, object]


native = NativeTool[Query, Sources](name="web_search", description="Search.", params_type=Query)
python = OpenAICodeInterpreterTool()
response = by_name.evaluate(prompt)
assert_type(response.output_of(web_search_tool()), WebSearchResult | None)
assert_type(response.outputs_of(web_search_tool()), tuple[WebSearchResult, ...])
assert_type(response.output_of(image_generation_tool()), ImageGenerationResult | None)
assert_type(response.output_of(native), Sources | None)
assert_type(response.output_of(python), CodeInterpreterResult | None)
assert_type(response.outputs_of(python), tuple[CodeInterpreterResult, ...])
assert_type(response.citations, tuple[AnyCitation, ...])
response.output_of("web_search")  # pyright: ignore[reportArgumentType]
