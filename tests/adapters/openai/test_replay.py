"""Recorded traffic, served on the loopback interface to the real SDK and the real adapter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.json_fields import text_of
from tests.adapters.openai.loopback_adapter import add, ask, bench, happened
from tests.adapters.openai.recordings import Recorded, recorded
from tests.adapters.openai.response_samples import recordings
from tests.adapters.openai.scripted_provider import Json, Provider, message, response
from tests.adapters.pydantic_ai.wire.responses import ResponsesWire
from tests.adapters.pydantic_ai.wire.traffic import Sent, Tokens
from toolcrib import Event, PromptEvaluationError, PromptResponse, Session, ToolInvoked
from toolcrib.toolkits.apply_patch import apply_patch_tool
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.shell import container_shell_tool
from toolcrib.tools.tool_search import tool_search_tool
from toolcrib.tools.web_search import web_search_tool

RECORDINGS = recordings("azure", "openai", "xai")
WIRE = ResponsesWire()

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


class Replayed:
    """What became of a recording: the responses, and the session in which they were heard."""

    def __init__(
        self,
        responses: Sequence[PromptResponse[Any]],
        session: Session,
        heard: list[Event],
        bodies: Sequence[list[Json]],
    ) -> None:
        self.responses = responses
        self.bodies = bodies
        """What the provider sent for each of the responses, without any reading of ours."""
        self.heard = heard
        """What was announced meanwhile."""
        self.invoked = happened(session, ToolInvoked)
        self.provider_run = [event for event in self.invoked if event.origin == "provider"]


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
    replies = [replace(each.events, is_split=True) if stream else each.body for each in script]
    responses: list[PromptResponse[Any]] = []
    bodies: list[list[Json]] = []
    with bench(*replies) as (adapter, provider):
        # Whoever is asked for more than was recorded has said everything it had to say.
        provider.after = response(message("Done."))
        sent = [*(each.body for each in script), provider.after]
        while provider.replies:
            start = len(provider.requests)
            try:
                responses.append(adapter.evaluate(prompt, session=session, stream=stream))
                bodies.append(sent[start : len(provider.requests)])
            except PromptEvaluationError as error:
                last = script[len(provider.requests) - 1]
                is_complete = last.body["status"] == "completed" and "refus" not in str(error)
                is_broken = stream and last.is_broken
                if error.phase != ("request" if is_broken else "response") or is_complete:
                    raise
        check_answers(provider, script)
    assert session.verify() is not None
    return Replayed(responses, session, heard, bodies)


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
        items = asked.items
        wanted = [item[AWAITED[item["type"]]] for item in items if is_awaited(item, items)]
        said = [
            item.get("call_id") or item.get("approval_request_id")
            for item in request.get("input", ())
            if item["type"].endswith(("_output", "_response"))
        ]
        assert [call_id for call_id in said if call_id in wanted] == wanted


def is_awaited(item: Json, items: Sequence[Json]) -> bool:
    """Whether a call waits for us. A custom tool that nobody offered is the provider's own when the
    model goes on to its answer.
    """
    rest = items[items.index(item) :]
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
        assert {kind for each in replayed.responses for kind in each.skipped} <= UNKNOWN
    assert list(map(shown, blocking.responses)) == list(map(shown, streamed.responses))
    assert list(map(told, blocking.invoked)) == list(map(told, streamed.invoked))


def shown(found: PromptResponse[Any]) -> object:
    """A response without what is different in every request."""
    return found.text, found.citations, found.invocations, dict(found.hosted_outputs), found.usage


def told(event: ToolInvoked) -> object:
    return event.call_id, event.name, event.params, event.message, event.success, event.raw


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
@pytest.mark.parametrize("path", RECORDINGS)
def test_the_answer_is_what_the_provider_sent(path: Path, stream: bool, tmp_path: Path) -> None:
    """E3, E6, N24: texts are whole, tokens are those that the provider counts, every source that it
    names is a citation, once, whose span cuts out what it marks, and every call that it ran is one
    invocation and one event with the provider's own JSON. What is expected is read by the tests
    alone.
    """
    replayed = replay(path, tmp_path, stream=stream, is_offered=True)

    listed: list[str] = []
    for found, bodies in zip(replayed.responses, replayed.bodies, strict=True):
        assert found.text == WIRE.text(bodies[-1])
        counted = sum((WIRE.tokens(body) for body in bodies), Tokens(0, 0))
        assert Tokens(found.usage.input_tokens, found.usage.output_tokens) == counted
        assert [cited_in(found, each) for each in found.citations] == [
            (each.source, each.text) for each in WIRE.cited(bodies[-1])
        ]
        ran = [key for body in bodies for key in ran_there(body)]
        listed += [each.item_id for _, each in found.invocations]
        assert Counter(each.item_id for _, each in found.invocations) == Counter(ran)
        sent = {key: one for body in bodies for key, one in WIRE.sent(body).items()}
        for _, invocation in found.invocations:
            check_raw(invocation.raw, sent)
    events = Counter(event.call_id for event in replayed.provider_run)
    assert {key: events[key] for key in listed} == Counter(listed)


def cited_in(found: PromptResponse[Any], citation: Any) -> tuple[str, str | None]:
    source = getattr(citation, "url", None) or citation.file_id
    return source, found.text[slice(*citation.span)] if citation.span else None


def ran_there(body: Json) -> list[str]:
    """The ids of the items that are calls which the provider ran."""
    items: list[Json] = body["output"]
    theirs = {each.id for each in WIRE.ran(body)}
    return [
        item["id"]
        for item in items
        if item["type"].endswith("_call")
        and (item.get("call_id") or item["id"]) in theirs
        and not is_awaited(item, items)
    ]


def check_raw(raw: Mapping[str, Any], sent: Mapping[str, Sent]) -> None:
    """The JSON of an invocation is that of its call, with the result that came apart from it."""
    one = sent[text_of(raw, "call_id") or text_of(raw, "id")]
    call = dict(raw)
    answer = call.pop("answer", None)
    assert call == one.call
    assert one.result is None or answer == one.result
