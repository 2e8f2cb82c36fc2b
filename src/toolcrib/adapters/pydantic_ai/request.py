"""What a request says besides the conversation: tools, choice, output, settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from toolcrib.adapters.items import mapping_of, text_of
from toolcrib.errors import PromptEvaluationError, UsageError

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.tools import ToolDefinition

    from toolcrib.adapters.codec import Item
    from toolcrib.adapters.declared import Declared
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.prompt.output import OutputSchema
    from toolcrib.prompt.rendering import RenderedPrompt


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
    prompt: RenderedPrompt[Any], declared: Declared, options: TurnOptions, model: Model
) -> Asking:
    """Everything but the conversation. Raises `PromptEvaluationError` (phase render) for what the
    model cannot do.
    """
    from pydantic_ai.exceptions import UserError

    settings = _settings(declared, options, model)
    choice = _choice(options.tool_choice, declared, prompt.name)
    is_barred = options.tool_choice == "none"
    parameters = _parameters(declared, prompt.output, model, with_native=not is_barred)
    first = cast("ModelSettings", {**settings, **choice})
    found = Asking(parameters, first if is_barred else settings, first)
    try:
        # The model says now, not in the middle of a turn, what it cannot do.
        model.prepare_request(first, parameters)
    except (UserError, UsageError) as error:
        raise _unrenderable(str(error), prompt.name) from error
    return found


def _settings(declared: Declared, options: TurnOptions, model: Model) -> ModelSettings:
    found: dict[str, Any] = {**options.settings, **declared.body}
    if "max_retries" not in model.unsupported_settings:
        # Retries are ours, because they must end with the prompt's deadline.
        found["max_retries"] = 0
    return cast("ModelSettings", found)


def _parameters(
    declared: Declared, output: OutputSchema[Any] | None, model: Model, *, with_native: bool
) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    functions = [_function(each) for each in declared.tools if each["type"] == "function"]
    native = [_native(each) for each in declared.tools if each["type"] != "function"]
    asked: dict[str, Any] = {}
    if output is not None:
        has_schema = model.profile.get("supports_json_schema_output", False)
        is_free = not (functions or native) or _combines(model)
        asked = {
            "output_mode": "native" if has_schema and is_free else "prompted",
            "output_object": OutputObjectDefinition(output.schema, name=output.name),
        }
    return ModelRequestParameters(
        function_tools=functions, native_tools=native if with_native else [], **asked
    )


def _combines(model: Model) -> bool:
    """Whether the model takes a schema for its answer beside tools. Older Gemini models do not."""
    profile = cast("Mapping[str, Any]", model.profile)
    return bool(profile.get("google_supports_tool_combination", True))


def _function(entry: Item) -> ToolDefinition:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=text_of(entry, "name"),
        description=text_of(entry, "description"),
        parameters_json_schema=mapping_of(entry, "parameters"),
    )


def _native(entry: Item) -> Any:
    fields = {key: value for key, value in entry.items() if key != "type"}
    return _native_tools().validate_python({**fields, "kind": entry["type"]})


def _choice(wanted: str, declared: Declared, prompt_name: str) -> dict[str, Any]:
    functions = [text_of(each, "name") for each in declared.tools if each["type"] == "function"]
    ours = {each.tool.name: each.tool.name for each in declared.client_run}
    if wanted == "auto":
        return {}
    if wanted == "none":
        return {"tool_choice": "none"}
    if wanted == "required" and functions:
        return {"tool_choice": "required"}
    if wanted in declared.wire or wanted in ours:
        return {"tool_choice": [declared.wire.get(wanted, wanted)]}
    offered = declared.offered
    if wanted != "required" and wanted not in offered:
        raise _unrenderable(
            f"tool_choice names {wanted!r}, which the prompt does not offer; it offers: "
            f"{', '.join(offered) or 'none'}",
            prompt_name,
        )
    raise _unrenderable(
        f"tool_choice is {wanted!r}, and no model that pydantic-ai speaks to can be made to use a "
        "tool of the provider's; leave the choice to the model, or offer a tool of your own",
        prompt_name,
    )


def _unrenderable(message: str, prompt_name: str) -> PromptEvaluationError:
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")


@cache
def _native_tools() -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic_ai.native_tools import AbstractNativeTool

    return TypeAdapter(AbstractNativeTool)
