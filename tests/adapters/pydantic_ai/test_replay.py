"""Recorded traffic of every provider, played to the real SDKs and the real adapter."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.response_samples import recordings
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.recordings import Recorded, by_provider, recorded
from tests.adapters.pydantic_ai.script_replay import SERVER, Replayed, Theatre
from tests.adapters.pydantic_ai.wire.traffic import Json, Ran
from toolcrib import PromptResponse, ToolInvoked
from toolcrib.adapters.codec import Invocation
from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs

RECORDINGS = recordings("anthropic", "bedrock", "google", "google-vertex", "groq", "xai")
every_recording = pytest.mark.parametrize("path", RECORDINGS)
in_every_form = pytest.mark.parametrize(
    ("stream", "is_offered"),
    [(False, True), (True, True), (False, False), (True, False)],
    ids=["blocking", "streamed", "blocking-unoffered", "streamed-unoffered"],
)

SPOKEN_FOR = {*default_codecs("google"), SERVER}
"""The names of tools that a codec speaks for; the others are one provider's alone."""

Script = list[Recorded]
Play = Callable[[Path, bool, bool], list[tuple[Script, Replayed]]]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Plays a recording once in each form, however many tests look at what came of it."""
    known: dict[tuple[Path, bool, bool], list[tuple[Script, Replayed]]] = {}
    with stage() as server, asyncio.Runner() as runner:
        theatre = Theatre(server)

        def played(path: Path, stream: bool, is_offered: bool) -> list[tuple[Script, Replayed]]:
            key = (path, stream, is_offered)
            if key not in known:
                parts = by_provider(recorded(path))
                runs = [
                    runner.run(theatre.play(part, stream=stream, is_offered=is_offered))
                    for part in parts
                ]
                known[key] = list(zip(parts, runs, strict=True))
            return known[key]

        yield played
        runner.run(theatre.close())


def ran(script: Script) -> list[Ran]:
    """What the provider ran. A call whose result comes later is told of twice, and is one."""
    found: list[Ran] = []
    for each in (each for part in script for each in part.wire.ran(part.body)):
        before = Ran(each.id, is_answered=False)
        if each.id and before in found:
            found.remove(before)
        found.append(each)
    return found


def answers(script: Script) -> Iterator[str]:
    """The texts to which the script comes: of every response that is whole and asks for nothing,
    with what was said before a pause.
    """
    before = ""
    for each in script:
        wire, body = each.wire, each.body
        if wire.is_paused(body):
            before += wire.text(body)
            continue
        is_answer = wire.is_whole(body) and not wire.asked(body)
        if is_answer and (wire.text(body) or wire.ran(body)):
            yield before + wire.text(body)
        before = ""
    if script[-1].wire.asked(script[-1].body):
        yield "Done."


def is_sound(each: Recorded) -> bool:
    """Whether something can follow from a response: it is whole, and says or does something."""
    wire, body = each.wire, each.body
    is_silent = not (wire.text(body) or wire.asked(body) or wire.ran(body))
    return wire.is_whole(body) and (wire.is_paused(body) or not is_silent)


@every_recording
@in_every_form
def test_every_recording_is_played(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """E5: nothing that was recorded is passed over, and an evaluation fails only where the
    provider says that it did: cut off, filtered, empty.
    """
    played = play(path, stream, is_offered)

    assert played
    for script, replayed in played:
        assert len(replayed.steps) == len(replayed.asked) - replayed.asked.count({})
        assert [each.text for each in replayed.responses] == list(answers(script))
        for error in replayed.errors:
            assert error.phase == "response"
        assert not replayed.errors or not all(map(is_sound, script))


@every_recording
@in_every_form
def test_every_call_is_one_invocation(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """N24, H33: a call that the provider ran is one invocation and one event, with its result,
    also when that came in a later response, and whether or not the tool was offered.
    """
    for script, replayed in play(path, stream, is_offered):
        told, wanted = replayed.provider_run, ran(script)

        assert len(told) == len(wanted)
        if all(each.id for each in wanted):
            assert {event.call_id for event in told} == {each.id for each in wanted}
        unanswered = {each.id for each in wanted if not each.is_answered}
        for event in told:
            is_told = "has no result" not in event.message
            assert is_told or event.call_id in unanswered
        listed = [each for response in replayed.responses for _, each in response.invocations]
        assert [each.item_id for each in listed] == [
            event.call_id for event in told if event.turn in answered_turns(replayed)
        ]


def answered_turns(replayed: Replayed) -> set[int]:
    failed = len(replayed.errors)
    turns = sorted({step.turn for step in replayed.steps})
    assert len(turns) == failed + len(replayed.responses)
    return {step.turn for step in replayed.steps if step.status == "completed"}


@every_recording
@in_every_form
def test_calls_of_ours_are_answered(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """Every call that waits for us is answered once, in the next request."""
    for script, replayed in play(path, stream, is_offered):
        requests: list[Json] = [*replayed.asked[1:], {}]
        for each, request in zip(script, requests, strict=False):
            asked = each.wire.asked(each.body) if each.wire.is_whole(each.body) else []
            if asked:
                said = each.wire.answered(request)
                assert [key for key in said if key in asked] == asked


@every_recording
@in_every_form
def test_spans_slice_to_the_cited_text(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """E6, H38: a span cuts out of the answer what the provider says it cites, or is None."""
    for script, replayed in play(path, stream, is_offered):
        cited = [found for each in script for found in each.wire.cited(each.body)]
        sliced = list(cut(replayed.responses))

        assert set(sliced) - {None} <= {each.text for each in cited}
        said = "".join(each.text for each in replayed.responses)
        if any(each.is_web and each.text and each.text in said for each in cited):
            assert any(sliced)


def cut(responses: Sequence[PromptResponse[Any]]) -> Iterator[str | None]:
    for response in responses:
        outputs = [getattr(each, "citations", ()) for each in response.hosted_outputs.values()]
        cited = [*response.citations, *(each for listed in outputs for each in listed)]
        for citation in cited:
            if hasattr(citation, "url"):
                yield response.text[slice(*citation.span)] if citation.span else None


@every_recording
@pytest.mark.parametrize("is_offered", [True, False], ids=["offered", "unoffered"])
def test_a_stream_comes_to_the_same(path: Path, is_offered: bool, play: Play) -> None:
    """E3: blocking and streamed evaluations give the same texts, citations, calls and outputs."""
    pairs = zip(play(path, False, is_offered), play(path, True, is_offered), strict=True)
    for (_, blocking), (_, streamed) in pairs:
        assert list(map(shown, streamed.responses)) == list(map(shown, blocking.responses))
        assert list(map(told, streamed.invoked)) == list(map(told, blocking.invoked))


def shown(response: PromptResponse[Any]) -> object:
    """A response without what is different in every request."""
    calls = [(name, replace(each, item_id="", raw={})) for name, each in response.invocations]
    outputs = dict(response.hosted_outputs)
    return response.text, response.citations, calls, outputs, response.usage, response.skipped


def told(event: ToolInvoked) -> object:
    return event.name, event.params, event.message, event.success


@every_recording
@in_every_form
def test_raw_items_are_kept(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """N16: what an invocation is made of is what the provider sent, and is in the ledger."""
    for _, replayed in play(path, stream, is_offered):
        kept = [item for step in replayed.steps for item in step.items]
        for invocation in invocations(replayed):
            raw = {key: value for key, value in invocation.raw.items() if key != "answer"}
            assert raw in kept
            answer = mapping_of(invocation.raw, "answer")
            assert not answer or answer in kept
            assert text_of(invocation.raw, "id") == invocation.item_id


def invocations(replayed: Replayed) -> list[Invocation]:
    return [each for response in replayed.responses for _, each in response.invocations]


@every_recording
@in_every_form
def test_nothing_is_unknown(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """H33: a codec reads whatever these providers ran; what has none is counted, and told."""
    for _, replayed in play(path, stream, is_offered):
        for response in replayed.responses:
            names = [name for name, _ in response.invocations if name not in SPOKEN_FOR]
            assert dict(response.skipped) == ({"native_call": len(names)} if names else {})
