"""Our own adapter and the embedded provider agree on namespaces, searches, free text and images."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.embedded.scripted_provider import Puppet
from toolcrib import Prompt, UserText, tool
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.images import ChartImages
from toolcrib.tools import FreeForm, FunctionOptions, Namespace
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.tool_search import (
    FoundTool,
    ToolQuery,
    ToolSearchResult,
    handler_tool_search_tool,
    tool_search_tool,
)

pytestmark = pytest.mark.wire

CRM = Namespace("crm", "Customers and their orders.")


@tool(function_options=FunctionOptions(defer_loading=True, namespace=CRM))
def find_customer(name: str) -> str:
    """Find a customer."""
    return f"{name} is customer 7"


@tool(function_options=FunctionOptions(free_form=FreeForm("regex", "select .*")))
def query(sql: str) -> str:
    """Run a query."""
    return f"no rows for {sql}"


@tool
def find_order(number: int) -> str:
    """Find an order."""
    return f"order {number} is packed"


def looked_up(found: ToolQuery) -> ToolSearchResult:
    return ToolSearchResult((FoundTool("find_order", "Find an order."),))


async def evaluated(steps: Sequence[ProposedCall], *tools: object) -> tuple[str, Puppet]:
    """The text of a prompt whose model takes these steps, then tells the last result."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        results = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
        if len(results) < len(steps):
            return [steps[len(results)]]
        return [BackendText(results[-1].text)]

    puppet = Puppet(script)
    section = UserText("x", tools=tools)
    prompt = Prompt(ns="t", key="k", sections=[section])
    async with EmbeddedProvider(puppet, images=ChartImages()).adapter() as adapter:
        return (await adapter.evaluate_async(prompt)).text or "", puppet


async def test_a_deferred_function_of_a_namespace_is_found_and_runs() -> None:
    """The provider searches; the function runs here."""
    steps = [
        ProposedCall("tool_search", '{"query": "customer"}'),
        ProposedCall("crm__find_customer", '{"name": "Ada"}'),
    ]
    text, puppet = await evaluated(steps, find_customer, tool_search_tool())
    assert "Ada is customer 7" in text
    assert [tool.name for tool in puppet.requests[0].tools] == ["tool_search"]


async def test_a_search_of_the_application_loads_its_tools() -> None:
    """The handler finds, and the model calls."""
    steps = [
        ProposedCall("tool_search", '{"queries": ["order"]}'),
        ProposedCall("find_order", '{"number": 8}'),
    ]
    text, puppet = await evaluated(steps, find_order, handler_tool_search_tool(looked_up))
    assert "order 8 is packed" in text
    found = puppet.requests[1].history[-1]
    assert isinstance(found, BackendCallResult)
    assert "find_order: Find an order." in found.text


async def test_free_text_and_images_come_through() -> None:
    """A custom tool gets its text, and an image its numbers."""
    chart = json.dumps({"prompt": "Sales\nMonday: 1\nTuesday: 2"})
    steps = [
        ProposedCall("query", json.dumps({"input": "select 1"})),
        ProposedCall("image_generation", chart),
    ]
    text, puppet = await evaluated(steps, query, image_generation_tool())
    assert "The user sees the image" in text
    results = [turn for turn in puppet.requests[-1].history if isinstance(turn, BackendCallResult)]
    assert "no rows for select 1" in results[0].text
