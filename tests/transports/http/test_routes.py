"""Every operation is reached by its own method and path, and by no other."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.routing import Match, Route

from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.transports.http.app import create_app
from toolcrib.transports.http.routes import ROUTES, OperationRoute

APP = create_app(create_runtime(), tokens=Tokens([Token("a-token-of-the-tests")]))
ELSEWHERE = (
    "/",
    "/v1",
    "/v1/sessions/",
    "/v1/sessions//tools",
    "/v1/sessions/s/tools//call",
    "/v1/sessions/s/tools/t/call/",
    "/v1/sessions/s/tools/t/calls",
    "//v1/sessions/s",
    "v1/sessions",
)


def taken(method: str, path: str) -> tuple[str, dict[str, str]] | None:
    """The name of the first route that matches, with what its path holds."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "root_path": "",
        "headers": [],
    }
    for route in APP.routes:
        match, child = route.matches(scope)
        if match is Match.FULL and isinstance(route, Route):
            return route.name, child["path_params"]
    return None


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_an_operation_is_at_its_own_path(route: OperationRoute) -> None:
    """No route before it takes its requests, and the braces hold what the path says."""
    values = {name: f"a {name} ä" for name in route.in_path}

    assert taken(route.verb, route.path.format(**values)) == (route.name, values)


@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
def test_no_operation_has_another_method(method: str, route: OperationRoute) -> None:
    """A HEAD of an event stream would never end."""
    assert taken(method, route.path) is None


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize("path", ELSEWHERE)
def test_a_path_with_an_empty_or_extra_part_leads_nowhere(method: str, path: str) -> None:
    """An empty name is no name, and slashes are not repaired."""
    assert taken(method, path) is None
