"""Events to and from the JSON that a ledger keeps.

Session, time and call id are fields of the record itself and are not repeated in its payload.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, cast

from pydantic_core import (
    PydanticSerializationError,
    SchemaSerializer,
    core_schema,
    from_json,
    to_json,
)

from toolcrib.errors import LedgerBroken
from toolcrib.ledger.events import Event, ToolInvoked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import TypeAdapter

DEEPEST = 200
"""How deep JSON may be nested for its parser; fewer brackets cannot be deeper."""
MOST_DIGITS = 4300
"""How many digits a number may have for its parser."""

_DIGITS = b"0123456789"
_DEEPEST_FACTS = 150
_ENVELOPE = frozenset({"session_id", "at", "call_id"})


def encode_event(event: Event) -> bytes:
    """An event's payload. What cannot be JSON is refused earlier, when a result is shaped; what
    comes here all the same is spelt out, so that no event makes a ledger unreadable.
    """
    try:
        payload = _event_serializer(type(event)).to_json(event)
        if not is_readable(payload):
            read_payload(payload)
        return payload
    except (PydanticSerializationError, ValueError, RecursionError):
        # Either it could not be written, or what was written could not be read.
        pass
    facts = {f.name: getattr(event, f.name) for f in fields(event) if f.name not in _ENVELOPE}
    return to_json(_encodable(facts), inf_nan_mode="strings")


def encode_value(value: object) -> bytes:
    """What a tool returned, as JSON. Raises `PydanticSerializationError` when it cannot be."""
    serializer = _value_serializer(type(value))
    if serializer is not None:
        return serializer.to_json(value)
    return to_json(value, inf_nan_mode="strings")


def is_readable(encoded: bytes) -> bool:
    """Whether JSON that was just encoded can be read back: it may be nested too deep, or hold a
    number of more digits than a parser takes.
    """
    # What is short is neither, and need not be counted.
    if len(encoded) <= DEEPEST:
        return True
    is_suspect = encoded.count(b"[") + encoded.count(b"{") > DEEPEST or _has_long_number(encoded)
    if not is_suspect:
        return True
    try:
        from_json(encoded)
    except ValueError:
        return False
    return True


def is_deeper(encoded: bytes, depth: int) -> bool:
    """Whether JSON is nested deeper than `depth`. What is no JSON is not."""
    # What is short is not, and need not be counted.
    if len(encoded) <= 2 * depth or encoded.count(b"[") + encoded.count(b"{") <= depth:
        return False
    margin = DEEPEST - depth
    try:
        from_json(b"[" * margin + encoded + b"]" * margin)
    except ValueError as error:
        return "recursion limit" in str(error)
    return False


def _has_long_number(encoded: bytes) -> bool:
    """Whether there are more digits in a row than a number may have; perhaps in a text."""
    # Every such row has a digit at one of these places, so the rest is not looked at.
    for place in range(MOST_DIGITS, len(encoded), MOST_DIGITS):
        if encoded[place] in _DIGITS:
            before = encoded[place - MOST_DIGITS : place]
            after = encoded[place : place + MOST_DIGITS]
            digits = len(before) - len(before.rstrip(_DIGITS))
            digits += len(after) - len(after.lstrip(_DIGITS))
            if digits > MOST_DIGITS:
                return True
    return False


def plain_facts(facts: Any) -> Any:
    """Facts of a program's own as JSON that can be written and read back, whatever they hold."""
    return _encodable(facts)


def encode_facts(facts: Any) -> bytes:
    """A payload, or a part of one, from an event's own facts; defaults may be left out."""
    try:
        return to_json(facts, inf_nan_mode="strings")
    except PydanticSerializationError:
        # One name that cannot be encoded must not make the whole ledger unreadable.
        return to_json(_encodable(facts), inf_nan_mode="strings")


def decode_event(
    kind: str, payload: bytes, session_id: str, at: float, call_id: str | None
) -> Event:
    """Read an event back. Unknown fields of a newer version are ignored, unknown kinds refused."""
    adapter = _adapters().get(kind)
    if adapter is None:
        raise LedgerBroken(f"unknown kind of record: {kind!r}; a newer version wrote it")
    facts = read_payload(payload)
    if kind == ToolInvoked.kind and "message" not in facts:
        facts["message"] = rendered(facts.get("value"))
    if call_id is not None:
        facts["call_id"] = call_id
    return adapter.validate_python({**facts, "session_id": session_id, "at": at})


