"""What every store promises about sessions, leases and ledgers."""

from dataclasses import replace
from typing import Any

import pytest

from tests.store.facts import (
    FakeClock,
    Source,
    at_once,
    chain,
    delete_payloads,
    event,
    grant,
    open_call,
    request,
    write,
)
from toolcrib.errors import LeaseHeld, LeaseLost, LedgerBroken, SessionNotFound, UsageError
from toolcrib.ledger.events import CallInDoubt, SessionOpened, ToolInvoked
from toolcrib.ledger.record import Record, end_of, seal, verify
from toolcrib.store import Store
from toolcrib.store.ledger_writer import entry_of
from toolcrib.store.session_query import SessionQuery
from toolcrib.store.store import (
    PAGE_SIZE,
    ApprovalFiled,
    Artifact,
    ArtifactKept,
    CallClosed,
    CallOpened,
    Commit,
    Effect,
    KeyClaim,
    Lease,
    SettingsKept,
    every,
)


class TestLeases:
    def test_one_writer_at_a_time(self, store: Store) -> None:
        """While a lease is held nobody else gets one."""
        store.acquire("s")

        with pytest.raises(LeaseHeld, match="'s' is already open in this process"):
            store.acquire("s")

    def test_the_fence_grows_with_every_writer(self, store: Store) -> None:
        """A later lease always has the larger fence."""
        first = store.acquire("s")
        store.release(first)
        second = store.acquire("s")

        assert second.fence > first.fence

    def test_racing_for_a_lease_has_one_winner(self, store: Store) -> None:
        """Of several threads that want to write a session, one may."""

        def acquire(_: int) -> bool:
            try:
                store.acquire("s")
            except LeaseHeld:
                return False
            return True

        assert at_once(8, acquire).count(True) == 1

    def test_only_known_sessions_without_create(self, store: Store) -> None:
        """Opening what must exist does not create it."""
        with pytest.raises(SessionNotFound, match="there is no session 's'"):
            store.acquire("s", create=False)

        assert store.sessions().items == ()

    def test_an_old_lease_cannot_commit(self, store: Store) -> None:
        """A writer that was replaced adds nothing, neither records nor effects."""
        old = store.acquire("s")
        store.release(old)
        new = store.acquire("s")

        with pytest.raises(LeaseLost):
            write(store, old, 1, [CallOpened(open_call())])

        assert list(store.records("s")) == []
        assert store.open_calls("s") == []
        write(store, new)

    def test_a_released_lease_cannot_commit(self, store: Store) -> None:
        """Who let go may not write, even when nobody else has taken over."""
        lease = store.acquire("s")
        store.release(lease)

        with pytest.raises(LeaseLost):
            write(store, lease)
        with pytest.raises(LeaseLost):
            store.commit(lease, Commit((), (SettingsKept({}),)))
        with pytest.raises(LeaseLost):
            store.delete_payloads(lease, 1)

    def test_releasing_a_void_lease_does_nothing(self, store: Store) -> None:
        """A late release by an old writer does not take the lease from the new one."""
        old = store.acquire("s")
        store.release(old)
        new = store.acquire("s")

        store.release(old)

        write(store, new)
        assert store.session("s").is_open


class TestSessions:
    def test_a_session_is_listed_with_its_state(self, store: Store, clock: FakeClock) -> None:
        """A listing says when a session began, where its ledger ends and whether it is open."""
        lease = store.acquire("s", settings={"color": "red"})
        write(store, lease, 3)

        (info,) = store.sessions().items
        assert (info.session_id, info.created_at) == ("s", clock.now)
        assert (info.settings, info.is_open) == ({"color": "red"}, True)
        assert info.head is not None
        assert info.head.seq == 3
        store.release(lease)
        assert not store.session("s").is_open

    def test_settings_are_those_last_saved(self, store: Store) -> None:
        """Settings given when an old session is opened do not replace what was saved."""
        lease = store.acquire("s", settings={"tools": ["a"]})
        store.commit(lease, Commit((), (SettingsKept({"tools": ["a", "b"]}),)))
        store.release(lease)
        store.acquire("s", settings={"tools": []})

        assert store.session("s").settings == {"tools": ["a", "b"]}

    def test_an_unknown_session_is_said_to_be_unknown(self, store: Store) -> None:
        """A mistyped id is an error, not an empty ledger."""
        with pytest.raises(SessionNotFound):
            store.session("s")
        with pytest.raises(SessionNotFound):
            store.records("s")
        with pytest.raises(SessionNotFound):
            store.head("s")
        with pytest.raises(SessionNotFound):
            store.delete_session("s")

    def test_a_deleted_session_is_gone(self, store: Store) -> None:
        """Nothing of a deleted session is left, and others keep theirs."""
        kept, lease = store.acquire("kept"), store.acquire("s")
        effects = every_effect("s")
        write(store, lease, 2, effects)
        write(store, kept, 2)
        store.release(lease)

        store.delete_session("s")

        assert [info.session_id for info in store.sessions().items] == ["kept"]
        assert store.open_calls("s") == []
        assert store.approvals().items == ()
        assert store.artifact("s", "art1") is None
        assert verify(store.records("kept")) == store.head("kept")

    def test_an_open_session_is_not_deleted(self, store: Store) -> None:
        """A session is not taken away from its writer."""
        lease = store.acquire("s")

        with pytest.raises(LeaseHeld):
            store.delete_session("s")

        write(store, lease)

    def test_a_lease_does_not_outlive_its_session(self, store: Store) -> None:
        """Under a new session of the same name the leases of the deleted one stay void."""
        old = store.acquire("s")
        store.release(old)
        store.delete_session("s")
        store.acquire("s")

        with pytest.raises(LeaseLost):
            write(store, old)


