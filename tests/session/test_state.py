"""A session as a state: what it holds, what is refused, and that it never makes a session laxer."""

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic_core import from_json, to_json

from tests.session.samples import add_up, executor
from toolcrib import (
    Approve,
    Executor,
    MemoryStore,
    NewGrant,
    Session,
    SqliteStore,
    ToolInvoked,
    tool,
)
from toolcrib.errors import InvalidState, UsageError
from toolcrib.ledger.events import SessionRestored
from toolcrib.session.state import STATE_VERSION, ResumableState

KEY = b"a key that only the host knows"


async def waiting_session() -> Session:
    """A session with a finished call and one that waits."""
    session = Session("s", need_user_approve_tools=["shell"])
    calls = executor(session)
    with calls.turn():
        await calls.call("add", {"a": 1, "b": 2})
        await calls.call("erase", {"path": "/a"})
    return session


class TestRoundTrip:
    async def test_a_session_goes_on_from_its_state(self) -> None:
        """T45, T46, T49: ledger, turn, list and what waits are the same in another process."""
        session = await waiting_session()
        state = ResumableState.from_json(session.export_state().to_json())

        restored = Session().with_state(state)

        assert restored.session_id == "s"
        assert restored.turn == 1
        assert restored.need_user_approve_tools == ["shell"]
        assert [request.tool.name for request in restored.approvals.pending()] == ["erase"]
        restored.verify(session.head())

    async def test_a_waiting_call_runs_in_the_restored_session(self) -> None:
        """T49: what was asked in one process can be answered and run in another."""
        state = (await waiting_session()).export_state()
        restored = Session().with_state(state)
        (request,) = restored.approvals.pending()
        await restored.approvals.decide(request.approval_id, Approve(), by="ann")

        (outcome,) = await executor(restored).resume()

        assert outcome.value == "erased /a"

    async def test_the_ledger_says_that_the_session_was_restored(self) -> None:
        """R46: that a session moved, and from where on, is on record."""
        session = await waiting_session()
        head = session.head()
        assert head is not None

        restored = Session().with_state(session.export_state())

        last = list(restored.records())[-1].event
        assert isinstance(last, SessionRestored)
        assert (last.session_id, last.head) == ("s", head.hash)

    async def test_call_ids_go_on_where_they_ended(self) -> None:
        """A restored session does not give an id twice."""
        session = await waiting_session()
        before = {record.call_id for record in session.records()}
        restored = Session().with_state(session.export_state())

        outcome = await executor(restored).call("add", {"a": 1, "b": 2})

        assert outcome.call_id not in before

    async def test_reducers_see_the_restored_past(self) -> None:
        """A reducer that was there before the state is folded over what the state brings."""
        session = await waiting_session()
        restored = Session()
        restored.add_reducer("ended", ToolInvoked, lambda count, _: count + 1, 0)

        restored.with_state(session.export_state())

        assert restored.state("ended") == 1

    async def test_grants_of_the_session_come_along(self) -> None:
        """T49: a standing yes for this session holds in the restored one."""
        session = await waiting_session()
        (request,) = session.approvals.pending()
        await session.approvals.decide(
            request.approval_id, Approve(), by="ann", grant=NewGrant("session")
        )

        restored = Session().with_state(session.export_state())

        assert restored.approvals.grants() == session.approvals.grants()
        assert len(restored.approvals.grants()) == 1

    async def test_other_sessions_of_the_store_stay_behind(self) -> None:
        """A state holds one session, also when others share its store."""
        store = MemoryStore()
        for name in ("mine", "other"):
            await executor(Session(name, store=store)).call("erase", {"path": name})
        mine = Session("third", store=store)
        await executor(mine).call("erase", {"path": "/a"})

        state = mine.export_state()

        assert {filed.request.session_id for filed in state.approvals} == {"third"}
        assert len(state.open_calls) == 1

    def test_no_state_changes_nothing(self) -> None:
        """T47: `with_state(None)` is the session itself, as it was."""
        session = Session("s")

        assert session.with_state(None) is session
        assert [record.kind for record in session.records()] == ["session.opened"]

    def test_the_hosts_list_is_kept(self) -> None:
        """T48: a state can make a session stricter and never laxer."""
        state = Session("s", need_user_approve_tools=["shell"]).export_state()

        restored = Session(need_user_approve_tools=["edit"]).with_state(state)

        assert restored.need_user_approve_tools == ["shell", "edit"]

    async def test_an_edited_call_in_doubt_can_be_restored(self) -> None:
        """A call that was edited, and then lost with its process, is not what was asked about,
        and is asked about again.
        """
        state = (await waiting_session()).export_state()
        (call,) = state.open_calls
        lost = replace(call, state="in_doubt", was_edited=True, digest="0" * 64, attempt=1)

        restored = Session().with_state(replace(state, open_calls=(lost,)))

        assert [call.call_id for call in restored.in_doubt()] == [lost.call_id]


