"""A kind that the package does not have, added by its user: the recipe of the documentation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.scripted_provider import Json, call, message, response
from tests.docs_runner import blocks_under, run_blocks
from toolcrib import HostedTool, PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.codec import HostedToolCodec
from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.adapters.openai.codecs.web_search import OpenAIWebSearchCodec
from toolcrib.errors import UsageError
from toolcrib.tools.web_search import WebSearchConfig, WebSearchResult, web_search_tool

PAGE = Path(__file__).parents[3] / "docs" / "hosted-tools.md"
STEPS = blocks_under(PAGE, "## A kind of your own")

# The first four steps as the page has them; the fifth, registration, is tried in many ways below.
MADE = run_blocks(STEPS[:4])
WeatherConfig: Any = MADE["WeatherConfig"]
Weather: Any = MADE["Weather"]
weather_tool: Any = MADE["weather_tool"]
WeatherCodec: Any = MADE["WeatherCodec"]


def own_codecs(codec: Any = None) -> Mapping[str, HostedToolCodec[Any, Any]]:
    return {**default_codecs(), "weather": codec or WeatherCodec()}


def forecast(number: int, text: str, kind: str = "weather_call") -> Json:
    return {"type": kind, "id": f"we_{number}", "status": "completed", "report": text}


ANSWER = response(message("Fine."))


def test_the_recipe_has_five_steps() -> None:
    """H41: options, output, function, codec, registration; wrong options are refused at once."""
    assert len(STEPS) == 5
    assert 'hosted_tool_codecs["weather"] = WeatherCodec()' in STEPS[4].code
    with pytest.raises(UsageError, match="celsius or fahrenheit, not 'kelvin'"):
        WeatherConfig("kelvin")


def test_the_recipe_works_from_end_to_end() -> None:
    """H3, H29, H30, H41: options, output, factory, codec and registration are all it takes; the
    core is not touched.
    """
    session = Session()
    items = [forecast(1, "rain"), forecast(2, "sun"), message("It varies.")]
    with bench(response(*items), hosted_tool_codecs=own_codecs()) as (adapter, provider):
        found = adapter.evaluate(
            ask(hosted=[weather_tool(WeatherConfig("fahrenheit"), name="sky")]),
            session=session,
            tool_choice="sky",
        )

    assert provider.bodies[0]["tools"] == [{"type": "weather_preview", "units": "fahrenheit"}]
    assert provider.bodies[0]["tool_choice"] == {"type": "weather_preview"}
    assert found.hosted_outputs == {"sky": Weather(("rain", "sun"))}
    assert [ran.value for _, ran in found.invocations] == [Weather(("rain",)), Weather(("sun",))]
    assert [(e.name, e.capability, e.call_id) for e in happened(session, ToolInvoked)] == [
        ("sky", "weather", "we_1"),
        ("sky", "weather", "we_2"),
    ]
    assert found.skipped == {}


def test_outputs_are_parsed_over_all_steps() -> None:
    """E3, H33: the codec sees the items of every step, not of the last one only."""
    steps = [
        response(forecast(1, "rain"), call("add")),
        response(forecast(2, "sun"), message("Fine.")),
    ]
    with bench(*steps, hosted_tool_codecs=own_codecs()) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[weather_tool()]))

    assert found.hosted_outputs["weather"] == Weather(("rain", "sun"))


def test_a_tool_that_was_not_invoked_has_no_output() -> None:
    """H40, H43: None from the codec leaves the tool out of the outputs, which are read-only."""
    with bench(ANSWER, hosted_tool_codecs=own_codecs()) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[weather_tool()]))

    assert dict(found.hosted_outputs) == {}
    with pytest.raises(TypeError):
        found.hosted_outputs["weather"] = 1  # pyright: ignore[reportIndexIssue]


def test_calls_named_after_the_wire_type_are_found_too() -> None:
    """H8: the wire may have another word for a kind, in its calls as in its tools."""
    item = forecast(1, "rain", "weather_preview_call")
    with bench(response(item, message("Fine.")), hosted_tool_codecs=own_codecs()) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[weather_tool()]))

    assert [ran.raw for _, ran in found.invocations] == [item]


def test_a_codec_may_say_how_its_calls_come() -> None:
    """H30: where the provider follows no habit, `call_types` names the items."""

    class Odd(WeatherCodec):
        call_types = frozenset({"sky_report"})

    item = forecast(1, "rain", "sky_report")
    codecs = own_codecs(Odd())
    with bench(response(item, message("Fine.")), hosted_tool_codecs=codecs) as (adapter, _):
        found = adapter.evaluate(ask(hosted=[weather_tool()]))

    assert [ran.item_id for _, ran in found.invocations] == ["we_1"]


def test_a_failed_call_has_no_value() -> None:
    """N17, H44: a codec of the least kind is not asked to read what the provider failed to do."""
    failed = {**forecast(1, ""), "status": "failed", "error": "no satellites"}
    session = Session()
    codecs = own_codecs()
    with bench(response(failed, message("Fine.")), hosted_tool_codecs=codecs) as (adapter, _):
        adapter.evaluate(ask(hosted=[weather_tool()]), session=session)

    (event,) = happened(session, ToolInvoked)
    assert (event.success, event.value) == (False, None)
    assert "no satellites" in event.message


def test_codecs_are_replaced_for_one_adapter_only() -> None:
    """H31: each adapter has a mapping of its own; what is put there changes no other."""

    class Loud(OpenAIWebSearchCodec):
        def serialize(self, tool: HostedTool[WebSearchConfig]) -> dict[str, Any]:
            return {**super().serialize(tool), "search_context_size": "high"}

    sent: list[Any] = []
    for codecs in ({"web_search": Loud()}, None):
        with bench(ANSWER, hosted_tool_codecs=codecs) as (adapter, provider):
            adapter.evaluate(ask(hosted=[web_search_tool()]))
            sent.append(provider.bodies[0]["tools"])

    assert sent == [
        [{"type": "web_search", "search_context_size": "high"}],
        [{"type": "web_search"}],
    ]


def test_a_codec_put_into_the_adapter_later_counts_too() -> None:
    """H31: the mapping is the adapter's own, and open."""
    with bench(response(forecast(1, "rain"), message("Fine."))) as (adapter, _):
        adapter.hosted_tool_codecs["weather"] = WeatherCodec()
        found = adapter.evaluate(ask(hosted=[weather_tool()]))

    assert found.hosted_outputs == {"weather": Weather(("rain",))}


