"""The shortcut to a route leads where the router leads."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send
from toolcrib.transports.http.shortcut import Shortcut

from toolcrib.transports.http.routes import ROUTES

PATHS = (
    *(route.path.replace("{", "").replace("}", "") for route in ROUTES),
    "/",
    "/v1",
    "/v1/sessions/",
    "/v1/sessions//tools",
    "/v1/sessions/s/tools/a b/call",
    "/v1/sessions/s/tools//call",
    "/v1/sessions/s/tools/t/call/",
    "/v1/sessions/s/tools/t/calls",
    "/v1/sessions/ä/tools/t/call",
    "//v1/sessions/s",
    "v1/sessions",
)


Taken = list[tuple[str, dict[str, str]]]


class Endpoint:
    """Notes that its route was taken, and what the path held."""

    def __init__(self, name: str, taken: Taken) -> None:
        self._name = name
        self._taken = taken

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._taken.append((self._name, dict(scope["path_params"])))


async def ask(app: ASGIApp, verb: str, path: str, root_path: str = "") -> None:
    scope: dict[str, Any] = {
        "type": "http",
        "method": verb,
        "path": path,
        "root_path": root_path,
        "headers": [],
        "query_string": b"",
    }

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        """A refusal of the router, which finds nothing."""

    await app(scope, receive, send)


def routed(taken: Taken) -> Starlette:
    routes = [
        Route(each.path, Endpoint(each.name, taken), methods=[each.verb], name=each.name)
        for each in ROUTES
    ]
    app = Starlette(routes=routes)
    app.router.redirect_slashes = False
    return app


def shortened(app: ASGIApp, taken: Taken) -> Shortcut:
    routes = [(each.verb, each.path, Endpoint(each.name, taken)) for each in ROUTES]
    return Shortcut(app, routes=routes)


@pytest.mark.parametrize("verb", ["GET", "POST", "DELETE", "PUT"])
@pytest.mark.parametrize("path", PATHS)
async def test_the_same_route_is_taken(verb: str, path: str) -> None:
    """For every verb and path, odd ones too, the shortcut and the router agree on the route and on
    what its path holds.
    """
    slow, fast = Taken(), Taken()

    await ask(routed(slow), verb, path)
    await ask(shortened(Starlette(), fast), verb, path)

    assert fast == slow


async def test_below_another_path_the_router_decides() -> None:
    """An application that is mounted somewhere is asked for paths that begin elsewhere: those are
    left to the router, which knows.
    """
    found, passed = Taken(), Taken()
    inner = shortened(routed(found), passed)

    await ask(Starlette(routes=[Mount("/crib", inner)]), "GET", "/crib/v1/sessions")

    assert passed == []
    assert found == [("session.list", {})]
