"""Which tools are offered on which provider: what cannot be is told, and nothing is lost unseen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, SPEECHES, Speech
from tests.adapters.pydantic_ai.scripted_adapter import add, ask, bench, happened, wire_bench
from tests.adapters.pydantic_ai.test_events import searched
from tests.adapters.pydantic_ai.wire.traffic import Json
from tests.helpers.hosted_tools import PlainConfig, RecordingCodec, plain_tool
from toolcrib import (
    HostedTool,
    MarkdownSection,
    NativeTool,
    Policy,
    Prompt,
    PromptEvaluationError,
    ProviderTool,
    Rule,
    Session,
    ToolInvoked,
)
from toolcrib.adapters.pydantic_ai import Governance, default_codecs
from toolcrib.errors import UsageError
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools.code_interpreter import CodeInterpreterConfig, code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_fetch import web_fetch_tool
from toolcrib.tools.web_search import DomainFilter, GeoHint, WebSearchConfig, web_search_tool

FILES = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)))
ONLY_OURS = WebSearchConfig(domain_filter=DomainFilter(allowed=("example.org",)))
TWO_LISTS = WebSearchConfig(domain_filter=DomainFilter(("a.org",), ("b.org",)))


def tools_sent(body: Json) -> list[Json]:
    return body.get("tools", [])


def refused(
    speech: Speech, *tools: Any, governance: Governance | None = None, **options: Any
) -> PromptEvaluationError:
    """The error that a prompt with these tools ends with, before any request."""
    with (
        wire_bench(speech, **options) as (adapter, server),
        pytest.raises(PromptEvaluationError) as caught,
    ):
        adapter.evaluate(ask(hosted=tools), governance=governance)
    assert server.requests == []
    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    return caught.value


def offered(
    speech: Speech, *tools: Any, session: Session | None = None, **options: Any
) -> list[Json]:
    """The tools of the request that a prompt makes."""
    on_unsupported = options.pop("on_unsupported", "raise")
    with wire_bench(speech, speech.says("Fine."), on_unsupported=on_unsupported) as bench:
        adapter, server = bench
        adapter.evaluate(ask(hosted=tools), session=session or Session(), **options)
    return tools_sent(server.bodies[0])


def reasons(session: Session) -> list[tuple[str, str]]:
    return [(event.tool.name, event.reason) for event in happened(session, ToolWithheld)]


@pytest.mark.parametrize("provider", SPEECHES)
def test_an_unknown_kind_is_refused_before_any_request(provider: str) -> None:
    """H42: the error names the kind, the provider and the prompt, in phase render."""
    told = refused(SPEECHES[provider], plain_tool())

    assert f"Unsupported hosted tool kind 'dreams' for the {provider} adapter" in str(told)
    assert "web_search" in str(told)


@pytest.mark.parametrize(
    ("provider", "tool", "words"),
    [
        ("anthropic", FILES, ["file_search", "anthropic"]),
        ("anthropic", web_search_tool(TWO_LISTS), ["domain_filter", "either allowed or blocked"]),
        ("google", web_search_tool(ONLY_OURS), ["domain_filter.allowed", "google"]),
        ("openai-responses", web_fetch_tool(), ["web_fetch", "openai-responses"]),
        ("groq", code_interpreter_tool(), ["groq"]),
        ("openai-chat", code_interpreter_tool(), ["code_interpreter", "openai-chat"]),
    ],
    ids=["kind", "two_lists", "option", "fetch", "model", "chat"],
)
def test_what_a_provider_cannot_do_is_refused_before_any_request(
    provider: str, tool: Any, words: list[str]
) -> None:
    """H17, H42, N14: a kind, an option, or two options together, with the reason and what to do;
    nothing is sent cut, or not at all.
    """
    told = str(refused(SPEECHES[provider], tool))

    assert [word for word in words if word not in told] == []


def test_a_model_that_lacks_what_its_provider_has_is_told_too() -> None:
    """N14: which model of a provider's has a tool is the library's to know: it says so, early."""
    told = refused(SPEECHES["groq"], web_search_tool())

    assert "the model does not take this request" in str(told)


def test_what_a_provider_cannot_do_may_be_left_out_on_request() -> None:
    """X8, N14: with `on_unsupported="drop"` the prompt goes on without it, and that is recorded."""
    session = Session()
    tools = (FILES, plain_tool(), web_search_tool())

    (entry,) = offered(ANTHROPIC, *tools, session=session, on_unsupported="drop")

    assert entry["name"] == "web_search"
    assert [name for name, _ in reasons(session)] == ["file_search", "dream"]
    assert "file_search" in reasons(session)[0][1]


def test_hosted_tools_come_in_the_request_as_their_codecs_write_them() -> None:
    """H1, H3, H32, N18: one neutral tool, in each provider's own words."""
    hint = GeoHint(country_code="CH", city="Bern")
    search = web_search_tool(WebSearchConfig(geo_hint=hint, domain_filter=ONLY_OURS.domain_filter))

    (ours,) = offered(ANTHROPIC, search)
    (theirs,) = offered(SPEECHES["openai-responses"], search)
    (plain,) = offered(GOOGLE, web_search_tool())

    assert ours["name"] == "web_search"
    assert ours["allowed_domains"] == ["example.org"]
    assert ours["user_location"] == {"type": "approximate", "city": "Bern", "country": "CH"}
    assert theirs["type"] == "web_search"
    assert theirs["filters"] == {"allowed_domains": ["example.org"]}
    assert (theirs["user_location"]["country"], theirs["user_location"]["city"]) == ("CH", "Bern")
    assert "googleSearch" in plain


