"""Every way to declare a provider-run tool comes to the one form that codecs take.

Names that a provider takes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import HostedTool, NativeTool, ProviderTool
from toolcrib.adapters.openai.code_interpreter_tool import OpenAICodeInterpreterTool
from toolcrib.adapters.tool_declarations import NoConfig, as_hosted, undeclared, wire_names
from toolcrib.errors import UsageError
from toolcrib.tools import HostMount
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.image_generation import ImageGenerationConfig
from toolcrib.tools.shell import ContainerShellConfig
from toolcrib.tools.tool_search import ToolSearchConfig
from toolcrib.tools.web_search import WebSearchConfig, web_search_tool


@dataclass(frozen=True, slots=True)
class Result:
    text: str = ""


def test_a_hosted_tool_is_what_it_is() -> None:
    """H7: nothing is made of what has the form already."""
    search = web_search_tool()

    assert as_hosted(search, provider="openai") is search


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("code_interpreter", CodeInterpreterConfig()),
        ("image_generation", ImageGenerationConfig()),
        ("shell", ContainerShellConfig()),
        ("tool_search", ToolSearchConfig()),
        ("web_search", WebSearchConfig()),
        ("dreams", NoConfig()),
        ("file_search", NoConfig()),
    ],
)
def test_a_native_tool_has_its_kind_by_name(name: str, config: Any) -> None:
    """N6, N32: the capability is the name; there is one map from it to what codecs need."""
    native = NativeTool[None, Result](name=name, description="Do it.", result_type=Result)

    view = as_hosted(native, provider="openai")

    assert (view.kind, view.name, view.config) == (name, name, config)


def test_a_provider_tool_keeps_its_name_and_its_options() -> None:
    """C12: the user's name stays; the kind follows from the options."""
    view = as_hosted(OpenAICodeInterpreterTool(name="openai_python"), provider="openai")

    assert (view.kind, view.name) == ("code_interpreter", "openai_python")
    assert isinstance(view.config, CodeInterpreterConfig)


def test_a_description_is_fitted_to_the_rules_of_hosted_tools() -> None:
    """H10: it never reaches the provider, so a long or foreign one is no reason to refuse."""
    native = NativeTool[None, Result](
        name="web_search", description="Größe " * 60, result_type=Result
    )

    view = as_hosted(native, provider="openai")

    assert view.description.isascii()
    assert len(view.description) <= 200


def test_another_providers_tool_is_refused() -> None:
    """C9: the adapter checks the provider before it offers a tool."""
    tool = ProviderTool[None, Any, None](
        name="bash", description="Run.", provider="anthropic", config=None
    )

    with pytest.raises(UsageError, match="is for 'anthropic', and this adapter is for 'openai'"):
        as_hosted(tool, provider="openai")
    assert as_hosted(tool, provider="anthropic").kind == "bash"


def test_host_mounts_that_no_adapter_staged_are_refused() -> None:
    """C28: a hosted tool has no mounts, so their files would be missing without a word."""
    tool = OpenAICodeInterpreterTool(name="python", host_mounts=(HostMount("data"),))

    with pytest.raises(UsageError, match="tool 'python' has host_mounts, and no folder"):
        as_hosted(tool, provider="openai")
    assert as_hosted(replace(tool, host_mounts=()), provider="openai").kind == "code_interpreter"


def test_what_nobody_offered_has_a_stand_in() -> None:
    """N24: a call must have a tool to be recorded under."""
    view = undeclared("odd.kind")

    assert isinstance(view, HostedTool)
    assert (view.kind, view.name) == ("odd.kind", "odd_kind")


NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,128}", fullmatch=True)


@given(st.lists(NAMES, unique=True))
def test_every_name_gets_one_that_the_provider_takes(names: list[str]) -> None:
    """Whatever tools are called, wire names are short, plain and unique, and names that are so
    already stay as they are.
    """
    found = wire_names(names)

    assert list(found) == names
    assert len(set(found.values())) == len(names)
    for name, wire in found.items():
        assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", wire)
        if re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name):
            assert wire == name


def test_a_name_is_derived_so_that_people_know_it() -> None:
    """Dots become underscores; what would clash gets a suffix."""
    found = wire_names(["app.query", "app_query", "app-query"])

    assert found["app_query"] == "app_query"
    assert re.fullmatch(r"app_query_[0-9a-f]{8}", found["app.query"])
    assert wire_names(["app.query"]) == {"app.query": "app_query"}


def test_names_do_not_depend_on_what_else_is_long() -> None:
    """A long name keeps its beginning and gets a digest of the whole."""
    first, second = "a" * 100 + ".x", "a" * 100 + ".y"

    found = wire_names([first, second])

    assert found[first] != found[second]
    assert all(wire.startswith("a" * 55) for wire in found.values())
