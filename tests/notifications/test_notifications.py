"""Notifications: signed, told once, retried, bounded, and never in the way of a call."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.patience import PATIENCE
from tests.notifications.receiver import Received, Receiver, receiver
from tests.transports.http.served_runtime import Gates, registry_of
from toolcrib import Rule, SqliteStore
from toolcrib.approval.policy import Policy
from toolcrib.notifications import NotificationOptions
from toolcrib.notifications import delivery as delivery_module
from toolcrib.notifications.delivery import (
    RETRY_SECONDS,
    Delivery,
    NotAccepted,
    WebhookRequest,
    sign,
)
from toolcrib.notifications.notice import Notice
from toolcrib.notifications.options import read_secret
from toolcrib.notifications.watch import NotificationWatch
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.runtime import Runtime, create_runtime
from toolcrib.testing import FakeClock

pytestmark = pytest.mark.wire

SECRET = bytes(range(32))
LINK = "https://crib.example/approvals/{approval_id}"


def options(url: str, **changes: Any) -> NotificationOptions:
    facts: dict[str, Any] = {"url": url, "secret": SECRET, "link": LINK, **changes}
    return NotificationOptions(**facts)


@asynccontextmanager
async def runtime_with(
    *notifications: NotificationOptions, **config: Any
) -> AsyncGenerator[Runtime]:
    made = RuntimeConfig(
        host_tool_registry=registry_of(Gates()), notifications=notifications, **config
    )
    async with create_runtime(made) as runtime:
        await runtime.create_session(session_id="s")
        yield runtime


async def call(runtime: Runtime, tool: str, text: str = "hello") -> Any:
    return await runtime.call_tool("s", tool, {"text": text})


async def told(hook: Receiver) -> Received:
    return await asyncio.to_thread(hook.next)


def notice(number: int = 1) -> Notice:
    return Notice(
        event="failed",
        notice_id=f"s.call_{number}.failed",
        at=1_000.0,
        tool="echo",
        session_id="s",
        call_id=f"call_{number}",
        failure="tool_error",
    )


def test_the_signature_is_that_of_the_specification() -> None:
    """The example of Standard Webhooks: id, time and body with dots between, in base64 after v1."""
    secret = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signature = sign(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert signature == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


async def test_a_waiting_call_is_told_with_a_valid_signature_and_a_link() -> None:
    """The receiver can check who sent it, and a person can go on from it; no argument is in it."""
    with receiver() as hook:
        async with runtime_with(options(hook.url)) as runtime:
            waiting = await call(runtime, "careful", "hunter2-0123456789")
            received = await told(hook)

    headers = received.headers
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + received.body
    digest = base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{digest}"
    assert headers["webhook-id"] == f"{waiting.approval_id}.waiting"
    event = received.json
    assert event["type"] == "approval.waiting"
    assert event["data"] == {
        "tool": "careful",
        "principal": "owner",
        "session_id": "s",
        "call_id": waiting.call_id,
        "approval_id": waiting.approval_id,
        "rule": event["data"]["rule"],
        "link": f"https://crib.example/approvals/{waiting.approval_id}",
        "command": f"toolcrib approvals show {waiting.approval_id}",
    }
    assert b"hunter2" not in received.body


async def test_arguments_are_sent_only_when_wanted() -> None:
    """The redacted view, where the host says so."""
    with receiver() as hook:
        async with runtime_with(options(hook.url, include_arguments=True)) as runtime:
            await call(runtime, "careful", "hello")
            received = await told(hook)

    assert received.json["data"]["arguments"] == {"text": "hello"}


async def test_a_failed_call_is_told_and_a_denied_one_is_not() -> None:
    """What a caller does wrong, and what a policy denies, is no failure of a tool; the text of the
    exception stays here.
    """
    policy = Policy(rules=(Rule("deny", "echo"),), unmatched="allow")
    with receiver() as hook:
        async with runtime_with(options(hook.url), policy=policy) as runtime:
            await call(runtime, "echo")
            await runtime.call_tool("s", "broken", {"wrong": 1})
            await call(runtime, "broken")
            received = await told(hook)
        assert hook.is_empty

    data = received.json["data"]
    assert (data["tool"], data["failure"], data["error"]) == (
        "broken",
        "tool_error",
        "RuntimeError",
    )
    assert b"shelf" not in received.body


async def test_a_webhook_hears_only_of_its_events() -> None:
    """One for approvers and one for operators."""
    with receiver() as approvers, receiver() as operators:
        both = (
            options(approvers.url, events=("waiting",)),
            options(operators.url, events=("failed",)),
        )
        async with runtime_with(*both) as runtime:
            await call(runtime, "careful")
            await call(runtime, "broken")
            first, second = await told(approvers), await told(operators)
        assert approvers.is_empty
        assert operators.is_empty

    assert first.json["type"] == "approval.waiting"
    assert second.json["type"] == "call.failed"


async def test_a_request_is_told_again_before_it_expires(sqlite_path: Path) -> None:
    """Once, when its deadline is near; also by a process that started after it was made."""
    store, clock = SqliteStore(sqlite_path), FakeClock()
    policy = Policy(rules=(Rule("ask", "careful", deadline_seconds=3_600),))
    config = RuntimeConfig(host_tool_registry=registry_of(Gates()), store=store, policy=policy)
    async with create_runtime(config) as runtime:
        await runtime.create_session(session_id="s")
        waiting = await call(runtime, "careful")
        deadline = (await runtime.get_approval(waiting.approval_id)).deadline
        assert deadline is not None
        with receiver() as hook:
            clock.advance(deadline - 301 - clock())
            watch = NotificationWatch([options(hook.url)], store, clock=clock)
            watch.start(runtime.bus)
            await watch.look()
            clock.advance(2)
            await watch.look()
            await watch.look()
            received = await told(hook)
            await watch.close()
            assert hook.is_empty
    store.close()

    assert received.json["type"] == "approval.expiring"
    assert received.headers["webhook-id"] == f"{waiting.approval_id}.expiring"


async def test_a_request_of_another_process_is_told_once(sqlite_path: Path) -> None:
    """Whoever has the store sees the request, and one look after the other tells it once."""
    mine, theirs = SqliteStore(sqlite_path), SqliteStore(sqlite_path)
    with receiver() as hook:
        async with runtime_with(options(hook.url), store=mine) as watching:
            config = RuntimeConfig(host_tool_registry=registry_of(Gates()), store=theirs)
            async with create_runtime(config) as other:
                await other.create_session(session_id="t")
                waiting = await other.call_tool("t", "careful", {"text": "hello"})
            assert watching.notifications is not None
            await watching.notifications.look()
            await watching.notifications.look()
            received = await told(hook)
        assert hook.is_empty
    mine.close()
    theirs.close()

    assert received.json["data"]["approval_id"] == waiting.approval_id


async def test_a_call_does_not_wait_for_a_webhook() -> None:
    """A receiver that hangs costs a call nothing, and the runtime closes all the same."""
    with receiver(is_open=False) as hook:
        async with runtime_with(options(hook.url)) as runtime:
            waiting = await asyncio.wait_for(call(runtime, "careful"), PATIENCE)
            await told(hook)
            done = await asyncio.wait_for(call(runtime, "echo"), PATIENCE)
            hook.gate.set()

    assert waiting.approval_id is not None
    assert done.status == "completed"


@asynccontextmanager
async def delivering(
    send: Any, **changes: Any
) -> AsyncGenerator[tuple[Delivery, FakeClock, asyncio.Queue[tuple[str, str]]]]:
    """A delivery whose waits last as long as the test says, and its outcomes."""
    clock, outcomes = FakeClock(), asyncio.Queue[tuple[str, str]]()

    async def wait(event: asyncio.Event, seconds: float | None) -> None:
        if seconds is None:
            await event.wait()
        else:
            clock.advance(seconds)

    each = Delivery(
        options("http://127.0.0.1:9/x", **changes),
        lambda event, outcome: outcomes.put_nowait((event, outcome)),
        clock=clock,
        elapsed=clock,
        wait=wait,
        send=send,
    )
    each.start()
    yield each, clock, outcomes
    await each.close()


async def test_a_failure_is_tried_again_later_and_signed_anew() -> None:
    """The waits grow; the id stays, so that the receiver can tell a repetition."""
    requests: list[WebhookRequest] = []

    def send(request: WebhookRequest) -> None:
        requests.append(request)
        if len(requests) < 3:
            raise NotAccepted("it answered 503")

    async with delivering(send) as (each, _, outcomes):
        each.submit(notice())
        outcome = await asyncio.wait_for(outcomes.get(), PATIENCE)

    assert outcome == ("failed", "sent")
    assert {request.headers["webhook-id"] for request in requests} == {"s.call_1.failed"}
    times = [int(request.headers["webhook-timestamp"]) for request in requests]
    assert [later - first for first, later in pairwise(times)] == [1, 5]
    assert len({request.headers["webhook-signature"] for request in requests}) == 3


async def test_it_gives_up_in_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """After a bounded number of attempts; it is counted and logged, without the URL."""
    attempts: list[WebhookRequest] = []

    def send(request: WebhookRequest) -> None:
        attempts.append(request)
        raise NotAccepted("it cannot be reached")

    async with delivering(send) as (each, _, outcomes):
        each.submit(notice())
        outcome = await asyncio.wait_for(outcomes.get(), PATIENCE)

    assert outcome == ("failed", "failed")
    assert len(attempts) == 1 + len(RETRY_SECONDS)
    assert "s.call_1.failed for 127.0.0.1 was not sent" in caplog.text
    assert "/x" not in caplog.text


async def test_one_that_fails_does_not_hold_up_the_others() -> None:
    """It waits for its next attempt, and the next notice goes out meanwhile."""
    order: list[str] = []

    def send(request: WebhookRequest) -> None:
        order.append(request.headers["webhook-id"])
        if len(order) == 1:
            raise NotAccepted("it answered 500")

    async with delivering(send) as (each, _, outcomes):
        each.submit(notice(1))
        each.submit(notice(2))
        for _ in range(2):
            await asyncio.wait_for(outcomes.get(), PATIENCE)

    assert order == ["s.call_1.failed", "s.call_2.failed", "s.call_1.failed"]


@pytest.mark.parametrize(
    ("statuses", "requests"), [([400], 1), ([410], 1), ([301], 1), ([429, 204], 2), ([502], 2)]
)
async def test_a_refusal_is_final_and_a_fault_is_not(
    statuses: list[int], requests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the receiver will never take is not sent again; a redirect is not followed: another
    place in its name has not got the notice.
    """
    monkeypatch.setattr(delivery_module, "RETRY_SECONDS", (0.0, 0.0, 0.0))
    outcomes = asyncio.Queue[str]()
    with receiver(*statuses) as hook, receiver() as elsewhere:
        hook.location = elsewhere.url
        each = Delivery(options(hook.url), lambda _, outcome: outcomes.put_nowait(outcome))
        each.start()
        each.submit(notice())
        outcome = await asyncio.wait_for(outcomes.get(), PATIENCE)
        await each.close()
        received = [hook.next() for _ in range(requests)]
        assert hook.is_empty
        assert elsewhere.is_empty

    assert outcome == ("failed" if requests == 1 else "sent")
    assert len({each.headers["webhook-id"] for each in received}) == 1


