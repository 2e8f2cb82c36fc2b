"""The OpenAPI document says what is really answered."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import jsonschema_rs

from tests.transports.http.served_runtime import Served, served
from toolcrib.host_tools import HostToolDefinition, ToolContext
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES
from toolcrib.transports.http.downloads import DOWNLOAD_ROUTES
from toolcrib.transports.http.frontends.routes import FRONTEND_ROUTES
from toolcrib.transports.http.openapi import openapi_document
from toolcrib.transports.http.routes import ROUTES, OperationRoute


def _validator(operation: dict[str, Any], status: int) -> jsonschema_rs.Draft202012Validator:
    """A validator of the answers that an operation may give with a status."""
    content = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    components = openapi_document()["components"]
    return jsonschema_rs.Draft202012Validator({**content, "components": components})


def _check(route_name: str, answer: httpx2.Response) -> None:
    route = next(each for each in ROUTES if each.name == route_name)
    operation = openapi_document()["paths"][route.path][route.verb.lower()]
    _validator(operation, answer.status_code).validate(answer.json())


async def test_the_document_is_served_and_names_every_operation() -> None:
    """It is OpenAPI 3.1, and each operation is in it once, by its own name."""
    async with served() as crib:
        document = (await crib.client.get("/openapi.json")).json()

    found = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert document["openapi"].startswith("3.1")
    assert sorted(found) == sorted(
        each.name for each in (*ROUTES, *DOWNLOAD_ROUTES, *FRONTEND_ROUTES, *ACCOUNT_ROUTES)
    )


def test_every_schema_of_the_document_is_a_schema() -> None:
    """Each is valid JSON Schema 2020-12, and refers to nothing that is not there."""
    document = openapi_document()
    for name, schema in document["components"]["schemas"].items():
        jsonschema_rs.meta.validate(schema)
        whole = {**schema, "components": document["components"]}
        assert jsonschema_rs.Draft202012Validator(whole), name


def test_what_is_in_the_path_is_not_in_the_body() -> None:
    """A client made from the document sends each parameter in one place."""
    operation = openapi_document()["paths"]["/v1/sessions/{session_id}/tools/{name}/call"]["post"]
    body = operation["requestBody"]["content"]["application/json"]["schema"]

    assert set(body["properties"]) == {"arguments", "call_id"}
    assert [each["name"] for each in operation["parameters"]] == [
        "session_id",
        "name",
        "Idempotency-Key",
        "Last-Event-ID",
    ]


async def test_every_answer_is_as_the_document_says() -> None:
    """Real answers of every operation, done and refused, are valid by the document."""
    # A session is closed and deleted after everything else was asked of it.
    order = sorted(ROUTES, key=lambda route: route.name in ("session.close", "session.delete"))
    async with served() as crib, asyncio.TaskGroup() as calls:
        ids = {**await _fill(crib), "question_id": await _ask(crib, calls)}
        for route in order:
            body, path = _body(route), route.path.format(**ids)
            refused = await crib.client.request(route.verb, path + "?no=1", json=body)
            answer = await crib.client.request(route.verb, path, json=body)

            assert refused.status_code == 422, route.name
            _check(route.name, refused)
            # There is no model here; every other operation is done.
            needs_model = route.name in ("prompt.send", "prompt.resume")
            assert answer.status_code == (503 if needs_model else route.status), route.name
            _check(route.name, answer)


async def _fill(crib: Served) -> dict[str, str]:
    """Something of everything: calls that were done, failed and wait, and a grant."""
    await crib.session("s")
    path = "/v1/sessions/s/tools/{}/call"
    broken = await crib.client.post(path.format("broken"), json={"arguments": {}})
    _check("tools.call", broken)
    waits = [
        (await crib.client.post(path.format("careful"), json={"arguments": {"text": text}})).json()
        for text in "ab"
    ]
    await crib.client.post(
        f"/v1/approvals/{waits[0]['approval_id']}/decide",
        json={"decision": "approve", "grant": {"scope": "session"}},
    )
    grants = (await crib.client.get("/v1/grants")).json()["grants"]
    long = {"arguments": {"text": "long " * 20_000}}
    cut = (await crib.client.post(path.format("echo"), json=long)).json()
    return {
        "session_id": "s",
        "name": "echo",
        "call_id": "c",
        "approval_id": waits[1]["approval_id"],
        "grant_id": grants[0]["grant_id"],
        "artifact_id": cut["artifact_id"],
    }


async def _ask(crib: Served, calls: asyncio.TaskGroup) -> str:
    """A call that asks a person, and the id of its question."""

    async def ask(given: dict[str, Any], context: ToolContext) -> str:
        return await context.ask("Which one?")

    crib.runtime.registry.add(HostToolDefinition("ask", "To ask.", {"type": "object"}, ask))
    await crib.session("asks")
    calls.create_task(crib.client.post("/v1/sessions/asks/tools/ask/call", json={}))
    while not (questions := (await crib.client.get("/v1/questions")).json()["questions"]):
        pass
    return questions[0]["question_id"]


def _body(route: OperationRoute) -> dict[str, Any] | None:
    bodies: dict[str, dict[str, Any]] = {
        "tools.call": {"arguments": {"text": "a"}},
        "prompt.send": {"text": "hello"},
        "approvals.decide": {"decision": "deny"},
        "questions.answer": {"value": "this one"},
        "grants.preview": {"tool": "echo", "grant": {"scope": "session"}},
        "policy.check": {"text": "version: 1\n"},
        "policy.preview": {"draft": "version: 1\n"},
        "policy.explain": {"tool": "echo", "arguments": {"text": "a"}},
    }
    return bodies.get(route.name, {}) if route.verb == "POST" else None
