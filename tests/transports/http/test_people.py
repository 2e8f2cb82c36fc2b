"""People for admins: who uses the server, their tokens and their sign-ins."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs
import pytest

from tests.transports.http.test_sign_in import Crib, crib_in
from toolcrib.serving.tokens import Token, Tokens, owner_token
from toolcrib.transports.http.accounts.routes import ACCOUNT_ROUTES
from toolcrib.transports.http.openapi import openapi_document


class Admin:
    """Asks as the owner, and checks each answer against the document."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib
        self._headers = {"Authorization": f"Bearer {owner_token(crib.folder / 'token')}"}

    async def ask(self, name: str, body: Any = None, query: str = "", **path: str) -> Any:
        answer = await self.send(name, body, query, **path)
        assert answer.is_success, answer.text
        return answer.json()

    async def send(
        self, name: str, body: Any = None, query: str = "", **path: str
    ) -> httpx2.Response:
        route = next(each for each in ACCOUNT_ROUTES if each.name == name)
        answer = await self._crib.client.request(
            route.verb, route.path.format(**path) + query, json=body, headers=self._headers
        )
        operation = openapi_document()["paths"][route.path][route.verb.lower()]
        content = operation["responses"][str(answer.status_code)]["content"]["application/json"]
        schema = {**content["schema"], "components": openapi_document()["components"]}
        jsonschema_rs.Draft202012Validator(schema).validate(answer.json())
        return answer


async def test_a_token_is_made_used_replaced_and_revoked(tmp_path: Path) -> None:
    """Each step works at once, and each secret is shown once."""
    async with crib_in(tmp_path) as crib:
        admin = Admin(crib)
        made = await admin.ask("tokens.create", {"name": "alice", "roles": ["caller"]})
        bearer = {"Authorization": f"Bearer {made['token']}"}
        me = await crib.client.get("/v1/me", headers=bearer)
        listed = await admin.ask("tokens.list")
        new = await admin.ask("tokens.rotate", {}, token_id=made["facts"]["id"])
        old = await crib.client.get("/v1/me", headers=bearer)
        revoked = await admin.ask("tokens.revoke", token_id=new["facts"]["id"])
        missing = await admin.send("tokens.revoke", token_id=new["facts"]["id"])

    assert me.json()["principal"] == "alice"
    assert listed["tokens"] == [made["facts"]]
    assert made["token"] not in str(listed)
    assert made["facts"]["expires_at"] - made["facts"]["created_at"] == 90 * 86_400
    assert (old.status_code, missing.status_code) == (401, 404)
    assert revoked == new["facts"]


async def test_a_name_revokes_nothing(tmp_path: Path) -> None:
    """Over HTTP a token is named by its id: a name may stand for several."""
    async with crib_in(tmp_path) as crib:
        crib.tokens.create("alice", ["caller"])
        answer = await Admin(crib).send("tokens.revoke", token_id="alice")

    assert answer.status_code == 404
    assert len(crib.tokens.records()) == 1


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"name": "owner", "roles": ["admin"]}, "owner of a server"),
        ({"name": "a b", "roles": ["caller"]}, "name"),
        ({"name": "alice", "roles": []}, "roles"),
        ({"name": "alice", "roles": ["king"]}, "roles"),
        ({"name": "alice", "roles": ["caller"], "lifetime_seconds": 1}, "lifetime_seconds"),
        ({"name": "alice", "roles": ["caller"], "groups": ["a b"]}, "groups"),
    ],
)
async def test_a_wrong_token_is_refused_with_what_is_wrong(
    body: Any, fault: str, tmp_path: Path
) -> None:
    """Nothing is made of a request that does not say what it must."""
    async with crib_in(tmp_path) as crib:
        answer = await Admin(crib).send("tokens.create", body)

    assert answer.status_code == 422
    assert fault in answer.json()["error"]["message"]
    assert crib.tokens.records() == ()


