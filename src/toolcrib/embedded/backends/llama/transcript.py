"""The chat messages for a small model: rules, a worked example, then the conversation.

The smaller the model, the more an example of small talk makes it talk where it should call.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, assert_never, cast

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    BackendRequest,
    BackendTool,
)

if TYPE_CHECKING:
    from toolcrib.embedded.backends.llama.steps import TaskStep

ChatMessage = dict[str, str]


@dataclass(frozen=True, slots=True)
class PromptGuide:
    """Rules, the tools of the example, and the example. With `reminds`, a model reads the question
    again after a result; the smallest ones repeat it instead of answering.
    """

    rules: str
    tools: str
    examples: tuple[ChatMessage, ...]
    reminds: bool


def by_user(text: str) -> ChatMessage:
    """A message to the model: the user's words, or a result."""
    return {"role": "user", "content": text}


def by_model(text: str) -> ChatMessage:
    """A step of the model."""
    return {"role": "assistant", "content": text}


_FORM: Final = """You work with tools. Write one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} to call a tool, or {"answer": TEXT} to answer the user.

Call a tool when the user asks for something that the tool finds out or does: facts in files, \
searches, sums, actions. Never guess what a tool can tell."""

FULL: Final = PromptGuide(
    rules=f"""{_FORM} Choose the tool whose description fits \
best. Take arguments from the user's words, and leave out those with a ? that the user did not give.
When a tool result is there, use it: answer with what it says, in its own words, and do not call \
the same tool with the same arguments again. If the user asked about several things, call the tool \
for each of them before you answer.
Greetings, thanks, opinions, small talk, and things that you can write yourself need no tool: \
answer them at once.""",
    tools="lookup_order(order_id: string): Find an order by its number.\n"
    "convert_units(value: number, from: string, to: string, digits?: integer): "
    "Convert between units.",
    examples=(
        by_user("Good morning! Which do you like more, tea or coffee?"),
        by_model('{"answer": "Good morning! I drink neither, but tea sounds calming."}'),
        by_user("Which comes first, order A-17 or order B-20?"),
        by_model('{"tool": "lookup_order", "arguments": {"order_id": "A-17"}}'),
        by_user('Result of lookup_order: {"status": "shipped", "by": "Friday"}'),
        by_model('{"tool": "lookup_order", "arguments": {"order_id": "B-20"}}'),
        by_user('Result of lookup_order: {"status": "packed", "by": "next Tuesday"}'),
        by_model('{"answer": "A-17 comes first, by Friday; B-20 comes by next Tuesday."}'),
        by_user("Thank you! Write me one line about the sea."),
        by_model('{"answer": "The sea hums an old song to every shore it meets."}'),
        by_user("How many miles are 10 km?"),
        by_model(
            '{"tool": "convert_units", "arguments": {"value": 10, "from": "km", "to": "miles"}}'
        ),
        by_user("Result of convert_units: 6.21"),
        by_model('{"answer": "10 km are 6.21 miles."}'),
    ),
    reminds=True,
)

BRIEF: Final = PromptGuide(
    rules=f"""{_FORM} Take arguments from the user's words.
When a tool result is there, use it: answer with what it says, and do not call the same tool again.
Greetings, thanks, opinions and small talk need no tool: answer them at once.""",
    tools="lookup_order(order_id: string): Find an order by its number.\n"
    "convert_units(value: number, from: string, to: string): Convert between units.",
    examples=(
        by_user("Where is my order A-17?"),
        by_model('{"tool": "lookup_order", "arguments": {"order_id": "A-17"}}'),
        by_user('Result of lookup_order: {"status": "shipped", "by": "Friday"}'),
        by_model('{"answer": "Your order A-17 is shipped and arrives by Friday."}'),
        by_user("Thank you!"),
        by_model('{"answer": "You are welcome!"}'),
        by_user("How many miles are 10 km?"),
        by_model(
            '{"tool": "convert_units", "arguments": {"value": 10, "from": "km", "to": "miles"}}'
        ),
        by_user("Result of convert_units: 6.21"),
        by_model('{"answer": "10 km are 6.21 miles."}'),
    ),
    reminds=False,
)

