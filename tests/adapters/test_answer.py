"""Where an answer's annotations point."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.openai.response_samples import read_items
from toolcrib.adapters.answer import answer_text, codec_view
from toolcrib.adapters.openai.items import RESPONSES_FORMAT, annotations_of, message_text


def message(*parts: tuple[str, list[Any]]) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": notes} for text, notes in parts]
    return {"type": "message", "content": content}


def note(start: int, end: int) -> dict[str, Any]:
    return {"type": "mark", "start_index": start, "end_index": end, "index": start}


def test_the_text_is_every_text_part_in_order() -> None:
    """H38, P19: refusals and other parts are not text, nor is what is no message."""
    refusal = {"type": "refusal", "refusal": "no"}
    items = [
        {"type": "reasoning", "content": [{"type": "output_text", "text": "hidden"}]},
        message(("one ", []), ("two ", [])),
        {"type": "message", "content": [refusal, {"type": "output_text", "text": None}]},
        message(("three", [])),
    ]

    assert answer_text(read_items(items)) == "one two three"
    assert message_text(items) == "one two three"


def test_only_annotations_of_the_type_are_given() -> None:
    """E4: unknown types are passed over."""
    items = [message(("text", [note(0, 1), {"type": "other"}, "junk"]))]

    assert [each.annotation.kind for each in annotations_of(items, "mark")] == ["mark"]


def test_an_annotation_knows_its_item() -> None:
    """C25: the order of runs and messages says to which run a file belongs."""
    items = [{"type": "reasoning"}, message(("a", [])), message(("b", [note(0, 1)]))]

    assert [each.item_index for each in annotations_of(items, "mark")] == [2]


@given(st.lists(st.lists(st.text(max_size=5), max_size=3), max_size=3), st.data())
def test_spans_are_shifted_by_all_text_before_them(texts: list[list[str]], data: Any) -> None:
    """H38, E6: whatever the split into parts and messages, a span marks the same characters."""
    items: list[dict[str, Any]] = []
    marked: list[str] = []
    for parts in texts:
        made: list[tuple[str, list[Any]]] = []
        for text in parts:
            start = data.draw(st.integers(0, len(text)))
            end = data.draw(st.integers(start, len(text)))
            made.append((text, [note(start, end)]))
            if start < end:
                marked.append(text[start:end])
        items.append(message(*made))

    whole = message_text(items)
    spans = [each.span() for each in annotations_of(items, "mark")]

    assert [whole[slice(*span)] for span in spans if span] == marked


def test_a_point_may_stand_at_the_end_of_its_part() -> None:
    """E6: a citation follows the sentence that it is for."""
    items = [message(("12", []), ("345", [note(3, 3), note(4, 4)]))]

    assert [each.point() for each in annotations_of(items, "mark")] == [5, None]


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=5)), max_size=6), st.data())
def test_what_is_not_the_answer_has_no_text_and_no_place(
    said: list[tuple[bool, str]], data: Any
) -> None:
    """E6: whichever messages make up the answer, the text is theirs and places lie in it."""
    items: list[dict[str, Any]] = []
    marked: list[str | None] = []
    for is_answer, text in said:
        start = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(start, len(text)))
        items.append(message((text, [note(start, end)])))
        marked.append(text[start:end] if is_answer and start < end else None)
    read = read_items(items)
    answer = [item for item, (is_answer, _) in zip(read, said, strict=True) if is_answer]

    told = codec_view(read, answer, RESPONSES_FORMAT)

    whole = message_text(told)
    notes = list(annotations_of(told, "mark"))
    spans = [each.span() for each in notes]
    assert whole == answer_text(answer)
    assert [whole[slice(*span)] if span else None for span in spans] == marked
    assert [each.point() is None for each in notes] == [not is_answer for is_answer, _ in said]


def test_only_messages_outside_the_answer_lose_their_text() -> None:
    """E2: calls, refusals and the answer itself are handed on as they are."""
    refusal = {"type": "message", "content": [{"type": "refusal", "refusal": "no"}, "junk"]}
    call = {"type": "web_search_call", "content": [{"type": "output_text", "text": "x"}]}
    answer = message(("a", [note(0, 1)]))

    items = read_items([call, refusal, {"type": "message"}, answer])
    told = codec_view(items, [items[-1]], RESPONSES_FORMAT)

    assert told[0] is call
    assert told[1]["content"] == [{"type": "refusal", "refusal": "no"}]
    assert told[2] == {"type": "message", "content": []}
    assert told[3] is answer
