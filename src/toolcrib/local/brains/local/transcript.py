"""A conversation as a small model reads it best: one worked example of the form, then its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, assert_never, cast

from toolcrib.local.brain import Answered, Called, Offer, Question, Said, Turn

LONGEST_RESULT: Final = 2500
Message = dict[str, str]

_RULES: Final = """You work with tools. Write one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} to call a tool, or {"answer": TEXT} to answer the user.

Call a tool when the user asks for something that the tool finds out or does: facts in files, \
searches, sums, actions. Never guess what a tool can tell. Take arguments from the user's words.
When a tool result is there, use it: answer with what it says, and do not call the same tool again.
Greetings, thanks, opinions and small talk need no tool: answer them at once."""

_EXAMPLE_TOOLS: Final = (
    "lookup_order(order_id: string): Find an order by its number.\n"
    "convert_units(value: number, from: string, to: string): Convert between units."
)

_EXAMPLES: Final[tuple[Message, ...]] = (
    {"role": "user", "content": "Where is my order A-17?"},
    {
        "role": "assistant",
        "content": '{"tool": "lookup_order", "arguments": {"order_id": "A-17"}}',
    },
    {"role": "user", "content": 'Result of lookup_order: {"status": "shipped", "by": "Friday"}'},
    {
        "role": "assistant",
        "content": '{"answer": "Your order A-17 is shipped and arrives by Friday."}',
    },
    {"role": "user", "content": "Thank you!"},
    {"role": "assistant", "content": '{"answer": "You are welcome!"}'},
    {"role": "user", "content": "How many miles are 10 km?"},
    {
        "role": "assistant",
        "content": '{"tool": "convert_units", "arguments": '
        '{"value": 10, "from": "km", "to": "miles"}}',
    },
    {"role": "user", "content": "Result of convert_units: 6.21"},
    {"role": "assistant", "content": '{"answer": "10 km are 6.21 miles."}'},
)


def messages_for(question: Question) -> list[Message]:
    """The messages of one step."""
    told = [question.instructions] if question.instructions else []
    if not question.offers and not any(isinstance(each, Called) for each in question.turns):
        rules = 'Answer with one JSON object: {"answer": ...}.'
        return [_system([rules, *told]), *_said(question.turns)]
    example = _system([_RULES, f"Tools:\n{_EXAMPLE_TOOLS}"])
    own = "\n".join(_signature(offer) for offer in question.offers)
    ready = f"A new conversation begins, with other tools.\nTools:\n{own}"
    return [
        example,
        *_EXAMPLES,
        {"role": "system", "content": "\n\n".join([ready, *told])},
        *_said(question.turns),
    ]


def _system(parts: Sequence[str]) -> Message:
    return {"role": "system", "content": "\n\n".join(parts)}


def _said(turns: Sequence[Turn]) -> list[Message]:
    messages: list[Message] = []
    for turn in turns:
        match turn:
            case Said(role="assistant"):
                content = json.dumps({"answer": turn.text}, ensure_ascii=False)
                messages.append({"role": "assistant", "content": content})
            case Said():
                role = "user" if turn.role == "user" else "system"
                messages.append({"role": role, "content": turn.text})
            case Called():
                call = f'{{"tool": {json.dumps(turn.name)}, "arguments": {turn.arguments}}}'
                messages.append({"role": "assistant", "content": call})
            case Answered():
                text = turn.text[:LONGEST_RESULT]
                messages.append({"role": "user", "content": f"Result of {turn.name}: {text}"})
            case _:
                assert_never(turn)
    return messages


def _signature(offer: Offer) -> str:
    """A tool in a line, as a programmer would write it."""
    properties = cast(dict[str, Any], offer.parameters.get("properties", {}))
    required = set(offer.parameters.get("required", ()))
    shown = [
        f"{name}{'' if name in required else '?'}: {_type(schema)}"
        for name, schema in properties.items()
    ]
    notes = [
        f"  {name}: {about}"
        for name, schema in properties.items()
        if (about := _facts(schema).get("description"))
    ]
    head = f"{offer.name}({', '.join(shown)}): {_first_line(offer.description)}"
    return "\n".join([head, *notes])


def _type(schema: Any) -> str:
    facts = _facts(schema)
    if "enum" in facts:
        return " | ".join(json.dumps(each) for each in facts["enum"])
    if facts.get("type") == "array":
        return f"{_type(facts.get('items'))}[]"
    return str(facts.get("type", "any"))


def _facts(schema: Any) -> dict[str, Any]:
    return cast(dict[str, Any], schema) if isinstance(schema, dict) else {}


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0] if lines else ""