class TestRefusals:
    @pytest.mark.parametrize(
        "data",
        [b"", b"{", b"[]", b"{}", b'{"session_id": 5}', b'{"session_id": "s", "turn": "x"}'],
    )
    def test_what_is_no_state_is_refused(self, data: bytes) -> None:
        """Nonsense is refused with the place of the first fault, and without its contents."""
        with pytest.raises(InvalidState, match="not a resumable state"):
            ResumableState.from_json(data)

    def test_the_fault_is_named_by_its_place(self) -> None:
        """The message points into the state and repeats nothing of it: it may hold secrets."""
        data = to_json({"session_id": "s", "open_calls": [{"call_id": "tok-1234567890"}]})

        with pytest.raises(InvalidState) as raised:
            ResumableState.from_json(data)

        assert "/open_calls/0/" in str(raised.value)
        assert "tok-" not in str(raised.value)

    def test_another_version_is_refused(self) -> None:
        """A state of another version is not guessed at."""
        data = from_json(Session("s").export_state().to_json())
        data["version"] = STATE_VERSION + 1

        with pytest.raises(InvalidState, match=f"version {STATE_VERSION + 1}"):
            ResumableState.from_json(to_json(data))

    async def test_a_changed_ledger_is_refused(self) -> None:
        """R46: a state whose records were edited does not become a session."""
        state = (await waiting_session()).export_state()
        records = list(state.records)
        records[1] = replace(records[1], payload=b'{"turn":7}')

        with pytest.raises(InvalidState, match="broken"):
            Session().with_state(replace(state, records=tuple(records)))

    async def test_a_ledger_with_a_gap_is_refused(self) -> None:
        """R46: a record taken out is found."""
        state = (await waiting_session()).export_state()

        with pytest.raises(InvalidState, match="broken"):
            Session().with_state(replace(state, records=state.records[:1] + state.records[2:]))

    async def test_a_ledger_of_another_session_is_refused(self) -> None:
        """A state cannot pass one session's past for another's."""
        state = (await waiting_session()).export_state()

        with pytest.raises(InvalidState, match="another session"):
            Session().with_state(replace(state, session_id="other"))

    @pytest.mark.parametrize("session_id", ["", "a/b", "a b"])
    def test_what_is_not_a_session_id_is_refused(self, session_id: str) -> None:
        """A state gives a session no id that nobody could open one under."""
        state = replace(Session("a").export_state(), session_id=session_id, records=())

        with pytest.raises(InvalidState, match="not a session id"):
            Session().with_state(state)

    async def test_another_call_under_an_approval_is_refused(self) -> None:
        """T44: an approval is about one call; a state cannot put another in its place."""
        state = (await waiting_session()).export_state()
        (call,) = state.open_calls
        forged = replace(call, digest="0" * 64)
        changes = [forged, replace(forged, was_edited=True), replace(forged, state="in_doubt")]

        for changed in changes:
            with pytest.raises(InvalidState, match="not the one its approval is about"):
                Session().with_state(replace(state, open_calls=(changed,)))

    async def test_a_refused_state_changes_nothing(self) -> None:
        """A session that refused a state goes on as it was."""
        state = (await waiting_session()).export_state()
        session = Session("mine")

        with pytest.raises(InvalidState):
            session.with_state(replace(state, session_id="other"))

        await add_up(session)
        assert session.session_id == "mine"
        assert len(session.transcript()) == 1

    @pytest.mark.parametrize("call_id", [None, "c1"])
    async def test_only_a_fresh_session_takes_a_state(self, call_id: str | None) -> None:
        """A session that has made calls, under whatever ids, would lose them."""
        state = (await waiting_session()).export_state()
        session = Session("mine")
        await executor(session).call("add", {"a": 1, "b": 2}, call_id=call_id)

        with pytest.raises(InvalidState, match="only a fresh session"):
            session.with_state(state)

        assert len(session.transcript()) == 1

    async def test_a_session_in_a_store_takes_no_state(self, sqlite_path: Path) -> None:
        """What a store keeps is opened from the store; a state would be a second truth."""
        state = Session("s").export_state()
        store = SqliteStore(sqlite_path)

        async with await Session.open(store, "mine") as session:
            with pytest.raises(InvalidState, match=r"Session\.open"):
                session.with_state(state)
        store.close()

    async def test_a_state_is_not_exported_in_the_middle_of_a_call(self) -> None:
        """T49: a running call cannot be part of a state, so it is not silently left out."""
        session = Session()

        @tool
        async def export() -> str:
            """Export the session that this call is part of."""
            session.export_state()
            return "exported"

        outcome = await Executor(session, [export]).call("export", call_id="c1")

        assert isinstance(outcome.error, UsageError)
        assert "calls are running: c1" in str(outcome.error)