class TestLedger:
    def test_records_come_back_as_committed(self, store: Store) -> None:
        """What is read is what was sealed, field by field, and it verifies."""
        lease = store.acquire("s")
        records = chain(1200)
        store.commit(lease, Commit(records[:700], ()))
        store.commit(lease, Commit(records[700:], ()))

        assert list(store.records("s")) == records
        assert verify(store.records("s"), store.head("s")) == store.head("s")
        assert records[0].event == event()

    def test_reading_goes_on_after_a_record(self, store: Store) -> None:
        """A reader that has seen some records asks for the rest only."""
        write(store, store.acquire("s"), 5)

        assert [record.seq for record in store.records("s", after=3)] == [4, 5]
        assert list(store.records("s", after=5)) == []

    def test_an_empty_ledger_has_no_head(self, store: Store) -> None:
        """A session without records has nothing to prove."""
        store.acquire("s")

        assert store.head("s") is None
        assert store.session("s").head is None

    @pytest.mark.parametrize("fault", ["gap", "again", "previous", "session", "inside"])
    def test_a_chain_never_forks(self, store: Store, fault: str) -> None:
        """A commit that does not go on where the ledger ends is refused whole."""
        lease = store.acquire("s")
        write(store, lease, 2)
        head = store.head("s")
        good = chain(3, head)
        bad: dict[str, list[Record]] = {
            "gap": good[1:],
            "again": chain(1),
            "previous": [replace(good[0], previous="0" * 64)],
            "session": chain(1, head, session_id="other"),
            "inside": [good[0], good[2]],
        }

        with pytest.raises(LedgerBroken):
            store.commit(lease, Commit(bad[fault], [CallOpened(open_call())]))

        assert store.head("s") == head
        assert store.open_calls("s") == []
        assert verify(store.records("s")) == head

    def test_deleted_payloads_leave_a_chain_that_verifies(self, store: Store) -> None:
        """Payloads, artifacts and used approvals go; digests, open calls and what waits stay."""
        lease = store.acquire("s")
        write(store, lease, 3, every_effect("s"))

        delete_payloads(store, lease)

        *emptied, deletion = store.records("s")
        assert [record.payload for record in emptied] == [None] * 3
        assert deletion.payload is not None
        assert verify(store.records("s"), store.head("s")) == store.head("s")
        assert store.artifact("s", "art1") is None
        assert len(store.open_calls("s")) == 1
        assert len(store.approvals(state="pending").items) == 1
        write(store, lease)
        assert [record.payload is None for record in store.records("s")] == [True] * 3 + [False] * 2


