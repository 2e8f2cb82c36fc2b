"""Approvers of a shared server, each with a token of their own, over a real socket."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.helpers.patience import PATIENCE
from tests.transports.http.served_runtime import Gates, registry_of
from toolcrib.approval.policy_file import parse_policy
from toolcrib.runtime.config import RuntimeConfig
from toolcrib.runtime.principal import OWNER, Principal, Role
from toolcrib.runtime.runtime import create_runtime
from toolcrib.serving.tokens import Token, Tokens
from toolcrib.store import SqliteStore
from toolcrib.transports.http.server import HttpServer

Json = dict[str, Any]


def person(name: str, *roles: Role, groups: tuple[str, ...] = ()) -> Token:
    return Token(f"{name}-token-0123456789", Principal(name, frozenset(roles), frozenset(groups)))


PEOPLE = (
    Token("owner-token-0123456789", OWNER),
    person("alice", "caller"),
    person("bob", "caller"),
    person("dave", "caller", "approver"),
    person("carol", "approver"),
    person("fay", "approver", groups=("finance",)),
    person("finn", "approver", groups=("finance",)),
    person("root", "admin"),
    person("audit", "auditor"),
)
POLICY = """
version: 1
unmatched: allow
rules:
  - ask: careful
    arguments: {/text: {glob: "f*"}}
    approvers: finance
  - ask: careful
    arguments: {/text: {glob: "two*"}}
    approvers: 2
"""


class Office:
    """A served runtime, and the people who use it."""

    def __init__(self, client: httpx2.AsyncClient, gates: Gates) -> None:
        self._client = client
        self.gates = gates

    async def ask(self, who: str, verb: str, path: str, body: Json | None = None) -> Any:
        """The status and the body of an answer."""
        headers = {"Authorization": f"Bearer {who}-token-0123456789"}
        answer = await self._client.request(verb, path, json=body, headers=headers)
        return answer.status_code, answer.json()

    async def call(self, who: str, text: str, session_id: str | None = None) -> Json:
        """Call the tool that needs approval, in a session of who calls."""
        if session_id is None:
            _, session = await self.ask(who, "POST", "/v1/sessions", {})
            session_id = session["session_id"]
        path = f"/v1/sessions/{session_id}/tools/careful/call"
        _, result = await self.ask(who, "POST", path, {"arguments": {"text": text}})
        return {**result, "session_id": session_id}

    async def again(self, who: str, waiting: Json) -> Json:
        """Take a waiting call up."""
        path = f"/v1/sessions/{waiting['session_id']}/tools/careful/call"
        _, result = await self.ask(who, "POST", path, {"call_id": waiting["call_id"]})
        return result

    async def decide(self, who: str, waiting: Json, decision: str = "approve", **more: Any) -> Any:
        path = f"/v1/approvals/{waiting['approval_id']}/decide"
        return await self.ask(who, "POST", path, {"decision": decision, **more})

    async def inbox(self, who: str) -> list[str]:
        _, body = await self.ask(who, "GET", "/v1/approvals")
        return [each["approval_id"] for each in body["approvals"]]


@asynccontextmanager
async def office(**config: Any) -> AsyncGenerator[Office]:
    gates = Gates()
    settings = RuntimeConfig(
        host_tool_registry=registry_of(gates), policy=parse_policy(POLICY), **config
    )
    async with (
        create_runtime(settings) as runtime,
        HttpServer(runtime, port=0, tokens=Tokens(PEOPLE)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE) as client,
    ):
        yield Office(client, gates)


class TestFourEyes:
    async def test_an_approver_does_not_approve_own_calls(self) -> None:
        """Security 10: dave may call and may approve, and does not do both."""
        async with office() as at:
            waiting = await at.call("dave", "hello")
            own = await at.decide("dave", waiting)
            edited = await at.decide("dave", waiting, arguments={"text": "other"})
            answered = await at.decide("dave", waiting, "answer", value="made up")
            other = await at.decide("carol", waiting)
            result = await at.again("dave", waiting)

        assert [own[0], edited[0], answered[0]] == [403, 403, 403]
        assert "somebody else" in own[1]["error"]["message"]
        assert (other[0], result["status"]) == (200, "completed")

    async def test_an_approver_denies_own_calls(self) -> None:
        """To take a call back needs nobody else."""
        async with office() as at:
            waiting = await at.call("dave", "hello")
            status, facts = await at.decide("dave", waiting, "deny", reason="changed my mind")

        assert (status, facts["decision"]) == (200, "deny")

    @pytest.mark.parametrize("who", ["dave", "root", "owner"])
    async def test_the_configuration_may_allow_it(self, who: str) -> None:
        """The owner of the runtime always may; others where approve_own_calls says so."""
        statuses: list[int] = []
        for may in (False, True):
            async with office(approve_own_calls=may) as at:
                waiting = await at.call(who, "hello")
                statuses.append((await at.decide(who, waiting))[0])

        assert statuses == [200 if who == "owner" else 403, 200]

    async def test_two_people_approve_what_needs_two(self, sqlite_path: Path) -> None:
        """One of them leaves it pending with the vote shown; the votes outlive the server."""
        with SqliteStore(sqlite_path) as store:
            async with office(store=store) as at:
                waiting = await at.call("alice", "two eggs")
                first = await at.decide("carol", waiting)
                twice = await at.decide("carol", waiting)
            async with office(store=store) as at:
                session = f"/v1/sessions/{waiting['session_id']}/resume"
                await at.ask("alice", "POST", session, {})
                held = await at.again("alice", waiting)
                second = await at.decide("fay", waiting)
                result = await at.again("alice", waiting)

        assert (first[0], first[1]["state"], twice[0]) == (200, "pending", 409)
        assert [vote["by"] for vote in first[1]["votes"]] == ["carol"]
        assert first[1]["approvers"] == [{"count": 2, "groups": []}]
        assert (held["status"], second[1]["state"]) == ("waiting", "decided")
        assert [vote["by"] for vote in second[1]["votes"]] == ["carol", "fay"]
        assert result["status"] == "completed"


class TestRouting:
    async def test_a_request_for_a_group_is_for_nobody_else(self) -> None:
        """Others do not learn that it exists: not in the list, not by its id, not by deciding."""
        async with office() as at:
            waiting = await at.call("alice", "fees")
            path = f"/v1/approvals/{waiting['approval_id']}"
            seen = {
                who: (await at.ask(who, "GET", path))[0]
                for who in ("carol", "bob", "fay", "root", "audit", "alice")
            }
            listed = {who: await at.inbox(who) for who in seen}
            refused = await at.decide("carol", waiting)
            unknown = await at.decide("carol", {"approval_id": "apr_none"})
            done = await at.decide("fay", waiting)

        assert seen == {
            "carol": 404,
            "bob": 404,
            "fay": 200,
            "root": 200,
            "audit": 200,
            "alice": 200,
        }
        assert {who for who, ids in listed.items() if ids} == {"fay", "root", "audit", "alice"}
        assert (refused[0], unknown[0], done[0]) == (404, 404, 200)

    async def test_a_request_names_who_asks(self) -> None:
        """Newcomers 8: the approver reads whose call it is, and over what it came."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            _, facts = await at.ask("carol", "GET", f"/v1/approvals/{waiting['approval_id']}")

        assert facts["caller"] == {
            "principal": "alice",
            "groups": [],
            "transport": "http",
            "is_model": False,
        }


