"""Options from the run: a function of params and session gives a hosted tool its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import bench, happened
from tests.adapters.openai.scripted_provider import Json, message, response
from toolcrib import (
    Approve,
    MarkdownSection,
    NewGrant,
    Policy,
    Prompt,
    PromptEvaluationError,
    Rule,
    Session,
)
from toolcrib.adapters.openai import Governance, OpenAIAdapter
from toolcrib.errors import InvalidState, InvalidTool, UsageError
from toolcrib.ledger.prompt_events import PromptStarted, ToolWithheld
from toolcrib.prompt import Section
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import (
    DomainFilter,
    GeoHint,
    WebSearchConfig,
    WebSearchSection,
    web_search_tool,
)

ANSWER = response(message("Fine."))


@dataclass(frozen=True, slots=True)
class User:
    city: str


def local_search(params: User, session: Session) -> WebSearchConfig | None:
    """Search where the user is; who lives nowhere does not search."""
    if params.city == "nowhere":
        return None
    domains = session.metadata.get("domains", ())
    return WebSearchConfig(
        DomainFilter(allowed=tuple(domains)) if domains else None, GeoHint(city=params.city)
    )


def prompt(*tools: Any, city: str = "London") -> Prompt[str]:
    section = MarkdownSection[User](title="T", key="t", template="In $city?", tools=tools)
    return Prompt[str](ns="a", key="b", sections=[section]).bind(User(city))


def sent(prompt: Prompt[str], session: Session | None = None, **options: Any) -> list[Json]:
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(prompt, session=session, **options)
    return provider.bodies[0].get("tools", [])


def test_the_function_gets_params_and_session() -> None:
    """A user's own place and domains, in one declaration for all users."""
    session = Session(metadata={"domains": ["bbc.co.uk"]})

    assert sent(prompt(web_search_tool(local_search)), session) == [
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["bbc.co.uk"]},
            "user_location": {"type": "approximate", "city": "London"},
        }
    ]


def test_a_section_without_params_hands_over_the_values() -> None:
    """What fills its text is what the function sees."""
    searching = web_search_tool(
        lambda values, _: WebSearchConfig(geo_hint=GeoHint(city=values["c"]))
    )
    section = MarkdownSection[None](title="T", key="t", template="In $c?", tools=[searching])
    bound = Prompt[str](ns="a", key="b", sections=[section]).bind(c="Bern")

    assert sent(bound)[0]["user_location"]["city"] == "Bern"


def test_it_is_asked_once_a_turn_and_recorded() -> None:
    """The record has what was used, in words without secrets."""
    asked: list[str] = []

    def once(params: User, session: Session) -> WebSearchConfig:
        asked.append(params.city)
        return WebSearchConfig(geo_hint=GeoHint(city=params.city))

    session = Session()
    sent(prompt(web_search_tool(once)), session)

    assert asked == ["London"]
    (started,) = happened(session, PromptStarted)
    assert started.tool_options is not None
    assert started.tool_options["web_search"]["config.geo_hint.city"] == "London"


def test_none_withholds_the_tool_and_its_section() -> None:
    """A tool that is not for this user is not offered, and the record says why."""
    session = Session()

    assert sent(prompt(web_search_tool(local_search), city="nowhere"), session) == []
    (withheld,) = happened(session, ToolWithheld)
    assert "gave none for this run" in withheld.reason

    def never(params: Any, session: Session) -> WebSearchConfig | None:
        return None

    task = MarkdownSection[None](title="T", key="t", template="Say it.")
    sections: list[Section[Any]] = [task, WebSearchSection(never)]
    session = Session()
    sent(Prompt[str](ns="a", key="b", sections=sections), session)
    (started,) = happened(session, PromptStarted)
    assert "You can search" not in started.text


def test_policy_sees_the_concrete_options() -> None:
    """What a rule withholds by kind is withheld whatever the function gives."""
    session = Session()
    policy = Policy((Rule("deny", tool="web_search", reason="No."),))
    tools = sent(
        prompt(web_search_tool(local_search)), session, governance=Governance(policy=policy)
    )

    assert tools == []
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.reason == "No."


def failing(params: User, session: Session) -> WebSearchConfig:
    raise LookupError("no such user")


async def slow(params: User, session: Session) -> WebSearchConfig:
    return WebSearchConfig()


def giving(config: object) -> Callable[[User, Session], object]:
    return lambda params, session: config


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (failing, "LookupError: no such user"),
        (slow, "it is async; make it a plain function"),
        (giving({"city": "x"}), "frozen dataclass"),
        (giving(CodeInterpreterConfig()), "give it a config of its own kind"),
        (giving(WebSearchConfig), "not a configuration"),
    ],
)
def test_a_function_that_fails_ends_the_prompt_before_a_request(function: Any, said: str) -> None:
    """Nothing is sent with options that nobody gave."""
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(prompt(web_search_tool(function)))

    assert provider.requests == []
    assert caught.value.phase == "render"
    assert "the options of tool 'web_search' could not be made" in str(caught.value)
    assert said in str(caught.value)


def test_a_class_is_no_function_of_options() -> None:
    """Parentheses are easily forgotten."""
    with pytest.raises(InvalidTool, match="instance of a frozen dataclass"):
        web_search_tool(WebSearchConfig)


def test_a_tool_without_concrete_options_cannot_be_described() -> None:
    """The error says how to get there."""
    adapter = OpenAIAdapter(model="m", api_key="k")
    searching = web_search_tool(local_search)

    with pytest.raises(UsageError, match="from a function of the run"):
        adapter.describe(searching)
    assert adapter.describe(replace(searching, config=WebSearchConfig())) == {"type": "web_search"}


def server(host: str) -> Any:
    def options(params: User, session: Session) -> McpConfig:
        return McpConfig(server_label="s", server_url=f"https://{host}/mcp")

    return mcp_tool(options, name="library")


QUESTION = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "s",
    "name": "lend",
    "arguments": "{}",
}


async def test_grants_and_resume_are_bound_to_the_concrete_options() -> None:
    """Finding 1: a yes for one server is none for another that the function gives later."""
    session = Session()
    with bench(response(QUESTION), ANSWER) as (adapter, _):
        waiting = await adapter.evaluate_async(prompt(server("good.example")), session=session)
        grant = NewGrant(scope="session")
        await session.approvals.decide(waiting.pending[0].call_id, Approve(), by="ann", grant=grant)
        with pytest.raises(InvalidState, match="hosted ones with the same options"):
            await adapter.resume_async(prompt(server("evil.example")), session=session)
        done = await adapter.resume_async(prompt(server("good.example")), session=session)
        assert done.status == "completed"
    with bench(response({**QUESTION, "id": "mcpr_2"}), ANSWER) as (adapter, _):
        other = await adapter.evaluate_async(prompt(server("evil.example")), session=session)
        assert other.status == "waiting"


def test_a_server_from_a_function_needs_a_name() -> None:
    """Its label is not known yet."""
    with pytest.raises(InvalidTool, match="needs a name="):
        mcp_tool(lambda params, session: None)
