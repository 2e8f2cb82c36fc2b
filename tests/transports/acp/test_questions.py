"""Questions of handlers to the person at an editor: as a form, as a choice, or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from acp import schema

from tests.runtime.host_runtime import model
from tests.transports.acp.connected_editor import wired_desk
from tests.transports.acp.editor import Desk, Question
from toolcrib import RuntimeConfig, ToolContext, create_runtime, tool
from toolcrib.runtime.runtime import Runtime
from toolcrib.testing import calls, says

FORMS = schema.ClientCapabilities(
    elicitation=schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities())
)


def asking(answer: Any, **options: Any) -> Runtime:
    """A runtime whose model calls a tool that asks."""

    @tool
    async def pick(ctx: ToolContext) -> str:
        """Ask."""
        return f"took {await ctx.ask('Which one?', answer, **options)}"

    adapter = model([calls("pick", {})], [says("Done.")])
    return create_runtime(RuntimeConfig(tools=[pick], adapter=adapter, drain_seconds=0.1))


def choosing(option_id: str) -> Callable[[Question], None]:
    return lambda question: question.choose(option_id)


async def results(at: Desk, session_id: str) -> list[str]:
    """What the calls of a session came to."""
    listed = await at.ask("events.list", session_id=session_id)
    return [each["data"]["message"] for each in listed["events"] if each["kind"] == "tool.invoked"]


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (schema.AcceptElicitationResponse(action="accept", content={"answer": 3}), "took 3"),
        (schema.DeclineElicitationResponse(action="decline"), "was declined"),
        (schema.CancelElicitationResponse(action="cancel"), "left unanswered"),
    ],
    ids=["accept", "decline", "cancel"],
)
async def test_an_editor_with_forms_is_sent_one(reply: Any, told: str) -> None:
    """The form has the question and the type of the answer; each end is told apart."""
    async with wired_desk(asking(int), FORMS) as at:
        at.editor.filled.append(reply)
        session_id = await at.open()
        await at.prompt(session_id, "Go!")
        came_to = await results(at, session_id)

    ((message, mode),) = at.editor.forms
    assert message == "Which one?"
    assert mode.requested_schema.properties["answer"].type == "integer"
    assert told in came_to[0]


@pytest.mark.parametrize(
    ("act", "told"),
    [
        (choosing("answer_1"), "took savings"),
        (choosing("decline"), "was declined"),
        (Question.dismiss, "left unanswered"),
        (choosing("answer_7"), "unknown option"),
        (Question.fail, "did not show"),
    ],
    ids=["chosen", "declined", "dismissed", "unknown", "failed"],
)
async def test_without_forms_a_choice_is_a_request_for_permission(
    act: Callable[[Question], None], told: str
) -> None:
    """Editors without elicitation show options; nothing unclear is an answer."""
    async with wired_desk(asking(Literal["main", "savings"])) as at:
        session_id = await at.open()
        prompt = asyncio.ensure_future(at.prompt(session_id, "Go!"))
        question = await at.question()
        names = [option.name for option in question.options]
        act(question)
        await prompt
        came_to = await results(at, session_id)

    assert names == ["main", "savings", "Decline"]
    assert question.call.title == "Which one?"
    assert told in came_to[0]


async def test_without_forms_and_choices_nobody_is_asked() -> None:
    """The call fails at once, and says what the editor lacks."""
    async with wired_desk(asking(str)) as at:
        session_id = await at.open()
        await at.prompt(session_id, "Go!")
        came_to = await results(at, session_id)

    assert "no elicitation capability" in came_to[0]


async def test_no_editor_is_asked_for_a_secret() -> None:
    """A form is no place for secrets."""
    async with wired_desk(asking(str, secret=True), FORMS) as at:
        session_id = await at.open()
        await at.prompt(session_id, "Go!")
        came_to = await results(at, session_id)

    assert at.editor.forms == []
    assert "secrets" in came_to[0]
