"""Which provider-run tools are offered: what cannot be is told, and nothing is dropped unseen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import (
    HostedTool,
    NativeTool,
    Policy,
    PromptEvaluationError,
    ProviderTool,
    Rule,
    Session,
    ToolInvoked,
)
from toolcrib.adapters.openai import Governance
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.approval.pattern import Glob
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools.code_interpreter import (
    CodeInterpreterConfig,
    CodeInterpreterResult,
    code_interpreter_tool,
)
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import DomainFilter, WebSearchConfig, web_search_tool

ANSWER = response(message("Fine."))
SEARCHED: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


@dataclass(frozen=True, slots=True)
class Nothing:
    """Options of a kind that nobody has."""


DREAMS = HostedTool[Nothing](
    kind="dreams", name="dream", description="Dream of sheep.", config=Nothing()
)


def refused(*tools: Any, governance: Governance | None = None) -> PromptEvaluationError:
    """The error that a prompt with these tools ends with, before any request."""
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(hosted=tools), governance=governance)
    assert provider.requests == []
    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    return caught.value


def offered(*tools: Any, session: Session | None = None, **options: Any) -> list[str]:
    """The types of tools that a request offers."""
    session = session or Session()
    on_unsupported = options.pop("on_unsupported", "raise")
    with bench(ANSWER, on_unsupported=on_unsupported) as (adapter, provider):
        adapter.evaluate(ask(hosted=tools), session=session, **options)
    return [entry["type"] for entry in provider.bodies[0].get("tools", ())]


def reasons(session: Session) -> list[tuple[str, str]]:
    return [(event.tool.name, event.reason) for event in happened(session, ToolWithheld)]


def test_an_unknown_kind_is_refused_before_any_request() -> None:
    """H42: the error names the kind, the adapter and the prompt, in phase render."""
    told = refused(DREAMS)

    assert "Unsupported hosted tool kind 'dreams' for the openai adapter" in str(told)
    assert "web_search" in str(told)


def test_an_unknown_kind_may_be_left_out_on_request() -> None:
    """X8, N14: with `on_unsupported="drop"` the prompt goes on without it, and that is recorded."""
    session = Session()

    types = offered(DREAMS, web_search_tool(), session=session, on_unsupported="drop")

    assert types == ["web_search"]
    ((name, reason),) = reasons(session)
    assert name == "dream"
    assert "Unsupported hosted tool kind 'dreams'" in reason


def test_a_tool_of_another_provider_is_refused() -> None:
    """C9, C35: a provider's tool is offered only by that provider's adapter."""
    other = ProviderTool[None, Any, Nothing](
        name="bash", description="Run a shell.", provider="anthropic", config=Nothing()
    )

    told = refused(other)

    assert "tool 'bash' is for 'anthropic', and this adapter is for 'openai'" in str(told)


def test_a_tool_of_another_provider_is_refused_also_when_we_run_it() -> None:
    """C9: the provider owns the shape, so no other model would know what to do with it."""
    other = ProviderTool[None, Any, Nothing](
        name="bash",
        description="Run a shell.",
        provider="anthropic",
        config=Nothing(),
        handler=lambda params: None,
    )

    assert "is for 'anthropic'" in str(refused(other))


def test_an_option_that_cannot_be_honoured_is_refused() -> None:
    """H17, H48: a filter that is too long is not sent cut, or not at all."""
    domains = tuple(f"d{n}.example.org" for n in range(101))
    search = web_search_tool(WebSearchConfig(domain_filter=DomainFilter(allowed=domains)))

    assert "at most 100, not 101" in str(refused(search))


def test_two_tools_of_one_type_are_refused() -> None:
    """E1, P20: an item does not say which of two entries it belongs to."""
    told = refused(web_search_tool(), web_search_tool(name="other_search"))

    assert "'other_search' and 'web_search' are both web_search" in str(told)


def test_servers_are_told_apart_by_their_labels() -> None:
    """E1: items of MCP servers name their server, so there may be several."""
    one = mcp_tool(McpConfig(server_label="one", server_url="https://one.example.org"))
    two = mcp_tool(McpConfig(server_label="two", server_url="https://two.example.org"))

    assert offered(one, two) == ["mcp", "mcp"]
    twin = mcp_tool(McpConfig(server_label="one", server_url="https://x.example.org"), name="three")
    assert "are both mcp one" in str(refused(one, twin))


def test_a_forbidden_tool_is_not_offered_and_that_is_recorded() -> None:
    """N28: policy decides before anything is sent, because later nobody can."""
    session = Session()
    policy = Policy(
        (
            Rule("deny", tool="web_search", place="provider", reason="No web here."),
            Rule("allow", tool="code_interpreter"),
        )
    )

    types = offered(
        web_search_tool(),
        code_interpreter_tool(),
        session=session,
        governance=Governance(policy=policy),
    )

    assert types == ["code_interpreter"]
    assert reasons(session) == [("web_search", "No web here.")]


@pytest.mark.parametrize(
    ("tool", "rule"),
    [
        (web_search_tool(name="sky"), Rule("deny", tool="web_search")),
        (web_search_tool(name="sky"), Rule("ask", tool="web_*")),
        (
            mcp_tool(McpConfig(server_label="docs", server_url="https://d.example.org")),
            Rule("deny", tool="mcp"),
        ),
        (
            ProviderTool[None, CodeInterpreterResult, CodeInterpreterConfig](
                name="python",
                description="Run.",
                provider="openai",
                config=CodeInterpreterConfig(),
            ),
            Rule("deny", tool="code_interpreter"),
        ),
    ],
    ids=["hosted", "asked", "server", "provider_tool"],
)
def test_a_forbidden_kind_is_forbidden_under_every_name(tool: Any, rule: Rule) -> None:
    """N28: a rule that names a kind holds for tools of that kind, though others are allowed."""
    session = Session()
    policy = Policy((rule, Rule("allow", tool=tool.name), Rule("allow", tool="*")))

    assert offered(tool, session=session, governance=Governance(policy=policy)) == []
    ((name, reason),) = reasons(session)
    assert name == tool.name
    assert "It is of the kind" in reason


def test_a_place_is_forbidden_with_all_its_tools() -> None:
    """N28: what runs on the provider is withheld; what runs here is not."""
    session = Session()
    policy = Policy((Rule("deny", place="provider", reason="All at home."), Rule("allow")))

    types = offered(web_search_tool(), add, session=session, governance=Governance(policy=policy))

    assert types == ["function"]
    assert reasons(session) == [("web_search", "All at home.")]


def test_an_allowed_kind_does_not_let_every_name_through() -> None:
    """N28: only the tool's own name, in full, lifts what the policy would ask about."""
    policy = Policy((Rule("allow", tool="web_search"),))

    assert offered(web_search_tool(name="sky"), governance=Governance(policy=policy)) == []
    assert offered(web_search_tool(), governance=Governance(policy=policy)) == ["web_search"]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (Policy((Rule("ask", tool="web_search"),)), "Nobody can be asked on the provider"),
        (Policy(), "Nobody can be asked on the provider"),
        (Policy(unmatched="deny"), "No rule of the policy allows this call."),
        (
            Policy(
                (
                    Rule("allow", tool="web_search"),
                    Rule(
                        "deny", tool="web_search", arguments={"/query": Glob("*bomb*")}, id="bombs"
                    ),
                )
            ),
            'Rule "bombs" denies this call.',
        ),
    ],
    ids=["ask", "unmatched", "deny", "arguments"],
)
def test_what_nobody_could_stop_is_not_offered(policy: Policy, text: str) -> None:
    """N28: a question nobody would answer, and a condition on arguments that nobody sees in time,
    withhold the tool: nothing is let through because it cannot be checked.
    """
    session = Session()

    assert offered(web_search_tool(), session=session, governance=Governance(policy=policy)) == []
    ((_, reason),) = reasons(session)
    assert text in reason