class TestSignature:
    async def test_a_signed_state_is_taken_with_its_key(self) -> None:
        """A host that hands states to others gets back what it gave, or nothing."""
        state = (await waiting_session()).export_state(key=KEY)
        travelled = ResumableState.from_json(state.to_json())

        assert Session().with_state(travelled, key=KEY).session_id == "s"

    @pytest.mark.parametrize("key", [b"another key", b""])
    async def test_another_key_is_refused(self, key: bytes) -> None:
        """A state signed by somebody else is not taken."""
        state = (await waiting_session()).export_state(key=KEY)

        with pytest.raises(InvalidState, match="signed with another key"):
            Session().with_state(state, key=key)

    @pytest.mark.parametrize("signature", ["", "0" * 64, "é", "nonsense"])
    async def test_without_a_sound_signature_it_is_refused(self, signature: str) -> None:
        """Nothing but the right signature will do, and a strange one is not a crash."""
        state = replace((await waiting_session()).export_state(), signature=signature)

        with pytest.raises(InvalidState, match="was changed"):
            Session().with_state(state, key=KEY)

    async def test_a_changed_state_is_refused(self) -> None:
        """Every part of the state is under the signature."""
        state = (await waiting_session()).export_state(key=KEY)
        (call,) = state.open_calls
        changes = [
            replace(state, need_user_approve_tools=()),
            replace(state, turn=7),
            replace(state, calls_made=0),
            replace(state, records=state.records[:-1]),
            replace(state, open_calls=(replace(call, arguments=b'{"path":"/b"}'),)),
            replace(state, approvals=()),
        ]

        for changed in changes:
            with pytest.raises(InvalidState, match="was changed"):
                Session().with_state(changed, key=KEY)


async def test_a_restored_session_still_has_its_artifacts() -> None:
    """T49: a result that was cut for the model can be paged through after a restore."""

    @tool(max_result_chars=5)
    async def long() -> str:
        """Say much."""
        return "0123456789"

    session = Session()
    outcome = await Executor(session, [long]).call("long")
    assert outcome.artifact_id is not None
    restored = Session().with_state(ResumableState.from_json(session.export_state().to_json()))

    assert restored.artifacts.read(outcome.artifact_id).text == "0123456789"
