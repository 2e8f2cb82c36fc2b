"""`toolcrib audit` and `toolcrib sessions`: what an operator can prove and read."""

import json
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.cli.command import MAIN
from tests.helpers.child_process import child_process
from tests.store.facts import delete_payloads, open_call, request, write
from toolcrib.cli.app import app
from toolcrib.store import SqliteStore
from toolcrib.store.anchors import AnchorFile, AnchorKey, Anchors
from toolcrib.store.store import ApprovalFiled, CallOpened


@pytest.fixture
def crib(sqlite_path: Path) -> Path:
    """A store with sessions `one` (5 records) and `two` (3 records)."""
    with SqliteStore(sqlite_path) as store:
        write(store, store.acquire("one"), 5)
        secret = open_call("c1", b'{"token":"hush"}', has_secrets=True)
        effects = [CallOpened(secret), ApprovalFiled(request("a1", "two"))]
        write(store, store.acquire("two"), 3, effects)
    return sqlite_path


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(each) for each in arguments])


def edit(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


class TestHead:
    def test_a_head_as_json(self, crib: Path) -> None:
        """The same for a program."""
        told = json.loads(
            invoke("audit", "head", "--store", crib, "--session", "one", "--json").stdout
        )

        assert (told["session_id"], told["seq"]) == ("one", 5)

    def test_a_verdict_as_json(self, crib: Path) -> None:
        """What is whole has a head, what is not has a fault; the status is as without --json."""
        edit(crib, "UPDATE records SET kind = 'tool.invoked' WHERE session_id = 'two' AND seq = 2")

        done = invoke("audit", "verify", "--store", crib, "--json")

        one, two = json.loads(done.stdout)
        assert (done.exit_code, one["fault"], one["head"]["seq"]) == (1, None, 5)
        assert (two["session_id"], two["head"]) == ("two", None)
        assert two["fault"]

    def test_a_head_is_one_line(self, crib: Path) -> None:
        """The head is printed as `session seq hash`, ready to be kept."""
        done = invoke("audit", "head", "--store", crib, "--session", "one")

        assert done.exit_code == 0
        session, seq, digest = done.stdout.split()
        assert (session, seq, len(digest)) == ("one", "5", 64)

    def test_an_unknown_session_fails(self, crib: Path) -> None:
        """A mistyped session is an error on stderr."""
        done = invoke("audit", "head", "--store", crib, "--session", "three")

        assert (done.exit_code, done.stdout) == (1, "")
        assert "there is no session 'three'" in done.stderr

    def test_an_empty_ledger_has_nothing_to_keep(self, crib: Path) -> None:
        """A session without records has no head."""
        with SqliteStore(crib) as store:
            store.acquire("empty")

        done = invoke("audit", "head", "--store", crib, "--session", "empty")

        assert (done.exit_code, done.stdout) == (1, "")

    def test_a_missing_file_is_not_created(self, tmp_path: Path) -> None:
        """Looking at nothing leaves nothing behind."""
        missing = tmp_path / "missing.sqlite3"

        done = invoke("audit", "head", "--store", missing, "--session", "one")

        assert done.exit_code == 1
        assert "there is no store at" in done.stderr
        assert not missing.exists()


class TestVerify:
    def test_whole_ledgers_pass(self, crib: Path) -> None:
        """R46: every session is checked, and its head is printed."""
        done = invoke("audit", "verify", "--store", crib)

        counts = "2 sessions, 8 records, 0 deleted payloads, 0 artifacts, 0 faults"
        assert (done.exit_code, done.stderr) == (0, f"checked: {counts}\n")
        assert [line.split()[:2] for line in done.stdout.splitlines()] == [
            ["one", "5"],
            ["two", "3"],
        ]

    def test_one_session_can_be_checked(self, crib: Path) -> None:
        """A broken neighbour does not matter when one session is asked about."""
        edit(crib, "UPDATE records SET kind = 'x' WHERE session_id = 'two'")

        assert invoke("audit", "verify", "--store", crib, "--session", "one").exit_code == 0
        assert invoke("audit", "verify", "--store", crib, "--session", "two").exit_code == 1

    def test_an_edit_is_named(self, crib: Path) -> None:
        """R46: status 1, with the session and the record that is wrong; the others still pass."""
        edit(crib, "UPDATE records SET call_id = 'x' WHERE session_id = 'one' AND seq = 4")

        done = invoke("audit", "verify", "--store", crib)

        assert done.exit_code == 1
        assert done.stderr.startswith("one: record 4 was changed\nchecked: 2 sessions")
        assert done.stdout.startswith("two 3 ")

    @pytest.mark.parametrize("which", ["seq = 4", "seq > 0"])
    def test_a_payload_that_was_taken_away_is_named(self, crib: Path, which: str) -> None:
        """Security 8: a record without its payload fails, also against a kept head, unless a
        deletion is on record.
        """
        head = invoke("audit", "head", "--store", crib, "--session", "one").stdout.strip()
        ids = f"SELECT id FROM records WHERE session_id = 'one' AND {which}"
        edit(crib, f"DELETE FROM payloads WHERE id IN ({ids})")

        for extra in ((), ("--head", head)):
            done = invoke("audit", "verify", "--store", crib, *extra)

            assert done.exit_code == 1
            assert "one: the payload of record" in done.stderr
            assert "of session 'one' is missing" in done.stderr

    def test_deleted_payloads_are_counted(self, crib: Path) -> None:
        """Security 8: what was deleted on record is whole, and the auditor sees how much it was."""
        with SqliteStore(crib) as store:
            delete_payloads(store, store.acquire("one"))

        done = invoke("audit", "verify", "--store", crib)

        assert done.exit_code == 0
        assert "9 records, 5 deleted payloads" in done.stderr

    def test_a_cut_end_is_found_without_a_kept_head(self, crib: Path) -> None:
        """The session's own row says how long its ledger was."""
        edit(crib, "DELETE FROM records WHERE session_id = 'one' AND seq > 3")

        done = invoke("audit", "verify", "--store", crib, "--session", "one")

        assert done.exit_code == 1
        assert "record 5 once existed" in done.stderr

    def test_a_kept_head_finds_a_ledger_that_was_cut_everywhere(self, crib: Path) -> None:
        """R46: who cuts the ledger and its session's row is found by a head kept elsewhere."""
        kept = invoke("audit", "head", "--store", crib, "--session", "one").stdout
        edit(crib, "DELETE FROM records WHERE session_id = 'one' AND seq > 3")
        edit(
            crib,
            "UPDATE sessions SET head_seq = 3, head_hash = (SELECT hash FROM records WHERE"
            " session_id = 'one' AND seq = 3) WHERE session_id = 'one'",
        )
        # The index of calls still tells of what was cut.
        assert invoke("audit", "verify", "--store", crib).exit_code == 1
        edit(crib, "DELETE FROM calls WHERE id NOT IN (SELECT id FROM records)")

        assert invoke("audit", "verify", "--store", crib).exit_code == 0
        done = invoke("audit", "verify", "--store", crib, "--head", kept)

        assert done.exit_code == 1
        assert "its tail was cut off" in done.stderr

    def test_heads_are_read_from_a_file(self, crib: Path, tmp_path: Path) -> None:
        """R46: a file of heads proves that the sessions they are of still exist, whole."""
        heads = tmp_path / "heads.txt"
        lines = [
            invoke("audit", "head", "--store", crib, "--session", session).stdout
            for session in ("one", "two")
        ]
        heads.write_text("".join(lines))
        assert invoke("audit", "verify", "--store", crib, "--head-file", heads).exit_code == 0
        with SqliteStore(crib) as store:
            store.delete_session("two")

        done = invoke("audit", "verify", "--store", crib, "--head-file", heads)

        assert done.exit_code == 1
        assert "two: this session is not in the store" in done.stderr

    def test_a_mangled_head_fails(self, crib: Path) -> None:
        """What is no head proves nothing."""
        done = invoke("audit", "verify", "--store", crib, "--head", "one 5")

        assert done.exit_code == 1
        assert "not a ledger head" in done.stderr

    def test_a_damaged_file_fails(self, crib: Path) -> None:
        """A file that cannot be read is no proof of anything."""
        data = crib.read_bytes()
        crib.write_bytes(data[: len(data) // 2])

        assert invoke("audit", "verify", "--store", crib).exit_code == 1


class TestAnchors:
    """What was anchored and signed cannot be undone unnoticed."""

    @pytest.fixture
    def anchors(self, crib: Path, tmp_path: Path) -> Path:
        """A file of one anchor of every session, signed with `key`."""
        assert invoke("audit", "keygen", tmp_path / "key").exit_code == 0
        with SqliteStore(crib) as store:
            file = AnchorFile(tmp_path / "anchors")
            Anchors(store, file, AnchorKey.load(tmp_path / "key"), lambda: 1.0).send_changes()
        return tmp_path / "anchors"

    def verify(self, crib: Path, anchors: Path) -> Result:
        key = anchors.parent / "key.pub"
        return invoke("audit", "verify", "--store", crib, "--anchors", anchors, "--public-key", key)

    def test_what_goes_on_from_an_anchor_is_whole(self, crib: Path, anchors: Path) -> None:
        """New records, sessions and deletions on record are no fault."""
        with SqliteStore(crib) as store:
            write(store, store.acquire("one"), 2)
            write(store, store.acquire("new"), 1)

        assert self.verify(crib, anchors).exit_code == 0

    def test_a_dropped_session_is_found(self, crib: Path, anchors: Path) -> None:
        """Though nothing in the store speaks of it any more."""
        with SqliteStore(crib) as store:
            store.delete_session("two")
        assert invoke("audit", "verify", "--store", crib).exit_code == 0

        done = self.verify(crib, anchors)

        assert done.exit_code == 1
        assert "two: this session is not in the store" in done.stderr

    def test_a_forged_anchor_is_found(self, crib: Path, anchors: Path) -> None:
        """An anchor without the session that was dropped is not signed."""
        with SqliteStore(crib) as store:
            store.delete_session("two")
        (line,) = anchors.read_text().splitlines()
        facts = json.loads(line)
        facts["heads"] = [head for head in facts["heads"] if not head.startswith("two")]
        anchors.write_text(json.dumps(facts) + "\n")

        done = self.verify(crib, anchors)

        assert done.exit_code == 1
        assert "anchor 1 was changed, or signed with another key" in done.stderr

    def test_a_head_is_signed(self, crib: Path, tmp_path: Path) -> None:
        """One session's head as an anchor, for whoever keeps them by hand."""
        invoke("audit", "keygen", tmp_path / "key")
        head = ("audit", "head", "--store", crib, "--session", "one")
        done = invoke(*head, "--sign", tmp_path / "key")
        (tmp_path / "anchors").write_text(done.stdout)

        assert self.verify(crib, tmp_path / "anchors").exit_code == 0
        (tmp_path / "key").chmod(0o644)
        refused = invoke(*head, "--sign", tmp_path / "key")
        assert (refused.exit_code, "chmod 600" in refused.stderr) == (1, True)

    def test_without_the_key_it_is_said_that_nothing_was_checked(
        self, crib: Path, anchors: Path
    ) -> None:
        """An unchecked signature proves nothing."""
        done = invoke("audit", "verify", "--store", crib, "--anchors", anchors)

        assert done.exit_code == 0
        assert "signatures of anchors are not checked" in done.stderr


class TestTail:
    def test_the_last_records_are_printed(self, crib: Path) -> None:
        """One line a record, newest last."""
        done = invoke("audit", "tail", "--store", crib, "--session", "one", "-n", "2")

        assert [line.split()[0] for line in done.stdout.splitlines()] == ["4", "5"]
        assert "call.in_doubt c5" in done.stdout

    def test_records_as_json(self, crib: Path) -> None:
        """With --json a program reads the same, payload included."""
        done = invoke("audit", "tail", "--store", crib, "--session", "one", "-n", "1", "--json")

        (record,) = json.loads(done.stdout)
        assert (record["seq"], record["kind"], record["call_id"]) == (5, "call.in_doubt", "c5")
        assert record["payload"]["tool"]["name"] == "read_file"

    def test_deleted_payloads_are_said_to_be_deleted(self, crib: Path) -> None:
        """A reader sees that something was there."""
        with SqliteStore(crib) as store:
            delete_payloads(store, store.acquire("one"))

        done = invoke("audit", "tail", "--store", crib, "--session", "one", "-n", "2")

        assert "(payload deleted)" in done.stdout

    @pytest.mark.wire
    def test_what_is_added_follows(self, crib: Path) -> None:
        """With --follow the end stays open; JSON is one record a line; Ctrl-C is status 130."""
        tail = ("audit", "tail", "--store", str(crib), "--session", "one", "-n", "1")
        with child_process([*MAIN, *tail, "--follow", "--json"]) as following:
            assert json.loads(following.stdout.next_line())["seq"] == 5
            with SqliteStore(crib) as store:
                write(store, store.acquire("one"), 2)

            added = [json.loads(following.stdout.next_line())["seq"] for _ in range(2)]

            following.send_signal(signal.SIGINT)
            assert (added, following.wait()) == ([6, 7], 130)


class TestSessions:
    def test_sessions_are_listed(self, crib: Path) -> None:
        """Every session with its state and length."""
        done = invoke("sessions", "list", "--store", crib)

        lines = done.stdout.splitlines()
        assert lines[0].startswith("one\tclosed\t")
        assert lines[0].endswith("\t5\t-")
        assert len(lines) == 2
        assert len(json.loads(invoke("sessions", "list", "--store", crib, "--json").stdout)) == 2

    def test_a_session_is_shown_without_its_secrets(self, crib: Path) -> None:
        """Open calls and pending requests are named; real arguments stay where they are."""
        for flags in ([], ["--json"]):
            done = invoke("sessions", "show", "two", "--store", crib, *flags)

            assert done.exit_code == 0
            assert "c1" in done.stdout
            assert "a1" in done.stdout
            assert "hush" not in done.stdout

    def test_a_session_of_another_process_is_open(self, crib: Path) -> None:
        """Whoever writes it, the store knows that somebody does."""
        with SqliteStore(crib) as store:
            store.acquire("two")

            listed = json.loads(invoke("sessions", "list", "--store", crib, "--json").stdout)

        assert {each["session_id"]: each["state"] for each in listed} == {
            "one": "closed",
            "two": "open",
        }

    def test_a_session_is_exported_whole(self, crib: Path) -> None:
        """One event a line, in order, with its place in the ledger."""
        done = invoke("sessions", "export", "one", "--store", crib)

        told = [json.loads(line) for line in done.stdout.splitlines()]
        assert [each["seq"] for each in told] == [1, 2, 3, 4, 5]
        assert {each["kind"] for each in told} == {"call.in_doubt"}

    def test_a_long_session_is_exported_in_pages(
        self, crib: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """None is lost and none comes twice where a page ends."""
        monkeypatch.setattr("toolcrib.cli.sessions.PAGE", 2)

        done = invoke("sessions", "export", "one", "--store", crib)

        assert [json.loads(line)["seq"] for line in done.stdout.splitlines()] == [1, 2, 3, 4, 5]

    @pytest.mark.parametrize("command", ["show", "export"])
    def test_an_unknown_session_fails(self, crib: Path, command: str) -> None:
        """A mistyped session is an error on stderr."""
        done = invoke("sessions", command, "three", "--store", crib)

        assert (done.exit_code, done.stdout) == (1, "")
        assert "there is no session 'three'" in done.stderr

    @pytest.mark.parametrize(
        "words", [["approvals", "list"], ["grants", "list"], ["sessions", "list"]]
    )
    def test_where_to_look_is_named(
        self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without a store or a server it is wrong use; a store that is not there is not made."""
        monkeypatch.delenv("TOOLCRIB_URL", raising=False)

        nowhere = invoke(*words)
        both = invoke(*words, "--store", "x", "--url", "http://127.0.0.1:1")
        missing = invoke(*words, "--store", tmp_path / "none.sqlite3")

        assert (nowhere.exit_code, both.exit_code, missing.exit_code) == (2, 2, 1)
        assert "--store FILE or --url URL" in nowhere.stderr
        assert not (tmp_path / "none.sqlite3").exists()

    def test_going_on_needs_a_store_and_a_model(self, crib: Path) -> None:
        """What is missing is named."""
        for options in ([], ["--store", crib], ["--adapter", "x"], ["--host-tools-module", "x"]):
            done = invoke("sessions", "resume", "one", *options)

            assert done.exit_code == 2
            assert "--adapter MODULE:NAME" in done.stderr
