"""Arguments, results and texts: off unless asked for, and never a secret."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.nested_prompt import ANSWER
from tests.adapters.openai.scripted_provider import Json, call, message, response
from tests.calls.payments import Says
from tests.telemetry.memory_collector import Collected, attributes
from toolcrib import Approve, Deny, Executor, Secret, Session, tool
from toolcrib.ledger.events import ToolInvoked
from toolcrib.telemetry.conventions import CAPTURE_VARIABLE, call_content
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.web_search import web_search_tool

TOKEN = "tok-live-1234567890"
ASKED = response(call("add", {"a": 1, "b": 2}))
WORDS = ("bolt", "drawer", "no such part")


@tool
async def look(part: str) -> str:
    """Look up where a part is kept."""
    if part == "none":
        raise LookupError("no such part")
    return f"{part}: drawer 3"


@pytest.fixture
def collected() -> Collected:
    return Collected()


async def looked(collected: Collected, **options: Any) -> None:
    session = Session()
    collected.watch(session, **options)
    executor = Executor(session, [look])
    await executor.call("look", {"part": "bolt"})
    await executor.call("look", {"part": "none"})


async def test_content_is_off_by_default(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R43: neither arguments nor results nor messages of failures leave unasked."""
    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)

    await looked(collected)

    assert not [word for word in WORDS if word in collected.everything()]


async def test_content_is_there_when_it_is_asked_for(collected: Collected) -> None:
    """R43: arguments as JSON, the result as the model saw it, and why a call failed."""
    await looked(collected, capture_content=True)

    found, failed = collected.spans
    assert json.loads(attributes(found)["gen_ai.tool.call.arguments"]) == {"part": "bolt"}
    assert attributes(found)["gen_ai.tool.call.result"] == "bolt: drawer 3"
    assert json.loads(attributes(failed)["gen_ai.tool.call.arguments"]) == {"part": "none"}
    assert "gen_ai.tool.call.result" not in attributes(failed)
    assert failed.status.description is not None
    assert "no such part" in failed.status.description


@pytest.mark.parametrize(
    ("value", "is_captured"),
    [
        ("true", True),
        ("True", True),
        ("1", True),
        ("SPAN_ONLY", True),
        ("span_and_event", True),
        ("EVENT_ONLY", False),
        ("NO_CONTENT", False),
        ("false", False),
        ("", False),
        ("yes please", False),
    ],
)
async def test_the_environment_may_ask_for_content(
    collected: Collected, monkeypatch: pytest.MonkeyPatch, value: str, is_captured: bool
) -> None:
    """R43: the variable of the conventions, in its old and its new spelling."""
    monkeypatch.setenv(CAPTURE_VARIABLE, value)

    await looked(collected)

    assert ("bolt" in collected.everything()) is is_captured