LARGE_ENOUGH: Final = 800_000_000
"""The file size from which a model gets the full guide."""


def guide_for(size: int) -> PromptGuide:
    """The guide for a model whose file has so many bytes."""
    return FULL if size >= LARGE_ENOUGH else BRIEF


LONGEST_RESULT: Final = 2500
LONGEST_REMINDER: Final = 600


def messages_for(
    request: BackendRequest, guide: PromptGuide = FULL, step: TaskStep | None = None
) -> list[ChatMessage]:
    """The messages for one text of the model; `step` is what it has to do now."""
    instructions = [request.instructions] if request.instructions else []
    if not request.tools and not any(isinstance(turn, BackendCall) for turn in request.history):
        rules = 'Answer with one JSON object: {"answer": ...}.'
        return [_system([rules, *instructions]), *_said(request.history)]
    example = _system([guide.rules, f"Tools:\n{guide.tools}"])
    own = "\n".join(_signature(tool) for tool in request.tools)
    ready = f"A new conversation begins, with other tools.\nTools:\n{own}"
    return [
        example,
        *guide.examples,
        {"role": "system", "content": "\n\n".join([ready, *instructions])},
        *_said(_without_failed(request.history, step)),
        *([by_user(step.reminder)] if step is not None else ()),
        *(_reminded(request.history) if guide.reminds and step is None else ()),
    ]


def _without_failed(
    history: Sequence[BackendInput], step: TaskStep | None
) -> Sequence[BackendInput]:
    """Without the tries of this step that failed: a small model would write the same again."""
    failed = 0 if step is None else step.failed
    return history[: len(history) - 2 * failed] if failed else history


def _reminded(history: Sequence[BackendInput]) -> list[ChatMessage]:
    """Repeat the question after a result: a small model has lost sight of it."""
    questions = [
        entry.text
        for entry in history
        if isinstance(entry, BackendMessage) and entry.role == "user"
    ]
    if not questions or not isinstance(history[-1], BackendCallResult):
        return []
    reminder = f"The user asked: {questions[-1][-LONGEST_REMINDER:]}"
    rule = "If that needs another call, make it. Else answer that with the words of the results."
    return [by_user(f"{reminder}\n{rule}")]


def _system(parts: Sequence[str]) -> ChatMessage:
    return {"role": "system", "content": "\n\n".join(parts)}


def _said(turns: Sequence[BackendInput]) -> list[ChatMessage]:
    messages: list[ChatMessage] = []
    for turn in turns:
        match turn:
            case BackendMessage(role="assistant"):
                content = json.dumps({"answer": turn.text}, ensure_ascii=False)
                messages.append({"role": "assistant", "content": content})
            case BackendMessage():
                role = "user" if turn.role == "user" else "system"
                messages.append({"role": role, "content": turn.text})
            case BackendCall():
                call = f'{{"tool": {json.dumps(turn.name)}, "arguments": {turn.arguments}}}'
                messages.append({"role": "assistant", "content": call})
            case BackendCallResult():
                text = turn.text[:LONGEST_RESULT]
                messages.append({"role": "user", "content": f"Result of {turn.name}: {text}"})
            case _:
                assert_never(turn)
    return messages


def _signature(tool: BackendTool) -> str:
    """A tool as a one-line signature."""
    properties = cast(dict[str, Any], tool.parameters.get("properties", {}))
    required = set(tool.parameters.get("required", ()))
    shown = [
        f"{name}{'' if name in required else '?'}: {_type(schema)}"
        for name, schema in properties.items()
    ]
    notes = [
        f"  {name}: {about}"
        for name, schema in properties.items()
        if (about := _facts(schema).get("description"))
    ]
    head = f"{tool.name}({', '.join(shown)}): {_first_line(tool.description)}"
    return "\n".join([head, *notes])


def _type(schema: Any) -> str:
    facts = _facts(schema)
    if "enum" in facts:
        return " | ".join(json.dumps(choice) for choice in facts["enum"])
    if facts.get("type") == "array":
        return f"{_type(facts.get('items'))}[]"
    return str(facts.get("type", "any"))


def _facts(schema: Any) -> dict[str, Any]:
    return cast(dict[str, Any], schema) if isinstance(schema, dict) else {}


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""
