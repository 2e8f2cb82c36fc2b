"""An OpenAPI document, read: its operations, and the reason for each that cannot be served."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urljoin

from toolcrib.errors import InvalidTool
from toolcrib.openapi.operation import (
    BODY,
    LOCATIONS,
    METHODS,
    ApiBody,
    ApiOperation,
    ApiParameter,
    SecurityScheme,
)
from toolcrib.openapi.references import References

MAX_DOCUMENT_BYTES: Final = 16_000_000
MAX_OPERATIONS: Final = 2_000
_VERSION: Final = re.compile(r"3\.[0-2](\.|$)")
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_OWN_HEADERS: Final = frozenset({"accept", "authorization", "content-type"})
"""Headers that the standard leaves to the body and to security."""
_STEERING_HEADERS: Final = frozenset(
    {"connection", "content-length", "cookie", "expect", "host", "te", "trailer"}
    | {"transfer-encoding", "upgrade", "accept-encoding", "proxy-authorization"}
)
"""Headers that say how a request is read, and no argument may."""
_STYLES: Final = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_FETCH_SECONDS: Final = 20.0
_FORMS: Final = ("application/x-www-form-urlencoded", "multipart/form-data")


@dataclass(frozen=True, slots=True)
class ApiDocument:
    """The operations of an API. `invalid` has the reason for each that cannot be served, by its
    name; `server` is the first address that the document names, if it names one.
    """

    title: str
    server: str | None
    operations: tuple[ApiOperation, ...]
    invalid: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


def read_document(source: str | Path) -> dict[str, Any]:
    """The document in a file, JSON or YAML, or at an address. Raises `InvalidTool`."""
    place = str(source)
    if place.startswith(("http://", "https://")):
        return parse_text(_fetched(place), place)
    try:
        content = Path(place).read_bytes()
    except OSError as error:
        raise InvalidTool(f"{place}: cannot be read: {error.strerror}") from None
    return parse_text(content, place)


def parse_text(content: bytes, place: str) -> dict[str, Any]:
    """A document from its text; `place` is its name in errors. Raises `InvalidTool`."""
    if len(content) > MAX_DOCUMENT_BYTES:
        raise InvalidTool(f"{place}: has more than {MAX_DOCUMENT_BYTES} bytes")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        document = _from_yaml(content, place)
    if not isinstance(document, dict):
        raise InvalidTool(f"{place}: is no OpenAPI document: it is no object")
    return cast("dict[str, Any]", document)


def _from_yaml(content: bytes, place: str) -> Any:
    from toolcrib.errors import InvalidYaml
    from toolcrib.yaml_source import read_yaml

    try:
        return read_yaml(content.decode("utf-8-sig")).plain()
    except (InvalidYaml, UnicodeDecodeError) as error:
        raise InvalidTool(f"{place}: is neither JSON nor YAML: {error}") from None


def _fetched(url: str) -> bytes:
    import httpx2

    from toolcrib.tools.mcp.credentials import check_url

    check_url("document", url)
    try:
        with (
            httpx2.Client(timeout=_FETCH_SECONDS, trust_env=url.startswith("https:")) as client,
            client.stream("GET", url, headers={"accept-encoding": "identity"}) as response,
        ):
            if response.status_code != 200:
                raise InvalidTool(f"{url}: answered {response.status_code} instead of a document")
            content = bytearray()
            for piece in response.iter_raw():
                content += piece
                if len(content) > MAX_DOCUMENT_BYTES:
                    break
            return bytes(content)
    except httpx2.HTTPError as error:
        raise InvalidTool(f"{url}: cannot be fetched: {error}") from None


def parse_document(document: Mapping[str, Any], place: str | None = None) -> ApiDocument:
    """The operations of a document; `place` is where it was read, for addresses relative to it.
    Raises `InvalidTool` for what is no document of OpenAPI 3.
    """
    version = document.get("openapi")
    if not isinstance(version, str) or not _VERSION.match(version):
        shown = (
            f"Swagger {document['swagger']}" if "swagger" in document else f"openapi {version!r}"
        )
        raise InvalidTool(
            f"{place or 'the document'}: OpenAPI 3.0 to 3.2 is read, not {shown[:40]}"
        )
    operations: dict[str, ApiOperation] = {}
    invalid: dict[str, str] = {}
    reader = _OperationReader(document)
    for found in reader.entries():
        name = _unique(found.name, {*operations, *invalid})
        try:
            if len(operations) >= MAX_OPERATIONS:
                raise InvalidTool(f"at most {MAX_OPERATIONS} operations of one API are served")
            operations[name] = reader.operation(name, found)
        except InvalidTool as error:
            invalid[name] = str(error)
    title = _object(document.get("info")).get("title")
    server = _server(document.get("servers"), place)
    return ApiDocument(str(title or "API"), server, tuple(operations.values()), invalid)


def _server(servers: Any, place: str | None) -> str | None:
    entries = cast("list[Any]", servers) if isinstance(servers, list) else []
    if not entries or not isinstance(entries[0], Mapping):
        return None
    entry = cast("Mapping[str, Any]", entries[0])
    url = str(entry.get("url", ""))
    for name, variable in _object(entry.get("variables")).items():
        url = url.replace("{" + name + "}", str(_object(variable).get("default", "")))
    is_remote = place is not None and place.startswith(("http://", "https://"))
    url = urljoin(place, url) if is_remote and place is not None else url
    return url if url.startswith(("http://", "https://")) else None


def _unique(name: str, taken: set[str]) -> str:
    unique, number = name, 2
    while unique in taken:
        unique, number = f"{name}_{number}", number + 1
    return unique


@dataclass(frozen=True, slots=True)
class _WrittenOperation:
    """One operation as the document writes it, and the path item around it."""

    name: str
    method: str
    path: str
    item: Mapping[str, Any]
    operation: Mapping[str, Any]


class _OperationReader:
    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._references = References(document)

    def entries(self) -> Iterator[_WrittenOperation]:
        paths = self._document.get("paths", {})
        if not isinstance(paths, Mapping):
            raise InvalidTool("the document's paths are no object")
        for path, value in cast("Mapping[str, Any]", paths).items():
            item = self._references.resolved(value, f"the path {path[:120]}")
            for method in METHODS:
                operation = item.get(method)
                if isinstance(operation, Mapping):
                    written = cast("Mapping[str, Any]", operation)
                    name = str(written.get("operationId") or f"{method}_{path}")
                    safe = _NOT_IN_NAMES.sub("_", name).strip("_") or method
                    yield _WrittenOperation(safe[:100], method, path, item, written)

    def operation(self, name: str, entry: _WrittenOperation) -> ApiOperation:
        written = entry.operation
        if "servers" in written or "servers" in entry.item:
            raise InvalidTool("it has a server of its own; only the API's own server is called")
        parameters = self._parameters(entry)
        body = self._body(written.get("requestBody"))
        return ApiOperation(
            id=name,
            method=entry.method,
            path=entry.path,
            description=_description(entry),
            parameters=parameters,
            body=body,
            input_schema=_input_schema(parameters, body),
            output_schema=self._output(written.get("responses")),
            security=self._security(written.get("security", self._document.get("security", ()))),
            is_deprecated=written.get("deprecated") is True,
        )

    def _parameters(self, entry: _WrittenOperation) -> tuple[ApiParameter, ...]:
        written: dict[tuple[str, str], dict[str, Any]] = {}
        for owner in (entry.item, entry.operation):
            for value in _list(owner.get("parameters")):
                parameter = self._references.resolved(value, "a parameter")
                written[str(parameter.get("in")), str(parameter.get("name"))] = parameter
        used = {BODY}
        parameters: list[ApiParameter] = []
        for (location, name), parameter in written.items():
            if location == "header" and name.lower() in _OWN_HEADERS:
                continue
            if location == "header" and name.lower() in _STEERING_HEADERS:
                raise InvalidTool(f"its header {name[:60]!r} steers the connection")
            argument = _unique(name if name not in used else f"{name}_{location}", used)
            used.add(argument)
            parameters.append(self._parameter(argument, parameter))
        _check_path(entry.path, parameters)
        return tuple(parameters)

    def _parameter(self, argument: str, written: dict[str, Any]) -> ApiParameter:
        name, location = written.get("name"), written.get("in")
        if not isinstance(name, str) or location not in LOCATIONS:
            raise InvalidTool(f"its parameter {str(name)[:60]!r} is in {str(location)[:60]!r}")
        contents = written.get("content")
        is_json = isinstance(contents, Mapping)
        schema: Any = written.get("schema", {})
        if is_json:
            media = cast("Mapping[str, Any]", contents)
            kind = next((each for each in media if _is_json(each)), None)
            if kind is None:
                raise InvalidTool(
                    f"its parameter {name[:60]!r} is sent as {', '.join(media)[:120]}"
                )
            schema = self._references.resolved(media[kind], "a parameter").get("schema", {})
        converted = self._references.schema(schema, "request")
        if isinstance(written.get("description"), str):
            converted = {"description": written["description"], **converted}
        style = str(written.get("style") or _STYLES[location])
        explode = written.get("explode")
        return ApiParameter(
            argument=argument,
            name=name,
            location=location,
            style=style,
            explode=explode if isinstance(explode, bool) else style == "form",
            is_required=location == "path" or written.get("required") is True,
            schema=converted,
            is_json=is_json,
        )

    def _body(self, value: Any) -> ApiBody | None:
        if value is None:
            return None
        written = self._references.resolved(value, "the request body")
        media = written.get("content")
        kinds = _object(media)
        kind = _media_type(kinds)
        if kind is None:
            raise InvalidTool(f"its body is sent as {', '.join(kinds)[:120] or 'nothing'}")
        schema = self._references.resolved(kinds[kind], "the request body").get("schema", {})
        is_required = written.get("required") is True
        if kind in _FORMS:
            form = self._references.resolved(schema, "the form")
            converted = self._references.schema(form, "request")
            return ApiBody(kind, is_required, _form_schema(converted), _binary_fields(converted))
        if not (_is_json(kind) or kind.startswith("text/")):
            text = "The bytes in base64."
            binary = {"type": "string", "contentEncoding": "base64", "description": text}
            return ApiBody(kind, is_required, binary)
        return ApiBody(kind, is_required, self._references.schema(schema, "request"))

    def _output(self, value: Any) -> dict[str, Any] | None:
        """The schema of what a success gives; None when it gives several things, or no JSON."""
        responses = _object(value)
        schemas: list[dict[str, Any]] = []
        for status, response in responses.items():
            if not str(status).startswith("2") or str(status) == "204":
                continue
            media = self._references.resolved(response, "a response").get("content")
            kinds = _object(media)
            kind = next((each for each in kinds if _is_json(each)), None)
            if kind is None or len(kinds) > 1:
                return None
            schema = self._references.resolved(kinds[kind], "a response").get("schema")
            if schema is None:
                return None
            schemas.append(self._references.schema(schema, "response"))
        if len(schemas) != 1 or any(str(status) == "204" for status in responses):
            return None
        return schemas[0]

    def _security(self, value: Any) -> tuple[tuple[SecurityScheme, ...], ...]:
        alternatives = _list(value)
        if not alternatives:
            return ((),)
        found: list[tuple[SecurityScheme, ...]] = []
        for alternative in alternatives:
            if isinstance(alternative, Mapping):
                names = [str(name) for name in cast("Mapping[str, Any]", alternative)]
                schemes = [self._scheme(name) for name in names]
                known = tuple(scheme for scheme in schemes if scheme is not None)
                if len(known) == len(schemes):
                    found.append(known)
        if not found:
            raise InvalidTool("its kind of authentication cannot be given; set it in headers")
        return tuple(found)

    def _scheme(self, name: str) -> SecurityScheme | None:
        schemes = _object(_object(self._document.get("components")).get("securitySchemes"))
        if name not in schemes:
            return None
        written = self._references.resolved(schemes[name], f"the security scheme {name[:60]}")
        match written.get("type"):
            case "apiKey" if written.get("in") in LOCATIONS and isinstance(
                written.get("name"), str
            ):
                return SecurityScheme(name, "api_key", written["in"], written["name"])
            case "http" if str(written.get("scheme", "")).lower() == "basic":
                return SecurityScheme(name, "basic")
            case "http" if str(written.get("scheme", "")).lower() == "bearer":
                return SecurityScheme(name, "bearer")
            case "oauth2" | "openIdConnect":
                return SecurityScheme(name, "bearer")
            case _:
                return None


def _object(value: Any) -> Mapping[str, Any]:
    """A value that should be an object; anything else has no members."""
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _list(value: Any) -> Sequence[Any]:
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else ()


def _is_json(media_type: str) -> bool:
    plain = media_type.partition(";")[0].strip().lower()
    return plain == "application/json" or plain.endswith("+json")


def _media_type(kinds: Mapping[str, Any]) -> str | None:
    """The kind of body that arguments express best."""
    for kind in kinds:
        if _is_json(kind):
            return kind
    for kind in (*_FORMS, *(each for each in kinds if each.startswith("text/"))):
        if kind in kinds:
            return kind
    return next((kind for kind in kinds if "*" not in kind), None)


def _binary_fields(schema: Mapping[str, Any]) -> frozenset[str]:
    properties = cast("Mapping[str, Any]", schema.get("properties", {}))
    return frozenset(
        name
        for name, inner in properties.items()
        if inner.get("format") == "binary" or "contentMediaType" in inner
    )


def _form_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """The fields of a form; a file is its bytes in base64."""
    binary = _binary_fields(schema)
    properties = {
        name: {"type": "string", "contentEncoding": "base64", "description": "A file in base64."}
        if name in binary
        else inner
        for name, inner in cast("Mapping[str, Any]", schema.get("properties", {})).items()
    }
    return {**schema, "type": "object", "properties": properties}


def _check_path(path: str, parameters: Sequence[ApiParameter]) -> None:
    wanted = set(re.findall(r"\{([^{}]*)\}", path))
    given = {parameter.name for parameter in parameters if parameter.location == "path"}
    if wanted != given:
        names = ", ".join(sorted(wanted ^ given))
        raise InvalidTool(f"its path {path[:120]!r} and its parameters differ in: {names[:120]}")


def _description(entry: _WrittenOperation) -> str:
    written = entry.operation
    texts = [written.get("summary"), written.get("description")]
    plain = [text.strip() for text in texts if isinstance(text, str) and text.strip()]
    if len(plain) == 2 and plain[1].startswith(plain[0]):
        plain = plain[1:]
    return "\n\n".join(plain) or f"{entry.method.upper()} {entry.path}"


def _input_schema(parameters: Sequence[ApiParameter], body: ApiBody | None) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required = [each.argument for each in parameters if each.is_required]
    named = {each.argument: each.schema for each in parameters}
    if body is not None:
        named[BODY] = body.schema
        required += [BODY] * body.is_required
    for argument, schema in named.items():
        own = dict(schema)
        # One document's references have one name each, so equal names are equal schemas, except
        # where another schema had taken the plain name first.
        for name, definition in cast("Mapping[str, Any]", own.pop("$defs", {})).items():
            if definitions.setdefault(name, definition) != definition:
                raise InvalidTool(f"two of its schemas are called {name!r}")
        properties[argument] = own
    whole: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return {**whole, "$defs": definitions} if definitions else whole
