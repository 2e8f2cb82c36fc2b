"""The real provider, where there is a key for it. Costs a few cents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import add, ask
from toolcrib.adapters.openai import Budget, OpenAIAdapter
from toolcrib.tools.web_search import web_search_tool

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not os.environ.get("OPENAI_API_KEY"), reason="OPENAI_API_KEY is not set"),
]

MODEL = os.environ.get("TOOLCRIB_LIVE_MODEL", "gpt-5-mini")
BUDGET = Budget(max_steps=5, max_calls=5, seconds=200)


@dataclass
class Sum:
    total: int


@pytest.fixture
def adapter() -> Iterator[OpenAIAdapter]:
    adapter = OpenAIAdapter(model=MODEL)
    yield adapter
    adapter.close()


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_a_tool_of_ours_and_a_typed_answer(adapter: OpenAIAdapter, stream: bool) -> None:
    """C21: the model calls our function and answers in the shape that was asked for."""
    prompt = ask(add, text="Add 20 and 22 with the tool.", output=Sum)

    found = adapter.evaluate(prompt, budget=BUDGET, stream=stream, tool_choice="add")

    assert found.output == Sum(42)


def test_citations_point_into_the_answer(adapter: OpenAIAdapter) -> None:
    """C36, E6: a search is forced, and what the answer cites can be cut out of it."""
    prompt = ask(text="What is the Python release schedule?", hosted=[web_search_tool()])

    found: Any = adapter.evaluate(prompt, budget=BUDGET, tool_choice="web_search")

    assert found.hosted_outputs["web_search"].source_urls
    for each in found.citations:
        assert each.span is None or found.text[slice(*each.span)]