class TestEffects:
    def test_open_calls_keep_the_order_they_were_opened_in(self, store: Store) -> None:
        """A call that is replaced keeps its place; a closed one is gone."""
        lease = store.acquire("s")
        write(store, lease, 1, [CallOpened(open_call(call_id)) for call_id in ("c2", "c1", "c3")])
        changed = replace(open_call("c2", b'{"path":"\xc3\xa9"}'), state="in_doubt", attempt=2)
        write(store, lease, 1, [CallOpened(changed), CallClosed("c1")])

        assert store.open_calls("s") == [changed, open_call("c3")]

    def test_a_call_opened_and_closed_at_once_is_not_open(self, store: Store) -> None:
        """Effects of one commit count in their order."""
        lease = store.acquire("s")
        write(store, lease, 1, [CallOpened(open_call("c1"))])
        write(
            store,
            lease,
            1,
            [
                CallOpened(open_call("c2")),
                CallClosed("c2"),
                CallClosed("c1"),
                CallOpened(open_call("c1", b"{}")),
            ],
        )

        assert store.open_calls("s") == [open_call("c1", b"{}")]

    def test_effects_need_no_record(self, store: Store) -> None:
        """A commit may hold effects alone, under the same lease."""
        lease = store.acquire("s")
        store.commit(lease, Commit((), [CallOpened(open_call())]))
        store.release(lease)

        with pytest.raises(LeaseLost):
            store.commit(lease, Commit((), [CallClosed("c1")]))

        assert store.open_calls("s") == [open_call()]

    def test_sessions_do_not_see_each_other(self, store: Store) -> None:
        """Equal call and artifact ids of two sessions are different things."""
        one, two = store.acquire("one"), store.acquire("two")
        for lease in (one, two):
            kept = Artifact("art1", "c1", f"of {lease.session_id}")
            write(store, lease, 1, [CallOpened(open_call()), ArtifactKept(kept)])

        write(store, one, 1, [CallClosed("c1")])

        assert store.open_calls("one") == []
        assert store.open_calls("two") == [open_call()]
        assert store.artifact("one", "art1") == "of one"
        assert store.artifact("two", "art1") == "of two"
        assert store.artifact("two", "art2") is None


class TestSources:
    def test_a_source_is_drained_and_told(self, store: Store) -> None:
        """What a ledger hands over is durable when it is told so."""
        lease = store.acquire("s")
        source = Source(store, lease).add("c1", CallOpened(open_call()))

        store.schedule(source)

        assert source.outcome() is None
        assert [record.call_id for record in store.records("s")] == ["c1"]
        assert store.open_calls("s") == [open_call()]

    def test_a_commit_comes_after_what_was_scheduled_before_it(self, store: Store) -> None:
        """Who commits now finds everything in the store that was on its way there."""
        lease = store.acquire("s")
        source = Source(store, lease).add("c1")
        store.schedule(source)

        store.commit(lease, Commit((), ()))

        assert source.is_settled.is_set()
        assert [record.call_id for record in store.records("s")] == ["c1"]

    def test_a_source_with_a_void_lease_is_told(self, store: Store) -> None:
        """A ledger that lost its lease hears of it and writes nothing."""
        lease = store.acquire("s")
        source = Source(store, lease).add()
        store.release(lease)

        store.schedule(source)

        assert isinstance(source.outcome(), LeaseLost)
        assert list(store.records("s")) == []

    def test_a_source_that_cannot_be_drained_is_told(self, store: Store) -> None:
        """An event that cannot be sealed fails its own ledger, not the store."""

        class Unsealable(Source):
            def drain(self) -> Commit:
                raise TypeError("not JSON")

        lease = store.acquire("s")
        bad = Unsealable(store, lease)
        store.schedule(bad)
        good = Source(store, lease).add()
        store.schedule(good)

        assert isinstance(bad.outcome(), TypeError)
        assert good.outcome() is None


class TestLedgers:
    async def test_entries_of_a_ledger_are_records_of_its_session(self, store: Store) -> None:
        """What a ledger takes is read from the store, chained after what was there."""
        lease = store.acquire("s")
        write(store, lease, 2)
        ledger = store.open_ledger(lease)

        durable = ledger.append(entry_of(event("s", "c3")), [CallOpened(open_call("c3"))])
        if durable is not None:
            await durable
        ledger.note(entry_of(event("s", "c4")))
        await ledger.flush()

        assert [record.call_id for record in store.records("s")] == ["c1", "c2", "c3", "c4"]
        assert verify(store.records("s")) == store.head("s") == store.session("s").head
        assert store.open_calls("s") == [open_call("c3")]

    async def test_the_next_writer_goes_on_where_the_last_one_ended(self, store: Store) -> None:
        """A ledger that is opened again follows the records of the one before."""
        for call_id in ("c1", "c2"):
            lease = store.acquire("s")
            ledger = store.open_ledger(lease)
            ledger.note(entry_of(event("s", call_id)))
            await ledger.flush()
            store.release(lease)
            ledger.close()

        assert [record.call_id for record in store.records("s")] == ["c1", "c2"]
        assert verify(store.records("s")) == store.head("s")

    async def test_effects_need_a_valid_lease(self, store: Store) -> None:
        """Who no longer writes the session changes nothing in it."""
        lease = store.acquire("s")
        ledger = store.open_ledger(lease)
        store.release(lease)
        ledger.close()

        async def append() -> None:
            durable = ledger.append(entry_of(event()), [CallOpened(open_call("c1"))])
            if durable is not None:
                await durable

        with pytest.raises(LeaseLost):
            await append()

        assert list(store.records("s")) == []
        assert store.open_calls("s") == []

    async def test_payloads_of_a_ledger_are_deleted(self, store: Store) -> None:
        """A ledger keeps no copy of what the store deleted."""
        lease = store.acquire("s")
        ledger = store.open_ledger(lease)
        ledger.note(entry_of(event()))
        await ledger.flush()

        delete_payloads(store, lease)

        assert [record.payload is None for record in store.records("s")] == [True, False]
        assert verify(store.records("s")) == store.head("s")