async def test_the_program_has_the_last_word(
    collected: Collected, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R43: `capture_content=False` keeps content in whatever the environment says."""
    monkeypatch.setenv(CAPTURE_VARIABLE, "true")

    await looked(collected, capture_content=False)

    assert "bolt" not in collected.everything()


@pytest.mark.parametrize("captures", [False, True])
async def test_texts_of_prompts_are_content(collected: Collected, captures: bool) -> None:
    """R43: question and answer are on the prompt's span, in the conventions' shape, if at all."""
    session = Session()
    collected.watch(session, capture_content=captures)

    with bench(ASKED, ANSWER) as (adapter, _):
        prompt = replace(ask(add, text="What is 1+2?"), instructions="Be brief.")
        await adapter.evaluate_async(prompt, session=session)

    told = attributes(collected.span("invoke_agent test:ask"))
    if not captures:
        assert "1+2" not in collected.everything()
        assert "Be brief." not in collected.everything()
        assert "Fine." not in collected.everything()
        return
    (asked,) = json.loads(told["gen_ai.input.messages"])
    (said,) = json.loads(told["gen_ai.output.messages"])
    assert json.loads(told["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be brief."}
    ]
    assert asked["role"] == "user"
    assert "What is 1+2?" in asked["parts"][0]["content"]
    assert said == {"role": "assistant", "parts": [{"type": "text", "content": "Fine."}]}


@pytest.mark.parametrize("captures", [False, True])
async def test_content_of_provider_run_calls(collected: Collected, captures: bool) -> None:
    """R43: what the provider was asked and found is content too."""
    session = Session()
    collected.watch(session, capture_content=captures)
    item: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    item |= {"action": {"type": "search", "query": "drawers"}}

    with bench(response(item, message("Fine."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[web_search_tool()]), session=session)

    (event,) = collected.span("chat test-model").events
    told: Any = event.attributes
    assert ("gen_ai.tool.call.arguments" in told) is captures
    assert ("drawers" in collected.everything()) is captures


async def leak(where: str, session: Session, approver: Says | None = None) -> None:
    @tool(requires_approval=approver is not None)
    async def fetch(url: str, token: Annotated[str, Secret()]) -> Any:
        """Fetch."""
        if where == "error":
            raise LookupError(f"{token} was refused")
        return {"url": url, "used": token} if where == "value" else f"used {token}"

    arguments = {"url": f"https://x/?token={TOKEN}" if where == "argument" else "u", "token": TOKEN}
    await Executor(session, [fetch], approver=approver).call("fetch", arguments)


@pytest.mark.parametrize("where", ["value", "text", "error", "argument"])
@pytest.mark.parametrize("captures", [False, True])
async def test_no_secret_leaves(collected: Collected, where: str, captures: bool) -> None:
    """R43: with content and without, whatever a handler does with its secret."""
    session = Session()
    collected.watch(session, capture_content=captures)

    await leak(where, session)

    assert TOKEN not in collected.everything()
    assert ("[secret]" in collected.everything()) is captures


@pytest.mark.parametrize(
    "decision", [Approve(), Deny("no"), Approve({"url": "v", "token": "[secret]"})]
)
async def test_no_secret_leaves_through_an_approval(
    collected: Collected, decision: Approve | Deny
) -> None:
    """R43: nor what somebody was asked about, nor what was edited."""
    session = Session()
    collected.watch(session, capture_content=True)

    await leak("text", session, Says(decision))

    assert "toolcrib.approval.wait" in collected.names
    assert TOKEN not in collected.everything()


async def test_no_credential_of_a_server_leaves(collected: Collected) -> None:
    """R43, N3: what a provider's server is told may come back in a call; it is hidden here too."""
    session = Session()
    collected.watch(session, capture_content=True)
    config = McpConfig(
        server_label="desk",
        server_url="https://desk.example/mcp",
        authorization=TOKEN,
    )
    item: Json = {"type": "mcp_call", "id": "mcp_1", "name": "whoami", "server_label": "desk"}
    item |= {"arguments": json.dumps({"as": TOKEN}), "output": f"you are {TOKEN}"}

    with bench(response(item, message(f"Your token is {TOKEN}."))) as (adapter, _):
        await adapter.evaluate_async(ask(hosted=[mcp_tool(config)]), session=session)

    assert "you are" in collected.everything()
    assert TOKEN not in collected.everything()


def test_what_is_not_json_is_told_as_the_ledger_does() -> None:
    """R43: a provider's codec may make anything of the arguments. What is no JSON is named by its
    type, and the rest is still told.
    """
    event = ToolInvoked(
        session_id="s1",
        at=0.0,
        call_id="c1",
        name="look",
        params={"how": object(), "where": "desk"},
        message="drawer 3",
        success=True,
    )

    assert call_content(event) == {
        "gen_ai.tool.call.arguments": '{"how":"(object)","where":"desk"}',
        "gen_ai.tool.call.result": "drawer 3",
    }


async def test_text_that_cannot_be_encoded_breaks_nothing(collected: Collected) -> None:
    """R43: a name with half a character, or a number that is none, is told as the ledger does."""
    session = Session()
    collected.watch(session, capture_content=True)

    await Executor(session, [look]).call("look", b'{"part": "\\ud800", "x": NaN}')

    assert session.bus.failures == 0
