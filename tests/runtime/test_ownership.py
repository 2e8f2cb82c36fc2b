"""A principal owns what it makes: to others it does not exist."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.host_runtime import Gate, Json, add, host_tool, new_session, refusal, serving
from toolcrib import SqliteStore
from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.ownership import CallerChoices, namespace_of
from toolcrib.runtime.principal import OWNER, Principal
from toolcrib.runtime.runtime import Runtime

ALICE = Principal("alice", frozenset({"caller"}), transport="http")
BOB = Principal("bob", frozenset({"caller"}), transport="http")
AUDITOR = Principal("aud", frozenset({"auditor"}), transport="http")
WATCHFUL = Principal("cleo", frozenset({"auditor", "caller"}), transport="http")
ADMIN = Principal("root", frozenset({"admin"}), transport="http")

TOOL = host_tool("add", add)


def on_session(session_id: str) -> list[tuple[str, Json]]:
    """Every operation of a caller on one session."""
    one: Json = {"session_id": session_id}
    return [
        ("session.get", one),
        ("session.resume", one),
        ("session.fork", one),
        ("session.close", one),
        ("tools.list", one),
        ("tools.info", {**one, "name": "add"}),
        ("tools.call", {**one, "name": "add", "arguments": {"a": 1, "b": 2}}),
        ("tools.cancel", {**one, "call_id": "c"}),
        ("prompt.send", {**one, "text": "hi"}),
        ("prompt.resume", one),
        ("prompt.cancel", one),
        ("artifacts.get", {**one, "artifact_id": "artifact_1"}),
        ("events.list", one),
    ]


OPERATIONS = [name for name, _ in on_session("x")]


async def answers_of(runtime: Runtime, name: str, session_id: str) -> tuple[str, str]:
    refused = await refusal(runtime, name, dict(on_session(session_id))[name], BOB)
    return refused.kind, refused.message.replace(session_id, "ID")


@pytest.mark.parametrize("is_open", [True, False], ids=["open", "closed"])
@pytest.mark.parametrize("name", OPERATIONS)
async def test_a_foreign_session_is_told_from_no_session_by_nothing(
    name: str, is_open: bool
) -> None:
    """Finding 9, newcomers 9: another caller gets `not_found`, in the same words as for a session
    that never was, whether the owner has it open or not.
    """
    async with serving(TOOL) as runtime:
        theirs = await new_session(runtime, ALICE)
        if not is_open:
            await runtime.ask("session.close", {"session_id": theirs}, ALICE)
        foreign = await answers_of(runtime, name, theirs)
        missing = await answers_of(runtime, name, "ses_never_was")
        kept = await runtime.ask("session.get", {"session_id": theirs}, ALICE)

    assert foreign == missing
    assert foreign[0] == "not_found"
    assert kept.state == ("open" if is_open else "closed")


async def test_an_owner_is_told_that_its_session_is_closed() -> None:
    """What is hidden from others is said to the owner: that the session is there and not open."""
    async with serving(TOOL) as runtime:
        own = await new_session(runtime, ALICE)
        await runtime.ask("session.close", {"session_id": own}, ALICE)
        for name in ("session.close", "tools.list", "tools.call"):
            refused = await refusal(runtime, name, dict(on_session(own))[name], ALICE)
            assert (refused.kind, "resume it" in refused.message) == ("not_found", True)


async def test_a_foreign_session_is_neither_followed_nor_attached_to() -> None:
    """Finding 9: no events and no client tools of somebody else's session."""
    async with serving(TOOL) as runtime:
        theirs = await new_session(runtime, ALICE)
        with pytest.raises(Refused) as refused:
            runtime.service.follow(theirs, who=BOB)
        assert refused.value.kind == "not_found"
        with pytest.raises(Refused) as refused:
            await runtime.service.attach(theirs, NoLink(), BOB)
        assert refused.value.kind == "not_found"
        runtime.service.follow(theirs, who=AUDITOR).close()
        with pytest.raises(Refused) as forbidden:
            await runtime.service.attach(theirs, NoLink(), WATCHFUL)

    assert forbidden.value.kind == "forbidden"


def test_no_name_is_made_to_meet_the_namespace_of_another() -> None:
    """Names that are no plain ones are hashed; a plain name that looks like that hash is too."""
    hashed = namespace_of("al ice")

    assert namespace_of(hashed) != hashed
    assert namespace_of("p-alice") == "p-alice"


