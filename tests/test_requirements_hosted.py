"""Hosted tools as their document shows them: its programs, and the rules that hold everywhere.

The programs use this package's names. Where the real API differs from what the document says of
it, they follow the API: placeholders are bound before a prompt is sent, sources have to be asked
for, and a hosted tool has no name on the wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.response_samples import fixture
from tests.adapters.openai.scripted_provider import Json, call, message, response
from tests.helpers.hosted_tools import (
    OneSidedSearchCodec,
    PlainOutput,
    RecordingCodec,
    plain_tool,
)
from toolcrib import (
    EventBus,
    HostedTool,
    MarkdownSection,
    Prompt,
    PromptEvaluationError,
    PromptResponse,
    Session,
    ToolInvoked,
)
from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools import HostedToolConfig, HostedToolOutput
from toolcrib.tools.web_search import (
    DomainFilter,
    GeoHint,
    WebSearchConfig,
    WebSearchSection,
    web_search_tool,
)


@dataclass
class Answer:
    answer: str


class TestTheDocumentsPrograms:
    """Each example of the document on hosted tools, as a program that runs."""

    def test_basic_web_search(self) -> None:
        """H26, H40, H48: a typed answer, a search, and the list of what was cited."""
        prompt = Prompt[Answer](
            ns="research",
            key="lookup",
            sections=[
                MarkdownSection(
                    title="Task", key="task", template="Answer this question: $question"
                ),
                WebSearchSection(),
            ],
        ).bind(question="When did the bridge open?")
        text = '{"answer": "In 1932 (bridges.example)."}'
        start = text.index("(bridges")
        cited = {
            "type": "url_citation",
            "url": "https://bridges.example/history",
            "title": "A history of the bridge",
            "start_index": start,
            "end_index": text.index(")") + 1,
        }
        searched = fixture("web_search")[1]
        bus, session = EventBus(), Session()
        heard: list[str] = []
        bus.subscribe(ToolInvoked, lambda event: heard.append(event.name))

        with bench(response(searched, message(text, cited))) as (adapter, provider):
            result = adapter.evaluate(prompt, bus=bus, session=session)

        listed: list[str] = []
        web_result = result.hosted_outputs.get("web_search")
        if web_result:
            for citation in web_result.citations:
                listed.append(f"- [{citation.title}]({citation.url})")
        assert web_result is not None
        assert result.output == Answer("In 1932 (bridges.example).")
        assert listed == ["- [A history of the bridge](https://bridges.example/history)"]
        assert text[slice(*web_result.citations[0].span)] == "(bridges.example)"
        assert web_result.source_urls == (
            "https://bridges.example/history",
            "https://harbour.example/",
        )
        assert heard == ["web_search"]
        assert provider.bodies[0]["tools"] == [{"type": "web_search"}]
        assert provider.bodies[0]["include"] == ["web_search_call.action.sources"]
        assert provider.bodies[0]["text"]["format"]["name"] == "Answer"

    def test_domain_restricted_search(self) -> None:
        """H35, H48: only these domains, from the section's config to the request."""
        section = WebSearchSection(
            config=WebSearchConfig(
                domain_filter=DomainFilter(
                    allowed=("pubmed.ncbi.nlm.nih.gov", "www.cdc.gov", "www.who.int")
                )
            )
        )

        assert self.sent(section) == {
            "type": "web_search",
            "filters": {
                "allowed_domains": ["pubmed.ncbi.nlm.nih.gov", "www.cdc.gov", "www.who.int"]
            },
        }

    def test_geo_localized_search(self) -> None:
        """H36, H48: where the user is, from the section's config to the request."""
        section = WebSearchSection(
            config=WebSearchConfig(
                geo_hint=GeoHint(country_code="GB", city="London", timezone="Europe/London")
            )
        )

        assert self.sent(section) == {
            "type": "web_search",
            "user_location": {
                "type": "approximate",
                "country": "GB",
                "city": "London",
                "timezone": "Europe/London",
            },
        }

    def test_inline_tool_construction(self) -> None:
        """H23, H25, H40: a search without live access under a name of its own, P20: which is ours
        alone and the key of its output.
        """
        tool = web_search_tool(WebSearchConfig(allow_live_access=False), name="cached_search")
        section = MarkdownSection(
            title="Research",
            key="research",
            template="Find information about $topic",
            hosted_tools=(tool,),
        )
        prompt = Prompt[str](ns="research", key="inline", sections=[section]).bind(topic="tides")

        with bench(response(*fixture("web_search"))) as (adapter, provider):
            found = adapter.evaluate(prompt)

        assert provider.bodies[0]["tools"] == [{"type": "web_search", "external_web_access": False}]
        assert list(found.hosted_outputs) == ["cached_search"]

    def sent(self, section: WebSearchSection) -> Json:
        """The one tool that a request with this section offers."""
        prompt = Prompt[str](ns="research", key="lookup", sections=[section])
        with bench(response(message("Fine."))) as (adapter, provider):
            adapter.evaluate(prompt)
        (entry,) = provider.bodies[0]["tools"]
        return entry