def test_options_are_checked_when_they_are_written_and_stay_as_they_are() -> None:
    """H2: what no provider could do is told at once, and nothing changes on the way to one."""
    with pytest.raises(UsageError, match="country_code"):
        GeoHint(country_code="Switzerland")
    with pytest.raises(FrozenInstanceError):
        setattr(ONLY_OURS, "allow_live_access", False)  # noqa: B010


def test_a_kind_that_was_not_used_has_no_output() -> None:
    """H30, H33, H43: every rendered tool is asked about, and silence is None."""
    text = {"type": "text", "text": "Fine."}
    with wire_bench(ANTHROPIC, ANTHROPIC.answer(*searched(1), text)) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[web_search_tool(), code_interpreter_tool()]))

    assert set(found.hosted_outputs) == {"web_search"}


def test_a_disabled_section_offers_nothing() -> None:
    """H4: hosted tools obey the visibility of their sections, whoever evaluates them."""
    hidden = MarkdownSection[Any](
        title="Search",
        key="search",
        template="Search.",
        tools=[web_search_tool()],
        enabled=lambda _: False,
    )
    task = MarkdownSection[Any](title="Task", key="task", template="Go.")
    prompt = Prompt[Any](ns="test", key="ask", sections=[task, hidden])
    with wire_bench(ANTHROPIC, ANTHROPIC.says("Fine.")) as (adapter, server):
        adapter.evaluate(prompt)

    assert tools_sent(server.bodies[0]) == []


def test_codecs_can_be_replaced_on_one_adapter() -> None:
    """H29, H31: a codec of one's own, of the least kind, for a kind of one's own; the adapter
    beside it knows nothing of it.
    """

    class Advice(RecordingCodec):
        def serialize(self, tool: HostedTool[PlainConfig]) -> dict[str, Any]:
            return {"type": "advisor", "model": "claude-sonnet-5"}

    codec = Advice("advice")
    codecs: Mapping[str, Any] = {**default_codecs("anthropic"), "advice": codec}
    advice = plain_tool("advice", name="advice")
    with bench("Fine.", provider="anthropic", hosted_tool_codecs=codecs) as (adapter, script):
        found = adapter.evaluate(ask(hosted=[advice]))

    (native,) = script.infos[0].model_request_parameters.native_tools
    assert native.kind == "advisor"
    assert dict(found.hosted_outputs) == {}
    assert [item["type"] for item in codec.seen[-1]] == ["response", "text"]
    assert "Unsupported hosted tool kind 'advice'" in str(refused(ANTHROPIC, advice))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        ({"type": "dreams"}, "cannot declare 'dreams' .* it knows: .*web_search"),
        ({"type": "web_search", "alowed_domains": ["a.org"]}, "alowed_domains"),
    ],
    ids=["kind", "field"],
)
def test_what_a_codec_writes_is_declared_whole_or_not_at_all(entry: Json, text: str) -> None:
    """H32: a field that the library does not have is told, not left out: it may be a limit."""

    class Odd(RecordingCodec):
        def serialize(self, tool: HostedTool[PlainConfig]) -> dict[str, Any]:
            return entry

    codecs = {"dreams": Odd()}
    with (
        bench(provider="anthropic", hosted_tool_codecs=codecs) as (adapter, script),
        pytest.raises(PromptEvaluationError, match=text) as caught,
    ):
        adapter.evaluate(ask(hosted=[plain_tool()]))

    assert (caught.value.phase, script.asked) == ("render", [])