class NoLink:
    async def run(self, call_id: str, name: str, arguments: Any) -> Any:
        raise AssertionError


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_sessions_are_listed_to_their_owner_page_by_page(kind: str, tmp_path: Path) -> None:
    """Finding 9: a caller lists its own sessions only; auditors and admins list all, with the
    owner and the times, or those of one owner. Nobody loses or doubles one between pages.
    """
    store = SqliteStore(tmp_path / "ledger.db") if kind == "sqlite" else None
    async with serving(TOOL, store=store) as runtime:
        own = [await new_session(runtime, who) for who in (ALICE, BOB, ALICE, BOB, ALICE)]
        listed: dict[str, list[Any]] = {}
        for who in (ALICE, BOB, AUDITOR, ADMIN):
            listed[who.name], cursor = [], None
            while True:
                page = await runtime.ask("session.list", {"limit": 2, "cursor": cursor}, who)
                listed[who.name] += page.sessions
                cursor = page.cursor
                if cursor is None:
                    break
        picked = await runtime.ask("session.list", {"owner": "bob"}, AUDITOR)
        foreign = await runtime.ask("session.list", {"owner": "bob"}, ALICE)
        wrong = await refusal(runtime, "session.list", {"cursor": "what is this"}, ALICE)
    if store is not None:
        store.close()

    ids = {name: [each.session_id for each in sessions] for name, sessions in listed.items()}
    assert ids["alice"] == [own[0], own[2], own[4]]
    assert ids["bob"] == [own[1], own[3]]
    assert ids["aud"] == ids["root"] == own
    assert [each.owner for each in listed["aud"]] == ["alice", "bob"] * 2 + ["alice"]
    assert all(each.last_event_at >= each.created_at - 1 > 0 for each in listed["aud"])
    assert [each.session_id for each in picked.sessions] == [own[1], own[3]]
    assert foreign.sessions == []
    assert wrong.kind == "invalid"


async def test_the_owner_of_a_session_outlives_the_process(tmp_path: Path) -> None:
    """Finding 9: ownership is in the store, so that a restart gives a session to nobody else."""
    path = tmp_path / "ledger.db"
    with SqliteStore(path) as store:
        async with serving(TOOL, store=store) as runtime:
            theirs = await new_session(runtime, ALICE)
    with SqliteStore(path) as store:
        async with serving(TOOL, store=store) as runtime:
            refused = await refusal(runtime, "session.resume", {"session_id": theirs}, BOB)
            resumed = await runtime.ask("session.resume", {"session_id": theirs}, ALICE)
            taken = await refusal(runtime, "events.list", {"session_id": theirs}, BOB)

    assert (refused.kind, taken.kind) == ("not_found", "not_found")
    assert resumed.owner == "alice"


# Whether an auditor reads an artifact that there is, the table of access says.
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name != "artifacts.get"])
async def test_an_auditor_reads_everything_and_changes_nothing(name: str) -> None:
    """An auditor who is also a caller sees a foreign session, and may only read it; a pure auditor
    lacks the role for the rest.
    """
    reading = {"session.get", "tools.list", "tools.info", "events.list"}
    async with serving(TOOL) as runtime:
        theirs = await new_session(runtime, ALICE)
        for who in (AUDITOR, WATCHFUL):
            params = dict(on_session(theirs))[name]
            if name in reading:
                await runtime.ask(name, params, who)
            else:
                assert (await refusal(runtime, name, params, who)).kind == "forbidden"
        facts = await runtime.ask("session.get", {"session_id": theirs}, ALICE)

    assert facts.state == "open"


async def test_an_admin_uses_and_deletes_the_sessions_of_others() -> None:
    """`admin` has every role over everybody's objects; callers do not erase their own trail."""
    async with serving(TOOL) as runtime:
        theirs = await new_session(runtime, ALICE)
        called = {"session_id": theirs, "name": "add", "arguments": {"a": 1, "b": 2}}
        assert (await runtime.ask("tools.call", called, ADMIN)).value == 3
        for who in (ALICE, BOB):
            refused = await refusal(runtime, "session.delete", {"session_id": theirs}, who)
            assert refused.kind == "forbidden"
        await runtime.ask("session.delete", {"session_id": theirs}, ADMIN)
        gone = await refusal(runtime, "session.get", {"session_id": theirs}, ALICE)

    assert gone.kind == "not_found"


