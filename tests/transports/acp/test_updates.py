"""Events as updates, where a whole session would not show it."""

from __future__ import annotations

from typing import Any

import pytest
from acp.exceptions import RequestError

from toolcrib.errors import EvaluationReason
from toolcrib.runtime.event_reader import Envelope
from toolcrib.runtime.messages import PromptResult
from toolcrib.runtime.model_items import answer_in, thought_in
from toolcrib.transports.acp.call_updates import MAX_SHOWN
from toolcrib.transports.acp.prompts import response_to
from toolcrib.transports.acp.tool_calls import kind_by_name, locations_of, title_of
from toolcrib.transports.acp.updates import Transcript

GREET = {"name": "greet"}


def told(*events: tuple[str, dict[str, Any]], is_replay: bool = False) -> list[Any]:
    """The updates for these events."""
    transcript = Transcript(kind_by_name)
    return [
        update
        for kind, data in events
        for update in transcript.updates_for(Envelope("s", 1, kind, 0.0, data), is_replay=is_replay)
    ]


def kinds(updates: list[Any]) -> list[str]:
    return [each.session_update for each in updates]


def test_an_answer_that_was_streamed_is_not_told_twice() -> None:
    """The pieces are told as they come, and the whole that the ledger keeps is not."""
    step = {"turn": 1, "step": 1}
    said = [{"type": "text", "text": "Hello."}]
    updates = told(
        ("model.text_delta", {**step, "text": "Hel"}),
        ("model.text_delta", {**step, "text": "lo."}),
        ("model.responded", {**step, "status": "completed", "items": said}),
        ("prompt.answered", {"turn": 1, "text": "Hello."}),
    )

    assert [each.content.text for each in updates] == ["Hel", "lo."]
    assert len({each.message_id for each in updates}) == 1


def test_an_editor_that_joins_in_the_middle_gets_what_is_written() -> None:
    """The beginning and the pieces that follow are one message, and the whole is not told again.
    After a gap, what was told before cannot be taken back: the text is another message.
    """
    step = {"turn": 1, "step": 1}
    partial = ("model.partial_reply", {**step, "text": "Hel", "reasoning": ["Hm."]})
    rest = ("model.text_delta", {**step, "text": "lo."})
    said = [{"type": "text", "text": "Hello."}]
    updates = told(
        partial,
        rest,
        ("model.responded", {**step, "status": "completed", "items": said}),
        ("prompt.answered", {"turn": 1, "text": "Hello."}),
    )
    again = told(("model.text_delta", {**step, "text": "Hel"}), partial, rest)

    assert [each.content.text for each in updates] == ["Hm.", "Hel", "lo."]
    assert len({each.message_id for each in updates[1:]}) == 1
    messages = [each for each in again if each.session_update == "agent_message_chunk"]
    assert len({each.message_id for each in messages}) == 2


def test_the_answer_is_told_when_its_items_are_not_understood() -> None:
    """A provider whose items have another form still answers the person."""
    updates = told(
        (
            "model.responded",
            {"turn": 1, "step": 1, "status": "completed", "items": [{"form": "new"}]},
        ),
        ("prompt.answered", {"turn": 1, "text": "Hello."}),
    )

    assert [each.content.text for each in updates] == ["Hello."]


def test_a_prompt_that_a_tool_evaluates_is_not_the_persons() -> None:
    """Neither its question nor its answer is shown; its calls are."""
    inner = {"turn": 2, "step": 1}
    updates = told(
        ("turn.started", {"turn": 2, "parent_call_id": "call_1"}),
        ("prompt.started", {"turn": 2, "text": "Inner.", "parent_call_id": "call_1"}),
        ("model.text_delta", {**inner, "text": "inner"}),
        ("model.responded", {**inner, "status": "completed", "items": []}),
        ("prompt.answered", {"turn": 2, "text": "inner"}),
        ("call.started", {"call_id": "call_2", "tool": GREET}),
        is_replay=True,
    )

    assert kinds(updates) == ["tool_call"]


def test_a_call_that_never_began_is_told_and_failed() -> None:
    """R46: an attempt that was invalid or denied leaves one record, and is shown."""
    failure = {"kind": "invalid_arguments", "message": "no"}
    data = {"call_id": "c", "name": "greet", "success": False, "failure": failure, "message": "no"}
    first, last = told(("tool.invoked", data))

    assert (first.session_update, first.status) == ("tool_call", "pending")
    assert (last.status, last.raw_output) == ("failed", failure)


