"""A form at the terminal for the arguments of a tool, made from its JSON Schema.

What was typed is kept: after a fault, and for the next run, Enter takes it again.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from toolcrib.cli.arguments import read_value
from toolcrib.cli.output import show_note
from toolcrib.errors import EndOfInput

LEAVE_OUT: Final = "-"
"""What is typed to leave out an argument that has a value."""
_WHOLE: Final = ""
"""The name of the one field of a schema without properties: the whole object."""
_TYPES: Final = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "JSON list",
    "object": "JSON object",
    "null": "null",
}


def read_line(prompt: str) -> str:
    """Ask for a line at the terminal. Raises `EndOfInput` when the person leaves."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        sys.stderr.write("\n")
        raise EndOfInput
    return line.strip()


def read_secret(prompt: str) -> str:
    """Ask for a line that is not shown. Raises `EndOfInput`."""
    from getpass import getpass

    try:
        return getpass(prompt, sys.stderr).strip()
    except EOFError:
        raise EndOfInput from None


@dataclass(frozen=True, slots=True)
class Field:
    """One argument: its name, its schema with references resolved, and whether it is needed."""

    name: str
    schema: Mapping[str, Any]
    is_required: bool

    @property
    def is_secret(self) -> bool:
        """Whether what is typed must not be seen."""
        return self.schema.get("writeOnly") is True

    def heading(self) -> str:
        """The lines above the prompt: what is wanted."""
        facts = [kind_of(self.schema), "needed" if self.is_required else "may be left out"]
        if (default := self.schema.get("default")) is not None:
            facts[1] = f"else {_json(default)}"
        text = f"{self.name or 'arguments'}: {', '.join(facts)}"
        description = " ".join(str(self.schema.get("description", "")).split())
        return f"{text}\n  {description}" if description else text


def kind_of(schema: Mapping[str, Any]) -> str:
    """What a value of a schema is, in a few words."""
    if "enum" in schema:
        return f"one of {', '.join(map(_json, schema['enum']))}"
    if "const" in schema:
        return _json(schema["const"])
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(dict.fromkeys(kind_of(each) for each in alternatives))
    named: Any = schema.get("type")
    names = cast("list[str]", named) if isinstance(named, list) else [named]
    words = " or ".join(_TYPES.get(name, "JSON") for name in names)
    if properties := schema.get("properties"):
        words += f" with {', '.join(properties)}"
    bounds = [f"{word} {schema[key]}" for key, word in _BOUNDS.items() if key in schema]
    return " ".join([words, *bounds])


_BOUNDS: Final = {"minimum": "from", "maximum": "to", "minLength": "of at least"}


def _json(value: Any) -> str:
    from pydantic_core import to_json

    return value if isinstance(value, str) else to_json(value).decode()


@dataclass(slots=True)
class ArgumentForm:
    """The form of one tool. `typed` is what was typed for each argument, and stays."""

    parameters: Mapping[str, Any]
    typed: dict[str, str] = field(default_factory=dict[str, str])

    def fields(self) -> Iterator[Field]:
        """The arguments, in the order of the schema."""
        properties = cast("dict[str, Any]", self.parameters.get("properties") or {})
        required = cast("list[str]", self.parameters.get("required") or [])
        for name, schema in properties.items():
            yield Field(name, self._resolved(schema), name in required)
        if not properties and self.parameters.get("additionalProperties") is not False:
            yield Field(_WHOLE, {"type": "object"}, is_required=False)

    @property
    def has_secret(self) -> bool:
        """Whether an argument must not be shown."""
        return any(each.is_secret for each in self.fields())

    def fill(self, only: Collection[str] | None = None) -> None:
        """Ask for the arguments, or for some of them. Raises `EndOfInput`."""
        for each in self.fields():
            if only is None or each.name in only:
                self._ask(each)

    def arguments(self) -> dict[str, Any]:
        """The arguments that were typed."""
        values = {
            each.name: self._value(each, self.typed[each.name])
            for each in self.fields()
            if each.name in self.typed
        }
        return values.pop(_WHOLE) if _WHOLE in values else values

    def words(self) -> list[str]:
        """The arguments that were typed, as `tools call` takes them."""
        if _WHOLE in self.typed:
            return ["--arguments", self.typed[_WHOLE]]
        return [f"{name}={text}" for name, text in self.typed.items()]

    def _ask(self, argument: Field) -> None:
        show_note(argument.heading())
        while True:
            text = self._read(argument)
            if text == LEAVE_OUT and not argument.is_required:
                self.typed.pop(argument.name, None)
                return
            if not text and argument.name not in self.typed:
                if not argument.is_required:
                    return
                show_note("  it is needed; type a value", "red")
                continue
            if text:
                self.typed[argument.name] = text
            if not (faults := self._faults(argument)):
                return
            show_note("\n".join(f"  {fault}" for fault in faults), "red")

    def _read(self, argument: Field) -> str:
        earlier = self.typed.get(argument.name)
        if argument.is_secret:
            return read_secret("  [unchanged] > " if earlier else "  (not shown) > ")
        return read_line(f"  [{earlier}] > " if earlier is not None else "  > ")

    def _value(self, argument: Field, text: str) -> Any:
        return read_value(text, argument.schema)

    def _faults(self, argument: Field) -> list[str]:
        """What is wrong with one argument, by its own schema. Never the value itself."""
        from jsonschema_rs import Draft202012Validator

        value = self._value(argument, self.typed[argument.name])
        if argument.name == _WHOLE:
            return [] if isinstance(value, dict) else ["write a JSON object: {...}"]
        schema = self._raw(argument.name, is_null=value is None)
        alone = {"type": "object", "properties": {argument.name: schema}}
        for key in ("$defs", "definitions"):
            if key in self.parameters:
                alone[key] = self.parameters[key]
        try:
            checker = Draft202012Validator(alone, mask="the value")
        except ValueError:
            # A schema of somebody else's that is none: the call itself says what is wrong.
            return []
        return [
            f"{'/'.join(map(str, error.instance_path[1:]))} {error.message}".strip()
            for error in checker.iter_errors({argument.name: value})
        ]

    def _raw(self, name: str, *, is_null: bool) -> Any:
        """The schema of an argument; of "this or null" only the one that fits, which says more of
        what is wrong.
        """
        schema: Any = cast("dict[str, Any]", self.parameters["properties"])[name]
        if is_null or not isinstance(schema, dict):
            return schema
        facts = cast("dict[str, Any]", schema)
        others = [each for each in facts.get("anyOf") or () if each != {"type": "null"}]
        return others[0] if len(others) == 1 else facts

    def _resolved(self, schema: Any, depth: int = 8) -> Mapping[str, Any]:
        """A schema with what its references name; what cannot be resolved may be anything."""
        if not isinstance(schema, dict) or not depth:
            return {}
        facts = cast("dict[str, Any]", schema)
        reference = facts.get("$ref")
        if isinstance(reference, str) and reference.startswith("#/"):
            target: Any = self.parameters
            for part in reference[2:].split("/"):
                inner: Any = target
                target = (
                    cast("dict[str, Any]", inner).get(part) if isinstance(inner, dict) else None
                )
            return {**self._resolved(target, depth - 1), **facts}
        for key in ("anyOf", "oneOf"):
            if key in facts:
                return {**facts, key: [self._resolved(each, depth - 1) for each in facts[key]]}
        return facts
