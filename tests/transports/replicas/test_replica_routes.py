"""An operation that is asked at a replica which does not have its session open."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from pydantic_core import to_json

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import CALLERS, OWNERS
from tests.transports.replicas.conftest import SESSION, Pair
from toolcrib.errors import AnswerLost, Refused, ReplicaUnreachable
from toolcrib.runtime import replica_routes
from toolcrib.runtime.operations import OPERATIONS
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.replica_routes import (
    BINDINGS,
    ForwardedOperation,
    ReplicaLink,
)
from toolcrib.runtime.turn_messages import turn_request
from toolcrib.serving.login import LoginFailures
from toolcrib.serving.replica_credential import ReplicaCredential, ReplicaRequest
from toolcrib.store.cipher import Cipher, new_key
from toolcrib.store.shared_store import Hint, QueuedTurn, Replica
from toolcrib.transports.http.replica_link import (
    OPERATIONS_PATH,
    HttpReplicaLink,
    replica_endpoints,
)

ADA = Principal("ada", frozenset({"caller"}), frozenset({"till"}), "http")


def test_every_operation_says_what_it_is_bound_to() -> None:
    """A new operation cannot be forgotten."""
    assert set(BINDINGS) == set(OPERATIONS)


READ_PARAMS: dict[str, dict[str, Any]] = {
    "session.get": {"session_id": SESSION},
    "session.resume": {"session_id": SESSION},
    "tools.list": {"session_id": SESSION},
    "tools.info": {"session_id": SESSION, "name": "greet"},
    "tools.call": {
        "session_id": SESSION,
        "name": "say",
        "arguments": {"text": "hi"},
        "idempotency_key": "k",
    },
    "tools.cancel": {"session_id": SESSION, "call_id": "nothing"},
    "approvals.context": {},
    "questions.list": {"session_id": SESSION},
    "questions.answer": {"question_id": "nothing", "value": 1},
    "grants.revoke": {"grant_id": "nothing"},
    "artifacts.get": {"session_id": SESSION},
    "records.list": {"session_id": SESSION},
    "catalog.list": {},
    "catalog.get": {"name": "greet"},
    "policy.explain": {"session_id": SESSION, "tool": "greet", "arguments": {"name": "Ada"}},
    "events.list": {"session_id": SESSION},
}
"""Parameters of the operations that change nothing when they are asked twice."""
CHANGING = {"session.fork", "session.close", "session.delete", "approvals.decide"}


def test_the_tables_of_this_suite_have_every_bound_operation() -> None:
    """So that the next test asks for each of them."""
    bound = {name for name, binding in BINDINGS.items() if binding not in ("store", "turn")}
    assert bound == READ_PARAMS.keys() | CHANGING


@pytest.mark.parametrize("operation", READ_PARAMS)
async def test_the_other_replica_answers_as_the_holder_does(pair: Pair, operation: str) -> None:
    """The answers are equal, refusals with their kind and text too."""
    huge = await pair.one.ask("tools.call", session_id=SESSION, name="huge")
    waiting = await pair.one.ask(
        "tools.call", session_id=SESSION, name="guarded", arguments={"name": "Bob"}
    )
    params = dict(READ_PARAMS[operation])
    if operation == "approvals.context":
        params["approval_id"] = waiting["approval_id"]
    if operation == "artifacts.get":
        params["artifact_id"] = huge["artifact_id"]

    answers = [await _answer(each.runtime, operation, params) for each in (pair.one, pair.two)]

    assert answers[1] == answers[0]
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    assert holder.replica_id == pair.one.store.replica_id
    assert pair.two.said == []


async def _answer(runtime: Any, operation: str, params: dict[str, Any]) -> Any:
    from toolcrib.runtime.service import as_json

    try:
        return as_json(await runtime.ask(operation, params))
    except Refused as refused:
        return refused.kind, refused.message, refused.facts


async def test_every_replica_lists_a_session_as_open_that_any_has_open(pair: Pair) -> None:
    """The list says the same wherever it is asked for, and so does its filter."""
    await pair.one.ask("session.create", session_id="shut")
    await pair.one.ask("session.close", session_id="shut")
    for each in (pair.one, pair.two):
        listed = (await each.ask("session.list"))["sessions"]
        states = {facts["session_id"]: facts["state"] for facts in listed}
        assert states == {SESSION: "open", "shut": "closed"}
        for state, session_id in (("open", SESSION), ("closed", "shut")):
            (only,) = (await each.ask("session.list", state=state))["sessions"]
            assert only["session_id"] == session_id


async def test_a_prompt_that_runs_elsewhere_is_listed_as_running(pair: Pair) -> None:
    """The list of another replica shows that the session is busy."""
    request = turn_request("hi", OWNER, waits=True, digest="")
    turn = QueuedTurn("turn_1", SESSION, request)
    pair.one.store.queue_turn(turn, when_busy="reject", most_queued=1, by="owner")
    (facts,) = (await pair.two.ask("session.list"))["sessions"]
    assert (facts["state"], facts["is_busy"]) == ("open", True)


async def test_decisions_grants_forks_and_closes_reach_the_holder(pair: Pair) -> None:
    """No conflict with another process: the replica that has the session open does it."""
    waiting = await pair.one.ask(
        "tools.call", session_id=SESSION, name="guarded", arguments={"name": "Bob"}
    )
    decided = await pair.two.ask(
        "approvals.decide",
        approval_id=waiting["approval_id"],
        decision="approve",
        grant={"scope": "session", "uses": 3},
    )
    assert decided["state"] == "decided"
    (grant,) = (await pair.two.ask("grants.list"))["grants"]
    assert (await pair.two.ask("grants.revoke", grant_id=grant["grant_id"]))["was_standing"]
    fork = await pair.two.ask("session.fork", session_id=SESSION, new_session_id="fork")
    assert fork["state"] == "open"
    await pair.two.ask("session.close", session_id="fork")
    assert pair.one.store.holder("fork") is None
    await pair.two.ask("session.delete", session_id=SESSION)
    with pytest.raises(Refused, match="no session"):
        await pair.one.ask("session.get", session_id=SESSION)


async def test_the_principal_stays_who_it_is(pair: Pair) -> None:
    """A session of somebody else is not there, at every replica, and roles are checked."""
    for each in (pair.one, pair.two):
        with pytest.raises(Refused) as refused:
            await each.runtime.ask("tools.list", {"session_id": SESSION}, ADA)
        assert refused.value.kind == "not_found"
    await pair.one.runtime.ask("session.create", {"session_id": "ada:1"}, ADA)
    called = {"session_id": "ada:1", "name": "greet", "arguments": {"name": "Ada"}}
    await pair.two.runtime.ask("tools.call", called, ADA)
    (call,) = (await pair.two.ask("calls.list", session_id="ada:1"))["calls"]
    assert call["principal"] == "ada"


async def test_a_session_that_nobody_has_open_is_opened_with_what_was_declared(pair: Pair) -> None:
    """Environment and client tools come from the store, where they lie encrypted."""
    tool = {"name": "ring", "description": "Ring.", "parameters": {"type": "object"}}
    await pair.one.ask(
        "session.create",
        session_id="declared",
        environment={"SHOP_SECRET": "sesame"},
        client_tools=[tool],
    )
    await pair.one.ask("session.close", session_id="declared")
    value = pair.one.store.value("session/declared/declared")
    assert value is not None
    assert value.is_secret

    listed = await pair.two.ask("tools.list", session_id="declared")

    assert "ring" in [each["name"] for each in listed["tools"]]
    holder = pair.one.store.holder("declared")
    assert holder is not None
    assert holder.replica_id == pair.two.store.replica_id
    fork = await pair.one.runtime.ask("session.fork", {"session_id": "declared"})
    sessions: Any = pair.two.runtime.service
    live = sessions._sessions.find(fork.session_id)
    assert live.session.environment["SHOP_SECRET"] == "sesame"


async def test_a_holder_that_is_gone_is_waited_for_and_then_replaced(pair: Pair) -> None:
    """Its server answers no more; once it holds the session no longer, this one opens it."""
    await pair.one.server.__aexit__(None, None, None)
    call = {"session_id": SESSION, "name": "say", "arguments": {"text": "late"}}
    asking = asyncio.ensure_future(pair.two.runtime.ask("tools.call", call))
    # What the store has is answered at once.
    facts = await pair.two.ask("session.get", session_id=SESSION)
    assert facts["session_id"] == SESSION
    assert not asking.done()

    await pair.one.runtime.close()

    assert (await asyncio.wait_for(asking, PATIENCE)).text == "late"
    assert (pair.one.said, pair.two.said) == ([], ["late"])


class LosingLink:
    """Loses the first answer, after the operation was done."""

    def __init__(self, link: ReplicaLink) -> None:
        self._link = link
        self.asked = 0

    async def ask(self, replica: Replica, body: bytes) -> bytes:
        self.asked += 1
        answer = await self._link.ask(replica, body)
        if self.asked == 1:
            raise AnswerLost("cut off")
        return answer


@pytest.mark.parametrize("key", [None, "k1"])
async def test_what_may_have_run_is_not_blindly_repeated(pair: Pair, key: str | None) -> None:
    """With an idempotency key it is asked for again and comes once; without, the answer says that
    it is not known.
    """
    assert pair.two.server.credential is not None
    sound = HttpReplicaLink(pair.two.server.credential)
    link = LosingLink(sound)
    pair.two.runtime.link_replicas(link)
    call = {"session_id": SESSION, "name": "say", "arguments": {"text": "x"}}
    if key is None:
        with pytest.raises(Refused, match="not known") as refused:
            await pair.two.runtime.ask("tools.call", call)
        assert refused.value.facts == {"is_unknown": True}
        assert link.asked == 1
    else:
        result = await pair.two.runtime.ask("tools.call", {**call, "idempotency_key": key})
        assert (result.text, link.asked) == ("x", 2)
    assert pair.one.said == ["x"]
    await sound.close()


async def test_a_hint_of_a_decision_wakes_the_session(pair: Pair) -> None:
    """Whoever waits at the holder looks at once."""
    service: Any = pair.one.runtime.service
    live = service._sessions.find(SESSION)
    woken = live.next_decision
    pair.two.store.hint(Hint("decision", SESSION))
    await asyncio.wait_for(woken.wait(), PATIENCE)


BODY = to_json(ForwardedOperation("session.list", {}, OWNER, None))


async def _post(
    pair: Pair, authorization: str | None, path: str = OPERATIONS_PATH, **more: Any
) -> httpx2.Response:
    headers = {"content-type": "application/json", **more}
    if authorization is not None:
        headers["authorization"] = authorization
    async with httpx2.AsyncClient(base_url=pair.one.server.url, timeout=PATIENCE) as client:
        return await client.post(path, content=BODY, headers=headers)


async def test_only_the_credential_of_a_replica_opens_the_endpoint(pair: Pair) -> None:
    """Forged, old, for another replica, sent twice, a token, a cookie: all are refused."""
    request, target = ReplicaRequest("POST", OPERATIONS_PATH, BODY), pair.one.store.replica_id
    own = pair.two.server.credential
    assert own is not None
    keys = pair.two.store.derived_keys("replica requests")
    old = ReplicaCredential(keys, "aa", clock=lambda: 1_000.0)
    stranger = ReplicaCredential(Cipher(new_key()).derived("replica requests"), "aa")

    signed = own.sign(request, target).authorization
    assert (await _post(pair, signed)).status_code == 200
    assert (await _post(pair, signed)).status_code == 401
    for refused in (
        None,
        f"Bearer {OWNERS}",
        f"Bearer {CALLERS}",
        old.sign(request, target).authorization,
        stranger.sign(request, target).authorization,
        own.sign(ReplicaRequest("POST", OPERATIONS_PATH, b"{}"), target).authorization,
    ):
        assert (await _post(pair, refused)).status_code == 401
    assert (await _post(pair, None, cookie="toolcrib_sign_in=x")).status_code == 401
    misdirected = await _post(pair, own.sign(request, "ff").authorization)
    assert misdirected.status_code == 421


async def test_an_answer_of_somebody_else_is_not_believed(pair: Pair) -> None:
    """What listens at the address has to prove that it is the replica."""
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    stranger = HttpReplicaLink(ReplicaCredential(Cipher(new_key()).derived("x"), "aa"))
    with pytest.raises(ReplicaUnreachable, match="401"):
        await stranger.ask(holder, BODY)
    await stranger.close()


@pytest.mark.parametrize(
    "path",
    [
        "/v1/replica%2Foperations",
        "/v1/replica/%6Fperations",
        "/v1/replica/operations/",
        "/v1//replica/operations",
        "/v1/replica/operations?who=owner",
    ],
)
async def test_another_spelling_of_the_path_is_not_what_was_signed(pair: Pair, path: str) -> None:
    """A proxy that lets one of them pass opens nothing."""
    own = pair.two.server.credential
    assert own is not None
    request = ReplicaRequest("POST", OPERATIONS_PATH, BODY)
    signed = own.sign(request, pair.one.store.replica_id).authorization
    assert (await _post(pair, signed, path)).status_code == 401


@pytest.mark.parametrize("is_formed", [True, False])
async def test_the_body_of_a_stranger_is_not_read(pair: Pair, is_formed: bool) -> None:
    """It may be large, and is refused by its header alone."""
    own = pair.one.server.credential
    assert own is not None
    request = ReplicaRequest("POST", OPERATIONS_PATH, BODY)
    header = own.sign(request, "ff").authorization if is_formed else "Bearer x"
    endpoint = replica_endpoints(pair.one.runtime, own, LoginFailures())[OPERATIONS_PATH]
    statuses: list[int] = []

    async def receive() -> Any:
        raise AssertionError("the body is read")

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    scope: dict[str, Any] = {
        "type": "http",
        "toolcrib.headers": {b"authorization": header.encode()},
        "client": ("192.0.2.1", 1),
    }
    await endpoint(scope, receive, send)
    assert statuses[0] == (421 if is_formed else 401)


@pytest.mark.parametrize("status", [408, 409, 429, 502])
async def test_a_status_of_something_in_between_says_nothing(pair: Pair, status: int) -> None:
    """What gave up waiting answers like that, and the replica may have done what was asked."""
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    assert pair.two.server.credential is not None
    link: Any = HttpReplicaLink(pair.two.server.credential)
    answer = httpx2.MockTransport(lambda request: httpx2.Response(status))
    link._client = httpx2.AsyncClient(transport=answer)
    with pytest.raises(AnswerLost):
        await link.ask(holder, BODY)
    await link.close()


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/admin?x=", "http://u:p@127.0.0.1", "file:///etc/passwd", ""]
)
async def test_an_address_of_the_store_leads_to_no_other_path(pair: Pair, address: str) -> None:
    """Nothing is sent to what is not the address of a server."""
    holder = pair.two.store.holder(SESSION)
    assert holder is not None
    assert pair.two.server.credential is not None
    link = HttpReplicaLink(pair.two.server.credential)
    with pytest.raises(ReplicaUnreachable, match="address"):
        await link.ask(replace(holder, address=address), BODY)
    await link.close()


async def test_a_holder_that_cannot_be_asked_is_named_in_the_log(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer says what to do, and the log why: here the keys differ."""
    monkeypatch.setattr(replica_routes, "PATIENCE_SECONDS", 0.2)
    stranger = HttpReplicaLink(ReplicaCredential(Cipher(new_key()).derived("x"), "aa"))
    pair.two.runtime.link_replicas(stranger)
    with pytest.raises(Refused, match=r"was not done; try again.*same store key") as refused:
        await pair.two.ask("tools.call", session_id=SESSION, name="greet", arguments={"name": "A"})
    assert refused.value.kind == "conflict"
    assert "it answers 401" in caplog.text
    await stranger.close()