class TestGrants:
    async def test_a_grant_is_for_who_asked(self) -> None:
        """Security 9: what carol grants to alice covers none of bob's calls, and has an end."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            await at.decide("carol", waiting, grant={"scope": "principal"})
            hers, his = await at.call("alice", "hello"), await at.call("bob", "hello")
            _, listed = await at.ask("carol", "GET", "/v1/grants")

        assert (hers["status"], his["status"]) == ("completed", "waiting")
        (grant,) = listed["grants"]
        assert (grant["scope"], grant["principal"], grant["created_by"]) == (
            "principal",
            "alice",
            "carol",
        )
        assert grant["expires_at"] == pytest.approx(grant["created_at"] + 30 * 86_400)

    @pytest.mark.parametrize(
        ("grant", "carol", "root"),
        [
            ({"scope": "everyone"}, 422, 422),
            ({"scope": "everyone", "unlimited": True}, 403, 200),
            ({"scope": "everyone", "uses": 3}, 403, 200),
            ({"scope": "everyone", "arguments": {"/text": {"glob": "h*"}}}, 403, 200),
            ({"scope": "principal", "unlimited": True}, 403, 200),
            ({"scope": "session"}, 200, 200),
            ({"scope": "session", "arguments": {"text": "x"}}, 422, 422),
            ({"scope": "always"}, 422, 422),
        ],
    )
    async def test_more_than_a_principal_is_an_admins(
        self, grant: Json, carol: int, root: int
    ) -> None:
        """Toolsets F12: bounded over the wire; a refused grant decides nothing."""
        async with office() as at:
            answers: dict[str, int] = {}
            for who in ("carol", "root"):
                waiting = await at.call("alice", f"hello {who}")
                answers[who] = (await at.decide(who, waiting, grant=grant))[0]
                still = waiting["approval_id"] in await at.inbox("root")
                assert still is (answers[who] != 200)
                await at.decide("root", waiting, "deny")
                # A grant of the first round must not answer the call of the second.
                for each in (await at.ask("root", "GET", "/v1/grants"))[1]["grants"]:
                    await at.ask("root", "DELETE", f"/v1/grants/{each['grant_id']}")

        assert answers == {"carol": carol, "root": root}

    async def test_a_grant_is_bounded_by_arguments_uses_and_time(self) -> None:
        """Toolsets F12: what the Python API bounds, the wire bounds."""
        terms = {
            "scope": "principal",
            "arguments": {"/text": {"glob": "hello*"}},
            "uses": 1,
            "expires_in_seconds": 60,
        }
        async with office() as at:
            waiting = await at.call("alice", "hello")
            await at.decide("carol", waiting, grant=terms)
            outside = await at.call("alice", "bye")
            first, second = await at.call("alice", "hello 1"), await at.call("alice", "hello 2")
            _, listed = await at.ask("carol", "GET", "/v1/grants")
            grant = listed["grants"][0]
            _, one = await at.ask("carol", "GET", f"/v1/grants/{grant['grant_id']}")

        statuses = [call["status"] for call in (outside, first, second)]
        assert statuses == ["waiting", "completed", "waiting"]
        assert one == grant
        assert (grant["arguments"], grant["uses_left"], grant["is_live"]) == (
            {"/text": {"glob": "hello*"}},
            0,
            False,
        )

    async def test_an_admins_grant_for_everyone_is_not_for_the_admin(self) -> None:
        """Security 10: nobody lets their own calls through by a grant."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            await at.decide("root", waiting, grant={"scope": "everyone", "unlimited": True})
            others, own = await at.call("bob", "hello"), await at.call("root", "hello")

        assert (others["status"], own["status"]) == ("completed", "waiting")

    async def test_a_revocation_names_who_revoked(self) -> None:
        """Who took a grant back is told with it."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            await at.decide("carol", waiting, grant={"scope": "session"})
            (grant,) = (await at.ask("fay", "GET", "/v1/grants"))[1]["grants"]
            await at.ask("fay", "DELETE", f"/v1/grants/{grant['grant_id']}")
            _, after = await at.ask("carol", "GET", f"/v1/grants/{grant['grant_id']}")

        assert (after["is_live"], after["is_revoked"], after["revoked_by"]) == (False, True, "fay")


class TestPreview:
    async def test_a_preview_shows_what_the_asker_may_read(self) -> None:
        """An admin sees the past calls of all, a caller its own; nothing is granted by it."""
        async with office() as at:
            for who, text in (("alice", "hello"), ("bob", "hello"), ("alice", "bye")):
                waiting = await at.call(who, text)
                await at.decide("carol", waiting)
                await at.again(who, waiting)
            waiting = await at.call("alice", "hello")
            terms = {"scope": "everyone", "arguments": {"/text": "hello"}}
            of_request = {"approval_id": waiting["approval_id"], "grant": terms}
            previews = {
                who: (await at.ask(who, "POST", "/v1/grant-previews", of_request))[1]
                for who in ("root", "alice", "carol")
            }
            _, of_tool = await at.ask(
                "root", "POST", "/v1/grant-previews", {"tool": "careful", "grant": terms}
            )
            wrong = {**of_request, "grant": {**terms, "arguments": {"/txet": "hello"}}}
            _, unknown = await at.ask("root", "POST", "/v1/grant-previews", wrong)
            hidden = await at.ask("bob", "POST", "/v1/grant-previews", of_request)
            neither = await at.ask("root", "POST", "/v1/grant-previews", {"grant": terms})
            _, listed = await at.ask("root", "GET", "/v1/grants")

        counts = {who: (each["covered_count"], each["looked_at"]) for who, each in previews.items()}
        assert counts == {"root": (2, 3), "alice": (1, 2), "carol": (0, 0)}
        assert [each["principal"] for each in previews["root"]["covered"]] == ["bob", "alice"]
        assert previews["root"]["covers_request"] is True
        assert (of_tool["covered_count"], of_tool["covers_request"]) == (2, None)
        assert (unknown["unknown_arguments"], unknown["covers_request"]) == (["/txet"], False)
        assert (hidden[0], neither[0], listed["grants"]) == (404, 422, [])


class TestAnswers:
    async def test_an_answer_replaces_the_result(self) -> None:
        """Toolsets F12: over the wire too somebody may answer, and the tool does not run."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            status, facts = await at.decide("carol", waiting, "answer", value={"order": "PO-9"})
            result = await at.again("alice", waiting)

            assert (status, facts["decision"]) == (200, "answer")
            assert (result["status"], result["value"]) == ("completed", {"order": "PO-9"})
            assert at.gates.calls == []

    @pytest.mark.parametrize(
        "body",
        [
            {"decision": "answer", "reason": "x"},
            {"decision": "deny", "value": 1},
            {"decision": "approve", "value": 1},
        ],
    )
    async def test_what_does_not_belong_together_is_refused(self, body: Json) -> None:
        """A value goes with an answer and a reason with a denial."""
        async with office() as at:
            waiting = await at.call("alice", "hello")
            refused = await at.decide("carol", waiting, **body)

        assert refused[0] == 422
