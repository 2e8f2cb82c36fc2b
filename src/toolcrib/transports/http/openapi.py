"""The OpenAPI document, generated from the types that requests are validated against."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, get_args

from pydantic import TypeAdapter

from toolcrib._version import __version__
from toolcrib.errors import RefusalKind
from toolcrib.serving.refusals import REFUSALS, UNREADABLE_STATUS
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES, AccountRoute
from toolcrib.transports.http.downloads import DOWNLOAD_ROUTES, DownloadRoute
from toolcrib.transports.http.frontends.routes import FRONTEND_ROUTES, FrontendRoute
from toolcrib.transports.http.routes import ROUTES, OperationRoute

_REFS: Final = "#/components/schemas/"
_REFUSAL: Final[dict[str, Any]] = {"$ref": f"{_REFS}Refusal"}
_STATUSES: Final = sorted({codes.status for codes in REFUSALS.values()} | {UNREADABLE_STATUS, 415})


@cache
def openapi_document() -> dict[str, Any]:
    """The OpenAPI document of every route. It is cached: do not modify it."""
    schemas = _schemas()
    paths: dict[str, dict[str, Any]] = {}
    for route in (*ROUTES, *ACCOUNT_ROUTES):
        paths.setdefault(route.path, {})[route.verb.lower()] = _operation(route, schemas)
    for download in DOWNLOAD_ROUTES:
        paths.setdefault(download.path, {})["get"] = _download(download)
    for frontend in FRONTEND_ROUTES:
        paths.setdefault(frontend.path, {})[frontend.verb.lower()] = _frontend(frontend)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Toolcrib", "version": __version__},
        "paths": paths,
        "security": [{"bearer": []}, {"cookie": []}],
        "components": {
            "schemas": {**schemas, "Refusal": _refusal_schema()},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {"type": "apiKey", "in": "cookie", "name": "toolcrib"},
            },
        },
    }


def _schemas() -> dict[str, Any]:
    """The JSON Schemas of all parameters and results, by name."""
    wanted: list[tuple[Any, Any, TypeAdapter[Any]]] = []
    for route in (*ROUTES, *ACCOUNT_ROUTES):
        operation = route.operation
        wanted.append((f"{route.name} in", "validation", TypeAdapter(operation.params)))
        wanted.append((f"{route.name} out", "serialization", TypeAdapter(operation.result)))
    for frontend in FRONTEND_ROUTES:
        if frontend.body is not None:
            wanted.append((f"{frontend.name} in", "validation", TypeAdapter(frontend.body)))
    _, definitions = TypeAdapter.json_schemas(wanted, ref_template=_REFS + "{model}")
    return definitions["$defs"]


def _operation(route: OperationRoute, schemas: dict[str, Any]) -> dict[str, Any]:
    params_schema = schemas[route.operation.params.__name__]
    document: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.operation.about,
        "tags": [route.name.partition(".")[0]],
        "parameters": _parameters(route, params_schema),
        "responses": _responses(route),
        "x-roles": list(route.operation.roles),
    }
    if route.verb == "POST":
        document["requestBody"] = _body(route, params_schema)
    if isinstance(route, AccountRoute) and route.is_open:
        document["security"] = []
    return document


def _download(route: DownloadRoute) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    content = {media_type: {"schema": {"type": "string"}} for media_type in route.media_types}
    return {
        "operationId": route.name,
        "summary": route.about,
        "tags": [route.name.partition(".")[0]],
        "parameters": [
            *(_parameter(name, "path", text) for name in route.in_path),
            *(_parameter(name, "query", dict(schema)) for name, schema in route.query.items()),
        ],
        "responses": {"200": {"description": "A file.", "content": content}, **_refusals()},
        "x-roles": list(route.roles),
    }


def _frontend(route: FrontendRoute) -> dict[str, Any]:
    """An endpoint whose protocol is somebody else's: its events are described there."""
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    media_type = "text/event-stream" if route.is_stream else "application/json"
    answer: dict[str, Any] = text if route.is_stream else {"type": "object"}
    responses: dict[str, Any] = {
        "200": {"description": "Done.", "content": {media_type: {"schema": answer}}},
        **({"204": {"description": "Nothing runs."}} if route.may_be_empty else {}),
        **_refusals(),
    }
    document: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.about,
        "tags": ["frontends"],
        "parameters": [_parameter(name, "path", text) for name in route.in_path],
        "responses": responses,
        "x-roles": list(route.roles),
    }
    if route.body is not None:
        content = {"application/json": {"schema": {"$ref": _REFS + route.body.__name__}}}
        document["requestBody"] = {"required": True, "content": content}
    return document


def _parameters(route: OperationRoute, params_schema: dict[str, Any]) -> list[dict[str, Any]]:
    properties: dict[str, Any] = params_schema.get("properties", {})
    parameters = [_parameter(name, "path", properties[name]) for name in route.in_path]
    if route.verb != "POST":
        rest = [name for name in properties if name not in route.in_path]
        parameters += [_parameter(name, "query", _query_schema(properties[name])) for name in rest]
    if route.takes_key:
        key: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 255}
        parameters.append(_parameter("Idempotency-Key", "header", key))
    if route.streams != "never":
        place: dict[str, Any] = {"type": "integer", "minimum": 0}
        parameters.append(_parameter("Last-Event-ID", "header", place))
    return parameters


def _parameter(name: str, place: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _query_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a query parameter. A query has no null: the parameter is left out instead."""
    choices: list[dict[str, Any]] = schema.get("anyOf", [])
    not_null = [choice for choice in choices if choice != {"type": "null"}]
    return not_null[0] if len(not_null) == 1 else schema


def _body(route: OperationRoute, params_schema: dict[str, Any]) -> dict[str, Any]:
    properties: dict[str, Any] = params_schema.get("properties", {})
    elsewhere = {*route.in_path, "idempotency_key"}
    rest = {name: schema for name, schema in properties.items() if name not in elsewhere}
    needed = [name for name in params_schema.get("required", []) if name in rest]
    schema = {
        "type": "object",
        "properties": rest,
        "required": needed,
        "additionalProperties": False,
        **{name: params_schema[name] for name in ("if", "then", "else") if name in params_schema},
    }
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _responses(route: OperationRoute) -> dict[str, Any]:
    answer = {"$ref": _REFS + route.operation.result.__name__}
    content: dict[str, Any] = {"application/json": {"schema": answer}}
    if route.streams != "never":
        content["text/event-stream"] = {"schema": {"type": "string"}}
    # Not among the contents: generated clients would take every answer for JSON or text.
    csv = " With `Accept: text/csv`, all of it as CSV." if route.has_csv else ""
    done = {"description": f"Done.{csv}", "content": content}
    return {str(route.status): done, **_refusals()}


def _refusals() -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in _STATUSES:
        kinds = [kind for kind, codes in REFUSALS.items() if codes.status == status]
        responses[str(status)] = {
            "description": f"Refused: {', '.join(kinds) or 'invalid'}.",
            "content": {"application/json": {"schema": _REFUSAL}},
        }
    return responses


def _refusal_schema() -> dict[str, Any]:
    error: dict[str, Any] = {
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": list(get_args(RefusalKind))},
            "message": {"type": "string"},
            "facts": {"type": "object"},
        },
        "required": ["kind", "message", "facts"],
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {"error": error}, "required": ["error"]}
