"""What prompts cost: on the response, in the ledger, over turns and sessions, and as a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask, bench, happened, sdk_client
from tests.adapters.openai.scripted_provider import Body, Json, Provider, call, message, response
from toolcrib import PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.openai import Budget, OpenAIAdapter
from toolcrib.ledger.prompt_events import ModelResponded, ModelRetried
from toolcrib.prices.cost import CostPart
from toolcrib.prices.table import read_prices
from toolcrib.store.memory import MemoryStore
from toolcrib.store.sqlite import SqliteStore
from toolcrib.testing import FakeClock
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    code_interpreter_tool,
)
from toolcrib.tools.web_search import web_search_tool

AT = 1_780_000_000.0
BROKEN = Body({"error": {"message": "The server had an error."}}, 500, {"x-request-id": "req_bad"})


def search(action: str = "search", item_id: str = "ws_1") -> Json:
    facts = {"type": action, "query": "cribs"}
    return {"type": "web_search_call", "id": item_id, "status": "completed", "action": facts}


def run(container_id: str, item_id: str = "ci_1") -> Json:
    return {
        "type": "code_interpreter_call",
        "id": item_id,
        "status": "completed",
        "code": "1",
        "container_id": container_id,
        "outputs": [],
    }


def priced(*items: Json, model: str = "gpt-5-2025-08-07", **fields: Any) -> Json:
    """A response of a model that has a price: 1,000 tokens in, 100 of them cached, 10 out."""
    usage = {
        "input_tokens": 1_000,
        "input_tokens_details": {"cached_tokens": 100},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**response(*items), "model": model, "usage": usage, **fields}


# 900 at $1.25, 100 at $0.125 and 10 at $10 a million.
TOKENS = 1_125_000 + 12_500 + 100_000


def test_a_response_says_what_it_cost_and_by_which_table() -> None:
    """Tokens and searches each have their price, with its source and day; reading a page that was
    found is no search.
    """
    session = Session(clock=FakeClock(AT))
    items = search(), search("open_page", "ws_2"), message("Fine.")
    with bench(priced(*items)) as (adapter, _):
        found = adapter.evaluate(ask(web_search_tool()), session=session)

    tokens, searches = found.cost.parts
    assert (tokens.what, tokens.of, tokens.quantity, tokens.nanos) == (
        "tokens",
        "gpt-5-2025-08-07",
        1_010,
        TOKENS,
    )
    assert (searches.what, searches.quantity, searches.nanos) == ("web_search", 1, 10_000_000)
    assert tokens.source is not None
    assert tokens.source.startswith("genai-prices ")
    assert {part.as_of for part in found.cost.parts} == {"2026-05-28"}
    assert found.cost.nanos == TOKENS + 10_000_000
    assert found.cost.unpriced == ()
    assert found.invocations[0][1].cost is not None
    assert found.invocations[0][1].cost.nanos == 10_000_000


def test_the_ledger_and_the_session_say_the_same_as_the_responses() -> None:
    """Every record has its own cost; a turn and a session are their sums."""
    session = Session(clock=FakeClock(AT))
    first = priced(search(), call("add", {"a": 1, "b": 2}))
    with bench(first, priced(message("3")), priced(message("Fine."))) as (adapter, _):
        one = adapter.evaluate(ask(web_search_tool(), add), session=session)
        two = adapter.evaluate(ask(add), session=session)

    recorded = [event.cost for event in happened(session, ModelResponded)]
    assert [cost and cost.nanos for cost in recorded] == [TOKENS] * 3
    hosted, local = happened(session, ToolInvoked)
    assert hosted.cost is not None
    assert hosted.cost.nanos == 10_000_000
    assert local.cost is None
    assert session.cost(1).nanos == one.cost.nanos == 2 * TOKENS + 10_000_000
    assert session.cost(2).nanos == two.cost.nanos == TOKENS
    assert session.cost().nanos == 3 * TOKENS + 10_000_000


def test_what_nobody_knows_the_price_of_is_named_and_not_nothing() -> None:
    """A model without a price has a cost of None."""
    with bench(priced(message("Fine."), model="our-own-model")) as (adapter, _):
        found = adapter.evaluate(ask())

    assert found.cost.dollars is None
    assert found.cost.unpriced == (CostPart("tokens", "our-own-model", 1_010, None),)


def test_a_container_is_billed_once_for_twenty_minutes() -> None:
    """Runs in one container share its session, also over turns; another container, or another
    twenty minutes, is another session. Its memory has its price.
    """
    clock = FakeClock(AT)
    session = Session(clock=clock)
    tool = code_interpreter_tool(CodeInterpreterConfig(container=AutoContainer(memory_limit="4g")))
    two = priced(run("c1"), run("c1", "ci_2"), run("c2", "ci_3"), message("Fine."))
    with bench(two, *(priced(run("c1"), message("Fine.")) for _ in range(2))) as (adapter, _):
        first = adapter.evaluate(ask(tool), session=session)
        clock.advance(19 * 60)
        again = adapter.evaluate(ask(tool), session=session)
        clock.advance(2 * 60)
        late = adapter.evaluate(ask(tool), session=session)

    assert first.cost.nanos == TOKENS + 2 * 120_000_000
    assert again.cost.nanos == TOKENS
    assert late.cost.nanos == TOKENS + 120_000_000


def test_a_prompt_ends_when_its_max_cost_is_reached() -> None:
    """Before another request is made; what was spent counts again when it is resumed."""
    session = Session(clock=FakeClock(AT))
    step = priced(call("add", {"a": 1, "b": 2}))
    budget = Budget(max_cost=0.002)
    with Provider(step, priced(call("add", {"a": 1, "b": 2}, "call_2"))) as provider:
        adapter = OpenAIAdapter(model="gpt-5", client=sdk_client(provider.url))
        with pytest.raises(PromptEvaluationError, match=r"\$0\.002475 and may take") as caught:
            adapter.evaluate(ask(add), session=session, budget=budget)
        with pytest.raises(PromptEvaluationError, match="may take"):
            adapter.resume(ask(add), session=session, budget=budget)
        assert len(provider.requests) == 2
        provider.add(priced(message("Fine.")))
        found = adapter.resume(ask(add), session=session, budget=Budget(max_cost=0.01))
        adapter.close()

    assert caught.value.reason == "max_cost"
    assert (found.text, found.cost.nanos) == ("Fine.", 3 * TOKENS)


def test_a_max_cost_refuses_what_has_no_known_price() -> None:
    """Nobody could say when the limit is reached: nothing is sent."""
    with bench(priced(message("Fine."))) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="nobody knows the price of the model"):
            adapter.evaluate(ask(), budget=Budget(max_cost=1))
        assert provider.requests == []


def test_a_max_cost_stops_after_a_response_that_counts_no_tokens() -> None:
    """What nobody counted is unknown and not free, so the limit could be passed unseen."""
    silent = response(call("add", {"a": 1, "b": 2}), model="gpt-5", usage=None)
    with Provider(silent, priced(message("3"))) as provider:
        adapter = OpenAIAdapter(model="gpt-5", client=sdk_client(provider.url))
        with pytest.raises(PromptEvaluationError, match="price of a request") as caught:
            adapter.evaluate(ask(add), budget=Budget(max_cost=1))
        adapter.close()

    assert len(provider.requests) == 1
    assert caught.value.cost is not None
    assert (caught.value.cost.nanos, len(caught.value.cost.unpriced)) == (None, 1)


def test_a_max_cost_stops_after_a_call_without_a_known_price(tmp_path: Path) -> None:
    """The request was paid; no further one is made."""
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {test-model: {input: 1, output: 1}}")
    store = MemoryStore(prices=read_prices(prices))
    unknown = {"type": "novel_call", "id": "n_1", "status": "completed"}
    step = priced(unknown, call("add", {"a": 1, "b": 2}), model="test-model")
    with bench(step, priced(message("Fine."))) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="nobody knows the price of a call of"):
            adapter.evaluate(ask(add), session=Session(store=store), budget=Budget(max_cost=1))
        assert len(provider.requests) == 1


async def test_the_index_of_calls_has_the_cost_of_provider_run_calls(sqlite_path: Path) -> None:
    """By day they add up with the requests; by tool they are the tool's."""
    from toolcrib.store.call_query import CallQuery

    with SqliteStore(sqlite_path) as store:
        async with await Session.open(store, "s", clock=FakeClock(AT)) as session:
            with Provider(priced(search(), message("Fine."))) as provider:
                adapter = OpenAIAdapter(model="gpt-5", client=sdk_client(provider.url))
                found = await adapter.evaluate_async(ask(web_search_tool()), session=session)
        [day] = store.call_sums(CallQuery(), "day")
        [tool] = store.call_sums(CallQuery(), "tool")

    assert (day.cost, day.unpriced) == (found.cost.dollars, 0)
    assert (tool.key, tool.cost) == ("web_search", 0.01)


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_hosted_tools_11_a_retry_is_an_event_and_counts(
    stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Each attempt that failed is recorded and logged with its reason and the provider's id, and
    counted, also by who resumes the prompt.
    """
    caplog.set_level("INFO", "toolcrib")
    session = Session()
    with bench(BROKEN, BROKEN, response(call("add", {"a": 1, "b": 2}))) as (adapter, provider):
        with pytest.raises(PromptEvaluationError, match="script is over"):
            adapter.evaluate(ask(add), session=session, stream=stream)
        provider.add(response(message("Fine.")))
        found = adapter.resume(ask(add), session=session, stream=stream)

    retries = happened(session, ModelRetried)
    assert [(event.step, event.attempt) for event in retries] == [(1, 1), (1, 2)]
    assert all("500" in event.reason and event.request_id for event in retries)
    assert found.usage.requests == 4
    logged = [line for line in caplog.messages if "of a request" in line]
    assert len(logged) == 2
    for event, line in zip(retries, logged, strict=True):
        assert f"id {event.request_id}" in line


def test_the_providers_own_compaction_has_its_price() -> None:
    """A request that makes the conversation shorter costs tokens like any other: its record and the
    session's sum have them.
    """
    session = Session(clock=FakeClock(AT))
    routes = {"POST /v1/responses/compact": Body(priced(message("Short.")))}
    with Provider(priced(message("Fine.")), routes=routes) as provider:
        adapter = OpenAIAdapter(model="gpt-5", client=sdk_client(provider.url))
        answer = adapter.evaluate(ask(), session=session)
        compacted = adapter.compact(session)
        adapter.close()

    assert compacted.method == "provider"
    assert compacted.cost is not None
    assert answer.cost.nanos == compacted.cost.nanos == TOKENS
    assert session.cost().nanos == session.cost(1).nanos == 2 * TOKENS
