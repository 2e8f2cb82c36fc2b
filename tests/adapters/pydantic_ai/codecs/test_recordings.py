"""Recorded traffic of all providers: every call is told once, with its result, and rightly."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.response_samples import recordings
from tests.adapters.pydantic_ai.codecs.recorded_items import Items, column, replayed
from toolcrib.adapters.codec import Codec, Invocation
from toolcrib.adapters.items import mapping_of, mappings_of, text_of
from toolcrib.adapters.pydantic_ai.codecs.registry import default_codecs
from toolcrib.adapters.pydantic_ai.parts import text_in
from toolcrib.adapters.tool_declarations import undeclared
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.provider_tools import HostedTool
from toolcrib.tools.web_fetch import WebFetchResult
from toolcrib.tools.web_search import WebSearchResult

RECORDED = recordings("anthropic", "google", "google-vertex", "groq", "bedrock")
every_recording = pytest.mark.parametrize("path", RECORDED)


def codecs_of(path: Path) -> list[tuple[Codec[Any, Any], HostedTool[Any]]]:
    found = default_codecs(column(path)).values()
    return [(codec, undeclared(codec.kind)) for codec in found if isinstance(codec, Codec)]


def all_items(path: Path) -> Items:
    return [item for step in replayed(path) for item in step]


def told(path: Path) -> list[Invocation]:
    items = all_items(path)
    return [found for codec, tool in codecs_of(path) for found in codec.invocations(items, tool)]


def on_the_wire(path: Path) -> Iterator[dict[str, Any]]:
    """Every object that was recorded, however deep."""
    todo: list[Any] = [json.loads(path.read_text("utf-8"))["interactions"]]
    while todo:
        found = todo.pop()
        if isinstance(found, dict):
            seen = mapping_of({"found": found}, "found")
            yield seen
            # What was asked holds what was said before.
            todo += [value for key, value in seen.items() if key != "request"]
        elif isinstance(found, list):
            todo += found


@every_recording
def test_every_call_is_told_once(path: Path) -> None:
    """N24: each call that the provider ran is one invocation of one codec, also when its answer
    came later or its call before.
    """
    items = all_items(path)
    ids = [text_of(item, "id") for item in items if item.get("type") == "native_call"]
    answers = [text_of(item, "id") for item in items if item.get("type") == "native_return"]
    listings = {
        text_of(item, "id")
        for item in items
        if text_of(mapping_of(item, "arguments"), "action") == "list_tools"
    }

    found = [invocation.item_id for invocation in told(path)]

    assert sorted(found) == sorted({*ids, *answers} - listings)
    for codec, tool in codecs_of(path):
        for item in items:
            if codec.is_call(item, tool):
                assert codec.is_over(item, items)
                assert codec.invocation(item, items, tool).item_id == text_of(item, "id")


@pytest.mark.parametrize("path", recordings("anthropic"))
def test_what_anthropic_ran_is_what_is_told(path: Path) -> None:
    """N21: the ids on the wire are those of the invocations, and a failure on the wire is one
    here, with the provider's code.
    """
    blocks = [each for each in on_the_wire(path) if text_of(each, "type").endswith("_tool_result")]
    answered = {text_of(each, "tool_use_id"): mapping_of(each, "content") for each in blocks}
    found = {invocation.item_id: invocation for invocation in told(path)}

    assert answered.keys() - {""} <= found.keys()
    for key, content in answered.items():
        code = text_of(content, "error_code")
        if code:
            assert code in (found[key].error or "")
            assert not found[key].success
        elif content.get("return_code"):
            assert not found[key].success
            assert isinstance(found[key].value, CodeInterpreterResult)


@every_recording
def test_typed_outputs_are_of_the_same_types_everywhere(path: Path) -> None:
    """H33: whoever ran the tool, its output has one type."""
    items = all_items(path)
    types = {
        "web_search": WebSearchResult,
        "web_fetch": WebFetchResult,
        "code_interpreter": CodeInterpreterResult,
    }
    for codec, tool in codecs_of(path):
        output = codec.parse_output(items, tool)
        assert (output is not None) == bool(codec.invocations(items, tool))
        if output is not None and codec.kind in types:
            assert isinstance(output, types[codec.kind])


@every_recording
def test_spans_slice_to_the_cited_text(path: Path) -> None:
    """H38: a span selects what the provider says it cites, or there is none; never another text."""
    cited = {text_of(mapping_of(each, "segment"), "text") for each in on_the_wire(path)}
    blocks = {text_of(each, "text") for each in on_the_wire(path) if each.get("citations")}
    streamed = column(path) == "anthropic" and not blocks
    for step in replayed(path):
        text = text_in(step)
        for codec, tool in codecs_of(path):
            output = codec.parse_output(step, tool)
            for citation in getattr(output, "citations", ()):
                span = getattr(citation, "span", None)
                if span is None:
                    continue
                sliced = text[slice(*span)]
                assert sliced
                assert streamed or sliced in cited | blocks


@every_recording
def test_sources_are_those_on_the_wire(path: Path) -> None:
    """H39: no address is invented, and none that the search gave is lost."""
    wire = json.dumps(json.loads(path.read_text("utf-8")), ensure_ascii=False)
    for invocation in told(path):
        if isinstance(invocation.value, WebSearchResult):
            assert invocation.value.source_urls
            assert all(json.dumps(url)[1:-1] in wire for url in invocation.value.source_urls)


@every_recording
def test_raw_items_are_kept(path: Path) -> None:
    """N16: nothing that the provider said of a call is lost."""
    items = [item.get("wire", item) for item in all_items(path)]
    for invocation in told(path):
        answer = mapping_of(invocation.raw, "answer") or dict(invocation.raw)
        assert answer in items
        call = {key: value for key, value in invocation.raw.items() if key != "answer"}
        assert call in items


@every_recording
def test_nothing_is_told_without_its_result(path: Path) -> None:
    """N17: in these recordings every call was answered, across pauses and calls of ours too."""
    assert not any("has no result" in (each.error or "") for each in told(path))


@pytest.mark.parametrize("path", recordings("anthropic"))
def test_a_container_is_known_where_it_was_named(path: Path) -> None:
    """C30: a run knows the container that its response names."""
    named = [text_of(mapping_of(each, "container"), "id") for each in on_the_wire(path)]
    for invocation in told(path):
        if isinstance(invocation.value, CodeInterpreterResult):
            assert invocation.value.container_id in {*filter(None, named), None}
            assert invocation.value.container_id or not any(named)


def test_files_that_code_made_are_told() -> None:
    """C33: a file has an id to fetch it by, and the container that holds it."""
    found = [
        file
        for each in recordings("anthropic")
        for invocation in told(each.values[0])
        for file in getattr(invocation.value, "files", ())
    ]
    listed = [
        text_of(made, "file_id")
        for each in recordings("anthropic")
        for block in on_the_wire(each.values[0])
        if text_of(block, "type").endswith("_execution_result")
        for made in mappings_of(block, "content")
    ]

    assert [file.file_id for file in found] == listed
    assert listed
    assert all(file.container_id for file in found)
