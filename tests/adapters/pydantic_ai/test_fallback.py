"""A local tool in a hosted one's place, on providers that lack the kind or an option of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, SPEECHES, Speech
from tests.adapters.pydantic_ai.scripted_adapter import ask, happened, wire_bench
from toolcrib import Fallback, Policy, PromptEvaluationError, Rule, Session, ToolInvoked, tool
from toolcrib.adapters.pydantic_ai import Governance
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.web_search import DomainFilter, WebSearchConfig, web_search_tool

ONLY_OURS = WebSearchConfig(domain_filter=DomainFilter(allowed=("example.org",)))


@tool
def grep(words: str) -> str:
    """Search the files."""
    return f"nothing about {words}"


def searcher(config: WebSearchConfig) -> Any:
    """A search that keeps to the allowed domains."""
    allowed = config.domain_filter.allowed if config.domain_filter else ()

    @tool(name="search_here")
    def search(query: str, site: str) -> str:
        """Search one site."""
        return f"found {query}" if site in allowed else f"{site} is not allowed"

    return search


def test_a_local_tool_runs_where_the_provider_lacks_the_kind() -> None:
    """H45: Anthropic has no file search: the tool that is named for that is declared, called like
    any other, and what it stands for is recorded.
    """
    session = Session()
    files = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), fallback=fitting(grep))
    asked = ANTHROPIC.calls(ANTHROPIC.call("grep", {"words": "owls"}))
    with wire_bench(ANTHROPIC, asked, ANTHROPIC.says("Fine.")) as (adapter, server):
        found = adapter.evaluate(ask(hosted=[files]), session=session)

    (withheld,) = happened(session, ToolWithheld)
    (invoked,) = happened(session, ToolInvoked)
    assert [entry["name"] for entry in server.bodies[0]["tools"]] == ["grep"]
    assert ANTHROPIC.outputs(server.bodies[1]) == ["nothing about owls"]
    assert (withheld.tool.name, withheld.replaced_by and withheld.replaced_by.name) == (
        "file_search",
        "grep",
    )
    assert "anthropic" in withheld.reason
    assert (invoked.name, invoked.origin) == ("grep", "local")
    assert (found.text, dict(found.hosted_outputs)) == ("Fine.", {})


def fitting(local: Any) -> Fallback[FileSearchConfig]:
    """A fallback that keeps to the one option that cannot be left out."""
    return Fallback(lambda _: local, {"vector_store_ids"})


@pytest.mark.parametrize(
    ("speech", "is_hosted"),
    [(ANTHROPIC, True), (SPEECHES["openai-responses"], True), (GOOGLE, False)],
    ids=["anthropic", "openai-responses", "google"],
)
def test_the_choice_is_made_for_each_request_by_what_the_provider_can_do(
    speech: Speech, is_hosted: bool
) -> None:
    """H45: one prompt, three providers: where allowed domains can be asked for the provider
    searches, and where they cannot the local tool does, and keeps to them.
    """
    session = Session()
    search = web_search_tool(ONLY_OURS, fallback=Fallback(searcher, {"domain_filter"}))
    calls = speech.calls(speech.call("search_here", {"query": "owls", "site": "elsewhere.net"}))
    replies = [] if is_hosted else [calls]
    with wire_bench(speech, *replies, speech.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(hosted=[search]), session=session)

    sent = str(server.bodies[0]["tools"])
    assert ("search_here" in sent) is not is_hosted
    assert bool(happened(session, ToolWithheld)) is not is_hosted
    if not is_hosted:
        assert speech.outputs(server.bodies[1]) == ["elsewhere.net is not allowed"]


def test_a_fallback_that_would_ignore_a_constraint_is_refused() -> None:
    """Allowed domains bind the local tool too, or nothing is sent."""
    search = web_search_tool(ONLY_OURS, fallback=grep)
    with (
        wire_bench(GOOGLE) as (adapter, server),
        pytest.raises(PromptEvaluationError, match=r"domain_filter\.allowed") as caught,
    ):
        adapter.evaluate(ask(hosted=[search]))

    assert (caught.value.phase, server.requests) == ("render", [])
    assert "does not honour" in str(caught.value)


def test_there_is_no_fallback_that_nobody_named() -> None:
    """H45: without one it is an error, though a local tool could do it."""
    with wire_bench(GOOGLE) as (adapter, server), pytest.raises(PromptEvaluationError):
        adapter.evaluate(ask(grep, hosted=[web_search_tool(ONLY_OURS)]))

    assert server.requests == []


def test_what_policy_forbids_is_not_done_by_another_tool() -> None:
    """N28: a tool that the session forbids has no fallback, also where the provider lacks it."""
    governance = Governance(policy=Policy((Rule("deny", tool="file_search"), Rule("allow"))))
    files = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), fallback=fitting(grep))
    session = Session()
    with wire_bench(ANTHROPIC, ANTHROPIC.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(hosted=[files]), session=session, governance=governance)

    (withheld,) = happened(session, ToolWithheld)
    assert withheld.replaced_by is None
    assert server.bodies[0].get("tools") in (None, [])


def test_a_fallback_is_governed_like_any_tool_of_ours() -> None:
    """T: what stands in for the provider's waits for a yes where the session asks for one."""
    files = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), fallback=fitting(grep))
    session = Session(need_user_approve_tools=["grep"])
    asked = ANTHROPIC.calls(ANTHROPIC.call("grep", {"words": "owls"}))
    with wire_bench(ANTHROPIC, asked) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[files]), session=session)

    assert (found.status, [each.call_id for each in found.pending]) == ("waiting", ["call_1"])


def test_a_fallback_may_be_forced() -> None:
    """N18: no provider's tool can be forced here, but what stands in for it is ours."""
    files = file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",)), fallback=fitting(grep))
    with wire_bench(ANTHROPIC, ANTHROPIC.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask(hosted=[files]), tool_choice="grep")

    assert server.bodies[0]["tool_choice"]["type"] in ("tool", "any")
