"""The real provider, where there is a key for it. Costs a few cents."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.adapters.openai.bench import add, ask, happened
from toolcrib import Session, ToolInvoked
from toolcrib.adapters.openai import Budget, OpenAIAdapter
from toolcrib.tools.code_interpreter import ExistingContainer, code_interpreter_tool
from toolcrib.tools.openai_code_interpreter import OpenAICodeInterpreterTool
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


def test_simple_python(adapter: OpenAIAdapter) -> None:
    """C36: model-written code runs in a container, and its output is mapped."""
    session = Session()
    prompt = ask(
        text="Print 17 * 23 with Python, and answer with the number.",
        hosted=[code_interpreter_tool()],
    )

    found = adapter.evaluate(prompt, session=session, budget=BUDGET, tool_choice="code_interpreter")

    (event, *_) = happened(session, ToolInvoked)
    assert "391" in found.text
    assert (event.origin, event.capability, event.success) == (
        "provider",
        "code_interpreter",
        True,
    )
    assert "391" in found.hosted_outputs["code_interpreter"].stdout


def test_a_container_is_used_again(adapter: OpenAIAdapter) -> None:
    """C36: files that one prompt left in a container are there for the next."""
    left = ask(
        text="With Python, write the text 'toolcrib' to /mnt/data/left.txt.",
        hosted=[OpenAICodeInterpreterTool(name="python")],
    )
    first = adapter.evaluate(left, budget=BUDGET, tool_choice="python")
    container_id = first.hosted_outputs["python"].container_id
    assert container_id is not None
    container = ExistingContainer(container_id)
    again = ask(
        text="With Python, print what is in /mnt/data/left.txt, and answer with it.",
        hosted=[OpenAICodeInterpreterTool(name="python", container=container)],
    )

    found = adapter.evaluate(again, budget=BUDGET, tool_choice="python")

    assert "toolcrib" in found.text


def test_citations_point_into_the_answer(adapter: OpenAIAdapter) -> None:
    """C36, E6: a search is forced, and what the answer cites can be cut out of it."""
    prompt = ask(text="What is the Python release schedule?", hosted=[web_search_tool()])

    found: Any = adapter.evaluate(prompt, budget=BUDGET, tool_choice="web_search")

    assert found.hosted_outputs["web_search"].source_urls
    for each in found.citations:
        assert each.span is None or found.text[slice(*each.span)]
