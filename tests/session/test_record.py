"""The hash chain finds every change, and events survive the trip into a record and back."""

from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.session.event_strategies import all_events, facts
from toolcrib.approval.decision import Actor
from toolcrib.errors import LedgerBroken
from toolcrib.ledger.event_kinds import ALL_EVENTS
from toolcrib.ledger.events import Event, PayloadsDeleted, SessionOpened, ToolOutput
from toolcrib.ledger.record import GENESIS, Head, Record, events, link, seal, verify


def chained(happened: list[Event]) -> list[Record]:
    records: list[Record] = []
    for seq, event in enumerate(happened, start=1):
        previous = records[-1].hash if records else GENESIS
        records.append(seal(replace(event, session_id="s"), seq, previous))
    return records


def head_of(records: list[Record]) -> Head:
    return Head("s", records[-1].seq, records[-1].hash)


# Enough to have records with and without a call; drawing every kind is for the event tests.
SMALL = facts(SessionOpened) | facts(ToolOutput)


def chains(min_size: int = 1) -> st.SearchStrategy[list[Record]]:
    return st.lists(SMALL, min_size=min_size, max_size=6).map(chained)


EDITS: dict[str, st.SearchStrategy[Any]] = {
    "session_id": st.text(max_size=4),
    "seq": st.integers(min_value=-1, max_value=9),
    "kind": st.sampled_from([kind.kind for kind in ALL_EVENTS]) | st.text(max_size=4),
    "at": st.floats(allow_nan=False),
    "call_id": st.none() | st.text(max_size=4),
    "payload": st.binary(max_size=8),
    "payload_digest": st.text("0123456789abcdef", min_size=64, max_size=64),
    "previous": st.just(GENESIS) | st.text("0123456789abcdef", min_size=64, max_size=64),
    "hash": st.just(GENESIS) | st.text("0123456789abcdef", min_size=64, max_size=64),
}


