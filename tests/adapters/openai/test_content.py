"""Schemas for typed answers, strict where that is possible."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar, cast

import pytest
from pydantic import BaseModel, ConfigDict, Field

from toolcrib.adapters.openai.request import output_format, strict_schema
from toolcrib.prompt.output import output_schema

T = TypeVar("T")


@dataclass
class Inner:
    n: int
    note: str | None = None


@dataclass
class Outer:
    inner: Inner
    several: list[Inner] = field(default_factory=list[Inner])
    name: str = "x"


@dataclass
class Free:
    anything: dict[str, int]


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int


class Box(BaseModel, Generic[T]):
    content: T


@dataclass
class Page(Generic[T]):
    items: list[T]


@dataclass
class Node:
    """A tree."""

    name: str
    children: list[Node] = field(default_factory=list["Node"])


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str = "wuff"


class Home(BaseModel):
    pet: Cat | Dog = Field(discriminator="kind", description="Who lives there.")
    owner: Inner = Field(default=Inner(1), description="Who pays.")


class Pair(BaseModel):
    both: tuple[int, str]


def named(name: str) -> Any:
    """An output type of this name."""
    return dataclass(type(name, (), {"__annotations__": {"n": int}}))


def objects(node: Any) -> list[dict[str, Any]]:
    """Every schema of an object within a schema."""
    if isinstance(node, list):
        return [found for each in cast("list[Any]", node) for found in objects(each)]
    if not isinstance(node, dict):
        return []
    schema = cast("dict[str, Any]", node)
    inner = [found for each in schema.values() for found in objects(each)]
    return [schema, *inner] if schema.get("type") == "object" else inner


def test_every_object_is_closed_and_every_property_required() -> None:
    """C21: strict mode wants both, at any depth; a default would be refused."""
    schema = strict_schema(output_schema(Outer).schema)

    found = objects(schema)
    assert len(found) == 2
    for each in found:
        assert each["additionalProperties"] is False
        assert each["required"] == list(each["properties"])
    assert '"default"' not in str(schema).replace("'", '"')


@pytest.mark.parametrize("output", [Free, Open, Pair])
def test_what_cannot_be_closed_is_not_strict(output: Any) -> None:
    """Free keys and tuples are beyond strict mode: the schema is sent as it is, without it."""
    found = output_format(output_schema(output))

    assert found["strict"] is False
    assert found["schema"] == output_schema(output).schema


def test_a_property_named_default_stays() -> None:
    """Only the keyword is dropped, not a field that happens to have its name."""

    @dataclass
    class Setting:
        default: int
        type: str

    schema = strict_schema(output_schema(Setting).schema)

    assert schema is not None
    assert list(schema["properties"]) == ["default", "type"]
    assert schema["required"] == ["default", "type"]


def test_a_long_name_is_cut_to_what_the_provider_takes() -> None:
    """The name of a schema has at most 64 characters."""
    assert len(output_format(output_schema(named("A" * 80)))["name"]) == 64


@pytest.mark.parametrize(
    ("output", "name"),
    [
        (Box[int], "Box_int_"),
        (Box[Box[list[str]]], "Box_Box_list_str___"),
        (Page[int], "Page_int_"),
        (Page[Inner | None], None),
        (named("Größe"), "Gr__e"),
        (named(""), None),
        (Box[named("A" * 80)], None),
    ],
)
def test_a_schemas_name_is_made_of_what_the_provider_takes(output: Any, name: str | None) -> None:
    """Brackets, letters of other languages and long or empty names would be refused."""
    sent = output_format(output_schema(output))["name"]

    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", sent)
    assert name in (None, sent)


def test_a_choice_of_types_is_one_that_strict_mode_knows() -> None:
    """`oneOf` and its discriminator are not in the dialect; `anyOf` says as much."""
    schema = strict_schema(output_schema(Home).schema)

    assert schema is not None
    pet = schema["properties"]["pet"]
    assert [each["$ref"] for each in pet["anyOf"]] == ["#/$defs/Cat", "#/$defs/Dog"]
    assert "oneOf" not in str(schema)
    assert "discriminator" not in str(schema)


def test_nothing_stands_beside_a_reference() -> None:
    """A described field of another type is spelt out, so that its description is not lost."""
    schema = strict_schema(output_schema(Home).schema)

    assert schema is not None
    owner = schema["properties"]["owner"]
    assert "$ref" not in owner
    assert (owner["description"], owner["required"]) == ("Who pays.", ["n", "note"])


def test_a_type_may_hold_itself() -> None:
    """A tree is an object at its root and refers to itself below."""
    schema = strict_schema(output_schema(Node).schema)

    assert schema is not None
    assert (schema["type"], schema["required"]) == ("object", ["name", "children"])
    assert schema["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}
