"""Which tool the model must use, as a request says it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.adapters.codec import Codec
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from toolcrib.adapters.declared import Declared, Hosted


def choice_of(declared: Declared, wanted: str, prompt_name: str) -> Any:
    """`tool_choice` for `auto`, `none`, `required` or the name of one tool."""
    if wanted == "required" and not declared.tools:
        raise _unrenderable(
            "tool_choice is 'required', but no tool is offered; offer one, or leave the choice at "
            "'auto'",
            prompt_name,
        )
    if wanted in ("auto", "none", "required"):
        return wanted
    if wanted in declared.wire:
        return {"type": "function", "name": declared.wire[wanted]}
    for hosted in declared.hosted:
        if hosted.tool.name == wanted:
            return _hosted_choice(hosted)
    for ours in declared.client_run:
        if ours.tool.name == wanted:
            return ours.codec.choice(ours.tool)
    known = ", ".join(declared.offered) or "none"
    raise _unrenderable(
        f"tool_choice names {wanted!r}, which the prompt does not offer; it offers: {known}",
        prompt_name,
    )


def _hosted_choice(hosted: Hosted) -> Any:
    if isinstance(hosted.codec, Codec):
        return hosted.codec.choice(hosted.tool)
    return {"type": hosted.codec.serialize(hosted.tool)["type"]}


def _unrenderable(message: str, prompt_name: str) -> PromptEvaluationError:
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")
