"""What providers send and pydantic-ai loses, doubles or fails at, told whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Events, events_of, message, response
from tests.adapters.pydantic_ai import handwritten_scripts as written
from tests.adapters.pydantic_ai.handwritten_scripts import Act, scripted
from tests.adapters.pydantic_ai.recordings import Recorded
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptResponse, Session, ToolInvoked
from toolcrib.ledger.prompt_events import ModelResponded, TextDelta
from toolcrib.tools.web_search import Citation

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
PAGE = "https://example.org/a"
SEARCH: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "a", "queries": ["a"]},
}


def heard(act: Act, script: Sequence[Recorded], *, stream: bool) -> PromptResponse[Any]:
    (found,) = act(script, stream=stream).responses
    return found


def pages(found: PromptResponse[Any]) -> list[Citation]:
    """The pages that an answer cites, which are all that it cites."""
    cited = [each for each in found.citations if isinstance(each, Citation)]
    assert len(cited) == len(found.citations)
    return cited


@both_forms
@pytest.mark.parametrize(
    ("places", "span"),
    [
        ({}, None),
        ({"title": "A"}, None),
        ({"start_index": 0, "end_index": 2}, (0, 2)),
        ({"title": None, "start_index": None, "end_index": None}, None),
        ({"start_index": "x", "end_index": 2, "title": "A"}, None),
        ({"start_index": 9, "end_index": 99, "title": "A"}, None),
    ],
)
def test_a_citation_needs_nothing_but_its_address(
    places: Json, span: tuple[int, int] | None, stream: bool, act: Act
) -> None:
    """Recordings, bug 1: xAI sends citations without a title and a place; none is lost, and one bad
    place does not cost the address.
    """
    note = {"type": "url_citation", "url": PAGE, **places}
    script = scripted("openai-responses", response(SEARCH, message("So.", note, note)))

    found = heard(act, script, stream=stream)

    assert [(each.url, each.span) for each in pages(found)] == [(PAGE, span), (PAGE, span)]


@both_forms
@pytest.mark.parametrize("content", [{}, {"content": []}], ids=["missing", "empty"])
def test_citations_of_a_block_without_text_are_kept(content: Json, stream: bool, act: Act) -> None:
    """Recordings, bug 2: on Bedrock, Nova cites in blocks that have no text of their own."""
    cited = [
        {"title": name, "location": {"web": {"url": f"https://example.org/{name}", "domain": "e"}}}
        for name in "abc"
    ]
    blocks = [{"text": "It is so."}, {"citationsContent": {"citations": cited, **content}}]
    usage = {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}
    body = {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": "end_turn",
        "usage": usage,
        "metrics": {"latencyMs": 1},
    }

    found = heard(act, scripted("bedrock", body), stream=stream)

    assert found.text == "It is so."
    assert [each.url for each in pages(found)] == [f"https://example.org/{n}" for n in "abc"]
    assert {each.span for each in found.citations} == {None}


def gemini(*parts: Json, **facts: Any) -> Json:
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    content = {"role": "model", "parts": list(parts)}
    told = {"content": content, "finishReason": "STOP", "index": 0, **facts}
    return {"candidates": [told], "usageMetadata": usage, "responseId": "r1"}


@both_forms
@pytest.mark.parametrize(
    ("code_ids", "result_ids", "outputs"),
    [
        (("a", "b"), ("b", "a"), ("2", "1")),
        (("a", "b"), ("a", "b"), ("1", "2")),
        ((None, None), (None, None), ("1", "2")),
        (("a", None), (None, "a"), ("2", "1")),
    ],
)
def test_results_belong_to_their_code(
    code_ids: tuple[str | None, ...],
    result_ids: tuple[str | None, ...],
    outputs: tuple[str, ...],
    stream: bool,
    act: Act,
) -> None:
    """Recordings, bug 3: Gemini's results belong to the code with their id, or come in its order;
    the id is that of the call.
    """

    def named(facts: Json, key: str | None) -> Json:
        return {**facts, **({"id": key} if key else {})}

    code = [
        {"executableCode": named({"code": f"print({n})", "language": "PYTHON"}, key)}
        for n, key in zip((1, 2), code_ids, strict=True)
    ]
    results = [
        {"codeExecutionResult": named({"outcome": "OUTCOME_OK", "output": out}, key)}
        for out, key in zip(outputs, result_ids, strict=True)
    ]

    found = heard(act, scripted("google", gemini(*code, *results, {"text": "So."})), stream=stream)

    ran = [each for _, each in found.invocations]
    assert [(each.value.code, each.value.stdout) for each in ran] == [
        ("print(1)", "1"),
        ("print(2)", "2"),
    ]
    assert all(each.success for each in ran)
    assert [key for key in code_ids if key] == [
        each.item_id for each, key in zip(ran, code_ids, strict=True) if key
    ]


@pytest.mark.parametrize("kept", [(".done", "completed"), (".added", ".done", "completed"), ()])
def test_a_text_need_not_come_in_deltas(kept: tuple[str, ...], act: Act) -> None:
    """Recordings, bug 4: the answer is whole in the items and in the end of a stream; where only
    the end is sent, it is the answer too.
    """
    (script,) = scripted("openai-responses", response(SEARCH, message("It is so.")))
    first, *rest = script.events
    events = [each for each in rest if each["type"].endswith(kept or "completed")]
    bare = replace(script, events=[first, *(e for e in events if "delta" not in e["type"])])

    found = heard(act, [bare], stream=True)

    assert (found.text, [name for name, _ in found.invocations]) == ("It is so.", ["web_search"])


def test_a_text_may_come_in_deltas_alone(act: Act) -> None:
    """Recordings, bug 4, the other way round: a server that repeats the text nowhere."""
    note = {"type": "url_citation", "url": PAGE, "title": "A", "start_index": 0, "end_index": 2}
    (script,) = scripted("openai-responses", response(message("It is so.", note)))
    kept = [e for e in script.events if not e["type"].endswith(("item.done", "completed"))]
    end: Json = {**script.events[-1], "response": {**script.body, "output": []}}

    through = heard(act, [replace(script, events=[*kept, end])], stream=True)
    with bench(Events([*kept, end])) as (adapter, _):
        ours = adapter.evaluate(ask(), stream=True)

    for found in (through, ours):
        assert found.text == "It is so."
        assert [(each.url, each.span) for each in pages(found)] == [(PAGE, (0, 2))]


@both_forms
@pytest.mark.parametrize("annotations", [{}, {"annotations": None}], ids=["missing", "null"])
def test_a_text_needs_no_annotations(annotations: Json, stream: bool, act: Act) -> None:
    """Recordings, bug 5: output of the compact endpoint has none, and is an answer."""
    part = {"type": "output_text", "text": "It is so.", **annotations}
    said = {"type": "message", "id": "m", "role": "assistant", "status": "completed"}

    script = scripted("openai-responses", response({**said, "content": [part]}))

    assert heard(act, script, stream=stream).text == "It is so."


@both_forms
def test_what_ran_before_a_failure_is_recorded(stream: bool, act: Act) -> None:
    """Recordings, bug 6: a failed response is a response: what it ran and cost is in the ledger, as
    on the adapter for OpenAI, and the error gives the provider's reason.
    """
    error = {"code": "server_error", "message": "out of luck"}
    body = response(SEARCH, status="failed", error=error)

    replayed = act(scripted("openai-responses", body), stream=stream)
    session = Session()
    with bench(body) as (adapter, _), pytest.raises(Exception, match="out of luck"):
        adapter.evaluate(ask(), session=session, stream=stream)

    (failed,) = replayed.errors
    assert (failed.phase, failed.reason) == ("response", "failed")
    assert "server_error: out of luck" in str(failed)
    for heard_in in (replayed.session, session):
        (step,) = happened(heard_in, ModelResponded)
        assert (step.status, step.usage["input_tokens"]) == ("failed", 10)
        assert [each.call_id for each in happened(heard_in, ToolInvoked)] == ["ws_1"]


def twice(events: Sequence[Json]) -> list[Json]:
    return [event for each in events for event in (each, each)]


def again(events: Sequence[Json]) -> list[Json]:
    return [*events, *events]


ANTHROPIC = written.message(
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []},
    {
        "type": "text",
        "text": "haha so.",
        "citations": [
            {
                "type": "web_search_result_location",
                "url": PAGE,
                "title": "A",
                "cited_text": "c",
                "encrypted_index": "e",
            }
        ],
    },
)
CODE = {"executableCode": {"code": "print(1)", "language": "PYTHON"}}
RAN = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
GROQ = written.completion(
    "haha so.",
    {"type": "search", "arguments": '{"query": "q"}', "output": "o", "search_results": {}},
)
BEDROCK: Json = {
    "output": {"message": {"role": "assistant", "content": [{"text": "haha so."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15},
    "metrics": {"latencyMs": 1},
}


@pytest.mark.parametrize("repeated", [twice, again])
@pytest.mark.parametrize(
    ("provider", "body"),
    [
        ("anthropic", ANTHROPIC),
        ("bedrock", BEDROCK),
        ("google", gemini(CODE, RAN, {"text": "haha so."})),
        ("groq", GROQ),
        ("openai-responses", response(SEARCH, message("haha so."))),
    ],
)
def test_what_is_said_twice_is_heard_once(
    provider: str, body: Json, repeated: Callable[[Sequence[Json]], list[Json]], act: Act
) -> None:
    """Recordings, bug 7: some servers send every event twice; texts, citations, calls and tokens
    are those of the events.
    """
    (script,) = scripted(provider, body)
    whole = heard(act, [script], stream=True)

    found = heard(act, [replace(script, events=repeated(script.events))], stream=True)

    assert found.text == whole.text == "haha so."
    assert found.usage == whole.usage
    assert found.citations == whole.citations
    assert [name for name, _ in found.invocations] == [name for name, _ in whole.invocations]


def test_equal_pieces_of_a_text_are_no_repetition(act: Act) -> None:
    """Recordings, bug 7: a text may say the same twice, also at its beginning."""
    said = gemini({"text": "ha"})["candidates"][0]
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    open_part = {key: value for key, value in said.items() if key != "finishReason"}
    piece: Json = {"candidates": [open_part], "responseId": "r1"}
    (script,) = scripted("google", gemini({"text": "hahaha!"}))
    end = gemini({"text": "!"}) | {"usageMetadata": usage}

    found = heard(act, [replace(script, events=[piece, piece, piece, end])], stream=True)

    assert found.text == "hahaha!"


def test_a_repeated_text_is_announced_once() -> None:
    """Recordings, bug 7: whoever watches a stream is not told the same event twice."""
    session = Session()
    deltas: list[str] = []
    session.bus.subscribe(TextDelta, lambda event: deltas.append(event.text))
    with bench(Events(twice(events_of(response(message("It is so.")))))) as (adapter, _):
        found = adapter.evaluate(ask(), session=session, stream=True)

    assert "".join(deltas) == found.text == "It is so."


@both_forms
def test_raw_of_a_search_on_groq_is_the_tool_that_it_sent(stream: bool, act: Act) -> None:
    """Recordings, bug 8: also its `output`, which says the same as its results."""
    results = {"results": [{"url": PAGE, "title": "A", "content": "c", "score": 0.5}]}
    tool = {
        "type": "search",
        "arguments": '{"query": "q"}',
        "output": "o",
        "search_results": results,
    }

    found = heard(act, scripted("groq", written.completion("So.", tool)), stream=stream)

    ((_, ran),) = found.invocations
    assert ran.raw == {"index": 0, **tool}
    assert ran.value.source_urls == (PAGE,)


@both_forms
def test_raw_of_a_tool_search_has_its_limit(stream: bool, act: Act) -> None:
    """Recordings, bug 8: pydantic-ai leaves fields of Anthropic's arguments out."""
    use = {"type": "server_tool_use", "id": "s1", "name": "tool_search_tool_bm25"}
    call = {**use, "input": {"query": "q", "limit": 3}}
    content: Json = {"type": "tool_search_tool_search_result", "tool_references": []}
    result: Json = {"type": "tool_search_tool_result", "tool_use_id": "s1", "content": content}
    body = written.message(call, result, {"type": "text", "text": "So."})

    found = heard(act, scripted("anthropic", body), stream=stream)

    ((_, ran),) = found.invocations
    assert ran.raw == {**call, "answer": result}


