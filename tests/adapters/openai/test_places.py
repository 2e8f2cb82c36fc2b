"""Places in what provider-run tools give back: they count in the response's text, or are None."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench
from tests.adapters.openai.scripted_provider import Json, call, message, response
from toolcrib import Approve, HostedTool, PromptEvaluationError, PromptResponse, Session
from toolcrib.tools.code_interpreter import GeneratedFile, code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.web_search import web_search_tool

SEARCHED: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
LOOKED: Json = {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["q"]}
RAN: Json = {
    "type": "code_interpreter_call",
    "id": "ci_1",
    "status": "completed",
    "container_id": "cntr_1",
    "code": "save()",
}
SUM = call("add", {"a": 1, "b": 2})
FILES = file_search_tool(FileSearchConfig(("vs_1",)))
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


def cited(url: str, start: int, end: int) -> Json:
    place = {"start_index": start, "end_index": end}
    return {"type": "url_citation", "url": url, "title": url, **place}


def made(file_id: str, start: int, end: int) -> Json:
    place = {"start_index": start, "end_index": end}
    file = {"container_id": "cntr_1", "file_id": file_id, "filename": f"{file_id}.csv"}
    return {"type": "container_file_citation", **file, **place}


def marked(found: PromptResponse[Any], places: Sequence[Any]) -> list[str | None]:
    """What the places mark in the text that the user has."""
    return [found.text[slice(*each.span)] if each.span else None for each in places]


def evaluated(*steps: Json, hosted: Sequence[Any], **options: Any) -> PromptResponse[Any]:
    with bench(*steps) as (adapter, _):
        return adapter.evaluate(ask(add, hosted=hosted), **options)


@STREAMED
def test_a_citation_marks_the_text_of_the_response(stream: bool) -> None:
    """E3, E6: what an earlier step cites is kept, without a place; the answer's places are its
    own, however much was said before.
    """
    found = evaluated(
        response(SEARCHED, message("By a.example, maybe.", cited("https://a", 3, 12)), SUM),
        response(message("So says b.example.", cited("https://b", 8, 17))),
        hosted=[web_search_tool()],
        stream=stream,
    )

    result = found.hosted_outputs["web_search"]
    assert [each.url for each in result.citations] == ["https://a", "https://b"]
    assert marked(found, result.citations) == [None, "b.example"]
    assert marked(found, found.citations) == ["b.example"]
    assert result.text == found.text == "So says b.example."


def test_remarks_on_the_way_are_no_part_of_the_text() -> None:
    """E6: a message that the model marks as commentary shifts no place of the answer."""
    found = evaluated(
        response(
            SEARCHED,
            message("Looking at a.example.", cited("https://a", 11, 20), phase="commentary"),
            message("It is b.example.", cited("https://b", 6, 15), phase="final_answer"),
        ),
        hosted=[web_search_tool()],
    )

    assert marked(found, found.hosted_outputs["web_search"].citations) == [None, "b.example"]


def test_a_generated_file_is_placed_where_the_answer_mentions_it() -> None:
    """C25, C29, E6: a mention in an earlier step has no place; the one in the answer counts."""
    found = evaluated(
        response(
            RAN, message("Wrote one.csv, two.csv.", made("one", 6, 13), made("two", 15, 22)), SUM
        ),
        response(message("Take two.csv.", made("two", 5, 12))),
        hosted=[code_interpreter_tool()],
    )

    one, two = found.hosted_outputs["code_interpreter"].files
    assert one == GeneratedFile("cntr_1", "one", "one.csv", None)
    assert marked(found, [two]) == ["two.csv"]


def test_the_files_of_one_call_are_placed_alike() -> None:
    """C25, E6: what is recorded of a call has places of the response's text too, or none."""
    found = evaluated(
        response(RAN, message("Wrote one.csv.", made("one", 6, 13)), SUM),
        response(
            {**RAN, "id": "ci_2"},
            message("Now two.csv.", made("two", 4, 11), phase="commentary"),
            message("Take two.csv.", made("two", 5, 12), phase="final_answer"),
        ),
        hosted=[code_interpreter_tool()],
    )

    files = [ran.value.files for _, ran in found.invocations]
    assert [[each.file_id for each in listed] for listed in files] == [["one"], ["two"]]
    assert [marked(found, listed) for listed in files] == [[None], ["two.csv"]]