class TestChain:
    @given(st.lists(all_events(), min_size=1, max_size=4).map(chained))
    def test_an_untouched_chain_verifies(self, records: list[Record]) -> None:
        """R46: whatever happened, the ledger of it holds and ends at its head."""
        assert verify(records) == head_of(records)
        assert verify(records, head_of(records)) == head_of(records)

    def test_an_empty_chain_has_no_head(self) -> None:
        """A session in which nothing happened is in order."""
        assert verify([]) is None

    @given(chains(), st.data())
    def test_an_edit_of_any_field_is_found(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        """R46: changing one field of one record breaks the chain at that record or the next."""
        index = data.draw(st.integers(0, len(records) - 1))
        field = data.draw(st.sampled_from(sorted(EDITS)))
        old = getattr(records[index], field)
        new = data.draw(EDITS[field].filter(lambda value: value != old))
        records[index] = replace(records[index], **{field: new})

        with pytest.raises(LedgerBroken) as broken:
            verify(records)

        assert broken.value.seq in (index + 1, index + 2)

    @given(chains(), st.data())
    def test_a_payload_with_a_matching_digest_is_found(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        """R46: an editor who also mends the payload's digest, and even the record's own hash, is
        found: by the hash, by the next record, or by a head kept elsewhere.
        """
        head = head_of(records)
        index = data.draw(st.integers(0, len(records) - 1))
        forged = seal(SessionOpened(session_id="s", at=0.5, fence=-1), index + 1, "")
        old = records[index]
        assume(forged.payload != old.payload)
        mended = replace(
            old, payload=forged.payload, payload_digest=forged.payload_digest, hash=old.hash
        )
        rehashed = replace(mended, hash=rehash(mended))

        with pytest.raises(LedgerBroken):
            verify([*records[:index], mended, *records[index + 1 :]])
        with pytest.raises(LedgerBroken):
            verify([*records[:index], rehashed, *records[index + 1 :]], head)

    @given(chains(min_size=2), st.data())
    def test_a_deletion_is_found(self, records: list[Record], data: st.DataObject) -> None:
        """R46: a record taken out of the middle leaves a gap that has a name."""
        index = data.draw(st.integers(0, len(records) - 2))
        del records[index]

        with pytest.raises(LedgerBroken, match="is missing") as broken:
            verify(records)

        assert broken.value.seq == index + 1

    @given(chains(min_size=2), st.data())
    def test_a_swap_is_found(self, records: list[Record], data: st.DataObject) -> None:
        """R46: the order of what happened cannot be changed."""
        places = st.integers(0, len(records) - 1)
        first, second = data.draw(st.tuples(places, places).filter(lambda two: two[0] != two[1]))
        records[first], records[second] = records[second], records[first]

        with pytest.raises(LedgerBroken):
            verify(records)

    @given(chains(), SMALL, st.data())
    def test_an_insertion_is_found(
        self, records: list[Record], event: Event, data: st.DataObject
    ) -> None:
        """R46: nothing can be put before what has happened, however well it is sealed."""
        index = data.draw(st.integers(0, len(records) - 1))
        previous = records[index - 1].hash if index else GENESIS
        records.insert(index, seal(replace(event, session_id="s"), index + 1, previous))

        with pytest.raises(LedgerBroken):
            verify(records)

    @given(chains(min_size=2), st.data())
    def test_a_cut_tail_is_found_against_a_kept_head(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        """R46: a shorter chain is a valid chain, so only a head kept elsewhere tells."""
        head = head_of(records)
        left = records[: data.draw(st.integers(0, len(records) - 1))]

        verify(left)
        with pytest.raises(LedgerBroken, match="its tail was cut off"):
            verify(left, head)

    @given(chains(), SMALL)
    def test_a_longer_chain_still_holds_an_older_head(
        self, records: list[Record], event: Event
    ) -> None:
        """A head stays good proof while the ledger grows."""
        head = head_of(records)
        last = seal(replace(event, session_id="s"), head.seq + 1, head.hash)

        assert verify([*records, last], head) == head_of([*records, last])

    def test_a_rewritten_ledger_is_found_against_a_kept_head(self) -> None:
        """R46: a chain that was made anew is consistent, but not the one the head was taken of."""
        head = head_of(chained([opened(1), opened(2)]))
        rewritten = chained([opened(1), opened(3), opened(4)])

        verify(rewritten)
        with pytest.raises(LedgerBroken, match="rewritten"):
            verify(rewritten, head)

    def test_a_head_of_another_session_is_refused(self) -> None:
        """A head proves nothing about another session's ledger."""
        records = chained([opened(1)])

        with pytest.raises(LedgerBroken, match="the head is of session t"):
            verify(records, replace(head_of(records), session_id="t"))

    @given(chains(), st.data())
    def test_deleted_payloads_keep_the_chain(
        self, records: list[Record], data: st.DataObject
    ) -> None:
        """Security 8: payloads can go, any of them up to the one that a later record names, and the
        rest still verifies and can be read.
        """
        gone = data.draw(st.sets(st.integers(0, len(records) - 1)))
        up_to = data.draw(st.integers(0, len(records)))
        last = records[-1]
        deleted = PayloadsDeleted(
            session_id=last.session_id, at=1.0, actor=Actor("person", "ann"), up_to=up_to
        )
        whole = [*records, seal(deleted, last.seq + 1, last.hash)]
        left = [
            replace(record, payload=None) if index in gone else record
            for index, record in enumerate(whole)
        ]

        unaccounted = [index + 1 for index in gone if index + 1 > up_to]
        if unaccounted:
            with pytest.raises(LedgerBroken, match=f"record {min(unaccounted)} .* is missing"):
                verify(left, head_of(whole))
            with pytest.raises(LedgerBroken, match="is missing"):
                list(events(left, lambda: up_to))
        else:
            assert verify(left, head_of(whole)) == head_of(whole)
            assert len(list(events(left, lambda: up_to))) == len(whole) - len(gone)
        for index in gone:
            with pytest.raises(LedgerBroken, match="was deleted"):
                _ = left[index].event

    def test_fields_cannot_run_together(self) -> None:
        """Moving characters from one field to its neighbour changes the hash."""
        assert link("p", "ab", 1, "c", 0.0, None, "d") != link("p", "b", 1, "ca", 0.0, None, "d")
        assert link("p", "ab", 1, "c", 0.0, None, "d") != link("p", "a", 1, "bc", 0.0, None, "d")
        assert link("p", "s", 1, "k", 0.0, "c", "d") != link("p", "s=c", 1, "k", 0.0, None, "d")
        assert link("p", "s", 1, "k", 0.0, None, "d") != link("p", "s", 1, "k", 0.0, "", "d")

    def test_the_hash_is_the_documented_one(self) -> None:
        """R46: a program in another language can check a chain from what the documentation says."""
        digest = "ab" * 32
        numbers = bytes.fromhex("3ff800000000000000000000000000070000000100000002")
        covered = numbers + f"{GENESIS}{digest}ks1=c\u00e9".encode()

        assert link(GENESIS, "s1", 7, "k", 1.5, "c\u00e9", digest) == sha256(covered).hexdigest()

    def test_a_whole_number_of_seconds_is_a_time(self) -> None:
        """A clock that gives integers seals the same record that a database gives back."""
        record = seal(SessionOpened(session_id="s", at=5, fence=1), 1, GENESIS)

        assert record.hash == seal(SessionOpened(session_id="s", at=5.0, fence=1), 1, GENESIS).hash


class TestEvents:
    @pytest.mark.parametrize("kind", ALL_EVENTS, ids=lambda kind: kind.kind)
    @settings(max_examples=40)
    @given(data=st.data())
    def test_every_event_comes_back(self, kind: type[Event], data: st.DataObject) -> None:
        """What is read from a ledger is what was written to it."""
        event = data.draw(facts(kind))

        assert seal(event, 1, GENESIS).event == event

    def test_kinds_are_unique(self) -> None:
        """A kind in a ledger names one type of event."""
        assert len({kind.kind for kind in ALL_EVENTS}) == len(ALL_EVENTS)

    def test_an_unknown_kind_is_refused(self) -> None:
        """A record of a newer version is not guessed at."""
        with pytest.raises(LedgerBroken, match=r"unknown kind of record: 'future\.thing'"):
            _ = replace(seal(opened(1), 1, GENESIS), kind="future.thing").event

    def test_unknown_fields_are_ignored(self) -> None:
        """A newer version may add fields to an event and older ones still read it."""
        record = replace(seal(opened(1), 1, GENESIS), payload=b'{"fence":2,"colour":"red"}')

        assert record.event == opened(2)


class TestHead:
    def test_a_head_is_read_as_written(self) -> None:
        """What `audit head` prints is what `audit verify` takes."""
        head = Head("s", 7, "ab" * 32)

        assert Head.parse(str(head)) == head
        assert Head.parse(f"  {head}\n") == head

    @pytest.mark.parametrize("text", ["", "s 1", "s one ab", "s 1 ab cd"])
    def test_other_text_is_no_head(self, text: str) -> None:
        """A mangled head is an error that shows the right form."""
        with pytest.raises(LedgerBroken, match="write it as 'session seq hash'"):
            Head.parse(text)


def opened(fence: int) -> SessionOpened:
    return SessionOpened(session_id="s", at=1.0, fence=fence)


def rehash(record: Record) -> str:
    return link(
        record.previous,
        record.session_id,
        record.seq,
        record.kind,
        record.at,
        record.call_id,
        record.payload_digest,
    )
