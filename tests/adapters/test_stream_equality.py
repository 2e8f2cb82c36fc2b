"""Blocking and streamed evaluations of every recording: the same in every field, and what was
announced meanwhile adds up to it.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from tests.adapters.openai.response_samples import recordings
from tests.adapters.openai.test_replay import replay
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.recordings import by_provider, recorded
from tests.adapters.pydantic_ai.script_replay import Replayed, Theatre
from tests.helpers.byte_pieces import random_pieces
from toolcrib import Event, PromptResponse, ToolInvoked
from toolcrib.ledger import (
    ArgumentsDelta,
    HostedToolProgress,
    PromptAnswered,
    ReasoningDelta,
    TextDelta,
)

RESPONSES = recordings("azure", "openai", "xai")
EVERY = recordings(
    "anthropic", "azure", "bedrock", "google", "google-vertex", "groq", "openai", "xai"
)
MADE_ID = re.compile(r"pyd_ai_[0-9a-f]{32}")
"""An id that pydantic-ai makes up where the provider has none: another one every time."""

Play = Callable[[Path, bool], list[Replayed]]


def facts(responses: Sequence[PromptResponse[Any]]) -> list[dict[str, object]]:
    """Every field of every response."""
    names: dict[str, str] = {}
    return [
        {each.name: _stable(getattr(response, each.name), names) for each in fields(response)}
        for response in responses
    ]


def _stable(value: Any, names: dict[str, str]) -> object:
    """A value as plain data, with made-up ids in the order of their appearance."""
    match value:
        case str():
            return MADE_ID.sub(lambda found: names.setdefault(found[0], f"id {len(names)}"), value)
        case Mapping():
            members = cast("Mapping[Any, Any]", value).items()
            return {key: _stable(member, names) for key, member in members}
        case list() | tuple():
            return [_stable(member, names) for member in cast("Sequence[Any]", value)]
        case _ if is_dataclass(value):
            members = {each.name: getattr(value, each.name) for each in fields(value)}
            return type(value), _stable(members, names)
        case _:
            return value


def check_announced(heard: Sequence[Event], responses: Sequence[PromptResponse[Any]]) -> None:
    """What was announced adds up to the responses, and to the calls in the ledger."""
    answered = [event.turn for event in heard if isinstance(event, PromptAnswered)]
    for turn, response in zip(answered, responses, strict=True):
        texts: defaultdict[int, str] = defaultdict(str)
        thoughts: defaultdict[tuple[int, int], str] = defaultdict(str)
        for event in heard:
            match event:
                case TextDelta() if event.turn == turn:
                    before = "" if event.is_restart else texts[event.step]
                    texts[event.step] = before + event.text
                case ReasoningDelta() if event.turn == turn:
                    thoughts[event.step, event.index] += event.text
                case _:
                    pass
        assert "".join(texts.values()).endswith(response.text)
        assert tuple(thoughts.values()) == response.reasoning
    invoked = {event.call_id: event for event in heard if isinstance(event, ToolInvoked)}
    check_arguments(heard, invoked)
    check_progress(heard, invoked)


def check_arguments(heard: Sequence[Event], invoked: Mapping[str, ToolInvoked]) -> None:
    """Every call of ours was announced from its beginning, with all of its arguments."""
    written: defaultdict[str, str] = defaultdict(str)
    for event in heard:
        if isinstance(event, ArgumentsDelta):
            written[event.call_id] += event.text
    ours = {call_id: event for call_id, event in invoked.items() if event.origin == "local"}
    assert written.keys() >= ours.keys()
    for call_id, event in ours.items():
        if event.success and event.params and event.name == "add":
            assert json.loads(written[call_id]) == event.params


def check_progress(heard: Sequence[Event], invoked: Mapping[str, ToolInvoked]) -> None:
    """Progress is that of provider-run calls, which it follows to their end."""
    codes: defaultdict[str, str] = defaultdict(str)
    for event in heard:
        if isinstance(event, HostedToolProgress):
            codes[event.call_id] += event.code or ""
            if call := invoked.get(event.call_id):
                assert (call.origin, call.name) == ("provider", event.tool)
                assert call.capability == event.capability
    for call_id, event in invoked.items():
        if event.origin == "provider":
            assert call_id in codes
            assert codes[call_id] == (_code(event.params) or codes[call_id])


def _code(params: Any) -> str | None:
    return cast("Mapping[str, Any]", params).get("code") if isinstance(params, Mapping) else None


@pytest.mark.parametrize("path", RESPONSES)
def test_the_openai_adapter_streams_what_it_answers(path: Path, tmp_path: Path) -> None:
    """X6, C38: how an answer of the Responses API travels changes no field of the result."""
    blocking = replay(path, tmp_path, stream=False, is_offered=True)
    streamed = replay(path, tmp_path, stream=True, is_offered=True)

    assert facts(streamed.responses) == facts(blocking.responses)
    check_announced(streamed.heard, streamed.responses)


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Plays a recording to the models of pydantic-ai."""
    with stage() as server, asyncio.Runner() as runner:
        server.pieces = random_pieces
        theatre = Theatre(server)

        def played(path: Path, stream: bool) -> list[Replayed]:
            parts = by_provider(recorded(path))
            return [
                runner.run(theatre.play(part, stream=stream, is_offered=True)) for part in parts
            ]

        yield played
        runner.run(theatre.close())


@pytest.mark.parametrize("path", EVERY)
def test_the_pydantic_ai_adapter_streams_what_it_answers(path: Path, play: Play) -> None:
    """X6, C38: how an answer of any provider travels changes no field of the result."""
    for blocking, streamed in zip(play(path, False), play(path, True), strict=True):
        assert facts(streamed.responses) == facts(blocking.responses)
        check_announced(streamed.heard, streamed.responses)
