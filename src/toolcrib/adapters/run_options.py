"""Options from the run: hosted tools whose configuration a function of the application gives.

The function gets the params of the tool's section and the session, once for each turn. What it
gives is the tool's configuration from there on: policy, identity and the record see nothing else.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from toolcrib.adapters.turn_tools import PreparedTools, WithheldTool
from toolcrib.errors import InvalidTool, PromptEvaluationError
from toolcrib.tools.provider_tools import HostedTool, config_function

if TYPE_CHECKING:
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool

O = TypeVar("O")  # noqa: E741

_NONE_GIVEN = "the function of its options gave none for this run"


@dataclass(frozen=True, slots=True)
class ConfiguredPrompt(Generic[O]):
    """A prompt whose tools all have options of their own."""

    prompt: RenderedPrompt[O]
    withheld: tuple[WithheldTool, ...] = ()
    """The tools that are not for this run."""
    tool_options: Mapping[str, Mapping[str, str]] = field(
        default_factory=dict[str, Mapping[str, str]]
    )
    """By the name of a tool, the options that its function gave, without secrets."""


def configure(
    rendered: RenderedPrompt[O], session: Session, prepared: PreparedTools
) -> ConfiguredPrompt[O]:
    """Ask every function of options. Raises `PromptEvaluationError` (phase render) for one that
    fails or gives something that is no configuration.
    """
    if not any(config_function(tool) for tool in rendered.declared):
        return ConfiguredPrompt(rendered)
    declared: list[Tool[Any, Any]] = []
    withheld: list[WithheldTool] = []
    options: dict[str, Mapping[str, str]] = {}
    for tool in rendered.declared:
        function = config_function(tool)
        if function is None:
            declared.append(tool)
            continue
        hosted = cast("HostedTool[Any]", tool)
        concrete = _concrete(hosted, function, rendered, session)
        if concrete is None:
            withheld.append(WithheldTool(prepared.get(tool).ref, _NONE_GIVEN))
            continue
        declared.append(concrete)
        options[tool.name] = _shown_options(concrete, prepared)
    return ConfiguredPrompt(replace(rendered, declared=tuple(declared)), tuple(withheld), options)


def _concrete(
    tool: HostedTool[Any],
    function: Callable[[Any, Any], Any],
    rendered: RenderedPrompt[Any],
    session: Session,
) -> HostedTool[Any] | None:
    try:
        config = function(rendered.params.get(tool.name), session)
        if inspect.isawaitable(config):
            if inspect.iscoroutine(config):
                config.close()
            raise InvalidTool("it is async; make it a plain function")
        if config is None:
            return None
        if callable(config):
            raise InvalidTool(f"it gave a {type(config).__name__}, not a configuration")
        return replace(tool, config=config)
    except Exception as error:
        raise PromptEvaluationError(
            f"the options of tool {tool.name!r} could not be made: {type(error).__name__}: {error}",
            prompt_name=rendered.name,
            phase="render",
        ) from error


def _shown_options(tool: HostedTool[Any], prepared: PreparedTools) -> dict[str, str]:
    parts = prepared.get(tool).identity.parts
    return {name: text for name, text in parts.items() if name.partition(".")[0] == "config"}
