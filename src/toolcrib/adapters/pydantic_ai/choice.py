"""Which tool a model must use, as its settings say it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.adapters.items import text_of
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from toolcrib.adapters.declared import Declared


def choice_of(declared: Declared, wanted: str, prompt_name: str) -> dict[str, Any]:
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
    if wanted == "required" and any(text_of(each, "type") == "function" for each in declared.tools):
        return {"tool_choice": "required"}
    raise PromptEvaluationError(_why(declared, wanted), prompt_name=prompt_name, phase="render")


def _why(declared: Declared, wanted: str) -> str:
    if wanted == "required" and not declared.tools:
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
