"""Recorded traffic of every provider, played to the real SDKs and the real adapter."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic_core import to_jsonable_python

from tests.adapters.json_fields import Json
from tests.adapters.openai.response_samples import recordings
from tests.adapters.pydantic_ai.recording_server import stage
from tests.adapters.pydantic_ai.recordings import Recorded, by_provider, recorded
from tests.adapters.pydantic_ai.script_replay import SERVER, Replayed, Theatre
from tests.adapters.pydantic_ai.wire.traffic import Cited, Ran, Sent, Tokens
from tests.helpers.byte_pieces import random_pieces
from toolcrib import PromptResponse, ToolInvoked
from toolcrib.adapters.codec import Invocation
from toolcrib.adapters.pydantic_ai.codecs.native import NativeCodec
from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs

RECORDINGS = recordings(
    "anthropic", "azure", "bedrock", "google", "google-vertex", "groq", "openai", "xai"
)
every_recording = pytest.mark.parametrize("path", RECORDINGS)
in_every_form = pytest.mark.parametrize(
    ("stream", "is_offered"),
    [(False, True), (True, True), (False, False), (True, False)],
    ids=["blocking", "streamed", "blocking-unoffered", "streamed-unoffered"],
)
either_form = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])

SPOKEN_FOR = {
    SERVER,
    *(
        kind
        for provider in ("google", "openai-responses")
        for kind, codec in default_codecs(provider).items()
        if isinstance(codec, NativeCodec)
    ),
}
"""The names of tools that a codec speaks for; the others are one provider's alone."""
SHOWN = ("stdout", "logs", "url", "uri", "code", "command", "query", "output", "queries")
"""The fields of calls and results that a person would want to see."""

Script = list[Recorded]
Play = Callable[[Path, bool, bool], list[tuple[Script, Replayed]]]


@pytest.fixture(scope="module")
def play() -> Iterator[Play]:
    """Plays a recording once in each form, however many tests look at what came of it."""
    known: dict[tuple[Path, bool, bool], list[tuple[Script, Replayed]]] = {}
    with stage() as server, asyncio.Runner() as runner:
        server.pieces = random_pieces
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


@dataclass(frozen=True, slots=True)
class Turn:
    """The responses of a script to one prompt."""

    script: Script
    is_answered: bool

    @property
    def answer(self) -> Script:
        """The last response, with those before it that it continues."""
        start = len(self.script) - 1
        while start and self.script[start - 1].wire.is_paused(self.script[start - 1].body):
            start -= 1
        return self.script[start:]

    @property
    def text(self) -> str:
        return "".join(each.wire.text(each.body) for each in self.answer)

    @property
    def cited(self) -> list[Cited]:
        """What the answer cites; a passage without any name of its document is nothing to show."""
        cited = [found for each in self.answer for found in each.wire.cited(each.body)]
        return [each for each in cited if each.source]

    @property
    def tokens(self) -> Tokens:
        told = [each.wire.tokens(each.body) for each in self.script]
        return sum(told, Tokens(0, 0))


def turns(script: Script) -> Iterator[Turn]:
    """The prompts that a script answers, or fails to answer."""
    so_far: Script = []
    for each in script:
        so_far.append(each)
        wire, body = each.wire, each.body
        is_whole = each.status == 200 and wire.is_whole(body)
        if is_whole and (wire.is_paused(body) or wire.asked(body)):
            continue
        yield Turn(so_far, is_whole and is_sound(each))
        so_far = []
    if so_far:
        last = so_far[-1]
        done = last.wire.done()
        yield Turn([*so_far, Recorded(last.provider, last.wire, done, [])], is_answered=True)


def is_sound(each: Recorded) -> bool:
    """Whether a response says or does something."""
    wire, body = each.wire, each.body
    return bool(wire.text(body) or wire.asked(body) or wire.ran(body))


def ran(script: Script) -> list[Ran]:
    """What the provider ran. A call whose result comes later is told of twice, and is one."""
    found: list[Ran] = []
    for each in (each for part in script for each in part.wire.ran(part.body)):
        before = Ran(each.id, is_answered=False)
        if each.id and before in found:
            found.remove(before)
        found.append(each)
    return found