class TestBoundedReads:
    def test_records_are_read_from_either_end(self, store: Store) -> None:
        """A reader takes the first or the last few after a place, over any number of rows."""
        write(store, store.acquire("s"), 1200)

        def read(**bounds: Any) -> list[int]:
            return [record.seq for record in store.records("s", **bounds)]

        assert read() == list(range(1, 1201))
        assert read(newest_first=True) == list(range(1200, 0, -1))
        assert read(after=1198) == [1199, 1200]
        assert read(after=2, limit=3) == [3, 4, 5]
        assert read(limit=3, newest_first=True) == [1200, 1199, 1198]
        assert read(after=1198, newest_first=True) == [1200, 1199]
        assert read(after=100, limit=700) == list(range(101, 801))
        assert read(limit=0) == []

    def test_records_are_read_by_kind(self, store: Store) -> None:
        """A reader of one kind of event does not load the others."""
        lease = store.acquire("s")
        write(store, lease, 2)
        opened = SessionOpened(session_id="s", at=1.0, fence=1)
        store.commit(lease, Commit([seal(opened, 3, chain(2)[-1].hash)], ()))
        write(store, lease, 1)

        def read(*kinds: str, **bounds: Any) -> list[int]:
            return [record.seq for record in store.records("s", kinds=kinds, **bounds)]

        assert read(SessionOpened.kind) == [3]
        assert read(CallInDoubt.kind) == [1, 2, 4]
        assert read(CallInDoubt.kind, newest_first=True, limit=2) == [4, 2]
        assert read(SessionOpened.kind, CallInDoubt.kind, after=2) == [3, 4]
        assert read() == []

    def test_sessions_are_listed_in_pages(self, store: Store) -> None:
        """Pages follow each other whatever is added or deleted meanwhile."""
        for number in range(7):
            store.release(store.acquire(f"s{number}"))

        first = store.sessions(limit=3)
        store.delete_session("s1")
        store.delete_session("s2")
        store.acquire("s7")
        second = store.sessions(cursor=first.cursor, limit=3)
        third = store.sessions(cursor=second.cursor, limit=3)

        ids = [[info.session_id for info in page.items] for page in (first, second, third)]
        assert ids == [["s0", "s1", "s2"], ["s3", "s4", "s5"], ["s6", "s7"]]
        assert third.cursor is None

    def test_sessions_and_approvals_are_listed_by_owner_in_pages(self, store: Store) -> None:
        """The store itself leaves out what belongs to others; who made a session owns it, whoever
        writes it later.
        """
        owners = [None, "ann", "bob", "ann", "bob", "ann"]
        for number, owner in enumerate(owners):
            lease = store.acquire(f"s{number}", owner=owner)
            filed = ApprovalFiled(request(f"a{number}", f"s{number}"))
            write(store, lease, 1, [filed])
            store.release(lease)
        store.release(store.acquire("s1", owner="bob"))

        first = store.sessions(SessionQuery(owner="ann"), limit=2)
        rest = store.sessions(SessionQuery(owner="ann"), cursor=first.cursor, limit=2)
        inbox = store.approvals(owner="ann", limit=2)
        more = store.approvals(owner="ann", cursor=inbox.cursor, limit=2)

        assert [info.session_id for info in (*first.items, *rest.items)] == ["s1", "s3", "s5"]
        assert {info.owner for info in first.items} == {"ann"}
        assert rest.cursor is None
        assert [each.request.approval_id for each in (*inbox.items, *more.items)] == [
            "a1",
            "a3",
            "a5",
        ]
        assert [info.owner for info in store.sessions().items] == owners
        assert store.sessions(SessionQuery(owner="eve")).items == ()

    def test_a_full_last_page_is_the_end(self, store: Store) -> None:
        """Nobody is sent to a page that is empty."""
        for number in range(4):
            store.acquire(f"s{number}")

        last = store.sessions(cursor=store.sessions(limit=2).cursor, limit=2)

        assert len(last.items) == 2
        assert last.cursor is None

    def test_every_item_of_all_pages(self, store: Store) -> None:
        """A listing can be read through without a thought for its pages."""
        for number in range(PAGE_SIZE * 2 + 1):
            store.acquire(f"s{number}")

        ids = [info.session_id for info in every(lambda cursor: store.sessions(cursor=cursor))]

        assert ids == [f"s{number}" for number in range(PAGE_SIZE * 2 + 1)]


