"""Rules that mean nothing for a tool that the provider runs are refused when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from toolcrib import HostedTool, NativeTool, ProviderTool
from toolcrib.errors import InvalidTool
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import CodeInterpreterConfig
from toolcrib.tools.web_search import WebSearchConfig


@dataclass(frozen=True, slots=True)
class Result:
    text: str = ""


RULES: list[tuple[str, Any, str]] = [
    ("timeout", 1, "Budget"),
    ("max_result_chars", 3, "option of the kind"),
    ("cut", "tail", "option of the kind"),
    ("one_at_a_time", True, "parallel_tool_calls"),
    ("uses", ("x",), "leave it out"),
    ("requires", ("elicitation",), "available_when"),
    ("deprecated", "old", "section's text"),
    ("output_schema", {"type": "object"}, "result_type"),
    ("approval_metadata", dict, "requires_approval withholds it"),
]


def hosted(**fields: Any) -> HostedTool[WebSearchConfig]:
    chosen: dict[str, Any] = {"kind": "web_search", "config": WebSearchConfig(), **fields}
    return HostedTool[WebSearchConfig](name="s", description="S.", **chosen)


def native(**fields: Any) -> NativeTool[None, Result]:
    return NativeTool[None, Result](name="web_search", description="S.", **fields)


def bound(**fields: Any) -> ProviderTool[None, Result, None]:
    return ProviderTool[None, Result, None](
        name="web_search", description="S.", provider="openai", config=None, **fields
    )


@pytest.mark.parametrize("make", [hosted, native, bound, OpenAICodeInterpreterTool])
@pytest.mark.parametrize(("rule", "value", "advice"), RULES)
def test_a_rule_that_nobody_obeys_is_refused(make: Any, rule: str, value: Any, advice: str) -> None:
    """Finding 16: the error names the rule and says what to do instead."""
    with pytest.raises(InvalidTool, match=rf"so {rule} has no effect; .*{advice}"):
        make(**{rule: value})


@pytest.mark.parametrize("make", [hosted, native, bound, OpenAICodeInterpreterTool])
def test_the_rules_that_hold_everywhere_are_taken(make: Any) -> None:
    """What decides whether a tool is offered is for every tool."""
    tool = make(requires_approval=True, is_read_only=True, category="web", version="1.0.0")

    assert (tool.requires_approval, tool.category) == (True, "web")


def test_a_handler_obeys_all_of_them() -> None:
    """A provider's tool that this process runs is a tool like any other."""

    def run(params: None) -> Result:
        return Result()

    tool = ProviderTool[None, Result, None](
        name="own", description="S.", provider="openai", config=None, handler=run, timeout=1,
        one_at_a_time=True, uses=("x",), requires=("elicitation",), max_result_chars=3,
    )  # fmt: skip
    assert tool.timeout == 1


def test_a_hook_may_use_other_tools() -> None:
    """The hook is code of ours, also where the provider runs the tool."""
    tool = bound(uses=("add",), handle_provider_output=lambda result, context: None)  # pyright: ignore[reportUnknownLambdaType]

    assert tool.uses == ("add",)


def test_a_config_of_another_kind_is_refused_when_the_tool_is_made() -> None:
    """Finding 19: the error says which kind the config is for."""
    with pytest.raises(
        InvalidTool, match=r"CodeInterpreterConfig, which is for 'code_interpreter'"
    ):
        hosted(config=CodeInterpreterConfig())
