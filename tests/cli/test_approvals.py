"""`toolcrib approvals` and `toolcrib grants`: deciding from the command line."""

import getpass
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.store.facts import grant, request, write
from toolcrib.approval.caller import Caller
from toolcrib.approval.decision import Actor, Approve, Decided, Deny, Expire
from toolcrib.cli.app import app
from toolcrib.ledger.events import GrantChanged
from toolcrib.ledger.record import events
from toolcrib.store import SqliteStore
from toolcrib.store.store import ApprovalFiled

ANN = Caller("ann", "http", is_model=True, groups=frozenset({"desk"}))
PARAMETERS = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}


@pytest.fixture
def crib(sqlite_path: Path) -> Path:
    """A store in which requests a1 and a3 wait; a2 is too late to decide."""
    waiting = replace(request("a1"), parameters=PARAMETERS, caller=ANN)
    late = replace(request("a2"), deadline=2.0)
    other = request("a3")
    filed = [ApprovalFiled(each) for each in (waiting, late, other)]
    with SqliteStore(sqlite_path) as store:
        write(store, store.acquire("s"), 1, filed)
        store.add_grant(grant("g1", 2))
        store.add_grant(grant("g2", expires_at=2.0))
    return sqlite_path


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def decided(path: Path, approval_id: str = "a1") -> Decided | None:
    with SqliteStore(path) as store:
        filed = store.approval(approval_id)
    assert filed is not None
    return filed.decided


def revocations(path: Path, session_id: str) -> list[tuple[str, Actor]]:
    with SqliteStore(path) as store:
        found = list(events(store.records(session_id)))
    changes = [each for each in found if isinstance(each, GrantChanged)]
    return [(each.grant_id, each.actor) for each in changes if each.change == "revoked"]


class TestReading:
    def test_what_waits_is_listed(self, crib: Path) -> None:
        """One line a request, oldest first; with --all decided ones too."""
        invoke("approvals", "deny", "a1", "--store", crib)

        waiting = invoke("approvals", "list", "--store", crib).stdout.splitlines()
        everything = invoke("approvals", "list", "--store", crib, "--all").stdout.splitlines()
        elsewhere = invoke("approvals", "list", "--store", crib, "--session", "t").stdout

        assert [line.split()[0] for line in waiting] == ["a3"]
        assert [line.split()[:2] for line in everything] == [
            ["a1", "denied"],
            ["a2", "expired"],
            ["a3", "pending"],
        ]
        assert elsewhere == ""

    def test_a_list_as_json(self, crib: Path) -> None:
        """A program gets the whole requests."""
        listed = json.loads(invoke("approvals", "list", "--store", crib, "--json").stdout)

        assert [each["approval_id"] for each in listed] == ["a1", "a3"]

    def test_a_request_is_shown_with_its_decision(self, crib: Path) -> None:
        """Who decided what, and what it was about."""
        invoke("approvals", "approve", "a1", "--store", crib, "--by", "ada")

        done = invoke("approvals", "show", "a1", "--store", crib)

        assert 'arguments: {"path":"a"}' in done.stdout
        assert "approve by ada" in done.stdout
        shown = json.loads(invoke("approvals", "show", "a1", "--store", crib, "--json").stdout)
        assert (shown["state"], shown["decision"]) == ("decided", "approve")

    def test_what_changed_in_the_tool_is_shown(self, sqlite_path: Path) -> None:
        """Whoever decides again sees why: a line for each change."""
        changes = ("version: 1.0.0 -> 1.1.0", "sandbox: on -> off")
        asked = replace(request("a1"), changes=changes, supersedes="a0")
        with SqliteStore(sqlite_path) as store:
            write(store, store.acquire("s"), 1, [ApprovalFiled(asked)])

        shown = invoke("approvals", "show", "a1", "--store", sqlite_path).stdout

        assert [line.split(maxsplit=1)[1] for line in shown.splitlines() if "changed:" in line] == [
            *changes
        ]

    def test_an_unknown_request_fails(self, crib: Path) -> None:
        """A mistyped request is an error on stderr."""
        for command in ("show", "approve", "deny"):
            done = invoke("approvals", command, "a9", "--store", crib)

            assert (done.exit_code, done.stdout) == (1, "")
            assert "there is no approval request 'a9'" in done.stderr
            assert "toolcrib approvals list" in done.stderr


