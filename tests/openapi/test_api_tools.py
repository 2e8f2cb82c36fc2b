"""Operations of a real web API as tools: over a socket, and of an application in the process."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.openapi.shop_api import KEY, TOKEN, served, shop_api
from toolcrib import Executor, RuntimeConfig, Session, create_runtime
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import HostToolRegistry
from toolcrib.openapi import ApiOptions, asgi_tools, openapi_tools
from toolcrib.runtime.runtime import Runtime

pytestmark = pytest.mark.wire

CREDENTIALS = {"HTTPBearer": TOKEN, "APIKeyHeader": KEY}
OPEN = ApiOptions(name="shop", credentials=CREDENTIALS, approval="policy")


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with served(shop_api()) as url:
        yield url


async def shop(address: str, options: ApiOptions = OPEN) -> tuple[Runtime, str]:
    """A runtime that serves the shop's operations, and a session of it."""
    found = openapi_tools(f"{address}/openapi.json", _at(options, address))
    registry = HostToolRegistry()
    for tool in found.tools:
        registry.add(tool)
    runtime = create_runtime(RuntimeConfig(host_tool_registry=registry))
    await runtime.start()
    return runtime, (await runtime.create_session()).session_id


def _at(options: ApiOptions, address: str) -> ApiOptions:
    from dataclasses import replace

    return replace(options, base_url=address)


@pytest.mark.parametrize(
    ("tool", "arguments", "value"),
    [
        ("stock", {"item": "a b?#&%", "shelf": [1, 2]}, {"item": "a b?#&%", "shelves": [1, 2]}),
        (
            "where",
            {"item": "saw", "depth": 3, "x-trace": "t1", "basket": "b1"},
            {"item": "saw", "depth": 3, "trace": "t1", "basket": "b1"},
        ),
        (
            "order",
            {"body": {"item": "saw", "amount": 2}},
            {"item": "saw", "amount": 2, "note": None, "number": 7},
        ),
        ("cancel", {"number": 7}, None),
        ("form", {"body": {"name": "Ann & Bo", "age": 4}}, {"name": "Ann & Bo", "age": 4}),
        (
            "upload",
            {"body": {"title": "t", "picture": base64.b64encode(b"12345").decode()}},
            {"title": "t", "size": 5},
        ),
        ("old", {}, {"item": "saw", "shelves": []}),
        ("text", {"body": "two words"}, "two words"),
        ("picture", {}, {"media_type": "image/png", "size": 6, "base64": "iVBORw0K"}),
    ],
)
async def test_an_operation_is_called_with_each_argument_in_its_place(
    address: str, tool: str, arguments: dict[str, Any], value: Any
) -> None:
    """Path, query, header, cookie, JSON, forms, files and text arrive as the API reads them."""
    runtime, session = await shop(address)

    done = await runtime.call_tool(session, f"shop_{tool}", arguments)

    assert done.failure is None
    assert done.value == value
    await runtime.close()


async def test_arguments_are_checked_before_anything_is_sent(address: str) -> None:
    """The schema of the document holds, with its references."""
    runtime, session = await shop(address)

    many = {"body": {"item": "saw", "amount": 200}}
    done = await runtime.call_tool(session, "shop_order", many)

    assert done.failure is not None
    assert done.failure.kind == "invalid_arguments"
    assert "/body/amount" in done.failure.message
    await runtime.close()


@pytest.mark.parametrize("item", [".", ".."])
async def test_no_argument_leads_out_of_its_path(address: str, item: str) -> None:
    """`..` in a path would call another operation than the one that was approved."""
    runtime, session = await shop(address)

    done = await runtime.call_tool(session, "shop_stock", {"item": item})

    assert done.failure is not None
    assert done.failure.kind == "invalid_arguments"
    await runtime.close()


async def test_a_refusal_says_what_the_api_said_and_no_credential(address: str) -> None:
    """A wrong token is repeated by the API, and not by the result."""
    wrong = "wrong-token-6612b0c4"
    options = ApiOptions(name="shop", credentials={"HTTPBearer": wrong}, approval="policy")
    runtime, session = await shop(address, options)

    done = await runtime.call_tool(session, "shop_order", {"body": {"item": "saw", "amount": 2}})

    assert done.failure is not None
    assert "answered 401" in done.failure.message
    assert "[secret]" in done.failure.message
    assert wrong not in done.failure.message
    await runtime.close()


async def test_no_argument_takes_the_place_of_a_header_or_begins_another_cookie(
    address: str,
) -> None:
    """What the host sends is the host's choice, in any spelling; a cookie ends with its value."""
    options = ApiOptions(name="shop", approval="policy", headers={"X-TRACE": "of the host"})
    runtime, session = await shop(address, options)
    given = {"item": "saw", "depth": 1, "x-trace": "of the model", "basket": "b; admin=1"}

    done = await runtime.call_tool(session, "shop_where", given)

    # The API repeats what it got, and headers of the host are secret.
    assert done.value["trace"] == "[secret]"
    assert done.value["basket"] == "b%3B%20admin%3D1"
    await runtime.close()