async def test_a_fork_belongs_to_who_made_it() -> None:
    """A fork of one's own session is one's own; nobody else sees it."""
    async with serving(TOOL) as runtime:
        own = await new_session(runtime, ALICE)
        fork = await runtime.ask("session.fork", {"session_id": own}, ALICE)
        refused = await refusal(runtime, "session.get", {"session_id": fork.session_id}, BOB)

    assert (fork.owner, refused.kind) == ("alice", "not_found")


async def test_a_chosen_id_says_nothing_about_the_sessions_of_others() -> None:
    """Two callers never compete for one id: an id outside of one's own namespace is refused before
    the store is looked at, taken or free.
    """
    async with serving(TOOL) as runtime:
        taken = await new_session(runtime, ALICE, session_id="alice:work")
        await new_session(runtime, OWNER, session_id="shared")
        answers = [
            await refusal(runtime, "session.create", {"session_id": session_id}, BOB)
            for session_id in (taken, "alice:free", "shared", "free", "bob:", "bob:a:b")
        ]
        forked = await refusal(
            runtime,
            "session.fork",
            {"session_id": await new_session(runtime, BOB), "new_session_id": taken},
            BOB,
        )
        again = await refusal(runtime, "session.create", {"session_id": taken}, ALICE)

    assert {(each.kind, each.message) for each in [*answers, forked]} == {
        (
            "invalid",
            "a session id that you choose begins with 'bob:' and has no other colon; or leave "
            "session_id out",
        )
    }
    assert again.kind == "conflict"


def test_a_name_that_is_no_id_has_a_namespace_too() -> None:
    """Names of other alphabets and with colons get a digest: no two share a namespace."""
    names = ["a", "a:b", "ada@example.com", "Zoë", "x" * 65]
    spaces = [namespace_of(name) for name in names]

    assert len(set(spaces)) == len(names)
    assert spaces[0] == "a"
    assert not any(":" in space for space in spaces)


def test_nobody_else_has_the_name_of_the_process() -> None:
    """The owner's objects are the process's own: nobody without `admin` has its name."""
    for name in ("owner", "local"):
        with pytest.raises(UsageError, match="the process itself"):
            Principal(name, frozenset({"caller", "approver", "auditor"}))
    with pytest.raises(UsageError, match="needs a name"):
        Principal("", frozenset({"caller"}))


async def test_idempotency_keys_are_each_principals_own() -> None:
    """One key of two principals is two keys: neither gets the other's answer."""
    async with serving(TOOL) as runtime:
        keyed = {"idempotency_key": "k"}
        first = await runtime.ask("session.create", keyed, ALICE)
        other = await runtime.ask("session.create", keyed, BOB)
        again = await runtime.ask("session.create", keyed, ALICE)

    assert first.session_id == again.session_id != other.session_id
    assert (first.owner, other.owner) == ("alice", "bob")


ROOTS = ("/srv/work",)


@pytest.mark.parametrize(
    "cwd", ["/etc", "../../..", "/srv/work/../../etc", "/srv/workshop", "/", "relative"]
)
async def test_a_caller_does_not_choose_the_directory(cwd: str) -> None:
    """Finding 17: tools take their root from the session, so only the host says where it may be."""
    for roots in ((), ROOTS):
        choices = CallerChoices(roots=roots)
        async with serving(TOOL, callers_choose=choices, cwd="/srv/other") as runtime:
            refused = await refusal(runtime, "session.create", {"cwd": cwd}, ALICE)

        assert refused.kind == "forbidden"
        assert "--allow-cwd" in refused.message


