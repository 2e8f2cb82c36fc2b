"""Text about tools that are withheld: a prompt does not promise what it does not offer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import message, response
from toolcrib import (
    Fallback,
    MarkdownSection,
    NativeTool,
    Policy,
    Prompt,
    PromptEvaluationError,
    ProviderTool,
    Rule,
    Section,
    Session,
    ToolExample,
    tool,
)
from toolcrib.adapters.openai import Governance, OpenAIAdapter
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.ledger.prompt_events import PromptStarted, ToolWithheld
from toolcrib.tools.web_fetch import web_fetch_tool
from toolcrib.tools.web_search import WebSearchSection, web_search_tool

ANSWER = response(message("Fine."))
NOTHING_LEAVES = Governance(policy=Policy((Rule("deny", place="provider", reason="No."),)))
PROMISE = "You can search the web"


@dataclass(frozen=True, slots=True)
class Result:
    text: str = ""


def prompt(*sections: Section[Any]) -> Prompt[str]:
    task = MarkdownSection[None](title="Task", key="task", template="Say something.")
    return Prompt(ns="a", key="b", sections=[task, *sections])


def sent(prompt: Prompt[str], session: Session, governance: Governance | None) -> str:
    """The text of the request."""
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(prompt, session=session, governance=governance)
    assert provider.bodies[0].get("tools", []) == [] or governance is None
    return provider.bodies[0]["input"][0]["content"][0]["text"]


def test_a_withheld_tool_takes_its_section_with_it() -> None:
    """N28, finding 15: no tool in the request, no promise in the text, and the record says so."""
    session = Session()
    text = sent(prompt(WebSearchSection()), session, NOTHING_LEAVES)

    assert PROMISE not in text
    assert "Say something." in text
    (withheld,) = happened(session, ToolWithheld)
    assert (withheld.reason, withheld.sections) == ("No.", ("web_search",))
    (started,) = happened(session, PromptStarted)
    assert started.text == text


def test_an_offered_tool_keeps_its_section() -> None:
    """Nothing is left out where nothing is withheld."""
    session = Session()

    assert PROMISE in sent(prompt(WebSearchSection()), session, None)
    assert happened(session, ToolWithheld) == []


def test_a_section_with_a_task_of_its_own_stays() -> None:
    """Only a section that says it is about its tools is left out."""
    task = MarkdownSection[None](title="Q", key="q", template="Who won?", tools=[web_search_tool()])
    session = Session()

    assert "Who won?" in sent(prompt(task), session, NOTHING_LEAVES)
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.sections == ()


def test_children_go_with_their_section() -> None:
    """What is said below a section that is left out is not said either."""
    inner = MarkdownSection[None](title="I", key="inner", template="Search twice.")
    outer = MarkdownSection[None](
        title="O", key="outer", template="Search.", tools=[web_search_tool()],
        only_with_tools=True, children=[inner],
    )  # fmt: skip
    session = Session()
    text = sent(prompt(outer), session, NOTHING_LEAVES)

    assert "Search" not in text
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.sections == ("outer",)


def test_a_section_stays_while_one_of_its_tools_does() -> None:
    """It is about all of them together."""

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    both = MarkdownSection[None](
        title="B", key="both", template="Search or add.", tools=[web_search_tool(), add],
        only_with_tools=True,
    )  # fmt: skip
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(prompt(both), governance=NOTHING_LEAVES)

    assert "Search or add." in provider.bodies[0]["input"][0]["content"][0]["text"]


def test_the_examples_of_a_withheld_tool_are_not_shown() -> None:
    """An example is a promise too."""
    searching = NativeTool[None, Result](
        name="web_search",
        description="Search.",
        examples=(ToolExample(description="Find it.", input=None, output=Result("found")),),
    )
    task = MarkdownSection[None](title="Q", key="q", template="Who won?", tools=[searching])

    assert "Examples of" in sent(prompt(task), Session(), None)
    assert "Examples of" not in sent(prompt(task), Session(), NOTHING_LEAVES)


def test_a_fallback_keeps_the_promise() -> None:
    """A local tool in its place makes the text true."""

    @tool
    def web_search(query: str) -> str:
        """Search the web."""
        return "nothing"

    from pydantic_ai.models.test import TestModel

    model = TestModel(call_tools=[], custom_output_text="Fine.")
    adapter = PydanticAIAdapter(model, provider="bedrock")
    session = Session()
    section = WebSearchSection(fallback=Fallback(lambda _: web_search))
    adapter.evaluate(prompt(section), session=session)

    (started,) = happened(session, PromptStarted)
    assert PROMISE in started.text


def test_an_optional_tool_is_left_out_where_it_cannot_be_had() -> None:
    """One tool may be optional; the prompt goes on without it, and the ledger says why."""
    session = Session()
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(
            ask(hosted=[web_fetch_tool(optional=True), web_search_tool()]), session=session
        )

    assert [entry["type"] for entry in provider.bodies[0]["tools"]] == ["web_search"]
    (withheld,) = happened(session, ToolWithheld)
    assert withheld.tool.name == "web_fetch"
    with bench() as (adapter, _), pytest.raises(PromptEvaluationError, match="web_fetch"):
        adapter.evaluate(ask(hosted=[web_fetch_tool(), web_search_tool(optional=True)]))


def test_a_hosted_tool_that_is_not_available_is_withheld() -> None:
    """`available_when` is asked for tools in every place."""
    session = Session()
    fields: dict[str, Any] = {"available_when": lambda: False}
    with bench(ANSWER) as (adapter, provider):
        searching = NativeTool[None, Result](name="web_search", description="S.", **fields)
        adapter.evaluate(ask(hosted=[searching]), session=session)

    assert "tools" not in provider.bodies[0]
    (withheld,) = happened(session, ToolWithheld)
    assert "cannot be used now" in withheld.reason


def test_a_provider_tool_without_options_has_the_defaults_of_its_kind() -> None:
    """Finding 19: `config=None` means what it means for a native tool of that name."""
    bound = ProviderTool[None, Result, None](
        name="web_search", description="Search.", provider="openai", config=None
    )

    assert OpenAIAdapter(model="m", api_key="k").describe(bound) == {"type": "web_search"}


def test_a_kind_that_needs_options_says_so() -> None:
    """N14, finding 19: a native tool of a kind without defaults can never be offered."""
    files = NativeTool[None, Result](name="file_search", description="Search.")
    with bench() as (adapter, provider), pytest.raises(PromptEvaluationError) as caught:
        adapter.evaluate(ask(hosted=[files]))

    assert provider.requests == []
    assert "it needs options; declare it as a HostedTool with a config" in str(caught.value)