# The recipe with the bases that the document writes out: naming the protocols changes nothing.


@dataclass(slots=True, frozen=True)
class NotebookConfig(HostedToolConfig):
    """Configuration for a notebook."""

    allowed_languages: tuple[str, ...] = ("python",)
    timeout_seconds: int = 30


@dataclass(slots=True, frozen=True)
class NotebookResult(HostedToolOutput):
    """Parsed result from a notebook."""

    code: str
    stdout: str
    stderr: str
    exit_code: int


NO_OPTIONS = NotebookConfig()


def notebook_tool(
    config: NotebookConfig = NO_OPTIONS, *, name: str = "notebook"
) -> HostedTool[NotebookConfig]:
    return HostedTool(
        kind="notebook",
        name=name,
        description="Execute code in a sandboxed environment.",
        config=config,
    )


class NotebookCodec(HostedToolCodec[NotebookConfig, NotebookResult]):
    @property
    def kind(self) -> str:
        return "notebook"

    def serialize(self, tool: HostedTool[NotebookConfig]) -> dict[str, Any]:
        config = tool.config
        return {
            "type": "notebook_2027",
            "languages": list(config.allowed_languages),
            "timeout": config.timeout_seconds,
        }

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[NotebookConfig]
    ) -> NotebookResult | None:
        for item in response_items:
            if item.get("type") == "notebook_call":
                return NotebookResult(item["code"], item["out"], item["err"], item["exit"])
        return None


def test_the_recipe_with_the_bases_written_out() -> None:
    """H5, H6, H29, H41: five steps, none of them in this package."""
    ran: Json = {
        "type": "notebook_call",
        "id": "nb_1",
        "status": "completed",
        "code": "print(6 * 7)",
        "out": "42\n",
        "err": "",
        "exit": 0,
    }
    codecs = {**default_codecs(), "notebook": NotebookCodec()}
    with bench(response(ran, message("42.")), hosted_tool_codecs=codecs) as (adapter, provider):
        found = adapter.evaluate(ask(hosted=[notebook_tool(NotebookConfig(timeout_seconds=5))]))

    assert provider.bodies[0]["tools"] == [
        {"type": "notebook_2027", "languages": ["python"], "timeout": 5}
    ]
    assert found.hosted_outputs == {"notebook": NotebookResult("print(6 * 7)", "42\n", "", 0)}