@both_forms
def test_tokens_of_an_advisor_are_counted(stream: bool, act: Act) -> None:
    """Recordings, bug 9: they are of another model, so they are apart, and in the total."""
    rounds = [
        {"type": "message", "input_tokens": 10, "output_tokens": 5},
        {"type": "advisor_message", "model": "m", "input_tokens": 27, "output_tokens": 38},
    ]
    zero = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    body = written.message({"type": "text", "text": "So."})
    body["usage"] = {**body["usage"], "iterations": [{**each, **zero} for each in rounds]}

    replayed = act(scripted("anthropic", body), stream=stream)

    (found,) = replayed.responses
    assert (found.usage.input_tokens, found.usage.output_tokens) == (10, 5)
    assert (found.usage.further_input_tokens, found.usage.further_output_tokens) == (27, 38)
    assert found.usage.total_tokens == 80
    (step,) = replayed.steps
    assert (step.usage["further_input_tokens"], step.usage["further_output_tokens"]) == (27, 38)


@both_forms
def test_a_message_without_usage_is_an_answer(stream: bool, act: Act) -> None:
    """Recordings, mutated traffic: what the provider does not count is counted as nothing."""
    body = {**written.message({"type": "text", "text": "So."}), "usage": None}

    found = heard(act, scripted("anthropic", body), stream=stream)

    assert (found.text, found.usage.total_tokens) == ("So.", 0)