async def test_sign_ins_are_listed_and_ended(tmp_path: Path) -> None:
    """An admin sees each browser with where it came from, and ends it; it is out at once."""
    async with crib_in(tmp_path) as crib:
        issued = crib.tokens.create("alice", ["caller"])
        await crib.signed_in(token=issued.token)
        admin = Admin(crib)
        (listed,) = (await admin.ask("sign_ins.list"))["sign_ins"]
        ended = await admin.ask("sign_ins.revoke", sign_in_id=listed["id"])
        me = await crib.client.get("/v1/me")
        missing = await admin.send("sign_ins.revoke", sign_in_id=listed["id"])

    assert (listed["principal"], listed["signed_in_by"]) == ("alice", "token")
    assert (listed["address"], listed["is_own"]) == ("127.0.0.1", False)
    assert "python-httpx2" in listed["browser"]
    assert ended["id"] == listed["id"]
    assert (me.status_code, missing.status_code) == (401, 404)


async def test_people_are_those_with_a_token_a_sign_in_or_something_left(tmp_path: Path) -> None:
    """Each once, by name, with what they have; those who left something stay without a token."""
    async with crib_in(tmp_path) as crib:
        alice = crib.tokens.create("alice", ["caller"], groups=["engineers"])
        bob = crib.tokens.create("bob", ["caller"])
        bearer = {"Authorization": f"Bearer {bob.token}"}
        await crib.client.post("/v1/sessions", json={}, headers=bearer)
        await crib.signed_in(token=alice.token)
        crib.tokens.revoke("bob")
        admin = Admin(crib)
        answer = await admin.ask("people.list")
        found = await admin.ask("people.list", query="?search=LIC")
        first = await admin.ask("people.list", query="?limit=1")
        second = await admin.ask("people.list", query=f"?limit=2&cursor={first['cursor']}")

    by_name = {person["name"]: person for person in answer["people"]}
    assert list(by_name) == ["alice", "bob", "owner"]
    assert by_name["alice"]["groups"] == ["engineers"]
    assert [len(by_name["alice"][each]) for each in ("tokens", "sign_ins")] == [1, 1]
    assert by_name["alice"]["last_seen_at"] is not None
    assert (by_name["bob"]["tokens"], by_name["bob"]["roles"]) == ([], [])
    assert (by_name["bob"]["sessions"], by_name["bob"]["calls"]) == (1, 0)
    assert by_name["owner"]["is_owner"]
    assert [person["name"] for person in found["people"]] == ["alice"]
    assert (found["total"], first["total"]) == (1, 3)
    assert [person["name"] for person in second["people"]] == ["bob", "owner"]
    assert second["cursor"] is None


@pytest.mark.parametrize("role", ["caller", "approver", "auditor"])
async def test_who_is_no_admin_learns_and_changes_nothing(role: Any, tmp_path: Path) -> None:
    """Each of these operations is refused to every other role, and does nothing."""
    async with crib_in(tmp_path) as crib:
        issued = crib.tokens.create("alice", [role])
        page = await crib.signed_in(token=issued.token)
        answers = {
            route.name: await crib.client.request(
                route.verb,
                route.path.format(token_id=issued.record.id, sign_in_id="x"),
                json={"name": "eve", "roles": ["admin"]} if route.name == "tokens.create" else {},
                headers=page,
            )
            for route in ACCOUNT_ROUTES
            if not route.name.startswith("account.")
        }

    assert {name: answer.status_code for name, answer in answers.items()} == dict.fromkeys(
        answers, 403
    )
    assert len(answers) == 7
    assert [record.name for record in crib.tokens.records()] == ["alice"]


async def test_what_an_admin_changes_is_logged_without_secrets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Who did it, and the id and name of the token."""
    caplog.set_level(logging.INFO)
    async with crib_in(tmp_path) as crib:
        made = await Admin(crib).ask("tokens.create", {"name": "alice", "roles": ["caller"]})

    assert f"owner has made the token {made['facts']['id']} of alice" in caplog.text
    assert made["token"] not in caplog.text


async def test_a_host_that_sets_its_tokens_has_no_file_to_change(tmp_path: Path) -> None:
    """It says so, instead of making a file that nobody reads."""
    async with crib_in(
        tmp_path, tokens=Tokens([Token("owner-token-0123456789")]), tokens_file=None
    ) as crib:
        bearer = {"Authorization": "Bearer owner-token-0123456789"}
        body = {"name": "alice", "roles": ["caller"]}
        answer = await crib.client.post("/v1/tokens", json=body, headers=bearer)
        listed = await crib.client.get("/v1/tokens", headers=bearer)

    assert answer.status_code == 409
    assert "no file of tokens" in answer.json()["error"]["message"]
    assert listed.json() == {"tokens": []}