def test_a_codec_that_cannot_serialise_is_told_before_any_request() -> None:
    """H42: whatever goes wrong in a codec of the user's own, nothing has been sent."""

    class Broken(WeatherCodec):
        def serialize(self, tool: HostedTool[Any]) -> dict[str, Any]:
            raise ZeroDivisionError("oops")

    with (
        bench(hosted_tool_codecs=own_codecs(Broken())) as (adapter, provider),
        pytest.raises(PromptEvaluationError, match=r"codec of weather .* oops") as caught,
    ):
        adapter.evaluate(ask(hosted=[weather_tool()]))

    assert (caught.value.phase, provider.requests) == ("render", [])


def test_a_codec_that_cannot_parse_is_told_in_phase_parse() -> None:
    """H43: a hard failure is an error that names the kind, not a missing output."""
    broken = {"type": "weather_call", "id": "we_1", "status": "completed"}
    with (
        bench(response(broken, message("Fine.")), hosted_tool_codecs=own_codecs()) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="codec of weather") as caught,
    ):
        adapter.evaluate(ask(hosted=[weather_tool()]))

    assert (caught.value.phase, caught.value.prompt_name) == ("parse", "test:ask")


def test_a_codecs_own_error_is_passed_on() -> None:
    """H43: a codec may raise the error itself, with what it knows."""

    class Strict(WeatherCodec):
        def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
            if len(response_items) > 1:
                raise PromptEvaluationError("stale", prompt_name="mine", phase="parse")

    items = response(forecast(1, "rain"), message("Fine."))
    with (
        bench(items, hosted_tool_codecs=own_codecs(Strict())) as (adapter, _),
        pytest.raises(PromptEvaluationError, match="stale") as caught,
    ):
        adapter.evaluate(ask(hosted=[weather_tool()]))

    assert caught.value.prompt_name == "mine"


def test_the_shipped_codecs_follow_the_same_protocol() -> None:
    """H29, H31: the default mapping has web search, and every codec is a codec."""
    codecs = default_codecs()
    codec: HostedToolCodec[WebSearchConfig, WebSearchResult] = OpenAIWebSearchCodec()

    assert codec.kind == "web_search"
    assert "web_search" in codecs
    assert all(codec.kind == kind for kind, codec in codecs.items())