def test_domains_that_exclude_each_other_are_for_the_codec_to_refuse() -> None:
    """H17: the config takes both lists; a provider that cannot says so before any request."""
    domains = DomainFilter(allowed=("cdc.gov",), blocked=("example.com",))
    search = web_search_tool(WebSearchConfig(domain_filter=domains))
    codecs: Any = {"web_search": OneSidedSearchCodec()}
    with (
        bench(hosted_tool_codecs=codecs) as (strict, provider),
        pytest.raises(
            PromptEvaluationError, match=r"domain_filter .* exclude each other"
        ) as caught,
    ):
        strict.evaluate(ask(hosted=[search]))

    assert (caught.value.phase, provider.requests) == ("render", [])
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[search]))
    assert len(provider.bodies[0]["tools"][0]["filters"]) == 2


def test_a_response_has_no_hosted_outputs_unless_there_were_some() -> None:
    """H40: empty by default, and nobody can put anything in."""
    bare = PromptResponse[str](prompt_name="p", status="completed", output="x", text="x")
    outputs: Any = bare.hosted_outputs

    assert dict(outputs) == {}
    with pytest.raises(TypeError):
        outputs["web_search"] = 1


def test_every_hosted_tool_is_parsed_with_all_items() -> None:
    """H33: each of them, in the order of the prompt, over the items of all steps; H49: with a mock
    codec that remembers what it was shown.
    """
    codecs = {kind: RecordingCodec(kind) for kind in ("dreams", "tides")}
    first: Json = {"type": "tides_call", "id": "ti_1"}
    last: Json = {"type": "tides_call", "id": "ti_2"}
    steps = [response(first, call("nothing")), response(last, message("Fine."))]
    with bench(*steps, hosted_tool_codecs=codecs) as (adapter, _):
        found = adapter.evaluate(
            ask(hosted=[plain_tool(), plain_tool("tides", name="tides", level=3)])
        )

    assert found.hosted_outputs == {"tides": PlainOutput(2)}
    shown = [item["id"] for item in codecs["dreams"].seen[-1]]
    assert shown == ["ti_1", "fc_1", "ti_2", "msg_1"]
    assert codecs["tides"].seen[-1] == codecs["dreams"].seen[-1]


def test_an_output_that_cannot_be_read_as_a_whole_is_told() -> None:
    """H43: also when every call by itself could be read; the calls are recorded all the same."""

    class Picky(RecordingCodec):
        def parse_output(
            self, response_items: Sequence[Any], tool: HostedTool[Any]
        ) -> PlainOutput | None:
            if len(response_items) > 1:
                raise ValueError("too many at once")
            return super().parse_output(response_items, tool)

    session = Session()
    dreamt: Json = {"type": "dreams_call", "id": "dr_1"}
    codecs: Any = {"dreams": Picky()}
    with (
        bench(response(dreamt, message("Fine.")), hosted_tool_codecs=codecs) as (adapter, _),
        pytest.raises(PromptEvaluationError, match=r"codec of dreams .* too many at") as caught,
    ):
        adapter.evaluate(ask(hosted=[plain_tool()]), session=session)

    assert caught.value.phase == "parse"
    assert [event.call_id for event in happened(session, ToolInvoked)] == ["dr_1"]


def test_nothing_here_stands_in_for_a_hosted_tool() -> None:
    """H45: a model that calls the search like a function is told that it cannot be called so; no
    code runs, and nothing is dropped without a record.
    """
    session = Session()
    asked = call("web_search", {"query": "cribs"})
    with bench(response(asked), response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[web_search_tool()]), session=session)

    (said,) = provider.bodies[1]["input"]
    assert said["type"] == "function_call_output"
    assert "web_search" in said["output"]
    (event,) = happened(session, ToolInvoked)
    assert event.failure is not None
    assert (event.success, event.failure.kind) == (False, "not_found")


def test_a_kind_that_is_left_out_is_not_replaced_either() -> None:
    """H45: dropping is asked for and recorded; no other tool takes the place."""
    session = Session()
    with bench(response(message("Fine.")), on_unsupported="drop") as (adapter, provider):
        adapter.evaluate(ask(hosted=[plain_tool()]), session=session)

    assert "tools" not in provider.bodies[0]
    assert [event.tool.name for event in happened(session, ToolWithheld)] == ["dream"]