async def test_too_many_are_dropped_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A webhook that is away for a day does not fill the memory."""
    monkeypatch.setattr(delivery_module, "MAX_QUEUED", 3)
    monkeypatch.setattr(delivery_module, "DRAIN_SECONDS", 0.0)
    outcomes: list[str] = []
    with receiver(is_open=False) as hook:
        each = Delivery(options(hook.url), lambda _, outcome: outcomes.append(outcome))
        each.start()
        for number in range(5):
            each.submit(notice(number))
        await told(hook)
        assert outcomes == ["dropped", "dropped"]
        hook.gate.set()
        await each.close()

    assert Counter(outcomes)["dropped"] >= 4
    assert "too many wait" in caplog.text
    assert "the process ends" in caplog.text


async def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the URL, which may be a credential, nor the key."""
    caplog.set_level(logging.DEBUG)
    with receiver(400) as hook:
        async with runtime_with(options(hook.url)) as runtime:
            await call(runtime, "broken")
            await told(hook)

    assert "hook-path" not in caplog.text
    assert base64.b64encode(SECRET).decode() not in caplog.text


EVIL = "eve <!channel> *b* [x](https://evil.example) `c`\n@here"


@pytest.mark.parametrize("event", ["waiting", "failed"])
async def test_slack_gets_blocks(event: Any) -> None:
    """Who asks for what, a button with the link, and a command; no name in it is markup."""
    told_of = Notice(**_facts(event))
    with receiver() as hook:
        body = await _delivered(hook, told_of, format="slack", secret=None)

    title, facts, *rest = body["blocks"]
    assert body["text"] in title["text"]["text"]
    assert "<!channel>" not in facts["text"]["text"]
    assert "\\n@here" in facts["text"]["text"]
    kinds = [block["type"] for block in rest]
    assert kinds == (["actions", "context"] if event == "waiting" else [])
    if event == "waiting":
        assert rest[0]["elements"][0]["url"] == "https://crib.example/approvals/apr_1"
        assert "`toolcrib approvals show apr_1`" in rest[1]["elements"][0]["text"]


