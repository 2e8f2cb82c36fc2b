"""The usage of recorded responses, priced and checked against the providers' own price lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, bench, happened
from tests.adapters.openai.recordings import recorded
from tests.adapters.openai.response_samples import recordings
from tests.adapters.pydantic_ai.recordings import recorded as recorded_anywhere
from toolcrib import PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.items import mapping_of
from toolcrib.ledger.prompt_events import ModelResponded
from toolcrib.prices.table import PublishedPrices
from toolcrib.testing import FakeClock
from toolcrib.tools.code_interpreter import code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.web_search import web_search_tool

AT = 1_794_873_600.0
"""2026-11-17."""


@dataclass(frozen=True, slots=True)
class Listed:
    """Dollars for a million tokens, as the provider's page had them in November 2026."""

    input: str
    cached: str
    output: str
    written: str = "0"

    def dollars(self, usage: Mapping[str, int]) -> Decimal:
        cached, written = usage.get("cached_tokens", 0), usage.get("cache_write_tokens", 0)
        fresh = usage["input_tokens"] - cached - written
        total = fresh * Decimal(self.input) + cached * Decimal(self.cached)
        total += written * Decimal(self.written) + usage["output_tokens"] * Decimal(self.output)
        return total / 1_000_000


LISTED = {
    "gpt-5-2025-08-07": Listed("1.25", "0.125", "10"),
    "gpt-5-mini-2025-08-07": Listed("0.25", "0.025", "2"),
    "gpt-5-mini": Listed("0.25", "0.025", "2"),
    "gpt-5-nano-2025-08-07": Listed("0.05", "0.005", "0.4"),
    "gpt-4.1-2025-04-14": Listed("2", "0.5", "8"),
    "gpt-4.1-mini": Listed("0.4", "0.1", "1.6"),
    "gpt-4o-2024-08-06": Listed("2.5", "1.25", "10"),
    "gpt-4o-mini-2024-07-18": Listed("0.15", "0.075", "0.6"),
    "o4-mini-2025-04-16": Listed("1.1", "0.275", "4.4"),
    "claude-haiku-4-5-20251001": Listed("1", "0.1", "5", "1.25"),
    "claude-opus-4-1-20250805": Listed("15", "1.5", "75", "18.75"),
    "claude-opus-4-5-20251101": Listed("5", "0.5", "25", "6.25"),
    "gemini-2.5-flash": Listed("0.3", "0.03", "2.5"),
}


def usages() -> Iterator[tuple[str, str, dict[str, int]]]:
    """Provider, model and usage of every recorded response of a listed model."""
    for parameter in recordings("openai", "azure", "anthropic", "google"):
        path: Any = parameter.values[0]
        if path is None:
            return
        for each in recorded_anywhere(path):
            model = str(each.body.get("model") or each.body.get("modelVersion"))
            usage = usage_of(each.body)
            if model in LISTED and usage is not None:
                yield path.parent.name, model, usage


def usage_of(body: Any) -> dict[str, int] | None:
    """The tokens that a response was billed for, by the field names of its provider."""
    match body:
        case {"usage": {"input_tokens": read, "cache_creation_input_tokens": written, **usage}}:
            cached = usage.get("cache_read_input_tokens") or 0
            return _usage(read + (written or 0) + cached, usage["output_tokens"], cached, written)
        case {"usage": {"input_tokens": read, "output_tokens": wrote, **usage}}:
            details: dict[str, int] = usage.get("input_tokens_details") or {}
            written = details.get("cache_write_tokens") or 0
            return _usage(read, wrote, details.get("cached_tokens") or 0, written)
        case {"usageMetadata": {"promptTokenCount": read, **usage}}:
            wrote = usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
            tool = usage.get("toolUsePromptTokenCount", 0)
            return _usage(read + tool, wrote, usage.get("cachedContentTokenCount", 0), 0)
        case _:
            return None


def _usage(read: int, wrote: int, cached: int, written: int | None) -> dict[str, int]:
    return {
        "input_tokens": read,
        "output_tokens": wrote,
        "cached_tokens": cached,
        "cache_write_tokens": written or 0,
    }


def test_recorded_usage_costs_what_the_price_lists_say() -> None:
    """To the billionth of a dollar, for every recorded response of at least six models."""
    prices, models = PublishedPrices(), set[str]()
    for provider, model, usage in usages():
        part = prices.request(provider, model, usage, AT)
        assert part is not None, model
        assert part.dollars == pytest.approx(float(LISTED[model].dollars(usage)), abs=1e-9), model
        models.add(model)
    if not models:
        pytest.skip("no recordings here")
    assert len(models) >= 6


UNITS = {
    "web_search_call": "0.01",
    "file_search_call": "0.0025",
    "code_interpreter_call": "0.03",
}


@pytest.mark.parametrize("path", recordings("openai", "azure"))
def test_recorded_responses_have_their_cost_in_the_ledger(path: Path | None) -> None:
    """The adapter prices the tokens of every listed model, every search that was one, and every
    container once.
    """
    if path is None:
        pytest.skip("no recordings here")
    for each in recorded(path):
        model = each.body.get("model")
        if model not in LISTED or each.is_broken:
            continue
        session = Session(clock=FakeClock(AT))
        tools = [
            web_search_tool(),
            code_interpreter_tool(),
            file_search_tool(FileSearchConfig(("vs_1",))),
        ]
        with bench(each.body) as (adapter, _), suppress(PromptEvaluationError):
            adapter.evaluate(ask(*tools), session=session)
        usage = usage_of(each.body)
        [asked] = happened(session, ModelResponded)
        assert usage is not None
        assert asked.cost is not None
        assert asked.cost.dollars == pytest.approx(float(LISTED[model].dollars(usage)), abs=1e-9)
        calls = sum(
            event.cost.dollars or 0 for event in happened(session, ToolInvoked) if event.cost
        )
        assert calls == pytest.approx(billed(each.items), abs=1e-9), path.name


def billed(items: list[dict[str, Any]]) -> float:
    """What the calls among the items cost by the price list."""
    containers = {item.get("container_id") for item in items} - {None}
    kinds = [
        item["type"]
        for item in items
        if item["type"] != "code_interpreter_call"
        and mapping_of(item, "action").get("type") in (None, "search")
    ]
    kinds += ["code_interpreter_call"] * len(containers)
    return float(sum(Decimal(UNITS.get(kind, "0")) for kind in kinds))
