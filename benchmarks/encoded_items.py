"""How often each item of a conversation becomes JSON, counted at the encoders themselves."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import pydantic_core
from looping import Contender

Place = Literal["requests", "records", "sdk"]
Key = tuple[str, str]
"""The type of an item and the id of its call."""


@dataclass(frozen=True, slots=True)
class Encodings:
    """How often each item was encoded, by what for."""

    items: int
    counts: dict[Place, Counter[Key]] = field(
        default_factory=lambda: {"requests": Counter(), "records": Counter(), "sdk": Counter()}
    )

    def mean(self, place: Place) -> float:
        """Encodings per item."""
        return self.counts[place].total() / self.items

    def most(self, place: Place) -> int:
        """Of the item that was encoded most often."""
        return max(self.counts[place].values(), default=0)

    def is_once(self, place: Place) -> bool:
        """Whether every item was encoded, and none twice."""
        return self.counts[place].total() == self.items and self.most(place) == 1

    def note(self, module: str, encoded: str | bytes) -> None:
        """Look for items in what a module has encoded."""
        place = _place(module)
        if place is not None:
            self.counts[place].update(_items_in(json.loads(encoded)))


async def count(contender: Contender) -> Encodings:
    """Run a loop once and count."""
    # The prompt itself has no id; the calls and their outputs are the history.
    encodings = Encodings(items=2 * contender.steps)
    contender.script.rewind()
    with _heard(encodings):
        await contender.loop()
    return encodings


def _place(module: str) -> Place | None:
    if module.startswith("openai."):
        return "sdk"
    if module.startswith("toolcrib."):
        return "requests" if module.startswith("toolcrib.adapters.") else "records"
    return None


def _items_in(value: Any) -> Iterator[Key]:
    match value:
        case {"type": "function_call" | "function_call_output" as kind, "call_id": str(call_id)}:
            yield kind, call_id
        case dict():
            for each in value.values():
                yield from _items_in(each)
        case list():
            for each in value:
                yield from _items_in(each)
        case _:
            pass


@contextmanager
def _heard(encodings: Encodings) -> Generator[None]:
    """Listen at both encoders, wherever a module of ours has a name for one."""
    dumps, to_json = json.dumps, pydantic_core.to_json
    ours = [module for name, module in sys.modules.items() if name.startswith("toolcrib.")]
    named = [module for module in ours if getattr(module, "to_json", None) is to_json]
    heard = _listening(to_json, encodings)
    json.dumps = _listening(dumps, encodings)
    for module in named:
        module.__dict__["to_json"] = heard
    try:
        yield
    finally:
        json.dumps = dumps
        for module in named:
            module.__dict__["to_json"] = to_json


def _listening(encode: Callable[..., Any], encodings: Encodings) -> Callable[..., Any]:
    def listening(*args: Any, **options: Any) -> Any:
        encoded = encode(*args, **options)
        encodings.note(sys._getframe(1).f_globals["__name__"], encoded)
        return encoded

    return listening