def test_a_call_in_doubt_is_failed_and_says_so() -> None:
    """Nobody knows whether it took effect, and the person reads that."""
    data = {"call_id": "c", "tool": GREET}
    *_, last = told(("call.started", data), ("call.in_doubt", data), is_replay=True)

    assert last.status == "failed"
    assert "not known" in last.content[0].content.text


def test_output_is_shown_from_its_end() -> None:
    """A tool that says a lot does not fill the editor."""
    *_, last = told(
        ("call.started", {"call_id": "c", "tool": GREET}),
        ("tool.output", {"call_id": "c", "chunk": "a" * MAX_SHOWN}),
        ("tool.output", {"call_id": "c", "chunk": "the end"}),
    )

    shown = last.content[0].content.text
    assert len(shown) == MAX_SHOWN
    assert shown.endswith("the end")


def test_deleted_payloads_are_no_fault() -> None:
    """What was deleted from the ledger leaves an empty place in the history."""
    every = ("prompt.started", "model.responded", "prompt.answered", "approval.requested")

    emptied = [(kind, dict[str, Any]()) for kind in every]

    assert kinds(told(*emptied, is_replay=True)) == ["user_message_chunk"]


@pytest.mark.parametrize("words", ["Greet.", "## Instructions\n\nBe kind.\n\n## Task\n\nGreet."])
def test_the_persons_words_are_the_prompt(words: str) -> None:
    """The history shows what the person wrote, and nothing of the host's, however it looks."""
    started = {"turn": 1, "text": words, "instructions": "Be polite."}
    (update,) = told(("prompt.started", started), is_replay=True)

    assert update.content.text == words


@pytest.mark.parametrize(
    ("items", "answer", "thought"),
    [
        ([{"type": "message", "content": [{"type": "output_text", "text": "a"}]}], "a", ""),
        ([{"type": "reasoning", "summary": [{"type": "summary_text", "text": "t"}]}], "", "t"),
        ([{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}], "a", "t"),
        ([{"text": "t", "thought": True}, {"text": "a"}], "a", "t"),
        ([{"part_kind": "thinking", "content": "t"}], "", "t"),
        ([{"part_kind": "text", "content": "a"}], "a", ""),
        ([{"type": "function_call", "arguments": "{}"}, "odd", None], "", ""),
    ],
)
def test_words_are_found_in_the_items_of_every_provider(
    items: list[Any], answer: str, thought: str
) -> None:
    """OpenAI, Anthropic, Gemini and others write what a model says in forms of their own."""
    assert (answer_in(items), thought_in(items)) == (answer, thought)


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("max_steps", "max_turn_requests"),
        ("max_calls", "max_turn_requests"),
        ("max_cost", "max_turn_requests"),
        ("max_tokens", "max_tokens"),
        ("incomplete", "max_tokens"),
        ("refused", "refusal"),
    ],
)
def test_a_prompt_without_an_answer_ends_for_a_reason(reason: EvaluationReason, told: str) -> None:
    """What the protocol has a word for is told with it, whatever the error says."""
    result = PromptResult(session_id="s", turn=1, status="failed", error="not told", reason=reason)
    assert response_to(result).stop_reason == told


@pytest.mark.parametrize("reason", ["failed", "empty", None])
def test_other_reasons_are_errors(reason: EvaluationReason | None) -> None:
    """The person is told why, as an error."""
    result = PromptResult(session_id="s", turn=1, status="failed", error="not told", reason=reason)
    with pytest.raises(RequestError, match="not told"):
        response_to(result)


def test_a_title_says_what_a_call_is_about() -> None:
    """One line, never long."""
    assert title_of("greet", {"name": "Ada"}) == "greet"
    assert title_of("read", {"path": "/a.py"}) == "read: /a.py"
    assert title_of("ide_terminal", {"command": "ls", "args": ["-l"]}) == "ide_terminal: ls -l"
    assert len(title_of("read", {"path": "/" + "a" * 500})) == 120


def test_only_absolute_paths_are_places() -> None:
    """An editor opens what it is given, so nothing is guessed."""
    (place,) = locations_of({"path": "/a.py", "line": 3}) or []

    assert (place.path, place.line) == ("/a.py", 3)
    assert locations_of({"path": "a.py"}) is None
    assert locations_of(None) is None


