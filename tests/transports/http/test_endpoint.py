"""Every operation over REST, on a real socket."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, served
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.store.memory import MemoryStore
from toolcrib.store.sqlite import SqliteStore
from toolcrib.transports.http.routes import ROUTES


def test_every_operation_has_one_route() -> None:
    """R38: what can be asked of a runtime can be asked over HTTP."""
    assert sorted(each.name for each in ROUTES) == sorted(OPERATIONS)
    assert len({(each.verb, each.path) for each in ROUTES}) == len(ROUTES)


async def test_a_session_lives_from_its_creation_to_its_deletion() -> None:
    """R36: create, get, list, tools, fork, close, resume and delete answer as the runtime does."""
    async with served() as crib:
        client = crib.client
        created = await client.post("/v1/sessions", json={"session_id": "s"})
        got = await client.get("/v1/sessions/s")
        tools = await client.get("/v1/sessions/s/tools")
        tool = await client.get("/v1/sessions/s/tools/echo")
        forked = await client.post("/v1/sessions/s/fork", json={"new_session_id": "t"})
        closed = await client.post("/v1/sessions/s/close", json={})
        after = await client.get("/v1/sessions/s")
        resumed = await client.post("/v1/sessions/s/resume", json={})
        deleted = await client.delete("/v1/sessions/t")
        listed = await client.get("/v1/sessions")

    assert (created.status_code, created.json()["state"]) == (201, "open")
    assert got.json()["session_id"] == "s"
    assert [each["name"] for each in tools.json()["tools"]] == [
        "echo",
        "careful",
        "held_back",
        "broken",
    ]
    assert tool.json()["description"] == "The tool echo"
    assert (forked.status_code, forked.json()["session_id"]) == (201, "t")
    assert (closed.status_code, closed.json()) == (200, {})
    assert after.json()["state"] == "closed"
    assert resumed.json()["state"] == "open"
    assert (deleted.status_code, deleted.json()) == (200, {})
    assert [each["session_id"] for each in listed.json()["sessions"]] == ["s"]


async def test_a_tool_is_called_without_a_model() -> None:
    """R37: a call answers with what a program and a model see of it, Unicode and all."""
    async with served() as crib:
        await crib.session()
        path = "/v1/sessions/s/tools/{}/call"
        done = await crib.client.post(path.format("echo"), json={"arguments": {"text": "hé 🦊"}})
        broken = await crib.client.post(path.format("broken"), json={"arguments": {"text": "x"}})
        invalid = await crib.client.post(path.format("echo"), json={"arguments": {"text": 1}})
        unknown = await crib.client.post(path.format("nothing"), json={"arguments": {}})

    assert done.json()["value"] == {"echo": "hé 🦊"}
    assert broken.json()["failure"]["kind"] == "tool_error"
    assert invalid.json()["failure"]["kind"] == "invalid_arguments"
    assert unknown.json()["failure"]["kind"] == "not_found"
    assert "Traceback" not in broken.text
    assert crib.gates.calls == ["hé 🦊"]


async def test_a_call_waits_until_somebody_else_approves_it() -> None:
    """R42: what waits is listed, decided by who may, and then runs once."""
    async with served() as crib:
        await crib.session("caller:s", CALLERS)
        call = "/v1/sessions/caller:s/tools/careful/call"
        caller = crib.as_(CALLERS)
        waits = (
            await crib.client.post(call, json={"arguments": {"text": "a"}}, headers=caller)
        ).json()
        inbox = (await crib.client.get("/v1/approvals")).json()["approvals"]
        one = (await crib.client.get(f"/v1/approvals/{waits['approval_id']}")).json()
        decided = await crib.client.post(
            f"/v1/approvals/{waits['approval_id']}/decide",
            json={"decision": "approve", "digest": one["digest"]},
        )
        done = await crib.client.post(
            call, json={"arguments": {"text": "a"}, "call_id": waits["call_id"]}, headers=caller
        )
        rest = (await crib.client.get("/v1/approvals", params={"session_id": "caller:s"})).json()
        every = (await crib.client.get("/v1/approvals", params={"is_all": "true"})).json()

    assert waits["status"] == "waiting"
    assert [each["approval_id"] for each in inbox] == [waits["approval_id"]]
    assert decided.json()["decided_by"] == "owner"
    assert done.json()["value"] == {"echo": "a"}
    assert crib.gates.calls == ["a"]
    assert (rest["approvals"], rest["total"]) == ([], 0)
    assert len(every["approvals"]) == 1


async def test_a_grant_is_listed_and_revoked() -> None:
    """R42: a standing yes can be seen and taken back."""
    async with served() as crib:
        await crib.session()
        call = "/v1/sessions/s/tools/careful/call"
        waits = (await crib.client.post(call, json={"arguments": {"text": "a"}})).json()
        await crib.client.post(
            f"/v1/approvals/{waits['approval_id']}/decide",
            json={"decision": "approve", "grant": {"scope": "session"}},
        )
        grants = (await crib.client.get("/v1/grants")).json()["grants"]
        revoked = await crib.client.delete(f"/v1/grants/{grants[0]['grant_id']}")

    assert [each["tool"] for each in grants] == ["host/careful"]
    assert revoked.json() == {"was_standing": True}


async def test_a_key_makes_a_call_happen_once() -> None:
    """The same Idempotency-Key gives the same answer; with other parameters it is refused."""
    async with served() as crib:
        await crib.session()
        call, key = "/v1/sessions/s/tools/echo/call", {"Idempotency-Key": "k"}
        body = {"arguments": {"text": "a"}}
        first = await crib.client.post(call, json=body, headers=key)
        again = await crib.client.post(call, json=body, headers=key)
        other = await crib.client.post(call, json={"arguments": {"text": "b"}}, headers=key)
        useless = await crib.client.post("/v1/sessions/s/close", json={}, headers=key)

    assert first.json() == again.json()
    assert crib.gates.calls == ["a"]
    assert (other.status_code, other.json()["error"]["kind"]) == (409, "conflict")
    assert useless.status_code == 422


async def test_a_running_call_is_cancelled_by_asking() -> None:
    """R39: cancelling is answered while the call runs."""
    async with served() as crib:
        await crib.session()
        call = asyncio.ensure_future(
            crib.client.post(
                "/v1/sessions/s/tools/held_back/call",
                json={"arguments": {"text": "x"}, "call_id": "c1"},
            )
        )
        await crib.gates.entered.wait()
        cancelled = await crib.client.post("/v1/sessions/s/calls/c1/cancel", json={})
        answer = await call

    assert cancelled.json() == {"was_running": True}
    assert answer.json()["failure"]["kind"] == "cancelled"


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/v1/sessions", b"{", {}, 400),
        ("/v1/sessions", b"", {}, 400),
        ("/v1/sessions", b'{"idempotency_key": "k"}', {}, 422),
        ("/v1/sessions", b"\xff", {}, 400),
        ("/v1/sessions", b"[1]", {}, 422),
        ("/v1/sessions", b'{"sesion_id": "x"}', {}, 422),
        ("/v1/sessions", b"{}", {"Content-Type": "text/plain"}, 415),
        ("/v1/sessions?session_id=x", b"{}", {}, 422),
        ("/v1/sessions/s/close", b'{"session_id": "other"}', {}, 422),
        ("/v1/sessions/nowhere/close", b"{}", {}, 404),
        ("/v1/nowhere", b"{}", {}, 404),
        ("/v1/capabilities", b"{}", {}, 405),
        ("/v1/sessions/s/prompt", b'{"text": "hello"}', {}, 503),
    ],
)
async def test_what_cannot_be_done_is_told_in_one_shape(
    path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    """Every refusal has its status and names its kind, and nothing of the inside."""
    async with served() as crib:
        await crib.session()
        told = {"Content-Type": "application/json", **headers}
        answer = await crib.client.post(path, content=body, headers=told)

    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"kind", "message", "facts"}
    assert "Traceback" not in answer.text


async def test_a_wrong_verb_is_told_the_right_ones() -> None:
    """405 names every verb of the path, whichever route has it."""
    async with served() as crib:
        answer = await crib.client.put("/v1/sessions", json={})

    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")


async def test_a_parameter_comes_once() -> None:
    """A query that says two things is not understood as either."""
    async with served() as crib:
        answer = await crib.client.get("/v1/approvals?session_id=a&session_id=b")

    assert (answer.status_code, "duplicate" in answer.text) == (422, True)


class FallingStore(MemoryStore):
    """A store whose disk is gone when grants are asked for."""

    def grants(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("the disk at /secret fell down")


async def test_a_fault_inside_is_told_without_details(caplog: pytest.LogCaptureFixture) -> None:
    """What nobody foresaw is logged, and the client learns only that it happened."""
    async with served(store=FallingStore()) as crib:
        answer = await crib.client.get("/v1/grants")

    assert (answer.status_code, answer.json()["error"]["kind"]) == (500, "internal")
    assert "fell down" not in answer.text
    assert "fell down" in caplog.text


async def test_a_large_body_is_refused_while_it_is_sent() -> None:
    """Who sends more than is taken is told 413, before the rest of it is sent."""
    async with served(max_payload_bytes=1_000) as crib:
        host, port = crib.server.url.removeprefix("http://").split(":")
        told = await crib.client.post("/v1/sessions", json={"cwd": "x" * 2_000})
        status = await asyncio.to_thread(_first_line_of_endless_body, host, int(port))

    assert (told.status_code, told.json()["error"]["kind"]) == (413, "too_large")
    assert b" 413 " in status


def _first_line_of_endless_body(host: str, port: int) -> bytes:
    """Send chunks without ever ending the body, and read what is answered."""
    with socket.create_connection((host, port), timeout=PATIENCE) as sock:
        sock.sendall(
            b"POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\n"
            b"Authorization: Bearer owner-token-0123456789\r\n"
            b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            + b"320\r\n"
            + b" " * 800
            + b"\r\n"
        )
        sock.sendall(b"320\r\n" + b" " * 800 + b"\r\n")
        with sock.makefile("rb") as answer:
            return answer.readline()


@pytest.mark.parametrize("number", ["9223372036854775808", "1" + "0" * 20, "9" * 5_000, "-1", "x"])
@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_a_number_that_no_record_has_is_invalid(
    number: str, accept: str, sqlite_path: Path
) -> None:
    """Finding 19: a sequence number beyond what a store counts to is 422, in the query and in
    `Last-Event-ID`, for pages, streams and streamed calls.
    """
    store = SqliteStore(sqlite_path)
    async with served(store=store) as at:
        await at.session()
        events, call = "/v1/sessions/s/events", "/v1/sessions/s/tools/echo/call"
        headers = {"Accept": accept}
        last = {**headers, "Last-Event-ID": number}
        answers = [
            await at.client.get(events, params={"after": number}, headers=headers),
            await at.client.get(events, headers=last),
            await at.client.post(call, json={"arguments": {"text": "a"}}, headers=last),
        ]
        assert [answer.status_code for answer in answers] == [422, 422, 422]
        largest = await at.client.get(events, params={"after": str(2**63 - 1)})
        assert largest.json()["events"] == []
    store.close()