@every_recording
@in_every_form
def test_every_recording_is_played(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """E5: nothing that was recorded is passed over: every response is heard once, every text is
    whole and there once, and an evaluation fails only where the provider says that it did.
    """
    for script, replayed in play(path, stream, is_offered):
        expected = list(turns(script))

        refused = sum(each.status != 200 for each in script)
        assert len(replayed.steps) + refused == sum(len(turn.script) for turn in expected)
        assert [each.text for each in replayed.responses] == [
            turn.text for turn in expected if turn.is_answered
        ]
        assert [error.phase for error in replayed.errors] == [
            "response" if turn.script[-1].status == 200 else "request"
            for turn in expected
            if not turn.is_answered
        ]


@every_recording
@in_every_form
def test_the_usage_is_what_the_provider_counts(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """Every token that the provider counts is counted once, those of an advisor apart."""
    for script, replayed in play(path, stream, is_offered):
        expected = [turn.tokens for turn in turns(script) if turn.is_answered]

        assert [
            Tokens(
                usage.input_tokens,
                usage.output_tokens,
                (usage.further_input_tokens, usage.further_output_tokens),
            )
            for usage in (response.usage for response in replayed.responses)
        ] == expected


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
            assert Counter(e.call_id for e in told) == Counter(each.id for each in wanted)
        unanswered = {each.id for each in wanted if not each.is_answered}
        for event in told:
            is_told = "has no result" not in event.message
            assert is_told or event.call_id in unanswered
        listed = [each for response in replayed.responses for _, each in response.invocations]
        assert [each.item_id for each in listed] == [
            event.call_id for event in told if event.turn in answered_turns(replayed)
        ]


def answered_turns(replayed: Replayed) -> set[int]:
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
def test_every_citation_is_there_once(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """E6, H38: every source that the provider names for an answer is a citation, no other is, and
    its span cuts out of the answer what the provider marks, or is None.
    """
    for script, replayed in play(path, stream, is_offered):
        answered = [turn for turn in turns(script) if turn.is_answered]
        for turn, response in zip(answered, replayed.responses, strict=True):
            found = [cited_in(response, citation) for citation in response.citations]

            assert Counter(each.source for each in found) == Counter(
                each.source for each in turn.cited
            )
            marked = {(each.source, each.text) for each in turn.cited}
            for each in found:
                # A place that the provider gives wrongly is none.
                assert each.text is None or (each.source, each.text) in marked
            placed = [each for each in turn.cited if each.text and each.text in response.text]
            if any(each.is_web for each in placed):
                assert any(each.text for each in found)


def cited_in(response: PromptResponse[Any], citation: Any) -> Cited:
    source = getattr(citation, "url", None)
    name = source or citation.file_id or getattr(citation, "filename", "")
    span = citation.span
    return Cited(name, response.text[slice(*span)] if span else None, source is not None)


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
def test_raw_is_what_the_provider_sent(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """N16: an invocation has the provider's own JSON of its call and of its result, every field as
    it came over the wire.
    """
    for script, replayed in play(path, stream, is_offered):
        sent: dict[str, Sent] = {}
        for each in script:
            for key, one in each.wire.sent(each.body).items():
                # The result may come in a later response.
                sent[key] = replace(sent[key], result=one.result) if key in sent else one
        for invocation in invocations(replayed):
            if (one := sent.get(invocation.item_id)) is None:
                continue
            raw = dict(invocation.raw)
            answer = raw.pop("answer", None)
            assert raw == one.call
            assert one.result is None or answer == one.result


def invocations(replayed: Replayed) -> list[Invocation]:
    return [each for response in replayed.responses for _, each in response.invocations]


@every_recording
@in_every_form
def test_results_hold_what_the_provider_sent(
    path: Path, stream: bool, is_offered: bool, play: Play
) -> None:
    """H33, N21: code, what it printed, queries and addresses are in the params, the value or the
    message of their call.
    """
    for _, replayed in play(path, stream, is_offered):
        for invocation in invocations(replayed):
            if not invocation.success:
                continue
            shown = json.dumps(
                to_jsonable_python(
                    [invocation.params, invocation.value, invocation.message], fallback=str
                ),
                ensure_ascii=False,
            )
            for text in facts(invocation.raw):
                assert json.dumps(text, ensure_ascii=False)[1:-1] in shown


def facts(node: Any, key: str = "") -> Iterator[str]:
    """The texts of a call and its result that a person would want to see."""
    match node:
        case dict():
            members = cast("Json", node)
            # Groq says twice what a search found, and a page that it opened is long.
            is_told = members.get("type") in ("search", "visit")
            for name, value in members.items():
                if not (is_told and name == "output"):
                    yield from facts(value, name)
        case list():
            for value in cast("list[Any]", node):
                yield from facts(value, key)
        case str() if key in SHOWN and node.strip():
            yield node.strip()
        case _:
            pass


@every_recording
@in_every_form
def test_nothing_is_unknown(path: Path, stream: bool, is_offered: bool, play: Play) -> None:
    """H33: a codec reads whatever these providers ran; what has none is counted, and told."""
    for _, replayed in play(path, stream, is_offered):
        unread = {"apply_patch_call", "computer_call", "local_shell_call", "mcp_approval_request"}
        for response in replayed.responses:
            names = [name for name, _ in response.invocations if name not in SPOKEN_FOR]
            known = {kind: n for kind, n in response.skipped.items() if kind not in unread}
            assert known == ({"native_call": len(names)} if names else {})
