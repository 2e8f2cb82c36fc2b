"""What a request says besides the conversation: tools, choice, output, settings.

Which tool a model must use, as its settings say it.

The settings that a model's requests are made with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.json_fields import mapping_of, text_of
from toolcrib.adapters.pydantic_ai.models import inner_models
from toolcrib.errors import PromptEvaluationError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.tool_declarations import ToolDeclarations
    from toolcrib.prompt.output import OutputSchema
    from toolcrib.prompt.rendered_prompt import RenderedPrompt


def choice_of(declared: ToolDeclarations, wanted: str, prompt_name: str) -> dict[str, Any]:
    """The settings for `auto`, `none`, `required` or the name of one tool. Raises
    `PromptEvaluationError` (phase render) for what no model can be made to do.
    """
    if wanted == "auto":
        return {}
    if wanted == "none":
        return {"tool_choice": "none"}
    names = {**declared.wire, **{each.tool.name: each.codec.kind for each in declared.client_run}}
    if wanted in names:
        return {"tool_choice": [names[wanted]]}
    if wanted == "required" and _functions(declared):
        return {"tool_choice": "required"}
    raise PromptEvaluationError(_why(declared, wanted), prompt_name=prompt_name, phase="render")


def _why(declared: ToolDeclarations, wanted: str) -> str:
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
        f"tool_choice is {wanted!r}, and no model that pydantic-ai speaks to can be made to use a "
        "tool of the provider's; leave the choice to the model, or offer a tool of your own"
    )


_CONVERSATION: Final = "the adapter keeps the conversation, in the session's ledger"
_SECONDS: Final = "give the prompt a Budget with seconds"

_UNFIT: Final[Mapping[str, str]] = {
    "first_event_timeout": _SECONDS,
    "openai_background": "a prompt is waited for",
    "openai_conversation_id": _CONVERSATION,
    "openai_previous_response_id": _CONVERSATION,
    "request_timeout": _SECONDS,
    "tool_choice": "pass tool_choice= to evaluate",
}
RESERVED: Final[Mapping[str, str]] = {**_UNFIT, "max_retries": "pass retry= to the adapter"}
"""Settings that are not for the caller, and what to do instead."""


def check_own_settings(model: Any) -> None:
    """Refuse a model with settings of its own that would break the loop, or that only agents
    keep to. Its retries are left out without a word: ours take their place.
    """
    for each in (model, *inner_models(model)):
        own: Mapping[str, Any] = each.settings or {}
        taken = sorted(own.keys() & _UNFIT.keys())
        if taken:
            raise UsageError(
                f"the model's own settings hold {taken[0]!r}, which does not work with prompts: "
                f"{_UNFIT[taken[0]]}"
            )


def settings_of(model: Any, given: Mapping[str, Any]) -> ModelSettings:
    """The settings with which a model is asked."""
    found = dict(given)
    if any("max_retries" not in each.unsupported_settings for each in inner_models(model)):
        # Retries are ours, because they must end with the prompt's deadline.
        found["max_retries"] = 0
    return cast("ModelSettings", found)


@dataclass(frozen=True, slots=True)
class Asking:
    """How every request of a turn is made; the first may be made to use a tool."""

    parameters: ModelRequestParameters
    settings: ModelSettings
    first_settings: ModelSettings

    def settings_at(self, step: int) -> ModelSettings:
        """The settings of a step. A choice that is forced is forced once: else the model could
        never answer.
        """
        return self.first_settings if step == 1 else self.settings


def asking(
    prompt: RenderedPrompt[Any], declared: ToolDeclarations, options: TurnOptions, model: Model
) -> Asking:
    """Everything but the conversation. Raises `PromptEvaluationError` (phase render) for what the
    model cannot do.
    """
    settings = settings_of(model, {**options.settings, **declared.body})
    choice = choice_of(declared, options.tool_choice, prompt.name)
    is_barred = options.tool_choice == "none"
    native = [] if is_barred else _native(declared, prompt.name)
    parameters = _parameters(declared, prompt.output, model, native)
    first = cast("ModelSettings", {**settings, **choice})
    found = Asking(parameters, first if is_barred else settings, first)
    _check(model, found, prompt.name)
    return found


def _check(model: Any, asking: Asking, prompt_name: str) -> None:
    """Let the model say now, not in the middle of a turn, what it cannot do."""
    from pydantic_ai.exceptions import UserError

    able = list(inner_models(model))
    try:
        # One that falls back on others leaves it to them, when they are asked.
        for each in able if len(able) > 1 else (model,):
            settings = {
                key: value
                for key, value in asking.first_settings.items()
                if key not in each.unsupported_settings
            }
            each.prepare_request(settings, asking.parameters)
    except UserError as error:
        message = f"the model cannot be asked this: {error}"
        raise PromptEvaluationError(message, prompt_name=prompt_name, phase="render") from error


def _parameters(
    declared: ToolDeclarations, output: OutputSchema[Any] | None, model: Model, native: list[Any]
) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    functions = _functions(declared)
    asked: dict[str, Any] = {}
    if output is not None:
        has_tools = bool(functions or native)
        is_native = all(_takes_schema(each, has_tools=has_tools) for each in inner_models(model))
        asked = {
            "output_mode": "native" if is_native else "prompted",
            "output_object": OutputObjectDefinition(output.schema, name=output.name),
        }
    return ModelRequestParameters(function_tools=functions, native_tools=native, **asked)


def _takes_schema(model: Any, *, has_tools: bool) -> bool:
    """Whether a model keeps to a schema for its answer. Older Gemini models do not beside tools."""
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
    """The tools of the provider's, as pydantic-ai has them. What a codec of the user's own writes
    need not be one.
    """
    from pydantic import ValidationError
    from pydantic_ai.native_tools import NATIVE_TOOL_TYPES

    found: list[Any] = []
    for entry in declared.entries:
        kind = text_of(entry, "type")
        if kind == "function":
            continue
        fields = {key: value for key, value in entry.items() if key != "type"}
        try:
            # A field that the tool does not have would else be left out without a word.
            found.append(_reader(NATIVE_TOOL_TYPES[kind]).validate_python(fields, extra="forbid"))
        except KeyError:
            known = ", ".join(sorted(NATIVE_TOOL_TYPES))
            raise _undeclarable(kind, f"it knows: {known}", prompt_name) from None
        except ValidationError as error:
            raise _undeclarable(kind, str(error), prompt_name) from None
    return found


def _undeclarable(kind: str, why: str, prompt_name: str) -> PromptEvaluationError:
    message = f"pydantic-ai cannot declare {kind!r} as the tool's codec writes it; {why}"
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")


@cache
def _reader(native: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(native)