def test_a_session_that_asks_about_a_tool_does_not_offer_it() -> None:
    """T: a tool in `need_user_approve_tools` never runs without a yes, wherever it runs."""
    session = Session(need_user_approve_tools=["web_search"])

    assert offered(web_search_tool(), session=session) == []
    assert [name for name, _ in reasons(session)] == ["web_search"]


def test_a_server_that_stops_for_each_call_is_offered_where_each_call_is_asked_about() -> None:
    """An MCP server with `require_approval="always"` asks us before every call: that is a gate."""
    asking = mcp_tool(McpConfig(server_label="docs", server_url="https://d.example.org"))
    free = mcp_tool(
        McpConfig(server_label="docs", server_url="https://d.example.org", require_approval="never")
    )
    policy = Policy((Rule("ask", tool="docs"),))
    session = Session(need_user_approve_tools=["docs"])

    assert offered(asking, governance=Governance(policy=policy)) == ["mcp"]
    assert offered(free, governance=Governance(policy=policy)) == []
    assert offered(asking, session=session) == ["mcp"]


def test_a_withheld_tool_cannot_be_forced() -> None:
    """A choice of a tool that is not offered is told in phase render."""
    governance = Governance(policy=Policy((Rule("deny", tool="web_search"),)))
    with (
        bench() as (adapter, provider),
        pytest.raises(PromptEvaluationError, match="which the prompt does not offer"),
    ):
        adapter.evaluate(
            ask(add, hosted=[web_search_tool()]), governance=governance, tool_choice="web_search"
        )

    assert provider.requests == []


