"""Operations over HTTP: requests, repeated where that is safe, and typed answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast, get_args
from urllib.parse import quote
from uuid import uuid4

import httpx2
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from toolcrib.errors import RefusalKind, Refused, UsageError
from toolcrib.transports.http.routes import ROUTES

if TYPE_CHECKING:
    from toolcrib.client.address import ServerLocation
    from toolcrib.transports.http.routes import OperationRoute

CONNECT_SECONDS: Final = 10.0
DELAYS: Final = (0.1, 0.4)
"""How long to wait before each repetition of a request."""

_BY_NAME: Final = {route.name: route for route in ROUTES}
_CONNECTING: Final = (httpx2.ConnectError, httpx2.ConnectTimeout)
"""Errors before anything was sent."""

Sleep = Callable[[float], Awaitable[Any]]


class HttpRequests:
    """The requests of a client to one server. Redirects are not followed and no proxy is used
    unless it was named, so that the token goes nowhere else.
    """

    def __init__(
        self, location: ServerLocation, *, timeout: float | None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self.location = location
        self.sleep = sleep
        self._http = httpx2.AsyncClient(
            headers={"Authorization": f"Bearer {location.token}"},
            timeout=httpx2.Timeout(timeout, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=20),
            verify=location.tls(),
            trust_env=False,
            proxy=location.proxy,
            follow_redirects=False,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def run(self, name: str, params: Mapping[str, Any]) -> Any:
        """Run an operation. A request that was lost is repeated if it only reads, or has an
        idempotency key, which it gets where the operation takes one. Raises `Refused`;
        (unavailable) without an answer.
        """
        if self._http.is_closed:
            raise UsageError("this client is closed; make another one")
        route, fields = _BY_NAME[name], dict(params)
        if route.takes_key:
            fields.setdefault("idempotency_key", f"client-{uuid4().hex}")
        request = self._request(route, fields)
        response = await self._send(request, may_repeat=route.takes_key or route.verb == "GET")
        return _result(route, response)

    async def open_stream(self, path: str, params: Mapping[str, str], quiet_seconds: float) -> Any:
        """A response of server-sent events, which the caller closes. Raises `Refused`."""
        request = self._http.build_request(
            "GET",
            self.location.url + path,
            params=params,
            headers={"Accept": "text/event-stream"},
            timeout=httpx2.Timeout(quiet_seconds, connect=CONNECT_SECONDS),
        )
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code == 200:
                return response
            await response.aread()
        except httpx2.TransportError as error:
            raise self._lost(error) from None
        raise refusal_in(response.status_code, response.content)

    def _request(self, route: OperationRoute, fields: dict[str, Any]) -> httpx2.Request:
        in_path = {name: quote(str(fields.pop(name)), safe="") for name in route.in_path}
        key = fields.pop("idempotency_key", None)
        headers = {"Accept": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        content, query = None, None
        if route.verb == "POST":
            headers["Content-Type"] = "application/json"
            content = _body(route.name, fields)
        else:
            query = {name: _in_query(value) for name, value in fields.items()}
        return self._http.build_request(
            route.verb,
            self.location.url + route.path.format(**in_path),
            params=query,
            content=content,
            headers=headers,
        )

    async def _send(self, request: httpx2.Request, *, may_repeat: bool) -> httpx2.Response:
        for delay in (*DELAYS, None):
            try:
                response = await self._http.send(request)
                if delay is None or not (may_repeat and _is_of_balancer(response)):
                    return response
                await self.sleep(delay)
                continue
            except _CONNECTING as error:
                lost, is_safe = error, True
            except httpx2.TimeoutException as error:
                lost, is_safe = error, False
            except httpx2.TransportError as error:
                lost, is_safe = error, may_repeat
            if delay is None or not is_safe:
                raise self._lost(lost) from None
            await self.sleep(delay)
        raise AssertionError("the last try returns or raises")

    def _lost(self, error: httpx2.TransportError) -> Refused:
        reason = str(error) or type(error).__name__
        return Refused(
            "unavailable",
            f"no answer from {self.location.name} ({reason}); is `toolcrib serve --http` running "
            "there?",
        )


def _is_of_balancer(response: httpx2.Response) -> bool:
    """Whether a balancer or proxy answers in place of a server that was lost on the way."""
    is_status = response.status_code in (502, 503, 504)
    return is_status and not response.content.lstrip().startswith(b"{")


def _body(name: str, fields: Mapping[str, Any]) -> bytes:
    try:
        return to_json(fields, inf_nan_mode="constants")
    except ValueError as error:
        raise Refused("invalid", f"{name}: the parameters are not JSON: {error}") from None


def _in_query(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _result(route: OperationRoute, response: httpx2.Response) -> Any:
    if not response.is_success:
        raise refusal_in(response.status_code, response.content)
    try:
        return _adapter(route.operation.result).validate_json(response.content)
    except ValidationError as error:
        if not response.content.lstrip().startswith(b"{"):
            raise refusal_in(response.status_code, b"") from None
        fault = error.errors(include_url=False, include_input=False)[0]
        place = "/".join(map(str, fault["loc"]))
        raise Refused(
            "internal",
            f"the answer to {route.name} is not of this version: {place}: {fault['msg']}; install "
            "the version of the server",
        ) from None


@cache
def _adapter(result: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(result)


def refusal_in(status: int, body: bytes | str) -> Refused:
    """The refusal in an answer. One that is none of a Toolcrib server is `internal`."""
    try:
        answer = json.loads(body)
    except ValueError:
        answer = None
    error: Any = cast("dict[str, Any]", answer).get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return Refused("internal", f"HTTP status {status}, not from a Toolcrib server; check --url")
    return refusal_of(cast("dict[str, Any]", error))


def refusal_of(members: Mapping[str, Any]) -> Refused:
    """The refusal that these members tell of: its kind, message and facts."""
    kind: Any = members.get("kind")
    known: RefusalKind = kind if kind in get_args(RefusalKind) else "internal"
    facts: Any = members.get("facts")
    return Refused(
        known,
        str(members.get("message") or "refused"),
        cast("dict[str, Any]", facts) if isinstance(facts, dict) else None,
    )
