"""Recorded traffic, served on the loopback interface to the real SDK and the real adapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.recordings import Recorded, recorded
from tests.adapters.openai.response_samples import read_items, recordings, text_parts
from tests.adapters.openai.scripted_provider import Body, Json, Provider, message, response
from tests.adapters.pydantic_ai.wire.responses import ResponsesWire
from tests.adapters.pydantic_ai.wire.traffic import Tokens
from toolcrib import Event, PromptEvaluationError, PromptResponse, Session, ToolInvoked
from toolcrib.adapters.answer import answer_items
from toolcrib.adapters.items import mappings_of, maybe_int, text_of
from toolcrib.ledger.prompt_events import ModelResponded, PromptAnswered
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.shell import container_shell_tool
from toolcrib.tools.tool_search import tool_search_tool
from toolcrib.tools.web_search import web_search_tool

RECORDINGS = recordings("azure", "openai", "xai")

ANSWER = {"message", "reasoning", "compaction"}
PARTS = {"shell_call_output": "shell_call", "tool_search_output": "tool_search_call"}
LISTINGS = {"mcp_list_tools"}
"""What a server offers: it comes with the tool, not with a call."""
AWAITED = {
    "apply_patch_call": "call_id",
    "custom_tool_call": "call_id",
    "function_call": "call_id",
    "local_shell_call": "call_id",
    "mcp_approval_request": "id",
}
"""Calls that cannot go unanswered, and the field that their answer repeats."""
UNKNOWN = {"custom_tool_call", "program", "program_output", "x_search_call"}
"""Calls that the provider runs and no codec knows: they are counted, and recorded all the same."""


@dataclass(frozen=True, slots=True)
class Played:
    """A response, and what was recorded of the evaluation that it ends."""

    response: PromptResponse[Any]
    script: list[Recorded]
    """Without what was said when the recording was over."""
    further: int
    """How often that was."""


class Replayed:
    """What became of a recording: the responses, and the session in which they were heard."""

    def __init__(self, played: Sequence[Played], session: Session, heard: list[Event]) -> None:
        self.played = played
        self.responses = [each.response for each in played]
        self.heard = heard
        """What was announced meanwhile."""
        self.invoked = happened(session, ToolInvoked)
        self.provider_run = [event for event in self.invoked if event.origin == "provider"]
        self.answers = list(_answers(session))
        """The items of the last response of each evaluation that came to an answer."""


def _answers(session: Session) -> Iterator[list[Any]]:
    last = {event.turn: event.items for event in happened(session, ModelResponded)}
    for event in happened(session, PromptAnswered):
        yield last[event.turn]


def replay(path: Path, tmp_path: Path, *, stream: bool, is_offered: bool) -> Replayed:
    """Evaluate prompts until the recording is over."""
    script = recorded(path)
    session = Session()
    heard: list[Event] = []
    session.bus.subscribe(Event, heard.append)
    # Patches are applied for real, so each replay gets a directory of its own.
    root = tmp_path / ("streamed" if stream else "blocking")
    root.mkdir()
    prompt = ask(add, hosted=everything(root) if is_offered else [])
    replies = [
        replace(each.events, is_split=True)
        if stream and each.status == 200
        else Body(each.body, each.status)
        for each in script
    ]
    played: list[Played] = []
    with bench(*replies) as (adapter, provider):
        # Whoever is asked for more than was recorded has said everything it had to say.
        provider.after = response(message("Done."))
        while provider.replies:
            before = len(provider.requests)
            try:
                found = adapter.evaluate(prompt, session=session, stream=stream)
                requests = len(provider.requests)
                served = script[before:requests]
                played.append(Played(found, served, requests - before - len(served)))
            except PromptEvaluationError as error:
                last = script[len(provider.requests) - 1]
                is_whole = last.body.get("status") == "completed"
                is_complete = is_whole and "refus" not in str(error)
                is_broken = last.status != 200 or (stream and last.is_broken)
                if error.phase != ("request" if is_broken else "response") or is_complete:
                    raise
        check_answers(provider, script)
    assert session.verify() is not None
    return Replayed(played, session, heard)


def everything(root: Path) -> list[Any]:
    """Every kind of tool that needs nothing from outside."""
    return [
        apply_patch_tool(root, requires_approval=False),
        code_interpreter_tool(),
        file_search_tool(FileSearchConfig(vector_store_ids=("vs_1",))),
        image_generation_tool(),
        container_shell_tool(),
        tool_search_tool(),
        web_search_tool(),
    ]


def check_answers(provider: Provider, script: Sequence[Recorded]) -> None:
    """Every call that waits for an answer got exactly one, in the next request."""
    for asked, request in zip(script, [*provider.bodies[1:], Json()], strict=False):
        wanted = [item[AWAITED[item["type"]]] for item in asked.items if is_awaited(item, asked)]
        said = [
            item.get("call_id") or item.get("approval_request_id")
            for item in request.get("input", ())
            if item["type"].endswith(("_output", "_response"))
        ]
        assert [call_id for call_id in said if call_id in wanted] == wanted


def is_awaited(item: Json, asked: Recorded) -> bool:
    """Whether a call waits for us. A custom tool that nobody offered is the provider's own when the
    model goes on to its answer.
    """
    rest = asked.items[asked.items.index(item) :]
    is_theirs = item["type"] == "custom_tool_call" and any(e["type"] == "message" for e in rest)
    return item["type"] in AWAITED and not is_theirs


def unaccounted(script: Sequence[Recorded], replayed: Replayed) -> Iterator[str]:
    """Items that neither became a call nor belong to one."""
    raw = [event.raw for event in replayed.provider_run]
    call_ids = {event.call_id for event in replayed.invoked}
    for item in (item for each in script for item in each.items):
        kind = item["type"]
        is_ours = bool({item.get("id"), item.get("call_id")} & call_ids)
        is_part = kind in PARTS and any(call["type"] == PARTS[kind] for call in raw)
        if kind not in ANSWER | LISTINGS and item not in raw and not is_ours and not is_part:
            yield kind


def hosted_calls(script: Sequence[Recorded], replayed: Replayed) -> list[Json]:
    """The items that each are one call of the provider's, and none of ours."""
    ours = {event.call_id for event in replayed.invoked if event.origin != "provider"}
    return [
        item
        for each in script
        for item in each.items
        if item["type"] not in ANSWER | LISTINGS | PARTS.keys()
        and not {item.get("id"), item.get("call_id")} & ours
    ]