def test_a_native_tool_takes_the_defaults_of_its_name() -> None:
    """N4, N6, N18: a native tool needs no options and no handler; its name says what it is."""
    search = NativeTool[None, Nothing](
        name="web_search", description="Search the web.", result_type=Nothing
    )
    session = Session()
    with bench(response(SEARCHED, message("Fine."))) as (adapter, provider):
        found = adapter.evaluate(ask(hosted=[search]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert provider.bodies[0]["tools"] == [{"type": "web_search"}]
    assert [name for name, _ in found.invocations] == ["web_search"]
    assert (event.name, event.capability) == ("web_search", "web_search")


def test_a_native_tool_that_needs_options_says_so() -> None:
    """N15: there is no file search without a store to search in."""
    search = NativeTool[None, Nothing](
        name="file_search", description="Search files.", result_type=Nothing
    )

    assert "declare it as a HostedTool with a config" in str(refused(search))


def test_a_provider_tool_is_known_by_its_options() -> None:
    """C12, C18: the tool's name is the user's; its kind follows from its configuration."""
    python = OpenAICodeInterpreterTool(name="openai_python")
    search = ProviderTool[None, Any, FileSearchConfig](
        name="library",
        description="Search our library.",
        provider="openai",
        config=FileSearchConfig(vector_store_ids=("vs_1",)),
    )

    assert offered(python, search) == ["code_interpreter", "file_search"]


def test_a_provider_tool_of_ours_without_a_codec_is_a_function() -> None:
    """C10: without a shape of the provider's it is decoded and run like any tool of ours."""
    plain = ProviderTool[None, str, Nothing](
        name="greet",
        description="Greet.",
        provider="openai",
        config=Nothing(),
        handler=lambda params: "hello",
    )

    assert offered(plain) == ["function"]


def test_hosted_tools_come_in_the_request_as_their_codecs_write_them() -> None:
    """H32, H48, C18: each tool's entry and everything it needs besides are in the request."""
    search = web_search_tool(
        WebSearchConfig(
            domain_filter=DomainFilter(allowed=("example.org",)), allow_live_access=False
        )
    )
    files = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)))
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(ask(hosted=[search, files, code_interpreter_tool()]))

    body = provider.bodies[0]
    assert body["tools"] == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["example.org"]},
            "external_web_access": False,
        },
        {"type": "file_search", "vector_store_ids": ["vs_1"]},
        {"type": "code_interpreter", "container": {"type": "auto", "memory_limit": "1g"}},
    ]
    assert body["include"] == [
        "web_search_call.action.sources",
        "file_search_call.results",
        "code_interpreter_call.outputs",
    ]


def test_config_is_what_makes_two_tools_of_one_provider_type_one() -> None:
    """E1: a hosted tool and a provider tool of the same type are twins as well."""
    told = refused(
        OpenAICodeInterpreterTool(name="openai_python"),
        code_interpreter_tool(CodeInterpreterConfig()),
    )

    assert "are both code_interpreter" in str(told)
