"""NativeTool: a tool that the provider runs."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.example import ToolExample
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import NativeTool
from toolcrib.tools.tool import Tool


@dataclass
class WebSearchParams:
    query: str


@dataclass
class WebSearchResult:
    payload: dict[str, object]


def web_search(**changes: Any) -> NativeTool[WebSearchParams, WebSearchResult]:
    return NativeTool[WebSearchParams, WebSearchResult](
        name="web_search",
        description="Use the provider's built-in search to gather fresh results.",
        examples=(
            ToolExample(
                description="Search for current weather in Paris.",
                input=WebSearchParams(query="current weather in Paris"),
                output=WebSearchResult(payload={"results": []}),
            ),
        ),
        **changes,
    )


def test_it_is_a_tool_without_new_fields() -> None:
    """N6: a marker on top of Tool, nothing more."""
    assert isinstance(web_search(), Tool)
    assert [f.name for f in dataclasses.fields(NativeTool)] == [
        f.name for f in dataclasses.fields(Tool)
    ]


def test_it_carries_what_every_tool_carries() -> None:
    """N7: name, description, types and examples."""
    tool = web_search()

    assert tool.name == "web_search"
    assert tool.description.startswith("Use the provider")
    assert (tool.params_type, tool.result_type) == (WebSearchParams, WebSearchResult)
    assert tool.examples[0].input == WebSearchParams("current weather in Paris")


def test_a_handler_is_refused() -> None:
    """N8, N33: the provider runs it, so there is nothing to run here."""
    with pytest.raises(InvalidTool, match="takes no handler"):
        web_search(handler=lambda params: None)  # pyright: ignore


def test_its_place_is_the_provider() -> None:
    """N8: whoever dispatches by place never runs local code for it."""
    assert web_search().place == "provider"
    assert prepare(web_search()).ref.place == "provider"


def test_overrides_are_opt_in() -> None:
    """N9: no overrides by default; a section may allow them."""
    assert web_search().accepts_overrides is False
    assert web_search(accepts_overrides=True).accepts_overrides is True


def test_names_and_descriptions_follow_the_tools_rules() -> None:
    """N10, N11: the same checks as for any tool."""
    with pytest.raises(InvalidTool, match="name"):
        NativeTool[None, WebSearchResult](name="Web Search", description="S.")
    with pytest.raises(InvalidTool, match="description"):
        NativeTool[None, WebSearchResult](name="web_search", description="")


@pytest.mark.parametrize("params_type", [dict, str, WebSearchParams("x")])
def test_params_must_be_a_dataclass(params_type: Any) -> None:
    """N12, N33: bad params are refused when the tool is declared."""
    with pytest.raises(InvalidTool, match="params_type must be a dataclass"):
        NativeTool(name="s", description="S.", params_type=params_type, result_type=WebSearchResult)


def test_params_of_another_kind_are_refused() -> None:
    """N12: a TypedDict is enough for a local tool, not for this one."""
    from typing import TypedDict

    class Typed(TypedDict):
        query: str

    with pytest.raises(InvalidTool, match="params_type must be a dataclass or None"):
        NativeTool(name="s", description="S.", params_type=Typed, result_type=WebSearchResult)


@pytest.mark.parametrize("result_type", [None, dict, str])
def test_results_must_be_a_dataclass(result_type: Any) -> None:
    """N12, N33: bad results are refused when the tool is declared."""
    with pytest.raises(InvalidTool, match="result_type must be a dataclass"):
        NativeTool(name="s", description="S.", result_type=result_type)


def test_it_may_have_no_params() -> None:
    """X4: a provider's tool often takes nothing that we declare."""
    assert NativeTool[None, WebSearchResult](name="s", description="S.").params_type is None


def test_examples_are_checked() -> None:
    """N13: an example that does not fit the types is no realistic one."""
    wrong: Any = ToolExample(description="d", input="paris", output=WebSearchResult({}))

    with pytest.raises(InvalidTool, match=r"input of examples\[0\]"):
        NativeTool[WebSearchParams, WebSearchResult](name="s", description="S.", examples=(wrong,))


def test_equality_hash_and_repr_are_the_tools() -> None:
    """N30: code that compares, hashes or prints tools sees no difference."""
    assert web_search() == web_search()
    assert hash(web_search()) == hash(web_search())
    assert web_search() != web_search(version="2.0.0")
    assert repr(web_search()).startswith("NativeTool(name='web_search', description=")
