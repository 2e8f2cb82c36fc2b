"""The parts of a request besides the conversation: tools, tool choice, output, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.adapters.pydantic_ai.models import inner_models
from toolcrib.errors import PromptEvaluationError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.tool_declarations import ToolDeclarations
    from toolcrib.prompt.prompt import RenderedPrompt


def choice_of(declared: ToolDeclarations, wanted: str, prompt_name: str) -> dict[str, Any]:
    """The settings for `auto`, `none`, `required` or the name of one tool.

    Raises `PromptEvaluationError` (phase render) for a choice that no model can be given.
    """
    if wanted == "auto":
        return {}
    if wanted == "none":
        return {"tool_choice": "none"}
    names = {
        **declared.wire,
        **{client.tool.name: client.codec.kind for client in declared.client_run},
    }
    if wanted in names:
        return {"tool_choice": [names[wanted]]}
    if wanted == "required" and _functions(declared):
        return {"tool_choice": "required"}
    raise PromptEvaluationError(
        _choice_problem(declared, wanted), prompt_name=prompt_name, phase="render"
    )


def _choice_problem(declared: ToolDeclarations, wanted: str) -> str:
    if wanted == "required" and not declared.has_tools:
        return (
            "tool_choice is 'required', but no tool is offered; offer one, or leave the choice at "
            "'auto'"
        )
    if wanted != "required" and wanted not in declared.offered:
        return (
            f"tool_choice names {wanted!r}, which the prompt does not offer; it offers: "
            f"{', '.join(declared.offered) or 'none'}"
        )
    return (
        f"tool_choice is {wanted!r}, and no model of pydantic-ai can be made to use a hosted tool; "
        "leave the choice to the model, or declare a tool of your own"
    )


_CONVERSATION: Final = "the adapter keeps the conversation in the session's ledger"
_SECONDS: Final = "pass a Budget with seconds"

_UNUSABLE: Final[Mapping[str, str]] = {
    "first_event_timeout": _SECONDS,
    "openai_background": "the adapter waits for the answer",
    "openai_conversation_id": _CONVERSATION,
    "openai_previous_response_id": _CONVERSATION,
    "request_timeout": _SECONDS,
    "tool_choice": "pass tool_choice= to evaluate",
}
RESERVED: Final[Mapping[str, str]] = {**_UNUSABLE, "max_retries": "pass retry= to the adapter"}
"""Settings that a caller may not pass, and what to do instead."""


def check_own_settings(model: Any) -> None:
    """Refuse a model with settings of its own that would break the loop, or that only agents use.

    Its own retries are replaced silently by the adapter's.
    """
    for member in (model, *inner_models(model)):
        settings: Mapping[str, Any] = member.settings or {}
        for name in sorted(settings.keys() & _UNUSABLE.keys()):
            raise UsageError(
                f"the model's own settings have {name!r}, which does not work with prompts: "
                f"{_UNUSABLE[name]}"
            )


def settings_of(model: Any, options: Mapping[str, Any]) -> ModelSettings:
    """The settings of a model's requests."""
    settings = dict(options)
    if any("max_retries" not in member.unsupported_settings for member in inner_models(model)):
        # The SDK must not retry: only the adapter's retries end with the prompt's deadline.
        settings["max_retries"] = 0
    return cast("ModelSettings", settings)


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """The parts that all requests of a turn share; the first may force a tool."""

    parameters: ModelRequestParameters
    settings: ModelSettings
    first_settings: ModelSettings

    def settings_at(self, step: int) -> ModelSettings:
        """The settings of a step. A tool is forced once: else the model could never answer."""
        return self.first_settings if step == 1 else self.settings


def request_template(
    prompt: RenderedPrompt[Any], declared: ToolDeclarations, options: TurnOptions, model: Model
) -> RequestTemplate:
    """The template of a turn. Raises `PromptEvaluationError` (phase render) for a request that the
    model does not take.
    """
    settings = settings_of(model, {**options.settings, **declared.body})
    choice = choice_of(declared, options.tool_choice, prompt.name)
    is_forbidden = options.tool_choice == "none"
    native = [] if is_forbidden else _native(declared, prompt.name)
    parameters = _parameters(prompt, declared, model, native)
    first = cast("ModelSettings", {**settings, **choice})
    template = RequestTemplate(parameters, first if is_forbidden else settings, first)
    _check(model, template, prompt.name)
    return template