def event_of(kind: str, facts: Mapping[str, Any], session_id: str, at: float) -> Event | None:
    """The event that a client was sent, recorded or passing; None for a kind that is unknown here.
    Raises `ValidationError` when the facts are not those of the kind.
    """
    adapter = _adapters().get(kind) or _passing_adapters().get(kind)
    if adapter is None:
        return None
    return adapter.validate_python({**facts, "session_id": session_id, "at": at})


def rendered(value: Any) -> str:
    """A plain JSON value as the model sees it: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else to_json(value, inf_nan_mode="strings").decode()


def read_payload(payload: bytes) -> dict[str, Any]:
    """The facts of a payload."""
    try:
        return from_json(payload)
    except ValueError:
        # Arguments and values may be as deep as that parser goes, and a payload is deeper by one.
        import json

        return json.loads(payload)


def _encodable(data: Any, depth: int = 0) -> Any:
    """The facts as JSON that can be read back: lone surrogates and huge numbers are spelt out, what
    is too deep or no JSON is named.
    """
    if depth > _DEEPEST_FACTS:
        return "(nested too deep)"
    match data:
        case None | bool() | float():
            return data
        case int():
            return data if abs(data) < 10**MOST_DIGITS else f"{data:#x}"
        case str():
            return data.encode(errors="backslashreplace").decode()
        case list() | tuple() | set() | frozenset():
            return [_encodable(each, depth + 1) for each in cast("list[Any]", data)]
        case dict():
            members = cast("dict[Any, Any]", data).items()
            return {
                str(_encodable(key, depth + 1)): _encodable(value, depth + 1)
                for key, value in members
            }
        case _ if is_dataclass(data) and not isinstance(data, type):
            return {f.name: _encodable(getattr(data, f.name), depth + 1) for f in fields(data)}
        case _:
            return _plain(data)


def _plain(data: object) -> Any:
    """What the encoder makes of a value of some other type; its name when that is no JSON."""
    try:
        encoded = to_json(data, inf_nan_mode="strings")
        return from_json(encoded)
    except (ValueError, RecursionError):
        return f"({type(data).__name__})"


# Told once which fields there are, the encoder takes half the time that it takes to find out.


@cache
def _event_serializer(event_type: type[Event]) -> SchemaSerializer:
    names = [f.name for f in fields(event_type) if f.name not in _ENVELOPE]
    return _serializer(event_type, names)


@lru_cache(maxsize=512)
def _value_serializer(value_type: type[object]) -> SchemaSerializer | None:
    """None for all but plain dataclasses: others may have ways of their own to be encoded."""
    if not is_dataclass(value_type) or value_type.__bases__ != (object,):
        return None
    if hasattr(value_type, "__pydantic_serializer__"):
        return None
    return _serializer(value_type, [f.name for f in fields(value_type)])


def _serializer(dataclass_type: type[Any], names: list[str]) -> SchemaSerializer:
    """Encodes these fields of a dataclass, each by what it holds and not by what it promised."""
    members = [core_schema.dataclass_field(name, core_schema.any_schema()) for name in names]
    arguments = core_schema.dataclass_args_schema(dataclass_type.__name__, members)
    schema = core_schema.dataclass_schema(dataclass_type, arguments, names)
    return SchemaSerializer(schema, core_schema.CoreConfig(ser_json_inf_nan="strings"))


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    # Imported by whoever reads a ledger: it doubles the time that the import of pydantic takes.
    from pydantic import TypeAdapter

    from toolcrib.ledger.event_kinds import ALL_EVENTS

    return {event_type.kind: TypeAdapter(event_type) for event_type in ALL_EVENTS}


@cache
def _passing_adapters() -> dict[str, TypeAdapter[Any]]:
    from pydantic import TypeAdapter

    from toolcrib.ledger.event_kinds import PASSING

    return {event_type.kind: TypeAdapter(event_type) for event_type in PASSING}