class TestDeciding:
    def test_an_approval_names_the_person(self, crib: Path) -> None:
        """Without --by the decision is the OS user's."""
        done = invoke("approvals", "approve", "a1", "--store", crib)

        assert (done.exit_code, done.stdout) == (0, "")
        kept = decided(crib)
        assert kept is not None
        assert (kept.decision, kept.actor) == (Approve(), Actor("person", getpass.getuser()))

    def test_arguments_can_be_edited(self, crib: Path) -> None:
        """An approval may change the arguments, within the tool's schema."""
        edited = ["--edit", '{"path": "b"}']

        assert invoke("approvals", "approve", "a1", "--store", crib, *edited).exit_code == 0

        kept = decided(crib)
        assert kept is not None
        assert kept.decision == Approve({"path": "b"})

    @pytest.mark.parametrize(("arguments", "status"), [('{"path": 1}', 1), ("[1]", 2), ("{", 2)])
    def test_bad_edits_leave_the_request_waiting(
        self, crib: Path, arguments: str, status: int
    ) -> None:
        """Arguments that do not fit decide nothing."""
        done = invoke("approvals", "approve", "a1", "--store", crib, "--edit", arguments)

        assert done.exit_code == status
        assert decided(crib) is None

    def test_a_denial_gives_its_reason(self, crib: Path) -> None:
        """The model reads why."""
        done = invoke("approvals", "deny", "a1", "--store", crib, "--reason", "no", "--by", "bob")

        assert done.exit_code == 0
        kept = decided(crib)
        assert kept is not None
        assert (kept.decision, kept.actor) == (Deny("no"), Actor("person", "bob"))

    def test_a_decision_is_final(self, crib: Path) -> None:
        """The second decider is told that it is too late."""
        invoke("approvals", "deny", "a1", "--store", crib)

        done = invoke("approvals", "approve", "a1", "--store", crib)

        assert done.exit_code == 1
        assert "is decided already" in done.stderr
        kept = decided(crib)
        assert kept is not None
        assert isinstance(kept.decision, Deny)

    def test_an_expired_request_cannot_be_approved(self, crib: Path) -> None:
        """R42: after its deadline a request is nobody's to approve."""
        done = invoke("approvals", "approve", "a2", "--store", crib)

        assert done.exit_code == 1
        assert "expired" in done.stderr
        late = decided(crib, "a2")
        assert late is not None
        assert late.decision == Expire()


class TestGrants:
    def test_live_grants_are_listed(self, crib: Path) -> None:
        """Dead grants are shown only on demand."""
        live = invoke("grants", "list", "--store", crib).stdout.splitlines()
        everything = invoke("grants", "list", "--store", crib, "--all", "--json").stdout

        assert live == ["g1\tlive\tlocal/read_file\teveryone\t2 uses\tada\tany"]
        assert [each["grant_id"] for each in json.loads(everything)] == ["g1", "g2"]

    def test_a_grant_is_revoked_once(self, crib: Path) -> None:
        """Revoking works at once, and a second time says that there is nothing to revoke."""
        assert invoke("grants", "revoke", "g1", "--store", crib).exit_code == 0

        again = invoke("grants", "revoke", "g1", "--store", crib)

        assert again.exit_code == 1
        assert "there is no live grant 'g1'" in again.stderr
        assert invoke("grants", "list", "--store", crib).stdout == ""

    def test_a_revocation_has_a_name(self, crib: Path) -> None:
        """R46: who took back a grant for all sessions is in the operator's own ledger."""
        invoke("grants", "revoke", "g1", "--store", crib, "--by", "bob")

        assert revocations(crib, "operator") == [("g1", Actor("person", "bob"))]

    def test_a_revocation_is_in_the_ledger_of_the_grants_session(self, crib: Path) -> None:
        """R46: there it is looked for; in the operator's while another process writes that."""
        with SqliteStore(crib) as store:
            store.add_grant(replace(grant("g3"), scope="session", session_id="s"))
            store.add_grant(replace(grant("g4"), scope="session", session_id="busy"))
            write(store, store.acquire("busy"), 1, [])
            store.release(store.acquire("s"))

            for each in ("g3", "g4"):
                assert invoke("grants", "revoke", each, "--store", crib).exit_code == 0

        me = Actor("person", getpass.getuser())
        assert revocations(crib, "s") == [("g3", me)]
        assert revocations(crib, "operator") == [("g4", me)]