async def test_a_compressed_answer_is_refused() -> None:
    """A small answer that expands to a huge one is not read."""

    async def bomb(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": gzip.compress(b'"x"')})

    document = shop_api().openapi()
    found = asgi_tools(bomb, ApiOptions(name="shop", include=("large",)), document=document)

    done = await Executor(Session(), tools=found.tools).call("shop_large", {})

    assert done.failure is not None
    assert done.failure.kind == "invalid_result"


async def test_a_redirect_to_another_origin_is_not_followed(address: str) -> None:
    """The credential would go to whoever answers there."""
    runtime, session = await shop(address)

    done = await runtime.call_tool(session, "shop_away", {})

    assert done.failure is not None
    assert "http://elsewhere.example" in done.failure.message
    await runtime.close()


async def test_a_long_answer_is_a_failure(address: str) -> None:
    """`max_response_bytes` bounds what is read."""
    options = ApiOptions(name="shop", approval="policy", include=("large",), max_response_bytes=99)
    runtime, session = await shop(address, options)

    done = await runtime.call_tool(session, "shop_large", {})

    assert done.failure is not None
    assert done.failure.kind == "invalid_result"
    await runtime.close()


async def test_an_api_that_is_away_is_unavailable(address: str) -> None:
    """Nothing was sent, and the failure says so."""
    options = ApiOptions(name="shop", approval="policy", base_url="http://127.0.0.1:9")
    [tool] = [
        each
        for each in openapi_tools(shop_api().openapi(), options).tools
        if each.name == "shop_stock"
    ]

    done = await Executor(Session(), tools=[tool]).call("shop_stock", {"item": "saw"})

    assert done.failure is not None
    assert done.failure.kind == "unavailable"


def test_writes_need_approval_and_reads_do_not(address: str) -> None:
    """By default a person approves whatever is no GET."""
    options = ApiOptions(name="shop", credentials=CREDENTIALS, base_url=address)
    tools = {each.name: each for each in openapi_tools(f"{address}/openapi.json", options).tools}

    assert not tools["shop_stock"].requires_approval
    assert tools["shop_stock"].is_read_only
    assert tools["shop_order"].requires_approval
    assert not tools["shop_order"].is_read_only


def test_an_operation_without_its_credential_is_not_served(address: str) -> None:
    """It would fail at every call; the reason names the credential."""
    found = openapi_tools(f"{address}/openapi.json", ApiOptions(name="shop", base_url=address))

    assert "shop_order" not in {each.name for each in found.tools}
    assert found.invalid["shop_order"] == "it needs a credential for HTTPBearer; set credentials"


def test_a_document_from_elsewhere_does_not_choose_who_gets_the_credentials(address: str) -> None:
    """A server of another origin than the document's must be written down."""
    app = shop_api()
    app.servers = [{"url": "https://collector.example"}]
    with served(app) as url, pytest.raises(InvalidTool, match="of another origin"):
        openapi_tools(f"{url}/openapi.json", ApiOptions(credentials=CREDENTIALS))


async def test_an_application_in_the_process_is_called_without_a_socket() -> None:
    """FastAPI makes its document itself."""
    found = asgi_tools(shop_api(), OPEN)
    executor = Executor(Session(), tools=found.tools)

    done = await executor.call("shop_order", {"body": {"item": "saw", "amount": 2}})

    assert done.value == {"item": "saw", "amount": 2, "note": None, "number": 7}


async def test_a_starlette_application_is_called_by_the_document_that_is_given() -> None:
    """Starlette makes none."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def hello(request: Request) -> JSONResponse:
        return JSONResponse({"hello": request.query_params["name"]})

    app = Starlette(routes=[Route("/hello", hello)])
    parameter = {"name": "name", "in": "query", "required": True, "schema": {"type": "string"}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Hello", "version": "1"},
        "paths": {"/hello": {"get": {"operationId": "hello", "parameters": [parameter]}}},
    }
    with pytest.raises(InvalidTool, match="give document"):
        asgi_tools(app)

    found = asgi_tools(app, ApiOptions(name="app"), document=document)
    done = await Executor(Session(), tools=found.tools).call("app_hello", {"name": "Ann"})

    assert done.value == {"hello": "Ann"}


async def test_a_result_that_the_document_does_not_describe_is_a_failure() -> None:
    """`validate_output=False` is for APIs that do not keep to their documents."""
    app = shop_api()
    document = json.loads(json.dumps(app.openapi()))
    content = document["paths"]["/wrong"]["get"]["responses"]["200"]["content"]
    content["application/json"]["schema"] = {
        "type": "object",
        "properties": {"left": {"type": "integer"}},
    }
    for validates, kind in ((True, "invalid_result"), (False, None)):
        options = ApiOptions(name="shop", include=("wrong",), validate_output=validates)
        found = asgi_tools(app, options, document=document)

        done = await Executor(Session(), tools=found.tools).call("shop_wrong", {})

        assert (done.failure and done.failure.kind) == kind
