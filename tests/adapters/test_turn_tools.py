"""A local tool in a hosted one's place: only where named, and only if it keeps to the rest."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.scripted_provider import call, message, response
from toolcrib import Fallback, HostedTool, Policy, PromptEvaluationError, Rule, Session, tool
from toolcrib.adapters.openai import Governance
from toolcrib.errors import InvalidTool
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.prompt_events import ToolWithheld
from toolcrib.tools import FunctionTool
from toolcrib.tools.web_fetch import WebFetchConfig, web_fetch_tool
from toolcrib.tools.web_search import DomainFilter, WebSearchConfig, web_search_tool

ONLY_OURS = WebFetchConfig(domain_filter=DomainFilter(allowed=("example.org",)))


@tool
def read_page(url: str) -> str:
    """Read a page."""
    return f"page at {url}"


def reader(config: WebFetchConfig) -> FunctionTool[..., str]:
    """A reader that keeps to the allowed domains."""
    allowed = config.domain_filter.allowed if config.domain_filter else ()

    @tool(name="read_page")
    def read(url: str) -> str:
        """Read a page."""
        return "read" if any(each in url for each in allowed) else "not allowed"

    return read


def test_a_named_local_tool_runs_where_the_provider_lacks_the_kind() -> None:
    """H45: the fallback is declared, called like any tool, and what it stands for is recorded."""
    session = Session()
    asked = call("read_page", {"url": "https://a.org"})
    with bench(response(asked), response(message("Done."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[web_fetch_tool(fallback=read_page)]), session=session)

    assert [each["name"] for each in provider.bodies[0]["tools"]] == ["read_page"]
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.tool.name == "web_fetch"
    assert withheld.replaced_by is not None
    assert withheld.replaced_by.name == "read_page"
    assert "web_fetch" in withheld.reason
    (invoked,) = happened(session, ToolInvoked)
    assert (invoked.name, invoked.origin) == ("read_page", "local")
    assert invoked.value == "page at https://a.org"


def test_the_provider_runs_what_it_can() -> None:
    """H45: with the kind at hand the fallback is not offered."""
    session = Session()
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(ask(hosted=[web_search_tool(fallback=add)]), session=session)

    assert [each["type"] for each in provider.bodies[0]["tools"]] == ["web_search"]
    assert happened(session, ToolWithheld) == []


def test_there_is_no_fallback_that_nobody_named() -> None:
    """H45: a kind that the provider lacks is an error, though a local tool could do it."""
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(read_page, hosted=[web_fetch_tool()]))

    assert (caught.value.phase, provider.requests) == ("render", [])


def test_a_fallback_that_would_ignore_a_constraint_is_refused() -> None:
    """Allowed domains bind the local tool too, or it does not run."""
    hosted = web_fetch_tool(ONLY_OURS, fallback=read_page)
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(hosted=[hosted]))

    assert provider.requests == []
    assert "does not honour domain_filter.allowed" in str(caught.value)


@pytest.mark.parametrize("honours", [{"domain_filter"}, {"domain_filter.allowed"}])
def test_a_fallback_that_honours_the_constraint_gets_it(honours: set[str]) -> None:
    """The local tool is made from the options, so that it can keep to them."""
    hosted = web_fetch_tool(ONLY_OURS, fallback=Fallback(reader, honours))
    session = Session()
    asked = call("read_page", {"url": "https://elsewhere.net"})
    with bench(response(asked), response(message("Done."))) as (adapter, _):
        adapter.evaluate(ask(hosted=[hosted]), session=session)

    (invoked,) = happened(session, ToolInvoked)
    assert invoked.value == "not allowed"


def test_every_option_of_an_own_kind_is_a_constraint() -> None:
    """Nobody but the caller knows what the options of a kind of one's own mean."""

    @dataclass(frozen=True, slots=True)
    class Depth:
        deep: bool = False

    for config, is_refused in ((Depth(), False), (Depth(deep=True), True)):
        dream = HostedTool[Depth](
            kind="dreams", name="dream", description="Dream.", config=config, fallback=add
        )
        with bench(response(message("Fine."))) as (adapter, _):
            if is_refused:
                with pytest.raises(PromptEvaluationError, match="does not honour deep"):
                    adapter.evaluate(ask(hosted=[dream]))
            else:
                adapter.evaluate(ask(hosted=[dream]))


def test_what_policy_forbids_is_not_done_by_another_tool() -> None:
    """A tool that is withheld because the session forbids it has no fallback."""
    governance = Governance(policy=Policy(rules=(Rule("deny", tool="web_fetch"),)))
    session = Session()
    with bench(response(message("Fine."))) as (adapter, provider):
        adapter.evaluate(
            ask(hosted=[web_fetch_tool(fallback=read_page)]), session=session, governance=governance
        )

    assert "tools" not in provider.bodies[0]
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.replaced_by is None


def test_a_fallback_may_not_share_a_name() -> None:
    """The model could not tell the two apart."""
    hosted = web_fetch_tool(fallback=read_page)
    with bench() as (adapter, _), pytest.raises(PromptEvaluationError, match="two tools are named"):
        adapter.evaluate(ask(read_page, hosted=[hosted]))


def test_a_fallback_runs_here() -> None:
    """Neither a tool of the provider's nor anything that is not a tool can take the place."""
    search = web_search_tool(WebSearchConfig())
    with pytest.raises(InvalidTool, match="has no handler"):
        web_fetch_tool(fallback=search)
    with pytest.raises(InvalidTool, match="is not a tool"):
        web_fetch_tool(fallback="read_page")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidTool, match="set of names"):
        Fallback(reader, "domain_filter")

    made = web_fetch_tool(fallback=Fallback(lambda _: search))
    with bench() as (adapter, _), pytest.raises(PromptEvaluationError, match="has no handler"):
        adapter.evaluate(ask(hosted=[made]))
