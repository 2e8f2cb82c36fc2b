"""The OpenAPI document of the provider, and the routes that it is about."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from httpx2 import AsyncClient
from starlette.routing import Mount, Route

from tests.embedded.provider_server import SECRET, listening
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import BackendText, EmbeddedProvider
from toolcrib.embedded.http.openapi import OPERATIONS, provider_document


def nothing(_: object) -> list[BackendText]:
    return []


def test_the_document_has_every_route_and_no_other() -> None:
    provider: Any = EmbeddedProvider.__new__(EmbeddedProvider)
    [mount] = [route for route in provider.app.routes if isinstance(route, Mount)]
    served = {
        (method, route.path.replace("{model:path}", "{model}"))
        for route in mount.routes
        if isinstance(route, Route)
        for method in (route.methods or set()) - {"HEAD"}
    }

    assert {(each.method, each.path) for each in OPERATIONS} == served


def test_every_reference_of_the_document_leads_somewhere() -> None:
    document = provider_document()
    schemas = document["components"]["schemas"]

    names = set(re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(document)))
    assert names
    assert names <= set(schemas)


@pytest.mark.wire
async def test_the_document_is_behind_the_token_and_other_methods_are_named() -> None:
    async with listening(nothing) as place, AsyncClient(timeout=PATIENCE) as http:
        root = place.url.removesuffix("/v1")
        headers = {"authorization": f"Bearer {SECRET}"}
        hidden = await http.get(f"{root}/openapi.json")
        shown = await http.get(f"{root}/openapi.json", headers=headers)
        other = await http.put(f"{place.url}/responses/compact", headers=headers)

    assert hidden.status_code == 401
    assert shown.json()["info"]["title"] == "Toolcrib embedded provider"
    assert (other.status_code, other.headers["allow"]) == (405, "POST")
    assert other.json()["error"]["code"] == "unknown_method"
