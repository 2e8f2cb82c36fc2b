"""The tools of a web API: each operation of its document, called with credentials and limits."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast
from urllib.parse import quote, urlsplit

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.extras import install_command
from toolcrib.openapi.document import parse_document, read_document
from toolcrib.openapi.operation import ApiOperation, SecurityScheme
from toolcrib.openapi.request import ApiRequest, request_of, with_credentials, with_headers
from toolcrib.openapi.response import ApiResponse, result_of
from toolcrib.tools.identity import HandlerIdentity
from toolcrib.tools.mcp.credentials import check_headers, check_url, secrets_in
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.redaction import Scrubber
from toolcrib.tools.tool import Tool

if TYPE_CHECKING:
    import httpx2

    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.result import ToolResult

Approval = Literal["always", "writes", "policy"]
"""Whose calls a person approves: all, those that change something, or those the policy says."""

ClientFactory: TypeAlias = "Callable[[str], httpx2.AsyncClient]"
"""Makes the HTTP client for an address."""

_CONNECT_SECONDS: Final = 20.0
_MAX_REDIRECTS: Final = 3
_IN_PROCESS: Final = "http://app"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiOptions:
    """How an API is offered and called.

    `credentials` are by the names of the document's security schemes: a token, an API key, or
    `user:password`. `include` and `exclude` are patterns of operation ids.
    """

    name: str = "api"
    """Every tool is called `name_operation`; it is their category too."""
    base_url: str | None = None
    """The address of the API; None takes the first server of the document."""
    credentials: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False, hash=False)
    """Sent with every request."""
    include: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    approval: Approval = "writes"
    timeout: float = 60.0
    max_response_bytes: int = 4_000_000
    max_concurrent: int = 8
    validate_output: bool = True
    """Whether a result that the document does not describe is a failure."""

    def takes(self, operation: str) -> bool:
        """Whether an operation is wanted."""
        return any(fnmatchcase(operation, each) for each in self.include) and not any(
            fnmatchcase(operation, each) for each in self.exclude
        )


@dataclass(frozen=True, slots=True)
class ApiTools:
    """The tools of an API, and the reason for each operation that is not served, by its name."""

    tools: tuple[Tool[Any, Any], ...]
    invalid: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)


def openapi_tools(
    document: str | Path | Mapping[str, Any], options: ApiOptions | None = None
) -> ApiTools:
    """The tools of an API, from its OpenAPI document: a file, an address or the document itself.

    Raises `InvalidTool` when there is no such document, no address, or no operation is wanted.
    """
    options = options or ApiOptions()
    place = None if isinstance(document, Mapping) else str(document)
    written = document if isinstance(document, Mapping) else read_document(document)
    return _tools(written, place, options, _web_client)


def asgi_tools(
    app: Any, options: ApiOptions | None = None, *, document: Mapping[str, Any] | None = None
) -> ApiTools:
    """The tools of an ASGI application in this process, called without a socket. FastAPI makes the
    document itself; for another one, such as Starlette, give it. Whoever runs the application
    starts it up: its lifespan is not run here.
    """
    options = options or ApiOptions()
    if document is None:
        make = getattr(app, "openapi", None)
        if not callable(make):
            raise InvalidTool(f"{type(app).__name__} makes no OpenAPI document; give document=...")
        document = cast("Mapping[str, Any]", make())

    def client(_: str) -> httpx2.AsyncClient:
        import httpx2

        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        return httpx2.AsyncClient(transport=transport)

    return _tools({**document, "servers": [{"url": _IN_PROCESS}]}, None, options, client)


def _tools(
    document: Mapping[str, Any],
    place: str | None,
    options: ApiOptions,
    make_client: ClientFactory,
) -> ApiTools:
    if find_spec("httpx2") is None:
        raise InvalidTool(f"web APIs need httpx2; install it with: {install_command('openapi')}")
    parsed = parse_document(document, place)
    base_url = _base_url(parsed.server, place, options)
    connection = ApiConnection(base_url, options, make_client)
    invalid = {
        f"{options.name}_{name}": reason
        for name, reason in parsed.invalid.items()
        if options.takes(name)
    }
    tools: list[Tool[Any, Any]] = []
    for operation in parsed.operations:
        if not options.takes(operation.id):
            continue
        try:
            tools.append(_tool(operation, options, connection))
        except InvalidTool as error:
            name = f"{options.name}_{operation.id}"
            invalid[name] = str(error).removeprefix(f"tool {name!r}: ")
    if not tools and not invalid:
        raise InvalidTool(f"{place or parsed.title}: has no operation that is wanted")
    return ApiTools(tuple(tools), invalid)


def _base_url(server: str | None, place: str | None, options: ApiOptions) -> str:
    chosen = options.base_url or server
    if chosen is None:
        raise InvalidTool(f"{place or 'the document'}: names no server; write base_url")
    if chosen == _IN_PROCESS:
        return chosen
    check_url("base_url", chosen)
    is_remote = place is not None and place.startswith(("http://", "https://"))
    if options.base_url is None and is_remote and _origin(chosen) != _origin(place or ""):
        # Whoever changes the document there could have credentials sent to themselves.
        raise InvalidTool(
            f"{place}: names a server of another origin, {_origin(chosen)}; write it as base_url"
        )
    return chosen.rstrip("/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _tool(
    operation: ApiOperation, options: ApiOptions, connection: ApiConnection
) -> Tool[Any, Any]:
    name = f"{options.name}_{operation.id}"
    tool = Tool[Any, Any](
        name=name,
        description=operation.description,
        handler=cast("Any", ApiHandler(connection, operation, _schemes(operation, options), name)),
        calling="input",
        json_schema=operation.input_schema,
        output_schema=operation.output_schema if options.validate_output else None,
        is_foreign=True,
        is_read_only=operation.is_safe,
        requires_approval=options.approval == "always"
        or (options.approval == "writes" and not operation.is_safe),
        timeout=options.timeout,
        category=options.name,
        deprecated="The API calls this operation deprecated." if operation.is_deprecated else None,
    )
    prepare(tool)
    return tool


def _schemes(operation: ApiOperation, options: ApiOptions) -> tuple[SecurityScheme, ...]:
    """The first set of credentials that suffices and is configured."""
    for schemes in operation.security:
        if all(scheme.name in options.credentials for scheme in schemes):
            return schemes
    names = " or ".join(
        " and ".join(scheme.name for scheme in schemes) for schemes in operation.security
    )
    if options.headers:
        return ()
    raise InvalidTool(f"it needs a credential for {names}; set credentials")


class ApiConnection:
    """Sends requests to one API, so many at a time. Connections with the same options are equal, so
    that reading an unchanged document again changes no tool.
    """

    def __init__(self, base_url: str, options: ApiOptions, make_client: ClientFactory) -> None:
        self.base_url = base_url
        self.options = options
        self._headers = check_headers("headers", options.headers)
        secrets = [*options.credentials.values(), *self._headers.values()]
        self.scrubber = Scrubber([*secrets_in(base_url, *secrets)])
        self._make_client = make_client
        self._places: dict[asyncio.AbstractEventLoop, asyncio.Semaphore] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ApiConnection):
            return NotImplemented
        mine = (self.base_url, self.options, self._make_client)
        return mine == (other.base_url, other.options, other._make_client)

    def __hash__(self) -> int:
        return hash((self.base_url, self.options))

    async def send(
        self, request: ApiRequest, schemes: Collection[SecurityScheme], tool: str
    ) -> ApiResponse:
        """The response to a request with its credentials. Raises `CallEnded`."""
        import httpx2

        signed = with_credentials(request, tuple(schemes), self.options.credentials)
        async with self._place(), self._make_client(self.base_url) as client:
            try:
                return await self._followed(client, signed, tool)
            except httpx2.ConnectError:
                raise CallEnded("unavailable", f"`{tool}`: the API cannot be reached.") from None
            except httpx2.HTTPError as error:
                kind = type(error).__name__
                raise CallEnded(
                    "unavailable",
                    f"`{tool}`: the connection to the API failed ({kind}). It is not known whether "
                    "the call took effect.",
                ) from None

    async def _followed(
        self, client: httpx2.AsyncClient, signed: ApiRequest, tool: str
    ) -> ApiResponse:
        url = self.base_url + signed.target
        for _ in range(_MAX_REDIRECTS + 1):
            async with client.stream(
                signed.method,
                url,
                headers=with_headers({**signed.headers, **_cookie_header(signed)}, self._headers),
                content=signed.content,
                data=None if signed.form is None else _multiple(signed.form),
                files=[(name, ("file", content)) for name, content in signed.files] or None,
            ) as response:
                if not response.has_redirect_location:
                    return await self._read(response, tool)
                target = str(response.url.join(response.headers["location"]))
                repeats = response.status_code in (307, 308) or signed.method in ("GET", "HEAD")
                if _origin(target) != _origin(self.base_url) or not repeats:
                    raise CallEnded(
                        "tool_error",
                        f"`{tool}` was redirected to {_origin(target)}, which is not followed.",
                    )
                url = target
        raise CallEnded("tool_error", f"`{tool}` was redirected more than {_MAX_REDIRECTS} times.")

    async def _read(self, response: httpx2.Response, tool: str) -> ApiResponse:
        limit = self.options.max_response_bytes
        if response.headers.get("content-encoding", "identity") != "identity":
            # It was not asked for: a small answer must not expand to a huge one here.
            raise CallEnded("invalid_result", f"`{tool}` answered in a compressed form.")
        content = bytearray()
        async for piece in response.aiter_raw():
            content += piece
            if len(content) > limit:
                raise CallEnded("invalid_result", f"`{tool}` answered more than {limit} bytes.")
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        charset = response.charset_encoding or "utf-8"
        retry_after = response.headers.get("retry-after")
        return ApiResponse(response.status_code, media_type, bytes(content), charset, retry_after)

    def _place(self) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop not in self._places:
            for ended in [each for each in self._places if each.is_closed()]:
                del self._places[ended]
            self._places[loop] = asyncio.Semaphore(self.options.max_concurrent)
        return self._places[loop]


@dataclass(frozen=True, slots=True)
class ApiHandler:
    """The handler of one operation."""

    connection: ApiConnection
    operation: ApiOperation
    schemes: tuple[SecurityScheme, ...]
    tool: str

    def handler_identity(self) -> HandlerIdentity:
        """Which operation is called where, with whose credentials."""
        operation = self.operation
        return HandlerIdentity(
            {
                "operation": f"{operation.method.upper()} {operation.path}",
                "api": self.connection.base_url,
                "options": self.connection.options,
                "credentials_of": tuple(scheme.name for scheme in self.schemes),
            }
        )

    async def __call__(self, input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        """Call the operation with valid arguments."""
        request = request_of(self.operation, input)
        response = await self.connection.send(request, self.schemes, self.tool)
        result = result_of(response, self.tool)
        scrub = self.connection.scrubber.scrub
        return type(result)(
            value=scrub(result.value), message=scrub(result.message), success=result.success
        )


def _cookie_header(request: ApiRequest) -> dict[str, str]:
    if not request.cookies:
        return {}
    # Quoted, so that no value ends its cookie and begins another.
    pairs = (f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in request.cookies)
    return {"cookie": "; ".join(pairs)}


def _multiple(pairs: Collection[tuple[str, str]]) -> dict[str, list[str]]:
    """A field that is sent more than once has several values."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return values


@functools.cache
def _tls() -> Any:
    import httpx2

    # Reading the certificates takes longer than a call.
    return httpx2.create_ssl_context()


def _web_client(base_url: str) -> httpx2.AsyncClient:
    import httpx2

    return httpx2.AsyncClient(
        verify=_tls(),
        timeout=httpx2.Timeout(_CONNECT_SECONDS, read=None),
        # A plain text request to this machine must not go through a proxy of the environment.
        trust_env=base_url.startswith("https:"),
    )
