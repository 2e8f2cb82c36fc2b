"""Responses to parse: hand-written ones, recorded ones, and ones that no server would send."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import strategies as st

from toolcrib.adapters.items import ReplyItem, mapping_of, mappings_of
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.openai.adapter import classifier_of
from toolcrib.adapters.tool_declarations import declare

TESTS = Path(__file__).parents[2]
FIXTURES = TESTS / "fixtures" / "hosted_tools"
RECORDINGS = TESTS.parents[1] / "shared" / "recordings"
WRITTEN = TESTS / "fixtures" / "recordings"
"""Short recordings of our own, in the shapes of the wire: a clone replays these alone."""

Json = Any
Items = list[dict[str, Any]]

JSON_VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


def fixture(name: str) -> Items:
    """The output items of a hand-written response."""
    return json.loads((FIXTURES / f"{name}.json").read_text("utf-8"))["output"]


def fixture_names() -> list[str]:
    return sorted(path.stem for path in FIXTURES.glob("*.json"))


def sdk_items(items: Items) -> list[Any]:
    """The items as the SDK's client gives them: objects, built without any check."""
    from openai.types.responses import Response

    return list(Response.construct(output=items).output)


def read_items(raws: Items) -> list[ReplyItem]:
    """The items as the adapter reads them for a prompt that declares no tools."""
    profile = OpenAIAdapter(model="m").profile()
    return classifier_of(declare([], [], [], prompt_name="p"), profile).items(raws)


def text_parts(raws: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every `output_text` part of every message, in order."""
    for raw in raws:
        if raw.get("type") == "message":
            for part in mappings_of(raw, "content"):
                if part.get("type") == "output_text":
                    yield part


def recordings(*providers: str) -> list[Any]:
    """Recorded traffic with these providers, one parameter a file, with what we wrote ourselves."""
    folders = [root / each for root in (WRITTEN, RECORDINGS) for each in providers]
    found = [path for folder in folders for path in sorted(folder.glob("*.json"))]
    return [pytest.param(path, id=_name(path)) for path in found]


def _name(path: Path) -> str:
    origin = "written/" if path.is_relative_to(WRITTEN) else ""
    return f"{origin}{path.parent.name}/{path.stem}"


def recorded_outputs(path: Path) -> Iterator[Items]:
    """The output items of every response in a recording, streamed or not."""
    for interaction in json.loads(path.read_text("utf-8"))["interactions"]:
        events: Items = interaction.get("events") or []
        streamed = [e["item"] for e in events if e.get("type") == "response.output_item.done"]
        yield mappings_of(mapping_of(interaction, "response"), "output") or streamed


def only_objects(items: Json) -> Items:
    """The items without what is no object: an adapter passes on nothing else."""
    return mappings_of({"items": items}, "items")


@st.composite
def mangled(draw: st.DrawFn, sample: Json) -> Json:
    """The sample with parts left out or replaced by any JSON. An item keeps its `type`."""
    if isinstance(sample, dict):
        members = cast("dict[str, Json]", sample).items()
        return {
            key: value if key == "type" else draw(_member(value))
            for key, value in members
            if key == "type" or draw(st.integers(0, 5))
        }
    if isinstance(sample, list):
        return [draw(_member(each)) for each in cast("list[Json]", sample)]
    return sample


def _member(value: Json) -> st.SearchStrategy[Json]:
    return st.integers(0, 4).flatmap(lambda dice: mangled(value) if dice else JSON_VALUES)
