"""`file_search`: over vector stores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.responses import ResponseFileSearchToolCall

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import Clock, call_tool, relay
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    ProposedCall,
)

RESULTS = ["file_search_call.results"]


async def stored(client: AsyncOpenAI, **texts: str) -> str:
    """A store with files of these names and texts, all read."""
    store = await client.vector_stores.create()
    for name, text in texts.items():
        file = await client.files.create(file=(f"{name}.md", text.encode()), purpose="assistants")
        await client.vector_stores.files.create_and_poll(
            file.id, vector_store_id=store.id, attributes={"name": name}, poll_interval_ms=1
        )
    return store.id


def searching(*store_ids: str, **options: Any) -> dict[str, Any]:
    return {"type": "file_search", "vector_store_ids": list(store_ids), **options}


async def test_results_are_shown_only_when_they_are_asked_for() -> None:
    """The item is of the official type; the backend has the results in any case."""
    async with served(relay) as (client, _):
        store = await stored(client, kettle="Kettles boil water.", pot="Pots hold plants.")
        arguments = {"queries": ["boiling"]}
        shown = await call_tool(client, searching(store), "file_search", arguments, include=RESULTS)
        hidden = await call_tool(client, searching(store), "file_search", arguments)
    call = shown.output[0]
    ResponseFileSearchToolCall.model_validate(call.model_dump(), strict=True)
    assert (call.status, call.queries) == ("completed", ["boiling"])
    [result] = call.results
    assert (result.filename, result.text) == ("kettle.md", "Kettles boil water.")
    assert result.attributes == {"name": "kettle"}
    assert hidden.output[0].results is None
    assert "Kettles boil water." in hidden.output_text


async def test_filters_thresholds_and_numbers_count() -> None:
    """As the tool's configuration says."""
    name = {"type": "eq", "key": "name", "value": "b"}
    async with served(relay) as (client, _):
        store = await stored(client, a="kettle kettle", b="kettle and more", c="a kettle it is")

        async def found(**options: Any) -> list[str]:
            tool = searching(store, **options)
            answer = await call_tool(
                client, tool, "file_search", {"queries": ["kettle"]}, include=RESULTS
            )
            return [each.filename for each in answer.output[0].results]

        assert len(await found()) == 3
        assert await found(filters=name) == ["b.md"]
        assert len(await found(max_num_results=2)) == 2
        assert len(await found(ranking_options={"score_threshold": 1.0})) == 1
        weights = {"embedding_weight": 0, "text_weight": 1}
        assert len(await found(ranking_options={"hybrid_search": weights})) == 3


async def test_a_citation_names_the_file() -> None:
    """A mark in the backend's text becomes a citation of the file, where the mark was."""

    def cite(request: BackendRequest) -> Sequence[BackendOutput]:
        if isinstance(request.history[-1], BackendMessage):
            return [ProposedCall("file_search", '{"queries": ["kettle"]}')]
        assert isinstance(request.history[-1], BackendCallResult)
        [mark] = request.history[-1].marks
        return [BackendText(f"It boils [{mark}].")]

    async with served(cite) as (client, _):
        store = await stored(client, kettle="A kettle boils.")
        tools: Any = [searching(store)]
        response: Any = await client.responses.create(model="puppet", input="?", tools=tools)
    [annotation] = response.output[-1].content[0].annotations
    assert (annotation.type, annotation.filename) == ("file_citation", "kettle.md")
    assert "[S" not in response.output_text


async def test_nothing_is_found_where_nothing_fits() -> None:
    """The backend is told so, and there is no result."""
    async with served(relay) as (client, _):
        store = await stored(client, kettle="Kettles boil water.")
        for queries in (["zebra"], [], [""]):
            response = await call_tool(
                client, searching(store), "file_search", {"queries": queries}, include=RESULTS
            )
            assert response.output[0].results == []
            assert response.output_text == "Nothing was found."


async def test_several_stores_are_searched_as_one() -> None:
    """The best of all of them come first, each chunk once."""
    async with served(relay) as (client, _):
        one = await stored(client, a="kettle")
        two = await stored(client, b="kettle")
        response = await call_tool(
            client,
            searching(one, two),
            "file_search",
            {"queries": ["kettle", "a kettle"]},
            include=RESULTS,
        )
    assert sorted(each.filename for each in response.output[0].results) == ["a.md", "b.md"]


async def test_a_store_that_is_not_there_or_expired_is_refused() -> None:
    """Before a response is begun, as is a configuration that is wrong."""
    clock = Clock()
    async with served(relay, clock=clock) as (client, _):
        brief = await client.vector_stores.create(
            expires_after={"anchor": "last_active_at", "days": 1}
        )
        clock.now += 86_400
        asked = {"queries": ["x"]}
        with pytest.raises(NotFoundError, match="vs_none"):
            await call_tool(client, searching("vs_none"), "file_search", asked)
        with pytest.raises(BadRequestError, match="is expired"):
            await call_tool(client, searching(brief.id), "file_search", asked)
        with pytest.raises(BadRequestError) as caught:
            await call_tool(client, searching("x", filters={"type": "eq"}), "file_search", asked)
        with pytest.raises(BadRequestError, match="vector_store_ids"):
            await call_tool(client, searching(), "file_search", asked)
    assert caught.value.param == "tools[0].filters.key"