async def test_the_host_lets_callers_choose_within_its_roots(tmp_path: Path) -> None:
    """Finding 17: within a root, by where the directory really is: a link out of it is refused."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    (root / "inner").mkdir(parents=True)
    outside.mkdir()
    (root / "link").symlink_to(outside)
    choices = CallerChoices(roots=[str(root)])
    async with serving(TOOL, callers_choose=choices, cwd=str(tmp_path)) as runtime:
        made = await runtime.ask("session.create", {"cwd": str(root / "inner")}, ALICE)
        relative = await runtime.ask("session.create", {"cwd": "root/inner"}, ALICE)
        default = await runtime.ask("session.create", {}, ALICE)
        escaped = await refusal(runtime, "session.create", {"cwd": str(root / "link")}, ALICE)
        admins = await runtime.ask("session.create", {"cwd": str(outside)}, ADMIN)

    assert made.cwd == relative.cwd == str((root / "inner").resolve())
    assert default.cwd == str(tmp_path)
    assert escaped.kind == "forbidden"
    assert admins.cwd == str(outside)
    with pytest.raises(UsageError, match="absolute"):
        CallerChoices(roots=["here"])


LOADERS = ("LD_PRELOAD", "PATH", "PYTHONPATH", "BASH_ENV", "NODE_OPTIONS", "ld_library_path")


@pytest.mark.parametrize("operation", ["session.create", "session.resume"])
async def test_a_caller_does_not_choose_the_environment(operation: str) -> None:
    """Finding 17: neither when a session is made nor when it is opened again; a variable that loads
    other code is refused to an admin of a transport too, unless the host has named it.
    """
    async with serving(TOOL, callers_choose=CallerChoices(variables=["LANG"])) as runtime:
        own = await new_session(runtime, ALICE)
        base: Json = {"session_id": own} if operation == "session.resume" else {}
        for name in (*LOADERS, "ANYTHING"):
            params = {**base, "environment": {"LANG": "C", name: "x"}}
            assert (await refusal(runtime, operation, params, ALICE)).kind == "forbidden"
        for name in LOADERS:
            params = {"environment": {name: "x"}}
            refused = await refusal(runtime, "session.create", params, ADMIN)
            assert (refused.kind, "--allow-env" in refused.message) == ("forbidden", True)
        await runtime.ask(operation, {**base, "environment": {"LANG": "C"}}, ALICE)
        await runtime.ask("session.create", {"environment": {"ANYTHING": "x"}}, ADMIN)
        await runtime.ask("session.create", {"environment": {"PATH": "/bin"}}, OWNER)
    async with serving(TOOL, callers_choose=CallerChoices(variables=LOADERS)) as runtime:
        await runtime.ask("session.create", {"environment": {"PATH": "/bin"}}, ALICE)


async def test_a_running_call_of_another_is_not_cancelled() -> None:
    """Finding 9: neither by its session nor by its id."""
    gate = Gate()
    async with serving(host_tool("gate", gate)) as runtime:
        theirs = await new_session(runtime, ALICE)
        asked = {"session_id": theirs, "name": "gate", "call_id": "c1"}
        calling = asyncio.create_task(runtime.ask("tools.call", asked, ALICE))
        await gate.is_entered.wait()
        refused = await refusal(
            runtime, "tools.cancel", {"session_id": theirs, "call_id": "c1"}, BOB
        )
        closed = await refusal(runtime, "session.close", {"session_id": theirs}, BOB)
        gate.is_open.set()
        result = await calling

    assert (refused.kind, closed.kind) == ("not_found", "not_found")
    assert (result.value, gate.was_cancelled) == ("through", False)


async def test_every_record_names_who_asked(tmp_path: Path) -> None:
    """Newcomers 8: the opening of a session, the start and the end of a call, the request and the
    decision all name the principal.
    """
    member = replace(ALICE, groups=frozenset({"ops", "dev"}))
    careful = host_tool("careful", add, requires_approval=True)
    with SqliteStore(tmp_path / "ledger.db") as store:
        async with serving(careful, store=store) as runtime:
            own = await new_session(runtime, member)
            asked: Json = {"session_id": own, "name": "careful", "call_id": "c1"}
            asked["arguments"] = {"a": 1, "b": 2}
            waiting = await runtime.ask("tools.call", asked, member)
            decision = {"approval_id": waiting.approval_id, "decision": "approve"}
            await runtime.ask("approvals.decide", decision, ADMIN)
            await runtime.ask("tools.call", asked, member)
            told = await runtime.ask("events.list", {"session_id": own}, member)

    by_kind = {each["kind"]: each["data"] for each in told.events}
    caller = by_kind["approval.requested"]["request"]["caller"]
    assert (caller["principal"], sorted(caller["groups"])) == ("alice", ["dev", "ops"])
    for kind in ("session.opened", "approval.decided", "call.started", "tool.invoked"):
        assert by_kind[kind]["principal"] == "alice", kind
    assert by_kind["call.started"]["groups"] == ["dev", "ops"]
    assert by_kind["approval.decided"]["decided"]["actor"]["name"] == "root"
