"""The log of requests: one line each, with who, what, how long, and nothing that is secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from tests.transports.http.served_runtime import CALLERS, STREAM, events_of, served

SECRET = "hunter2-0123456789"


def lines(caplog: pytest.LogCaptureFixture) -> list[Mapping[str, Any]]:
    """The facts of each line of the access log."""
    records = [each for each in caplog.records if each.name == "toolcrib.access"]
    return [getattr(each, "toolcrib_facts") for each in records]  # noqa: B009


async def test_every_request_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Who asked for which route, what came of it, how long it took and how much was sent."""
    caplog.set_level(logging.INFO, "toolcrib")
    async with served(access_log=True) as crib:
        await crib.session("caller:s", CALLERS)
        answer = await crib.client.post(
            "/v1/sessions/caller:s/tools/echo/call",
            json={"arguments": {"text": SECRET}},
            headers=crib.as_(CALLERS),
        )

    call = lines(caplog)[-1]
    assert call["seconds"] > 0
    assert {key: call[key] for key in call if key != "seconds"} == {
        "request_id": answer.headers["x-request-id"],
        "principal": "caller",
        "session_id": "caller:s",
        "client": "127.0.0.1",
        "method": "POST",
        "path": "/v1/sessions/{session_id}/tools/{name}/call",
        "status": 200,
        "bytes": len(answer.content),
    }


async def test_no_query_path_or_header_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Tokens end up in addresses and headers; none of these is repeated, known route or not."""
    caplog.set_level(logging.DEBUG, "toolcrib")
    async with served(access_log=True) as crib:
        await crib.client.get(f"/v1/sessions?token={SECRET}")
        await crib.client.get(f"/nowhere/{SECRET}", headers={"X-Request-Id": f"{SECRET} {SECRET}"})
        await crib.client.get(f"/v1/approvals/{SECRET}", headers=crib.as_(SECRET))
        await crib.client.get("/", headers=crib.as_(SECRET))

    assert [each["path"] for each in lines(caplog)] == [
        "/v1/sessions",
        "other",
        "/v1/approvals/{approval_id}",
        "/",
    ]
    assert [each["principal"] for each in lines(caplog)] == ["owner", "owner", None, None]
    assert SECRET not in caplog.text
    assert SECRET not in str(lines(caplog))


async def test_a_token_in_the_place_of_a_session_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The session that a path names is logged, and a path may be pasted together wrongly."""
    caplog.set_level(logging.INFO, "toolcrib")
    token = "tc_abcdefghijkl_" + "s" * 32
    async with served(access_log=True) as crib:
        await crib.client.get(f"/v1/sessions/{token}/tools")

    assert lines(caplog)[-1]["session_id"] == "tc_abcdefghijkl_***"


@pytest.mark.parametrize(
    ("sent", "is_kept"),
    [
        ("req-1.A:b_2", True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("two words", False),
        ("new\tline", False),
        ("", False),
    ],
)
async def test_a_well_formed_request_id_is_kept(sent: str, is_kept: bool) -> None:
    """A proxy can follow its requests; what could forge a line is replaced."""
    async with served(access_log=True) as crib:
        answer = await crib.client.get("/v1/capabilities", headers={"X-Request-Id": sent})

    assert (answer.headers["x-request-id"] == sent) is is_kept
    assert len(answer.headers["x-request-id"]) >= 11


async def test_health_checks_are_silent_unless_they_fail(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A probe every second says nothing, until there is something to say."""
    caplog.set_level(logging.INFO, "toolcrib")
    async with served(access_log=True) as crib:
        await crib.client.get("/healthz")
        await crib.client.get("/readyz")
        assert lines(caplog) == []
        crib.server.readiness._is_up = lambda: False  # pyright: ignore[reportPrivateUsage]
        await crib.client.get("/readyz")

    (failed,) = lines(caplog)
    assert (failed["path"], failed["status"]) == ("/readyz", 503)


async def test_a_stream_is_logged_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    """With all the bytes that were sent."""
    caplog.set_level(logging.INFO, "toolcrib")
    async with served(access_log=True) as crib:
        await crib.session()
        async with crib.client.stream(
            "POST",
            "/v1/sessions/s/tools/echo/call",
            json={"arguments": {"text": "hello"}},
            headers=STREAM,
        ) as response:
            events = [event async for event in events_of(response)]

    assert events
    assert lines(caplog)[-1]["bytes"] > 100
    assert lines(caplog)[-1]["status"] == 200


async def test_without_the_log_there_is_no_line(caplog: pytest.LogCaptureFixture) -> None:
    """And nothing is done for each request."""
    caplog.set_level(logging.DEBUG, "toolcrib")
    async with served() as crib:
        answer = await crib.client.get("/v1/capabilities")

    assert lines(caplog) == []
    assert "x-request-id" not in answer.headers
