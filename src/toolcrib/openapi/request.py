"""The request for a call of an operation: each argument in its place, encoded in its style."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast
from urllib.parse import quote, urlencode

from toolcrib.errors import CallEnded
from toolcrib.openapi.operation import BODY, ApiBody, ApiOperation, ApiParameter, SecurityScheme

_SEPARATORS: Final = {"form": ",", "spaceDelimited": " ", "pipeDelimited": "|"}
Pairs = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request without its credentials: the URL below the server, headers and body."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)
    cookies: tuple[tuple[str, str], ...] = ()
    content: bytes | None = None
    form: tuple[tuple[str, str], ...] | None = None
    files: tuple[tuple[str, bytes], ...] = ()

    @property
    def target(self) -> str:
        """The path and the query."""
        return f"{self.path}?{urlencode(self.query, quote_via=quote)}" if self.query else self.path


def request_of(operation: ApiOperation, arguments: Mapping[str, Any]) -> ApiRequest:
    """The request that valid arguments stand for. Raises `CallEnded` for a value that cannot be
    sent where it belongs.
    """
    path, query, cookies = operation.path, Pairs(), Pairs()
    headers = {"accept": "application/json, */*;q=0.5", "accept-encoding": "identity"}
    for parameter in operation.parameters:
        if parameter.argument not in arguments:
            continue
        value = arguments[parameter.argument]
        match parameter.location:
            case "path":
                path = path.replace("{" + parameter.name + "}", _path_text(parameter, value))
            case "query":
                query += _form_pairs(parameter, value)
            case "header":
                headers[parameter.name] = _header_text(parameter, value)
            case "cookie":
                cookies += _form_pairs(parameter, value)
    if any(segment in (".", "..") for segment in path.split("/")):
        raise CallEnded("invalid_arguments", "The arguments lead out of the path of the operation.")
    request = ApiRequest(operation.method.upper(), path, tuple(query), headers, tuple(cookies))
    if operation.body is None or BODY not in arguments:
        return request
    return _with_body(request, operation.body, arguments[BODY])


def with_credentials(
    request: ApiRequest, schemes: Sequence[SecurityScheme], credentials: Mapping[str, str]
) -> ApiRequest:
    """The request with the credential of every scheme in its place."""
    headers, query, cookies = request.headers, request.query, request.cookies
    for scheme in schemes:
        secret, name = credentials[scheme.name], scheme.parameter
        match scheme.kind:
            case "bearer":
                headers = with_headers(headers, {name: f"Bearer {secret}"})
            case "basic":
                encoded = base64.b64encode(secret.encode()).decode()
                headers = with_headers(headers, {name: f"Basic {encoded}"})
            case "api_key" if scheme.location == "query":
                query = (*(pair for pair in query if pair[0] != name), (name, secret))
            case "api_key" if scheme.location == "cookie":
                cookies = (*(pair for pair in cookies if pair[0] != name), (name, secret))
            case "api_key":
                headers = with_headers(headers, {name: secret})
    return ApiRequest(
        request.method,
        request.path,
        query,
        headers,
        cookies,
        request.content,
        request.form,
        request.files,
    )


def with_headers(headers: Mapping[str, str], fixed: Mapping[str, str]) -> dict[str, str]:
    """The headers with those of the host, which no argument can replace in any spelling."""
    names = {name.lower() for name in fixed}
    return {name: text for name, text in headers.items() if name.lower() not in names} | dict(fixed)


def _with_body(request: ApiRequest, body: ApiBody, value: Any) -> ApiRequest:
    headers = {**request.headers, "content-type": body.media_type}
    form: Pairs | None = None
    files: list[tuple[str, bytes]] = []
    content: bytes | None = None
    if body.media_type == "application/x-www-form-urlencoded":
        content = urlencode(_fields(value)).encode()
    elif body.media_type == "multipart/form-data":
        # The client writes the boundary into the header.
        del headers["content-type"]
        binary = {name: each for name, each in value.items() if name in body.binary}
        form = _fields({name: each for name, each in value.items() if name not in binary})
        files = [(name, _decoded(f"{BODY}/{name}", each)) for name, each in binary.items()]
    elif body.schema.get("contentEncoding") == "base64":
        content = _decoded(BODY, value)
    elif body.media_type.startswith("text/") and isinstance(value, str):
        content = value.encode()
    else:
        content = json.dumps(value, ensure_ascii=False).encode()
    return ApiRequest(
        request.method,
        request.path,
        request.query,
        headers,
        request.cookies,
        content,
        None if form is None else tuple(form),
        tuple(files),
    )


def _fields(value: Mapping[str, Any]) -> Pairs:
    pairs: Pairs = []
    for name, each in value.items():
        items = cast("list[Any]", each) if isinstance(each, list) else [each]
        pairs += [(name, _text(item)) for item in items]
    return pairs


def _decoded(pointer: str, value: Any) -> bytes:
    try:
        return base64.b64decode(str(value), validate=True)
    except (binascii.Error, ValueError):
        raise CallEnded("invalid_arguments", f"/{pointer} must be bytes in base64.") from None


def _text(value: Any) -> str:
    """A value as one text: JSON for anything that is none."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _members(value: Any) -> Iterator[tuple[str, str]]:
    for name, each in cast("Mapping[str, Any]", value).items():
        yield name, _text(each)


def _path_text(parameter: ApiParameter, value: Any) -> str:
    """The text of a path segment, in which nothing can end the segment or climb out of it."""
    if parameter.is_json:
        plain = quote(_text(value), safe="")
    elif parameter.style == "label":
        plain = "." + _simple(parameter, value, "." if parameter.explode else ",")
    elif parameter.style == "matrix":
        plain = f";{quote(parameter.name, safe='')}={_simple(parameter, value, ',')}"
    else:
        plain = _simple(parameter, value, ",")
    if not plain:
        raise CallEnded("invalid_arguments", f"/{parameter.argument} is empty, and part of a path.")
    return plain


def _simple(parameter: ApiParameter, value: Any, separator: str) -> str:
    if isinstance(value, list):
        return separator.join(quote(_text(item), safe="") for item in cast("list[Any]", value))
    if isinstance(value, Mapping):
        between = "=" if parameter.explode else ","
        pairs = (
            f"{quote(name, safe='')}{between}{quote(each, safe='')}"
            for name, each in _members(value)
        )
        return separator.join(pairs)
    return quote(_text(value), safe="")


def _form_pairs(parameter: ApiParameter, value: Any) -> Pairs:
    name = parameter.name
    if parameter.is_json:
        return [(name, _text(value))]
    if isinstance(value, list):
        items = [_text(item) for item in cast("list[Any]", value)]
        if parameter.explode:
            return [(name, item) for item in items]
        return [(name, _SEPARATORS.get(parameter.style, ",").join(items))]
    if isinstance(value, Mapping):
        members = list(_members(cast("Any", value)))
        if parameter.style == "deepObject":
            return [(f"{name}[{key}]", each) for key, each in members]
        if parameter.explode:
            return members
        return [(name, ",".join(part for pair in members for part in pair))]
    return [(name, _text(value))]


def _header_text(parameter: ApiParameter, value: Any) -> str:
    if isinstance(value, list):
        text = ",".join(_text(item) for item in cast("list[Any]", value))
    elif isinstance(value, Mapping):
        between = "=" if parameter.explode else ","
        text = ",".join(f"{name}{between}{each}" for name, each in _members(cast("Any", value)))
    else:
        text = _text(value)
    if not text.isascii() or not text.isprintable():
        raise CallEnded(
            "invalid_arguments", f"/{parameter.argument} must be printable ASCII: it is a header."
        )
    return text
