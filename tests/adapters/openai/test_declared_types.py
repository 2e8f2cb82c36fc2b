"""Calls come in the types that their tool was declared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.adapters.openai.bench import ask, bench
from tests.adapters.openai.provider import Json, message, response
from toolcrib import NativeTool, ProviderTool, Session, ToolContext, ToolInvoked
from toolcrib.testing import Recorder
from toolcrib.tools.web_search import WebSearchAction, WebSearchConfig, WebSearchResult

SEARCHED: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "cribs", "sources": [{"url": "https://e.org"}]},
}


@dataclass(frozen=True)
class Query:
    queries: tuple[str, ...]


@dataclass(frozen=True)
class Found:
    source_urls: tuple[str, ...]
    raw: dict[str, Any] = field(default_factory=dict[str, Any])

    def render(self) -> str:
        return ", ".join(self.source_urls)


@dataclass(frozen=True)
class Impossible:
    height: float


def invoked(tool: Any) -> ToolInvoked:
    """The event of one search with this tool."""
    session = Session()
    recorder = Recorder(session.bus)
    with bench(response(SEARCHED, message("Fine."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[tool]), session=session)
    (event,) = recorder.of(ToolInvoked)
    return event


def test_a_native_tools_types_are_filled_by_their_names() -> None:
    """N2, N16, X4, X12: params and result are the tool's own; `raw` holds the payload."""
    search = NativeTool[Query, Found](name="web_search", description="Search.")

    event = invoked(search)

    assert event.params == Query(("cribs",))
    assert event.value == Found(("https://e.org",), SEARCHED)


def test_types_that_cannot_be_filled_leave_the_codecs_own() -> None:
    """X4: what the provider tells is not lost because a type asks for something else."""
    search = NativeTool[Impossible, Impossible](name="web_search", description="Search.")

    event = invoked(search)

    assert isinstance(event.params, WebSearchAction)
    assert isinstance(event.value, WebSearchResult)


def test_a_hook_gets_the_tools_own_type() -> None:
    """C4: provider output is mapped into the declared result before the hook sees it."""
    seen: list[Any] = []

    def hook(result: Found, context: ToolContext) -> None:
        seen.append(result)

    search = ProviderTool[None, Found, WebSearchConfig](
        name="search",
        description="Search.",
        provider="openai",
        config=WebSearchConfig(),
        handle_provider_output=hook,
    )

    invoked(search)

    assert seen == [Found(("https://e.org",), SEARCHED)]
