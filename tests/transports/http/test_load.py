"""Many sessions and many subscribers on one server."""

from __future__ import annotations

import asyncio
import resource
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.transports.http.served_runtime import OWNERS, Served, served

SESSIONS = 1_000
CALLERS = 16
CALLS_OF_A_SESSION = 3
RECORDS = 1 + 2 * CALLS_OF_A_SESSION
MEGABYTES = 250


class Subscriber:
    """Follows one session on a connection of its own; `seen` are the ids of its events."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.seen: list[int] = []

    async def read(self, it: Served) -> None:
        """Read until the ledger's last event of this test has come."""
        at = urlsplit(it.server.url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        writer.write(
            f"GET /v1/sessions/{self.session_id}/events HTTP/1.1\r\nHost: {at.netloc}\r\n"
            f"Authorization: Bearer {OWNERS}\r\nAccept: text/event-stream\r\n\r\n".encode()
        )
        while len(self.seen) < RECORDS:
            line = await reader.readline()
            assert line, f"the stream of {self.session_id} ended after {self.seen}"
            if line.startswith(b"id: "):
                self.seen.append(int(line[4:]))
        writer.close()
        await writer.wait_closed()


async def call_all(it: Served, sessions: list[str]) -> None:
    """Call a tool in each of these sessions, several times."""
    for number in range(CALLS_OF_A_SESSION):
        for session_id in sessions:
            params: dict[str, Any] = {"session_id": session_id, "name": "echo"}
            await it.runtime.ask("tools.call", {**params, "arguments": {"text": f"{number}"}})


def megabytes() -> float:
    """The most memory that this process ever used."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.load
async def test_a_thousand_subscribers_hear_everything() -> None:
    """A thousand sessions are open and called steadily, each with a live subscriber: every event
    comes once and in order, and the memory of server and clients together stays bounded.
    """
    async with served() as it:
        before = megabytes()
        sessions = [f"s{number}" for number in range(SESSIONS)]
        for session_id in sessions:
            await it.runtime.ask("session.create", {"session_id": session_id})
        subscribers = [Subscriber(session_id) for session_id in sessions]
        reading = [asyncio.create_task(each.read(it)) for each in subscribers]
        await asyncio.gather(*(call_all(it, sessions[start::CALLERS]) for start in range(CALLERS)))
        await asyncio.gather(*reading)

    assert all(each.seen == list(range(1, RECORDS + 1)) for each in subscribers)
    assert megabytes() - before < MEGABYTES