def test_a_codec_that_fails_is_told_as_what_it_is() -> None:
    """H43: a hard failure while reading has phase parse and names the codec."""

    class Broken(RecordingCodec):
        def serialize(self, tool: HostedTool[PlainConfig]) -> dict[str, Any]:
            return {"type": "web_search"}

        def parse_output(self, response_items: Any, tool: Any) -> None:
            raise LookupError("no sheep")

    codecs = {"dreams": Broken()}
    with (
        bench("Fine.", provider="anthropic", hosted_tool_codecs=codecs) as (adapter, _),
        pytest.raises(PromptEvaluationError, match=r"codec of dreams .* no sheep") as caught,
    ):
        adapter.evaluate(ask(hosted=[plain_tool()]))

    assert caught.value.phase == "parse"


def test_two_tools_of_one_type_are_refused() -> None:
    """E1, P20: a call does not say which of two entries it belongs to; servers are told apart."""
    told = refused(ANTHROPIC, web_search_tool(), web_search_tool(name="other_search"))
    free: Any = {"require_approval": "never"}
    one = McpConfig(server_label="one", server_url="https://one.example.org", **free)
    two = McpConfig(server_label="two", server_url="https://two.example.org", **free)

    assert "'other_search' and 'web_search' are both web_search" in str(told)
    entries = offered(SPEECHES["openai-responses"], mcp_tool(one), mcp_tool(two))
    assert [entry["server_label"] for entry in entries] == ["one", "two"]
    twin = mcp_tool(McpConfig(server_label="one", server_url="https://x.org", **free), name="x")
    assert "are both mcp_server one" in str(refused(ANTHROPIC, mcp_tool(one), twin))


def test_a_tool_of_another_provider_is_refused() -> None:
    """C9, C35: a provider's tool is offered only where that provider is spoken to."""
    other = ProviderTool[None, Any, CodeInterpreterConfig](
        name="python", description="Run.", provider="openai", config=CodeInterpreterConfig()
    )

    assert "is for 'openai', and this adapter is for 'anthropic'" in str(refused(ANTHROPIC, other))


def test_a_native_tool_takes_the_defaults_of_its_name() -> None:
    """N4, N6, N18, N19: a native tool needs no options and no handler; its name says what it is."""
    search = NativeTool[None, PlainConfig](
        name="web_search", description="Search the web.", result_type=PlainConfig
    )
    session = Session()
    text = {"type": "text", "text": "Fine."}
    with wire_bench(ANTHROPIC, ANTHROPIC.answer(*searched(1), text)) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[search]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert [name for name, _ in found.invocations] == ["web_search"]
    assert (event.name, event.capability, event.origin) == ("web_search", "web_search", "provider")


def test_types_that_no_call_could_fill_are_refused() -> None:
    """N15: a result that asks for what no search tells is told before anything is sent."""

    @dataclass(frozen=True)
    class Weather:
        degrees: int

    search = NativeTool[None, Weather](
        name="web_search", description="Search the web.", result_type=Weather
    )

    assert "asks for 'degrees'" in str(refused(ANTHROPIC, search))


def test_a_forbidden_kind_is_not_offered_and_that_is_recorded() -> None:
    """N28: policy decides before anything is sent, under every name, on every provider."""
    session = Session()
    policy = Policy((Rule("deny", tool="web_search", reason="No web here."), Rule("allow")))

    (entry,) = offered(
        ANTHROPIC,
        web_search_tool(name="sky"),
        code_interpreter_tool(),
        session=session,
        governance=Governance(policy=policy),
    )

    ((name, reason),) = reasons(session)
    assert entry["name"] == "code_execution"
    assert name == "sky"
    assert "No web here." in reason


def test_a_session_that_asks_about_a_tool_does_not_offer_it() -> None:
    """T: a tool in `need_user_approve_tools` never runs without a yes, wherever it runs."""
    session = Session(need_user_approve_tools=["web_search"])

    assert offered(GOOGLE, web_search_tool(), session=session) == []
    assert [name for name, _ in reasons(session)] == ["web_search"]


def test_local_and_hosted_tools_stand_side_by_side() -> None:
    """N18: ours and the provider's join one list, on every provider that takes both."""
    for provider in ("anthropic", "google", "openai-responses"):
        speech = SPEECHES[provider]
        with wire_bench(speech, speech.says("Fine.")) as (adapter, server):
            adapter.evaluate(ask(add, hosted=[web_search_tool(), code_interpreter_tool()]))

        (body,) = server.bodies
        assert "add" in str(body["tools"])
        assert "earch" in str(body["tools"])
        assert "xecution" in str(body["tools"]) or "code_interpreter" in str(body["tools"])
