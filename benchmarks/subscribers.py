"""A thousand sessions, each with calls and a subscriber that must hear every event, in order."""

import asyncio
from contextlib import suppress
from urllib.parse import urlsplit

from harness import Bound
from report import table
from servers_contestants import NAME, OWNER, ask
from servers_hosts import OURS
from servers_load import Host, Load, hosted, install_wrk, load
from workload import PAYLOADS

SESSIONS = 1_000
CALLERS = 8
WARM_SECONDS = 4
MEGABYTES = 250.0
"""Of the server, with all sessions and subscribers and before any call."""
KILOBYTES_A_CALL = 4.0
"""What each call adds: its two records, which a ledger in memory keeps."""


_STAGES = ("empty", "sessions", "subscribed", "warm", "called")


class Subscriber:
    """Follows one session over server-sent events, and notices a gap or a repetition."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.seen = 0
        self.faults = 0
        self._reading: asyncio.Task[None] | None = None

    async def subscribe(self, url: str) -> None:
        """Return when the stream has begun."""
        at = urlsplit(url)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        headers = {**OWNER, "Host": at.netloc, "Accept": "text/event-stream"}
        lines = [f"GET /v1/sessions/{self.session_id}/events HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"a subscriber was answered {head[:80]!r}")
        self._reading = asyncio.ensure_future(self._read(reader, writer))

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    place = int(line[4:])
                    self.faults += place != self.seen + 1
                    self.seen = place
        finally:
            writer.close()

    async def leave(self) -> None:
        """Close the connection."""
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading


def run(quick: bool) -> list[Bound]:
    """Open all, call for a while, and wait until every subscriber has what its ledger has."""
    install_wrk()
    with hosted(OURS) as host:
        return asyncio.run(_run(host, 3 if quick else 20))


async def _run(host: Host, seconds: int) -> list[Bound]:
    empty = host.megabytes()
    url = f"{host.url}/v1/sessions"
    sessions = [ask(url, OWNER, b"{}")["session_id"] for _ in range(SESSIONS)]
    with_sessions = host.megabytes()
    subscribers = [Subscriber(session_id) for session_id in sessions]
    for each in subscribers:
        await each.subscribe(host.url)
    opened = host.megabytes()
    # The first call of each session makes what the others find.
    warm = await asyncio.to_thread(_call, host, sessions, WARM_SECONDS)
    warmed, before = host.megabytes(), host.cpu_seconds()
    done = await asyncio.to_thread(_call, host, sessions, seconds)
    missing = await _missing(host, subscribers)
    called, cpu = host.megabytes(), host.cpu_seconds() - before
    events, faults = sum(each.seen for each in subscribers), sum(s.faults for s in subscribers)
    for each in subscribers:
        await each.leave()
    _print([empty, with_sessions, opened, warmed, called], warm, done, events, cpu)
    per_call = (called - warmed) * 1024 / done.requests
    return [
        Bound(
            f"{SESSIONS} sessions and subscribers: no event lost, none out of order",
            f"{missing} of {events + missing:,} missing, {faults} out of order",
            missing == 0 and faults == 0,
        ),
        Bound(
            f"{SESSIONS} sessions and subscribers: at most {MEGABYTES:g} MB",
            f"{opened:.0f} MB",
            opened <= MEGABYTES,
        ),
        Bound(
            f"{SESSIONS} sessions and subscribers: at most {KILOBYTES_A_CALL:g} KB a call",
            f"{per_call:.1f} KB",
            per_call <= KILOBYTES_A_CALL,
        ),
    ]


def _call(host: Host, sessions: list[str], seconds: int) -> Load:
    requests = [
        (f"/v1/sessions/{each}/tools/{NAME}/call", b'{"arguments":%b}' % PAYLOADS[number % 64])
        for number, each in enumerate(sessions)
    ]
    return load(host.url, OWNER, requests, clients=CALLERS, seconds=seconds)


async def _missing(host: Host, subscribers: list[Subscriber]) -> int:
    """How many events have not come a while after the last call."""
    told = [
        await asyncio.to_thread(ask, f"{host.url}/v1/sessions/{session_id}", OWNER)
        for session_id in sorted({each.session_id for each in subscribers})
    ]
    ends = {each["session_id"]: each["last_seq"] for each in told}
    for _ in range(100):
        missing = sum(ends[each.session_id] - each.seen for each in subscribers)
        if missing == 0:
            break
        await asyncio.sleep(0.1)
    return missing


def _print(megabytes: list[float], warm: Load, done: Load, events: int, cpu: float) -> None:
    calls, rate = warm.requests + done.requests, done.requests / done.seconds
    row = [f"{calls:,}", f"{rate:,.0f}", f"{events:,}", f"{cpu / done.requests * 1e6:.0f}"]
    table(
        f"{SESSIONS} sessions, {SESSIONS} subscribers and {CALLERS} callers; MB of the server",
        ["calls", "calls/s", "events", "CPU us/call", *_STAGES],
        [row + [f"{each:.0f}" for each in megabytes]],
    )
