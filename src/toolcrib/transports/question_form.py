"""A question of a call as a form: the flat fields that MCP and ACP clients can show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import from_json

from toolcrib.terminal_text import showable

if TYPE_CHECKING:
    from toolcrib.approval.question import Question

ANSWER: Final = "answer"
"""The field of a form with one field."""

_KEPT: Final = {
    "string": (
        "title",
        "description",
        "minLength",
        "maxLength",
        "format",
        "enum",
        "enumNames",
        "oneOf",
        "default",
    ),
    "number": ("title", "description", "minimum", "maximum", "default"),
    "integer": ("title", "description", "minimum", "maximum", "default"),
    "boolean": ("title", "description", "default"),
    "array": ("title", "description", "minItems", "maxItems", "default"),
}
"""What clients know of each kind of field; the answer is checked against the whole schema here."""
_FORMATS: Final = ("email", "uri", "date", "date-time")
_MAX_CHOICES: Final = 20


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """A form: its text, and the schema of its fields."""

    text: str
    schema: dict[str, Any]
    is_whole: bool = False
    """Whether the fields are those of the answer; else the one field is the answer."""
    is_json: bool = False
    """Whether the one field takes the answer as JSON text."""

    def value_of(self, content: Mapping[str, Any] | None) -> Any:
        """The answer in a filled form, to be checked like any other."""
        fields = dict(content or {})
        if self.is_whole:
            return fields
        value: Any = fields.get(ANSWER)
        if not self.is_json or not isinstance(value, str):
            return value
        try:
            return from_json(value)
        except ValueError:
            # No answer of that type is a text, so that it is refused and asked for again.
            return value


def form_of(question: Question) -> QuestionForm:
    """The form of a question."""
    return form_for(question.text, question.schema, question.fault)


def form_for(text: str, schema: Mapping[str, Any], fault: str | None = None) -> QuestionForm:
    """The form of a question with this text, whose answer fits the schema. `fault` says what was
    wrong with the last answer.
    """
    text = showable(text)
    if fault is not None:
        text = f"{text}\n\n{showable(fault)}"
    if (fields := fields_of(schema)) is not None:
        required = [name for name in schema.get("required", ()) if name in fields]
        form: dict[str, Any] = {"type": "object", "properties": fields}
        return QuestionForm(text, {**form, "required": required} if required else form, True)
    field = _field(schema, schema)
    is_json = field is None
    if field is None:
        field = {"type": "string", "description": "The answer as JSON."}
    return QuestionForm(
        text,
        {"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]},
        is_json=is_json,
    )


def choices_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The answers of a schema to choose from, by what people read; None when there are none, or too
    many.
    """
    schema = _resolved(schema, schema)
    if schema.get("type") == "boolean":
        return {"Yes": True, "No": False}
    values: list[Any] = [schema["const"]] if "const" in schema else list(schema.get("enum", ()))
    if not 0 < len(values) <= _MAX_CHOICES:
        return None
    return {showable(str(value)): value for value in values}


def fields_of(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fields of an object whose members are all plain; None for any other answer."""
    members = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(members, dict) or not members:
        return None
    fields: dict[str, Any] = {}
    for name, member in cast("dict[str, Any]", members).items():
        field = _field(member, schema)
        if field is None:
            return None
        fields[name] = field
    return fields


def _field(member: Any, root: Mapping[str, Any]) -> dict[str, Any] | None:
    schema = _resolved(member, root)
    if "const" in schema:
        schema = {**schema, "enum": [schema["const"]]}
    kind = schema.get("type")
    if kind not in _KEPT:
        return None
    field = {key: schema[key] for key in _KEPT[kind] if key in schema}
    if kind == "array":
        choices = _resolved(schema.get("items"), root)
        if not _is_choice(choices):
            return None
        field["items"] = choices
    if field.get("format") not in _FORMATS:
        field.pop("format", None)
    if field.get("default", 0) is None:
        del field["default"]
    if kind != "string" and "enum" in schema:
        # Clients know choices of text only.
        field["description"] = f"One of {', '.join(map(str, schema['enum']))}."
    return {"type": kind, **field}


def _is_choice(items: Mapping[str, Any]) -> bool:
    """Whether the items of a list are texts to choose from, by themselves or with titles."""
    values: list[Any] = list(items.get("enum", ()))
    titled: list[Any] = list(items.get("anyOf", ()))
    values += [each.get("const") for each in titled]
    return bool(values) and all(isinstance(value, str) for value in values)


def _resolved(member: Any, root: Mapping[str, Any]) -> dict[str, Any]:
    """A schema without a reference, and without the null of an optional field."""
    schema = dict(cast("Mapping[str, Any]", member)) if isinstance(member, Mapping) else {}
    reference = schema.pop("$ref", None)
    if isinstance(reference, str):
        target = root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
        return {**_resolved(target, {}), **schema}
    variants = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(variants) == 1:
        del schema["anyOf"]
        return {**_resolved(variants[0], root), **schema}
    return schema