def test_a_cited_file_has_its_point_in_the_text_of_the_response() -> None:
    """E6: points are held to the same rule as spans."""

    def noted(file_id: str, index: int) -> Json:
        return {"type": "file_citation", "file_id": file_id, "filename": "n", "index": index}

    found = evaluated(
        response(LOOKED, message("Reading.", noted("f_1", 0)), SUM),
        response(message("It is so.", noted("f_2", 8))),
        hosted=[FILES],
    )

    result = found.hosted_outputs["file_search"]
    assert [(each.file_id, each.index) for each in result.citations] == [("f_1", None), ("f_2", 8)]
    assert result.text == found.text


async def test_while_calls_wait_nothing_has_a_place() -> None:
    """E6: there is no text yet; once there is one, places count in it, also after a resume."""
    session = Session(need_user_approve_tools=["add"])
    prompt = ask(add, hosted=[web_search_tool()])
    steps = [
        response(SEARCHED, message("By a.example.", cited("https://a", 3, 12)), SUM),
        response(message("It is b.example.", cited("https://b", 6, 15))),
    ]
    with bench(*steps) as (adapter, _):
        waiting = await adapter.evaluate_async(prompt, session=session)
        await session.approvals.decide("call_1", Approve(), by="jo")
        found = await adapter.resume_async(prompt, session=session)

    assert waiting.text == ""
    assert marked(waiting, waiting.hosted_outputs["web_search"].citations) == [None]
    assert marked(found, found.hosted_outputs["web_search"].citations) == [None, "b.example"]


@pytest.mark.parametrize("status", ["incomplete", "completed"])
def test_an_answer_that_was_asked_for_again_leaves_no_places(status: str) -> None:
    """E6: what was cut off is not in the text of the response that came in its place."""
    session = Session()
    prompt = ask(hosted=[code_interpreter_tool()])
    cut = message("Wrote one.csv, a", made("one", 6, 13), status=status)
    steps = [
        response(RAN, cut, status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        response(message("There is none.")),
    ]
    with bench(*steps) as (adapter, _):
        with pytest.raises(PromptEvaluationError, match="cut off"):
            adapter.evaluate(prompt, session=session)
        found = adapter.resume(prompt, session=session)

    ((_, ran),) = found.invocations
    assert [(each.file_id, each.span) for each in ran.value.files] == [("one", None)]


@dataclass(frozen=True, slots=True)
class NoOptions:
    pass


class Reader:
    """A codec of the least kind, which keeps what it is shown."""

    kind = "reading"

    def serialize(self, tool: HostedTool[NoOptions]) -> dict[str, Any]:
        return {"type": "reading"}

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[NoOptions]) -> Any:
        parts = [p for item in response_items for p in item.get("content", ())]
        return [(part["text"], part["annotations"]) for part in parts]


def test_a_codec_of_the_users_own_needs_no_care_of_it() -> None:
    """H33: whoever puts the texts together gets the text of the response, and right places."""
    reading = HostedTool(kind="reading", name="reading", description="Read.", config=NoOptions())
    steps = [
        response(message("Hm, a.", cited("https://a", 4, 5)), SUM),
        response(message("It is b.", cited("https://b", 6, 7))),
    ]
    with bench(*steps, hosted_tool_codecs={"reading": Reader()}) as (adapter, _):
        found = adapter.evaluate(ask(add, hosted=[reading]))

    assert found.hosted_outputs["reading"] == [
        ("", [{"type": "url_citation", "url": "https://a", "title": "https://a"}]),
        ("It is b.", [cited("https://b", 6, 7)]),
    ]
