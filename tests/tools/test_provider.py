"""ProviderTool: a tool that one provider defines."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter

from toolcrib.errors import InvalidTool
from toolcrib.tools.context import ToolContext
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.provider_tools import ProviderTool
from toolcrib.tools.result import ToolResult
from toolcrib.tools.tool import Tool


@dataclass
class Params:
    patch: str


@dataclass
class Result:
    changed: int


@dataclass(frozen=True, slots=True)
class Config:
    mode: str = "local"


def apply(params: Params, *, context: ToolContext) -> ToolResult[Result]:
    return ToolResult(value=Result(len(params.patch)), message=context.session_id)


def declare(**changes: Any) -> ProviderTool[Params, Result, Config]:
    sound: dict[str, Any] = {
        "name": "apply_patch",
        "description": "Apply a patch.",
        "provider": "openai",
        "config": Config(),
    }
    return ProviderTool[Params, Result, Config](**{**sound, **changes})


def test_it_is_a_tool_with_provider_and_config() -> None:
    """C1, C2: Tool plus the provider it is for and that provider's options."""
    tool = declare()

    assert isinstance(tool, Tool)
    assert (tool.provider, tool.config) == ("openai", Config())
    assert (tool.params_type, tool.result_type) == (Params, Result)


@pytest.mark.parametrize("provider", ["", " ", None])
def test_a_provider_must_be_named(provider: object) -> None:
    """C2: a tool without a provider could not be matched to an adapter."""
    with pytest.raises(InvalidTool, match="provider must name a provider"):
        declare(provider=provider)


def test_it_may_have_an_output_hook() -> None:
    """C3: a callable from the typed result and the context to a ToolResult or None."""

    def hook(result: Result, context: ToolContext) -> ToolResult[Result] | None:
        return ToolResult(value=result, message=context.session_id)

    tool = declare(handle_provider_output=hook)

    assert tool.handle_provider_output is not None
    seen = tool.handle_provider_output(Result(1), ToolContext(session_id="s", cwd="."))
    assert seen == ToolResult(value=Result(1), message="s")


def test_a_hook_that_cannot_be_called_is_refused() -> None:
    """C3: found out when declared, not when the provider answers."""
    with pytest.raises(InvalidTool, match="handle_provider_output must be callable"):
        declare(handle_provider_output="hook")


def test_params_and_results_survive_json() -> None:
    """C6: the typed dataclasses go to JSON and back unchanged."""
    prepared = prepare(declare())

    assert prepared.parse(TypeAdapter(Params).dump_json(Params("p"))) == Params("p")


def test_with_a_handler_it_runs_here() -> None:
    """C1, C7: provider-defined, client-run: the handler takes (params, *, context)."""
    prepared = prepare(declare(handler=apply))

    assert prepared.ref.place == "local"
    result = prepared.invoke(Params("abc"), ToolContext(session_id="s", cwd="."))
    assert result == ToolResult(value=Result(3), message="s")


def test_without_a_handler_the_provider_runs_it() -> None:
    """X3: no handler means the provider has run it when we hear of it."""
    assert declare().place == "provider"


def test_overrides_are_opt_in() -> None:
    """X10: off unless asked for."""
    assert declare().accepts_overrides is False


def test_a_config_that_could_change_is_refused() -> None:
    """H2: options are frozen dataclasses for every provider-run tool."""
    with pytest.raises(InvalidTool, match="frozen dataclass"):
        declare(config={"mode": "local"})
    assert declare(config=None).config is None


def test_it_has_three_type_arguments() -> None:
    """X2: params, result and config."""
    with pytest.raises(TypeError, match="Too few arguments"):
        ProviderTool[Params, Result]  # pyright: ignore[reportInvalidTypeArguments]