@pytest.mark.parametrize("is_offered", [True, False], ids=["offered", "unoffered"])
@pytest.mark.parametrize("path", RECORDINGS)
def test_every_recorded_item_is_accounted_for(path: Path, is_offered: bool, tmp_path: Path) -> None:
    """E3, E4, H33, N24: a provider's call becomes an invocation and an event, or belongs to one,
    whether or not it was offered; blocking and streamed evaluations come to the same.
    """
    script = recorded(path)

    blocking = replay(path, tmp_path, stream=False, is_offered=is_offered)
    streamed = replay(path, tmp_path, stream=True, is_offered=is_offered)

    for replayed in (blocking, streamed):
        assert list(unaccounted(script, replayed)) == []
        assert len(replayed.provider_run) == len(hosted_calls(script, replayed))
        assert {kind for each in replayed.responses for kind in each.skipped} <= UNKNOWN
    assert list(map(shown, blocking.responses)) == list(map(shown, streamed.responses))
    assert list(map(told, blocking.invoked)) == list(map(told, streamed.invoked))


def shown(found: PromptResponse[Any]) -> object:
    """A response without what is different in every request."""
    return found.text, found.citations, found.invocations, dict(found.hosted_outputs), found.usage


def told(event: ToolInvoked) -> object:
    return event.call_id, event.name, event.params, event.message, event.success, event.raw


@pytest.mark.parametrize("path", RECORDINGS)
def test_every_citation_points_into_the_answer(path: Path, tmp_path: Path) -> None:
    """E6: a span cuts out of the answer what the annotation marks in its part, or is None."""
    replayed = replay(path, tmp_path, stream=False, is_offered=True)

    for found, answer in zip(replayed.responses, replayed.answers, strict=True):
        cut = [found.text[slice(*each.span)] if each.span else None for each in found.citations]
        assert cut == list(marked_texts([item.raw for item in answer_items(read_items(answer))]))


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("path", RECORDINGS)
def test_answers_are_what_was_recorded(path: Path, stream: bool, tmp_path: Path) -> None:
    """E6, H38: the text of an answer is that of the recording, every source that it names is a
    citation, and every token that the provider counts is counted, all of them once.
    """
    wire, done = ResponsesWire(), response()["usage"]
    for each in replay(path, tmp_path, stream=stream, is_offered=True).played:
        found, usage = each.response, each.response.usage
        bodies = [recording.body for recording in each.script]
        told = sum(map(wire.tokens, bodies), Tokens(0, 0))

        assert usage.input_tokens == told.input + each.further * done["input_tokens"]
        assert usage.output_tokens == told.output + each.further * done["output_tokens"]
        if not each.further:
            assert found.text == wire.text(bodies[-1])
            assert Counter(map(source_of, found.citations)) == Counter(
                citation.source for citation in wire.cited(bodies[-1])
            )


def source_of(citation: Any) -> str:
    return getattr(citation, "url", None) or citation.file_id


@pytest.mark.parametrize("path", RECORDINGS)
def test_the_last_recorded_message_is_the_answer(path: Path, tmp_path: Path) -> None:
    """N24: nothing of a recording is taken for a call that waits when the model has answered."""
    last = recorded(path)[-1]
    is_answer = last.body.get("status") == "completed" and not any(
        is_awaited(item, last) for item in last.items
    )

    replayed = replay(path, tmp_path, stream=True, is_offered=True)

    if is_answer and (said := [text_of(part, "text") for part in text_parts(last.items)]):
        assert replayed.responses[-1].text.endswith(said[-1])


CITING = {"url_citation", "file_citation", "container_file_citation", "file_path"}


def marked_texts(items: Sequence[Any]) -> Iterator[str | None]:
    for part in text_parts(items):
        text = text_of(part, "text")
        for note in mappings_of(part, "annotations"):
            start, end = maybe_int(note, "start_index") or 0, maybe_int(note, "end_index") or 0
            if note.get("type") in CITING:
                yield text[start:end] if 0 <= start < end <= len(text) else None