async def test_no_arguments_are_too_long_for_slack() -> None:
    """It refuses a text of more than 3000 characters, and the approvers would not be told."""
    told_of = Notice(**_facts("waiting"), arguments={"text": "<&>" * 5_000})
    with receiver() as hook:
        body = await _delivered(hook, told_of, format="slack", secret=None, include_arguments=True)

    text = body["blocks"][1]["text"]["text"]
    assert len(text) == 3_000
    assert "apr⁠_1" in text


@pytest.mark.parametrize("event", ["waiting", "failed"])
async def test_teams_gets_an_adaptive_card(event: Any) -> None:
    """The same facts, in the form that Teams shows; no name in it is a link."""
    told_of = Notice(**_facts(event))
    with receiver() as hook:
        body = await _delivered(hook, told_of, format="teams", secret=None)

    (attachment,) = body["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    facts = {fact["title"]: fact["value"] for fact in card["body"][1]["facts"]}
    assert "[x](https" not in facts["Asked by"]
    assert ("actions" in card) is (event == "waiting")


def _facts(event: str) -> dict[str, Any]:
    facts: dict[str, Any] = {"event": event, "notice_id": "n", "at": 1_000.0, "tool": "careful"}
    facts |= {"session_id": "s", "call_id": "c", "principal": EVIL}
    if event == "waiting":
        return facts | {"approval_id": "apr_1", "rule": "ask", "deadline": 2_000.0}
    return facts | {"failure": "timeout"}


async def _delivered(hook: Receiver, told_of: Notice, **changes: Any) -> Any:
    each = Delivery(options(hook.url, **changes), lambda _, __: None)
    each.start()
    each.submit(told_of)
    received = await told(hook)
    await each.close()
    assert "webhook-signature" not in received.headers
    return json.loads(received.body)