def every_effect(session_id: str) -> list[Effect]:
    return [
        CallOpened(open_call()),
        ArtifactKept(Artifact("art1", "c1", "whole text")),
        ApprovalFiled(request("a1", session_id)),
    ]


def test_a_lease_is_plain_data(store: Store) -> None:
    """A lease names its session, its holder and its fence, and nothing hidden."""
    lease = store.acquire("s")

    write(store, Lease(lease.session_id, lease.holder, lease.fence))

    assert store.head("s") is not None


class TestKeys:
    def test_of_several_claimants_one_has_the_key(self, store: Store) -> None:
        """Whoever comes second is told what the first one claimed."""
        store.acquire("s")
        claims = [
            KeyClaim("ann", "session.create", "k", str(number), "s", 1.0) for number in range(8)
        ]

        earlier = at_once(8, lambda number: store.claim_key(claims[number]))

        (first,) = [claim for claim, taken in zip(claims, earlier, strict=True) if taken is None]
        assert [taken for taken in earlier if taken is not None] == [first] * 7

    def test_keys_are_of_a_principal_and_an_operation(self, store: Store) -> None:
        """The same key of somebody else, or for something else, is another one."""
        for who, what in (("ann", "a"), ("bob", "a"), ("ann", "b")):
            assert store.claim_key(KeyClaim(who, what, "k", "d", "s", 1.0)) is None

    def test_an_outcome_is_kept_and_a_release_forgets(self, store: Store) -> None:
        """A claim is as it was saved last."""
        claim = KeyClaim("ann", "a", "k", "d", "s", 1.0, after_turn=3)
        store.claim_key(claim)
        store.settle_key(replace(claim, outcome=b"{}"))
        assert store.claim_key(claim) == replace(claim, outcome=b"{}")

        store.release_key(claim)
        assert store.claim_key(claim) is None

    def test_keys_go_with_their_session(self, store: Store) -> None:
        """Deleting a session frees its keys and no others."""
        store.release(store.acquire("s"))
        mine, other = (KeyClaim("ann", "a", key, "d", key, 1.0) for key in ("s", "t"))
        store.claim_key(mine)
        store.claim_key(other)

        store.delete_session("s")

        assert store.claim_key(mine) is None
        assert store.claim_key(other) == other


class TestKnownCalls:
    def test_a_call_is_known_while_it_is_open_and_when_it_has_ended(self, store: Store) -> None:
        """By its id and session; other records about it do not end it."""
        lease = store.acquire("s")
        write(store, lease, 1, [CallOpened(open_call("c1"))])
        assert store.known_call("s", "c1") == open_call("c1")

        seq, previous = end_of(store.head("s"))
        invoked = ToolInvoked(
            session_id="s", at=2.0, call_id="c1", name="x", params={}, message="", success=True
        )
        ended = seal(invoked, seq + 1, previous)
        store.commit(lease, Commit([ended], [CallClosed("c1")]))

        assert store.known_call("s", "c1") == ended
        assert store.known_call("s", "c2") is None
        assert store.known_call("t", "c1") is None


@pytest.mark.parametrize("text", ["a\0b", "a\ud800b"])
def test_an_id_that_no_row_can_have_is_refused_when_it_is_new(store: Store, text: str) -> None:
    """By every store alike, as a mistake of the program and not as a failure of the store."""
    with pytest.raises(UsageError, match="is not the id of a session"):
        store.acquire(text)
    with pytest.raises(UsageError, match="is not the id of a grant"):
        store.add_grant(grant(text))
    assert store.sessions().items == ()


def test_what_is_looked_for_by_an_id_with_the_character_0_is_not_there(store: Store) -> None:
    """A lookup is not an error of the store."""
    store.acquire("s")
    for look in (store.session, store.head, store.delete_session):
        with pytest.raises(SessionNotFound):
            look("a\0b")
    with pytest.raises(SessionNotFound):
        store.acquire("a\0b", create=False)
    assert store.approval("a\0b") is None
    assert store.grant("a\0b") is None
    assert not store.use_grant("a\0b", 1.0)
    assert store.known_call("s", "a\0b") is None
    assert store.artifact("s", "a\0b") is None
    assert store.grants(tool_id="a\0b").items == ()
    assert store.approvals(session_id="a\0b").items == ()
    assert store.summaries(["a\0b"]) == {}