@both_forms
def test_citations_of_search_results_are_pages(stream: bool, act: Act) -> None:
    """H38: Anthropic cites results that the program gave it under a type that pydantic-ai does not
    know.
    """
    note = {
        "type": "search_result_location",
        "source": PAGE,
        "title": "A",
        "cited_text": "c",
        "search_result_index": 0,
        "start_block_index": 0,
        "end_block_index": 1,
    }
    block = {"type": "text", "text": "It is so.", "citations": [note]}

    found = heard(act, scripted("anthropic", written.message(block)), stream=stream)

    assert [(each.url, each.title, each.span) for each in pages(found)] == [(PAGE, "A", (0, 9))]


@both_forms
def test_a_support_without_a_segment_is_a_citation(stream: bool, act: Act) -> None:
    """H38: Gemini need not say which text a source supports."""
    grounds = {
        "webSearchQueries": ["q"],
        "groundingChunks": [{"web": {"uri": PAGE, "title": "A"}}],
        "groundingSupports": [
            {"groundingChunkIndices": [0]},
            {"segment": {"endIndex": 2, "text": "It"}, "groundingChunkIndices": [0]},
        ],
    }
    body = gemini({"text": "It is so."}, groundingMetadata=grounds)

    found = heard(act, scripted("google", body), stream=stream)

    assert sorted(str(each.span) for each in found.citations) == ["(0, 2)", "None"]


@both_forms
def test_an_item_with_a_missing_field_costs_nothing_else(stream: bool, act: Act) -> None:
    """E4: an item that pydantic-ai fails at is told as one that nobody knows."""
    odd = {"type": "mcp_list_tools", "id": "l_1", "server_label": "s", "tools": None}

    found = heard(
        act, scripted("openai-responses", response(SEARCH, odd, message("So."))), stream=stream
    )

    assert (found.text, [name for name, _ in found.invocations]) == ("So.", ["web_search"])
