"""Tool search: its two forms and what it finds."""

from dataclasses import dataclass

from tests.calls.runs import run
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.tool_search import (
    FoundTool,
    HandlerToolSearchConfig,
    ToolQuery,
    ToolSearchConfig,
    ToolSearchResult,
    handler_tool_search_tool,
    tool_search_tool,
)


@dataclass(frozen=True, slots=True)
class Topic:
    topic: str


def find(params: ToolQuery) -> ToolSearchResult:
    return ToolSearchResult(tuple(FoundTool(query) for query in params.queries))


def test_the_provider_searches_without_a_handler() -> None:
    """H41: kind, name, description and a configuration that only marks it."""
    tool = tool_search_tool()

    assert isinstance(tool, HostedTool)
    assert (tool.kind, tool.name, tool.config) == ("tool_search", "tool_search", ToolSearchConfig())


async def test_a_search_of_ours_runs_through_the_executor() -> None:
    """P3: the provider defines it, this process runs it."""
    tool = handler_tool_search_tool(find)

    done = await run(tool, {"queries": ["weather", "maps"]})

    assert (tool.provider, tool.place, tool.config) == (
        "openai",
        "local",
        HandlerToolSearchConfig(),
    )
    assert done.outcome.value == ToolSearchResult((FoundTool("weather"), FoundTool("maps")))
    assert done.outcome.text == "weather\nmaps"


def test_what_the_model_may_ask_is_for_the_handler_to_say() -> None:
    """Facts 1.9: description and parameters are the client's."""

    def by_topic(params: Topic) -> ToolSearchResult:
        return ToolSearchResult((FoundTool(params.topic),))

    tool = handler_tool_search_tool(by_topic, Topic, description="By topic.")
    declaration = prepare(tool).declaration

    assert declaration.description == "By topic."
    assert list(declaration.parameters["properties"]) == ["topic"]
