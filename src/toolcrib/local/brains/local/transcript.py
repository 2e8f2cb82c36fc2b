"""A conversation as a small model reads it best: one worked example of the form, then its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, assert_never, cast

from toolcrib.local.brain import Answered, Called, Offer, Question, Said, Turn
from toolcrib.local.brains.local.guides import FULL, Guide, Message, by_user

LONGEST_RESULT: Final = 2500
LONGEST_REMINDER: Final = 600


def messages_for(question: Question, guide: Guide = FULL) -> list[Message]:
    """The messages of one step."""
    told = [question.instructions] if question.instructions else []
    if not question.offers and not any(isinstance(each, Called) for each in question.turns):
        rules = 'Answer with one JSON object: {"answer": ...}.'
        return [_system([rules, *told]), *_said(question.turns)]
    example = _system([guide.rules, f"Tools:\n{guide.tools}"])
    own = "\n".join(_signature(offer) for offer in question.offers)
    ready = f"A new conversation begins, with other tools.\nTools:\n{own}"
    return [
        example,
        *guide.examples,
        {"role": "system", "content": "\n\n".join([ready, *told])},
        *_said(question.turns),
        *(_reminded(question.turns) if guide.reminds else ()),
    ]


def _reminded(turns: Sequence[Turn]) -> list[Message]:
    """After a result a small model has lost sight of what was asked."""
    asked = [turn.text for turn in turns if isinstance(turn, Said) and turn.role == "user"]
    if not asked or not isinstance(turns[-1], Answered):
        return []
    told = f"The user asked: {asked[-1][-LONGEST_REMINDER:]}"
    rule = "If that needs another call, make it. Else answer that with the words of the results."
    return [by_user(f"{told}\n{rule}")]


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