def _check(model: Any, template: RequestTemplate, prompt_name: str) -> None:
    """Let the model check the request before the turn begins."""
    from pydantic_ai.exceptions import UserError

    members = list(inner_models(model))
    try:
        # A fallback does not check: its members do, when a request reaches them.
        for member in members if len(members) > 1 else (model,):
            settings = {
                key: value
                for key, value in template.first_settings.items()
                if key not in member.unsupported_settings
            }
            member.prepare_request(settings, template.parameters)
    except UserError as error:
        message = f"the model does not take this request: {error}"
        raise PromptEvaluationError(message, prompt_name=prompt_name, phase="render") from error


def _parameters(
    prompt: RenderedPrompt[Any], declared: ToolDeclarations, model: Model, native: list[Any]
) -> ModelRequestParameters:
    from pydantic_ai.messages import InstructionPart
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    functions, output = _functions(declared), prompt.output
    output_fields: dict[str, Any] = {}
    if output is not None:
        has_tools = bool(functions or native)
        members = inner_models(model)
        is_native = all(_takes_schema(member, has_tools=has_tools) for member in members)
        output_fields = {
            "output_mode": "native" if is_native else "prompted",
            "output_object": OutputObjectDefinition(output.schema, name=output.name),
        }
    return ModelRequestParameters(
        function_tools=functions,
        native_tools=native,
        instruction_parts=[InstructionPart(prompt.instructions)] if prompt.instructions else None,
        **output_fields,
    )


def _takes_schema(model: Any, *, has_tools: bool) -> bool:
    """Whether a model takes a schema for its answer. Older Gemini models do not beside tools."""
    profile = model.profile
    is_free = not has_tools or profile.get("google_supports_tool_combination", True)
    return bool(profile.get("supports_json_schema_output", False) and is_free)


def _functions(declared: ToolDeclarations) -> list[ToolDefinition]:
    """The functions of a request: the tools of this process, and those that a native tool needs
    beside it.
    """
    from pydantic_ai.tools import ToolDefinition

    own = [
        ToolDefinition(
            name=function.wire_name,
            description=function.description,
            parameters_json_schema=dict(function.parameters),
        )
        for function in declared.functions
    ]
    beside = [
        ToolDefinition(
            name=text_of(entry, "name"),
            description=text_of(entry, "description"),
            parameters_json_schema=mapping_of(entry, "parameters"),
        )
        for entry in declared.entries
        if entry["type"] == "function"
    ]
    return [*own, *beside]


def _native(declared: ToolDeclarations, prompt_name: str) -> list[Any]:
    """The hosted tools in pydantic-ai's types. The entry of a user's codec may be none of them."""
    from pydantic import ValidationError
    from pydantic_ai.native_tools import NATIVE_TOOL_TYPES

    tools: list[Any] = []
    for entry in declared.entries:
        kind = text_of(entry, "type")
        if kind == "function":
            continue
        fields = {key: value for key, value in entry.items() if key != "type"}
        try:
            # Forbid extra fields: pydantic would drop them silently.
            tools.append(_reader(NATIVE_TOOL_TYPES[kind]).validate_python(fields, extra="forbid"))
        except KeyError:
            known = ", ".join(sorted(NATIVE_TOOL_TYPES))
            raise _undeclarable(kind, f"it knows: {known}", prompt_name) from None
        except ValidationError as error:
            raise _undeclarable(kind, str(error), prompt_name) from None
    return tools


def _undeclarable(kind: str, why: str, prompt_name: str) -> PromptEvaluationError:
    message = f"pydantic-ai cannot declare {kind!r} as the tool's codec writes it; {why}"
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")


@cache
def _reader(native: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(native)
