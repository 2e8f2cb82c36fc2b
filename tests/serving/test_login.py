"""Failed logins: what is logged and counted, and how they are slowed."""

from __future__ import annotations

import asyncio
import logging

import pytest

from toolcrib.serving.login import (
    FREE_FAILURES,
    MAX_PEERS,
    Authenticator,
    LoginFailed,
    LoginFailures,
    LoginFault,
)
from toolcrib.serving.tokens import Token, Tokens, new_token

PEER = "203.0.113.9"


class Desk:
    """Failed logins with a stopwatch and sleeps that a test sees."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []
        self.counted: list[dict[str, str]] = []
        self.failures = LoginFailures(
            elapsed=lambda: self.now,
            sleep=self._sleep,
            counter=lambda _, attributes: self.counted.append(attributes),
        )

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def fail(self, peer: str = PEER, fault: LoginFault = "unknown") -> int | None:
        return await self.failures.record(peer, "http", LoginFailed(fault, "no", "a token"))


async def test_failures_are_slowed_more_and_more() -> None:
    """Finding 27: after a few, each answer is held back longer and says when to try again; there is
    a longest wait.
    """
    desk = Desk()
    waits = [await desk.fail() for _ in range(FREE_FAILURES + 12)]

    assert waits[:FREE_FAILURES] == [None] * FREE_FAILURES
    assert waits[FREE_FAILURES : FREE_FAILURES + 4] == [1, 2, 4, 8]
    assert waits[-1] == 60
    assert desk.slept[:3] == [0.1, 0.2, 0.4]
    assert desk.slept[-1] == 5.0
    assert sorted(desk.slept) == desk.slept


async def test_failures_are_logged_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """Finding 27: the first ones each have a line, then every doubling: 200 guesses leave a trace
    and do not fill the disk. Every one is counted.
    """
    desk = Desk()
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            await desk.fail()

    assert len(caplog.records) == 10 + len([16, 32, 64, 128])
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert all(PEER in message for message in caplog.messages)
    assert "failure 128 from there" in caplog.messages[-1]
    assert desk.counted == [{"reason": "unknown", "transport": "http"}] * 200


async def test_one_address_does_not_slow_another() -> None:
    """Also IPv6, where one machine has a whole /64, and an IPv4 address in its IPv6 form."""
    desk = Desk()
    for number in range(20):
        await desk.fail(f"2001:db8::{number:x}")
    for _ in range(FREE_FAILURES):
        assert await desk.fail("::ffff:198.51.100.1") is None

    assert await desk.fail("2001:db8::ffff") == 60
    assert await desk.fail("2001:db8:0:1::1") is None
    assert await desk.fail("198.51.100.1") == 1
    assert await desk.fail("unknown") is None


async def test_the_table_is_bounded_and_forgets() -> None:
    """A million addresses take no more room than some thousand, and a quiet quarter of an hour
    clears an address.
    """
    desk = Desk()
    for _ in range(FREE_FAILURES + 1):
        await desk.fail()
    assert await desk.fail() == 2
    desk.now += 901
    assert await desk.fail() is None
    for number in range(MAX_PEERS + 10):
        await desk.fail(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")

    assert len(desk.failures._peers) == MAX_PEERS  # pyright: ignore[reportPrivateUsage]


async def test_few_answers_are_held_back_at_once() -> None:
    """Held answers occupy connections: a fifth at the same time is refused at once."""
    gate = asyncio.Event()
    held = 0

    async def sleep(_: float) -> None:
        nonlocal held
        held += 1
        await gate.wait()

    failures = LoginFailures(sleep=sleep, elapsed=lambda: 0.0)
    failure = LoginFailed("unknown", "no")
    tasks = [
        asyncio.create_task(failures.record(PEER, "http", failure))
        for _ in range(FREE_FAILURES + 20)
    ]
    await asyncio.sleep(0)
    done = [task for task in tasks if task.done()]

    assert held == 4
    assert len(done) == FREE_FAILURES + 16
    gate.set()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("fault", ["expired", "no_role", "insufficient_scope", "unavailable"])
async def test_who_does_not_guess_is_not_slowed(
    fault: LoginFault, caplog: pytest.LogCaptureFixture
) -> None:
    """An expired token needs its 401, or the client would never sign in again."""
    desk = Desk()
    waits = [await desk.fail(fault=fault) for _ in range(20)]

    assert waits == [None] * 20
    assert desk.slept == []
    assert len(desk.counted) == 20
    assert len(caplog.records) == 10 + len([16])


async def test_an_endless_credential_is_refused_before_it_is_hashed() -> None:
    """No credential is that long."""
    authenticator = Authenticator(tokens=Tokens([Token("a" * 20)]))

    with pytest.raises(LoginFailed, match="too long"):
        await authenticator.login(b"x" * 20_000)


async def test_the_log_names_the_token_by_its_id() -> None:
    """The id is no secret, and tells whose token somebody tries."""
    token = new_token()
    with pytest.raises(LoginFailed) as failure:
        await Authenticator(tokens=Tokens([Token("a" * 20)])).login(token.encode())

    _, token_id, secret = token.split("_", 2)
    assert failure.value.credential == f"token {token_id}"
    assert secret not in f"{failure.value} {failure.value.credential}"


async def test_failures_are_counted_by_telemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 27: with OpenTelemetry set up, each failure is in `toolcrib.login.failures`."""
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    failures = LoginFailures()
    await failures.record(PEER, "websocket", LoginFailed("unknown", "no"))
    text = str(reader.get_metrics_data())

    assert "toolcrib.login.failures" in text
    assert "'transport': 'websocket'" in text.replace('"', "'")
