"""Calls come in the types that their tool was declared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench
from tests.adapters.openai.scripted_provider import Json, message, response
from tests.helpers.hosted_tools import RecordingCodec
from toolcrib import (
    NativeTool,
    PromptEvaluationError,
    ProviderTool,
    Session,
    ToolContext,
    ToolInvoked,
)
from toolcrib.testing import Recorder
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.web_search import WebSearchConfig, WebSearchResult

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


def test_a_result_that_renders_itself_is_the_message() -> None:
    """N16: what a reader sees of the call is what the tool's own type says."""
    search = NativeTool[Query, Found](name="web_search", description="Search.")

    assert invoked(search).message == "https://e.org"


def test_a_result_that_cannot_be_rendered_leaves_the_codecs_words() -> None:
    """N16: a fault in somebody's `render()` loses no call."""

    @dataclass(frozen=True)
    class Broken:
        source_urls: tuple[str, ...]

        def render(self) -> str:
            raise LookupError("no words")

    event = invoked(NativeTool[None, Broken](name="web_search", description="Search."))

    assert event.value == Broken(("https://e.org",))
    assert event.message == "search: cribs\nhttps://e.org"


@pytest.mark.parametrize(
    ("tool", "text"),
    [
        (
            NativeTool[Impossible, Found](name="web_search", description="Search."),
            r"tool 'web_search': the params_type asks for 'height', which a call of web_search "
            r"does not tell; .* action, pattern, payload, queries, query, raw, url$",
        ),
        (
            NativeTool[None, Impossible](name="web_search", description="Search."),
            r"the result_type asks for 'height', .* citations, error, payload, raw, source_urls, "
            r"status, text$",
        ),
        (
            ProviderTool[None, Impossible, CodeInterpreterConfig](
                name="python",
                description="Run.",
                provider="openai",
                config=CodeInterpreterConfig(),
            ),
            r"tool 'python': the result_type asks for 'height', .* code_interpreter",
        ),
    ],
    ids=["params", "result", "provider_tool"],
)
def test_types_that_no_call_could_fill_are_refused_before_any_request(tool: Any, text: str) -> None:
    """N15: the provider's shapes are fixed, so a mismatch is known before anything is sent."""
    with (
        bench() as (adapter, provider),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(ask(hosted=[tool]))

    assert (caught.value.phase, provider.requests) == ("render", [])


def test_what_has_a_default_need_not_be_told() -> None:
    """N15: only fields that must be filled can make a type unfit."""

    @dataclass(frozen=True)
    class Tall:
        source_urls: tuple[str, ...]
        height: float = 1.5
        width: float = field(default=0, init=False)

    event = invoked(NativeTool[None, Tall](name="web_search", description="Search."))

    assert event.value == Tall(("https://e.org",))


def test_a_type_that_refuses_what_was_told_leaves_the_codecs_own() -> None:
    """X4: what the provider tells is not lost because a type will not have it."""

    @dataclass(frozen=True)
    class Picky:
        source_urls: tuple[str, ...]

        def __post_init__(self) -> None:
            raise ValueError("never good enough")

    search = NativeTool[Query, Picky](name="web_search", description="Search.")

    assert isinstance(invoked(search).value, WebSearchResult)


def test_a_kind_without_a_fixed_shape_takes_any_type() -> None:
    """H3: a codec of the least kind says nothing of its calls, so nothing can be refused."""
    dreams = NativeTool[Impossible, Impossible](name="dreams", description="Dream.")
    item: Json = {"type": "dreams_call", "id": "dr_1", "status": "completed"}
    session = Session()
    codecs: Any = {"dreams": RecordingCodec("dreams")}
    with bench(response(item, message("Fine.")), hosted_tool_codecs=codecs) as (adapter, _):
        adapter.evaluate(ask(hosted=[dreams]), session=session)

    assert [entry.tool for entry in session.transcript()] == ["dreams"]


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
