"""OpenAPI documents of every version, and what is wrong with bad ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.openapi.document import parse_document, parse_text, read_document
from toolcrib.openapi.operation import ApiOperation
from toolcrib.openapi.request import request_of


def document(operation: dict[str, Any], version: str = "3.1.0", **more: Any) -> dict[str, Any]:
    """A document with one operation, `POST /things`."""
    paths = {"/things": {"post": {"operationId": "make", **operation}}}
    return {"openapi": version, "info": {"title": "T", "version": "1"}, "paths": paths, **more}


def with_body(schema: dict[str, Any], version: str, **schemas: Any) -> ApiOperation:
    """The operation that takes a body of this schema."""
    body = {"content": {"application/json": {"schema": schema}}, "required": True}
    components = {"schemas": schemas}
    [found] = parse_document(
        document({"requestBody": body}, version, components=components)
    ).operations
    return found


def test_the_older_keywords_become_json_schema() -> None:
    """Version 3.0 has `nullable`, and bounds that are flags."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "nullable": True, "example": "x"},
            "b": {"type": "integer", "minimum": 3, "exclusiveMinimum": True},
            "c": {"type": "string", "enum": ["x"], "nullable": True},
        },
    }

    body = with_body(schema, "3.0.3").input_schema["properties"]["body"]

    assert body["properties"]["a"] == {"type": ["string", "null"]}
    assert body["properties"]["b"] == {"type": "integer", "exclusiveMinimum": 3}
    assert body["properties"]["c"] == {"type": ["string", "null"], "enum": ["x", None]}


def test_references_are_kept_and_may_go_in_circles() -> None:
    """A tree refers to itself; a tool's schema stands for itself."""
    node = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "value": {"type": "string"}},
    }

    schema = with_body({"$ref": "#/components/schemas/Node"}, "3.1.0", Node=node).input_schema

    assert schema["properties"]["body"] == {"$ref": "#/$defs/Node"}
    assert schema["$defs"]["Node"]["properties"]["next"] == {"$ref": "#/$defs/Node"}


def test_what_only_an_answer_has_is_no_argument() -> None:
    """`readOnly` properties are left out, and `writeOnly` ones are secrets."""
    schema = {
        "type": "object",
        "required": ["id", "password"],
        "properties": {
            "id": {"type": "integer", "readOnly": True},
            "password": {"type": "string", "format": "password"},
        },
    }

    body = with_body(schema, "3.0.0").input_schema["properties"]["body"]

    assert body["required"] == ["password"]
    assert list(body["properties"]) == ["password"]
    assert body["properties"]["password"]["writeOnly"] is True


@pytest.mark.parametrize(
    ("operation", "reason"),
    [
        ({"requestBody": {"$ref": "other.yaml#/body"}}, "outside of the document"),
        ({"requestBody": {"$ref": "#/components/none"}}, "not in the document"),
        ({"servers": [{"url": "https://other.example"}]}, "a server of its own"),
        ({"parameters": [{"name": "x", "in": "moon"}]}, "is in 'moon'"),
        ({"parameters": [{"name": "x", "in": "path"}]}, "its parameters differ in: x"),
        ({"parameters": [{"name": "Host", "in": "header"}]}, "steers the connection"),
        ({"security": [{"unknown": ["scope"]}]}, "its kind of authentication"),
    ],
)
def test_an_operation_that_cannot_be_served_says_why(
    operation: dict[str, Any], reason: str
) -> None:
    """It is left out, and the others are served."""
    written = document(operation)
    written["paths"]["/other"] = {"get": {"operationId": "other"}}

    parsed = parse_document(written)

    assert [each.id for each in parsed.operations] == ["other"]
    assert reason in parsed.invalid["make"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"swagger: '2.0'\n", "OpenAPI 3.0 to 3.2 is read, not Swagger 2.0"),
        (b"[1]", "it is no object"),
        (b"openapi: [", "neither JSON nor YAML"),
        (b"openapi: '4.0'", "not openapi '4.0'"),
    ],
)
def test_what_is_no_document_is_refused(content: bytes, reason: str) -> None:
    """The error says what was found."""
    with pytest.raises(InvalidTool, match=reason):
        parse_document(parse_text(content, "api.yaml"), "api.yaml")


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    """With its name."""
    with pytest.raises(InvalidTool, match=r"api\.yaml: cannot be read"):
        read_document(tmp_path / "api.yaml")


def test_parameters_of_one_name_get_arguments_of_their_own() -> None:
    """A path and a query may both have an `id`, and one may be called `body`."""
    written = document({})
    text = {"schema": {"type": "string"}}
    written["paths"] = {
        "/{id}": {
            "get": {
                "operationId": "get",
                "parameters": [
                    {"name": "id", "in": "path", **text},
                    {"name": "id", "in": "query", **text},
                    {"name": "body", "in": "query", **text},
                ],
            }
        }
    }

    [operation] = parse_document(written).operations
    request = request_of(operation, {"id": "1", "id_query": "2", "body_query": "3"})

    assert request.target == "/1?id=2&body=3"


@pytest.mark.parametrize(
    ("style", "explode", "value", "target"),
    [
        ("form", True, [1, 2], "/q?x=1&x=2"),
        ("form", False, [1, 2], "/q?x=1%2C2"),
        ("pipeDelimited", False, ["a", "b"], "/q?x=a%7Cb"),
        ("spaceDelimited", False, ["a", "b"], "/q?x=a%20b"),
        ("deepObject", True, {"a": 1, "b": True}, "/q?x%5Ba%5D=1&x%5Bb%5D=true"),
        ("form", True, {"a": 1}, "/q?a=1"),
        ("form", False, {"a": 1, "b": 2}, "/q?x=a%2C1%2Cb%2C2"),
    ],
)
def test_the_styles_of_a_query(style: str, explode: bool, value: Any, target: str) -> None:
    """As the standard's table of examples has them."""
    written = document({})
    parameter: dict[str, Any] = {
        "name": "x",
        "in": "query",
        "style": style,
        "explode": explode,
        "schema": {},
    }
    written["paths"] = {"/q": {"get": {"operationId": "q", "parameters": [parameter]}}}

    [operation] = parse_document(written).operations

    assert request_of(operation, {"x": value}).target == target