STEP = {"turn": 1, "step": 1}


def test_reasoning_is_thought_while_it_comes_and_not_repeated() -> None:
    """Pieces are told under one id for each paragraph; the whole in the reply is not told again."""
    summary = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "ab"}]}]
    updates = told(
        ("model.reasoning_delta", {**STEP, "index": 0, "text": "a"}),
        ("model.reasoning_delta", {**STEP, "index": 0, "text": "b"}),
        ("model.responded", {**STEP, "status": "completed", "items": summary}),
    )

    assert kinds(updates) == ["agent_thought_chunk"] * 2
    assert [each.content.text for each in updates] == ["a", "b"]
    assert len({each.message_id for each in updates}) == 1


def test_a_call_is_shown_while_the_model_writes_it() -> None:
    """`rawInput` grows with the arguments; the call then runs and ends under the same id."""
    written = {**STEP, "call_id": "c", "tool": "greet"}
    first, *growing, running = told(
        ("model.arguments_delta", {**written, "text": ""}),
        ("model.arguments_delta", {**written, "text": '{"name": "A'}),
        ("model.arguments_delta", {**written, "text": 'da"}'}),
        ("call.started", {"call_id": "c", "tool": GREET}),
    )

    assert (first.session_update, first.status, first.title) == ("tool_call", "pending", "greet")
    assert [each.raw_input for each in growing] == [{"name": "A"}, {"name": "Ada"}]
    assert (running.session_update, running.status) == ("tool_call_update", "in_progress")


def test_a_long_call_is_not_repeated_with_every_piece() -> None:
    """An update repeats what came before, so long arguments are shown ever more rarely."""
    written = {**STEP, "call_id": "c", "tool": "greet"}
    pieces = [("model.arguments_delta", {**written, "text": "a" * 10}) for _ in range(1_500)]
    updates = told(("model.arguments_delta", {**written, "text": '{"name": "'}), *pieces)

    assert len(updates) < 250


def test_a_call_that_nobody_ran_ends_with_its_turn() -> None:
    """A request that is made again may bring other calls; the first ones do not stay open."""
    written = {**STEP, "call_id": "c", "tool": "greet", "text": ""}
    *_, last = told(
        ("model.arguments_delta", written), ("turn.ended", {"turn": 1, "outcome": "failed"})
    )
    assert last.status == "failed"
    waiting = told(
        ("model.arguments_delta", written), ("turn.ended", {"turn": 1, "outcome": "waiting"})
    )
    assert kinds(waiting) == ["tool_call"]


def test_a_provider_run_call_shows_its_code_its_output_and_its_pictures() -> None:
    """Hosted tools: `tool_call_update` with content as it comes."""
    facts = {**STEP, "call_id": "ci", "tool": "code_interpreter", "capability": "code_interpreter"}
    picture = {"index": 0, "media_type": "image/png", "base64": "iVBORw0="}
    first, *updates = told(
        ("model.hosted_progress", {**facts, "status": "in_progress"}),
        ("model.hosted_progress", {**facts, "status": "in_progress", "code": "print("}),
        ("model.hosted_progress", {**facts, "status": "in_progress", "code": "1)"}),
        ("model.hosted_progress", {**facts, "status": "interpreting", "output": "1"}),
        ("model.hosted_progress", {**facts, "status": "interpreting", "image": picture}),
        ("model.hosted_progress", {**facts, "status": "completed"}),
    )

    assert (first.session_update, first.kind, first.status) == (
        "tool_call",
        "execute",
        "in_progress",
    )
    assert [each.raw_input["code"] for each in updates] == ["print(", *["print(1)"] * 3]
    shown = [[block.content for block in each.content] for each in updates]
    assert [block.text for block in shown[2]] == ["print(1)", "1"]
    assert (shown[3][-1].data, shown[3][-1].mime_type) == ("iVBORw0=", "image/png")


def test_an_answer_that_begins_anew_is_another_message() -> None:
    """What was sent to an editor cannot be taken back."""
    first, second = told(
        ("model.text_delta", {**STEP, "text": "Fi"}),
        ("model.text_delta", {**STEP, "text": "Good.", "is_restart": True}),
    )
    assert first.message_id != second.message_id
