"""What a small model is told before its work: rules, and a worked example of the form.

The smaller the model, the more an example of small talk makes it talk where it should call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Guide:
    """Rules, the tools of the example, and the example. With `reminds`, a model reads the question
    again after a result; the smallest ones repeat it instead of answering.
    """

    rules: str
    tools: str
    examples: tuple[Message, ...]
    reminds: bool


def by_user(text: str) -> Message:
    """What comes from outside: the user's words, and results."""
    return {"role": "user", "content": text}


def by_model(text: str) -> Message:
    """A step of the model's."""
    return {"role": "assistant", "content": text}


_FORM: Final = """You work with tools. Write one JSON object and nothing else:
{"tool": NAME, "arguments": {...}} to call a tool, or {"answer": TEXT} to answer the user.

Call a tool when the user asks for something that the tool finds out or does: facts in files, \
searches, sums, actions. Never guess what a tool can tell."""

FULL: Final = Guide(
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

BRIEF: Final = Guide(
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
"""Bytes of a model's file from which on it gets the full guide."""


def guide_for(size: int) -> Guide:
    """The guide for a model whose file has so many bytes."""
    return FULL if size >= LARGE_ENOUGH else BRIEF
