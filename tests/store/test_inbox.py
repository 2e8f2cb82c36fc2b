"""What every store promises about approvals and grants."""

from dataclasses import replace

import pytest

from tests.store.facts import PERSON, TOOL, at_once, grant, request, write
from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.decision import (
    Actor,
    Answer,
    ApprovalRequest,
    Approve,
    Ballot,
    Decided,
    Decision,
    Deny,
    Expire,
    Vote,
)
from toolcrib.approval.pattern import Glob
from toolcrib.approval.quorum import Quorum
from toolcrib.errors import StoreError, UsageError
from toolcrib.store import Store
from toolcrib.store.approval_query import ApprovalQuery, InboxPage, Viewer
from toolcrib.store.store import ApprovalFiled, ApprovalUsed, FiledApproval, every


def decided(
    decision: Decision, approval_id: str = "a1", digest: str = "d1", by: Actor = PERSON
) -> Decided:
    return Decided(approval_id, digest, decision, by, 2.0)


class TestApprovals:
    def test_the_inbox_lists_oldest_first(self, store: Store) -> None:
        """One inbox for all sessions, which can be narrowed by session and state."""
        one, two = store.acquire("one"), store.acquire("two")
        write(store, two, 1, [ApprovalFiled(request("a2", "two"))])
        write(store, one, 1, [ApprovalFiled(request("a1", "one"))])
        store.decide(decided(Deny(), "a2"))

        assert [filed.request.approval_id for filed in store.approvals().items] == ["a2", "a1"]
        assert [f.request.approval_id for f in store.approvals(session_id="one").items] == ["a1"]
        assert [f.request.approval_id for f in store.approvals(state="decided").items] == ["a2"]
        assert store.approvals(session_id="one", state="decided").items == ()
        assert store.approval("a1") == FiledApproval(request("a1", "one"), "pending", None)
        assert store.approval("a3") is None

    @pytest.mark.parametrize(
        "decision",
        [
            Approve(),
            Approve({"path": "b", "deep": [1, None, {"x": 1.5}]}),
            Deny("no"),
            Answer([1]),
            Expire(),
        ],
    )
    def test_a_decision_is_kept_as_taken(self, store: Store, decision: Decision) -> None:
        """Whoever reads the inbox sees what was decided, by whom and when."""
        write(store, store.acquire("s"), 1, [ApprovalFiled(request())])

        assert store.decide(decided(decision))

        assert store.approval("a1") == FiledApproval(request(), "decided", decided(decision))

    def test_a_decision_is_final(self, store: Store) -> None:
        """The first decision stands; later ones are refused."""
        write(store, store.acquire("s"), 1, [ApprovalFiled(request())])

        assert store.decide(decided(Deny("first")))
        assert not store.decide(decided(Approve()))

        filed = store.approval("a1")
        assert filed is not None
        assert filed.decided == decided(Deny("first"))

    def test_of_racing_deciders_one_wins(self, store: Store) -> None:
        """Compare-and-swap: exactly one of many concurrent decisions is recorded."""
        write(store, store.acquire("s"), 1, [ApprovalFiled(request())])
        names = [f"decider {number}" for number in range(8)]

        won = at_once(
            8, lambda number: store.decide(decided(Approve(), by=Actor("person", names[number])))
        )

        assert won.count(True) == 1
        filed = store.approval("a1")
        assert filed is not None
        assert filed.decided is not None
        assert filed.decided.actor.name == names[won.index(True)]

    def test_a_decision_is_bound_to_the_frozen_call(self, store: Store) -> None:
        """A decision on another digest, or on nothing, changes nothing."""
        write(store, store.acquire("s"), 1, [ApprovalFiled(request(digest="d1"))])

        assert not store.decide(decided(Approve(), digest="d2"))
        assert not store.decide(decided(Approve(), approval_id="a9"))

        assert store.approvals(state="pending").items != ()

    def test_a_used_approval_cannot_be_decided(self, store: Store) -> None:
        """What was acted on, or withdrawn, is closed for good."""
        lease = store.acquire("s")
        write(store, lease, 1, [ApprovalFiled(request())])
        write(store, lease, 1, [ApprovalUsed("a1")])

        assert not store.decide(decided(Approve()))

        assert store.approval("a1") == FiledApproval(request(), "used", None)

    def test_edited_arguments_are_forgotten_once_used(self, store: Store) -> None:
        """Edited arguments may hold a secret; they live no longer than the call needs them."""
        lease = store.acquire("s")
        write(store, lease, 1, [ApprovalFiled(request())])
        store.decide(decided(Approve({"token": "hush"})))

        write(store, lease, 1, [ApprovalUsed("a1")])

        filed = store.approval("a1")
        assert filed == FiledApproval(request(), "used", decided(Approve({})))

    def test_a_session_uses_only_its_own_approvals(self, store: Store) -> None:
        """A lease on one session is no right over another's inbox."""
        one, two = store.acquire("one"), store.acquire("two")
        write(store, one, 1, [ApprovalFiled(request("a1", "one"))])

        write(store, two, 1, [ApprovalUsed("a1")])

        assert store.approvals(state="pending").items != ()

    def test_an_approval_is_filed_once(self, store: Store) -> None:
        """Filing under a known id is refused, with everything that came with it."""
        lease = store.acquire("s")
        write(store, lease, 1, [ApprovalFiled(request())])

        with pytest.raises(StoreError, match="filed already"):
            write(store, lease, 1, [ApprovalFiled(request())])

        head = store.head("s")
        assert head is not None
        assert head.seq == 1

    def test_used_approvals_go_with_the_payloads(self, store: Store) -> None:
        """Deleting payloads deletes closed requests and keeps those that wait."""
        lease = store.acquire("s")
        filed = [ApprovalFiled(request("a1")), ApprovalFiled(request("a2"))]
        write(store, lease, 1, [*filed, ApprovalUsed("a1")])

        store.delete_payloads(lease, 1)

        assert [each.request.approval_id for each in store.approvals().items] == ["a2"]


class TestGrants:
    def test_grants_come_back_as_made(self, store: Store) -> None:
        """Every field survives, and the list is oldest first."""
        other = grant("g2", tool_id="mcp/read_file")
        first = grant("g1", 3, arguments={"/path": Glob("docs/*")}, expires_at=9.0)
        store.add_grant(first)
        store.add_grant(other)

        assert store.grants().items == (first, other)
        assert store.grants(tool_id=TOOL.id).items == (first,)
        assert store.grants(tool_id="local").items == ()

    def test_a_grant_is_added_once(self, store: Store) -> None:
        """A grant cannot be replaced by another of the same id."""
        store.add_grant(grant("g1", 1))

        with pytest.raises(StoreError, match="already a grant 'g1'"):
            store.add_grant(grant("g1", 100))

        assert store.grants().items == (grant("g1", 1),)

    def test_uses_run_out_exactly(self, store: Store) -> None:
        """Of racing users only as many succeed as uses were left."""
        store.add_grant(grant(uses_left=3))

        used = at_once(8, lambda _: store.use_grant("g1", 5.0))

        assert used.count(True) == 3
        assert store.grants().items[0].uses_left == 0

    def test_an_unlimited_grant_is_not_used_up(self, store: Store) -> None:
        """Without a number of uses a grant holds until it ends otherwise."""
        store.add_grant(grant())

        assert all(store.use_grant("g1", 5.0) for _ in range(5))

    def test_an_expired_grant_is_dead(self, store: Store) -> None:
        """From its expiry on a grant can be neither used nor revoked."""
        store.add_grant(grant(expires_at=10.0))

        assert store.use_grant("g1", 9.9)
        assert not store.use_grant("g1", 10.0)
        assert not store.revoke_grant("g1", 10.0, PERSON)

    def test_a_revoked_grant_is_dead(self, store: Store) -> None:
        """Revoking works once and at once."""
        store.add_grant(grant())

        assert store.revoke_grant("g1", 5.0, PERSON)

        assert not store.revoke_grant("g1", 6.0, PERSON)
        assert not store.use_grant("g1", 6.0)
        assert store.grants().items[0].revoked_at == 5.0

    def test_an_unknown_grant_is_dead(self, store: Store) -> None:
        """What is not there permits nothing."""
        assert not store.use_grant("g1", 5.0)
        assert not store.revoke_grant("g1", 5.0, PERSON)

    def test_grants_of_a_session_go_with_it(self, store: Store) -> None:
        """A new session under an old name inherits no permissions."""
        store.release(store.acquire("s"))
        store.add_grant(grant("g1", scope="session", session_id="s"))
        store.add_grant(grant("g2"))

        store.delete_session("s")

        assert [each.grant_id for each in store.grants().items] == ["g2"]


class TestPages:
    def test_the_inbox_is_listed_in_pages(self, store: Store) -> None:
        """A filter holds over all pages; a decision between two of them moves nothing."""
        one, two = store.acquire("one"), store.acquire("two")
        for number in range(5):
            write(store, one, 1, [ApprovalFiled(request(f"a{number}", "one"))])
            write(store, two, 1, [ApprovalFiled(request(f"b{number}", "two"))])

        first = store.approvals(session_id="one", limit=2)
        store.decide(decided(Deny(), "a3"))
        second = store.approvals(session_id="one", cursor=first.cursor, limit=2)
        third = store.approvals(session_id="one", cursor=second.cursor, limit=2)

        ids = [[filed.request.approval_id for filed in p.items] for p in (first, second, third)]
        assert ids == [["a0", "a1"], ["a2", "a3"], ["a4"]]
        assert third.cursor is None
        pending = every(
            lambda cursor: store.approvals(
                session_id="one", state="pending", cursor=cursor, limit=2
            )
        )
        assert [filed.request.approval_id for filed in pending] == ["a0", "a1", "a2", "a4"]

    def test_grants_are_listed_in_pages(self, store: Store) -> None:
        """A grant that is used between two pages keeps its place."""
        grants = [grant(f"g{number}", 5) for number in range(5)]
        for each in grants:
            store.add_grant(each)

        first = store.grants(tool_id=TOOL.id, limit=2)
        store.use_grant("g0", 2.0)
        rest = store.grants(tool_id=TOOL.id, cursor=first.cursor, limit=9)

        assert (*first.items, *rest.items) == tuple(grants)
        assert rest.cursor is None

    def test_one_grant_is_found_by_its_id(self, store: Store) -> None:
        """Who has an id need not read a listing."""
        store.add_grant(grant("g1", 1))

        assert store.grant("g1") == grant("g1", 1)
        assert store.grant("g2") is None


def due(
    approval_id: str,
    deadline: float | None,
    *,
    session_id: str = "s",
    tool: str = "read_file",
    caller: Caller = NOBODY,
    approvers: tuple[Quorum, ...] = (),
) -> ApprovalRequest:
    plain = request(approval_id, session_id, digest="d1")
    ref = replace(TOOL, name=tool)
    return replace(plain, deadline=deadline, tool=ref, caller=caller, approvers=approvers)


def ids(page: InboxPage) -> list[str]:
    return [filed.request.approval_id for filed in page.items]


class TestInboxPages:
    def test_what_expires_first_is_first(self, store: Store) -> None:
        """By deadline, then by age; what has no deadline waits at the end, on the last page."""
        filed = [due("late", 90.0), due("never", None), due("soon", 10.0), due("same", 90.0)]
        write(store, store.acquire("s"), 1, [ApprovalFiled(each) for each in filed])
        query = ApprovalQuery(state="pending", order="deadline")

        first = store.inbox(query, limit=2)
        second = store.inbox(query, cursor=first.cursor, limit=2)

        assert (ids(first), ids(second)) == (["soon", "late"], ["same", "never"])
        assert (first.total, second.total, second.cursor) == (4, 4, None)
        assert ids(store.inbox(ApprovalQuery(newest_first=True))) == [
            "same",
            "soon",
            "never",
            "late",
        ]

    def test_a_page_is_not_shifted_by_what_happens_meanwhile(self, store: Store) -> None:
        """A request that is decided, or comes, between two pages makes no other one appear twice
        or not at all.
        """
        lease = store.acquire("s")
        for number in range(4):
            write(store, lease, 1, [ApprovalFiled(due(f"a{number}", 10.0 + number))])
        query = ApprovalQuery(state="pending", order="deadline")
        first = store.inbox(query, limit=2)
        store.decide(decided(Deny(), "a0"))
        write(store, lease, 1, [ApprovalFiled(due("new", 5.0))])

        assert ids(store.inbox(query, cursor=first.cursor, limit=9)) == ["a2", "a3"]

    def test_filters(self, store: Store) -> None:
        """By tool, by who asked, by session, by state, and only what was approved."""
        write(store, store.acquire("s"), 1, [ApprovalFiled(due("a1", None, tool="pay"))])
        write(store, store.acquire("t"), 1, [ApprovalFiled(due("a2", None, session_id="t"))])
        write(
            store,
            store.acquire("u"),
            1,
            [ApprovalFiled(due("a3", 5.0, session_id="u", caller=Caller("bob")))],
        )
        store.decide(decided(Approve(), "a1"))
        store.decide(decided(Deny(), "a2"))

        found = [
            ids(store.inbox(query))
            for query in (
                ApprovalQuery(tool="pay"),
                ApprovalQuery(principal="bob"),
                ApprovalQuery(session_id="t"),
                ApprovalQuery(state="pending"),
                ApprovalQuery(is_approved=True),
            )
        ]
        assert found == [["a1"], ["a3"], ["a2"], ["a3"], ["a1"]]

    @pytest.mark.parametrize(
        ("viewer", "visible"),
        [
            (None, ["open", "finance", "either", "alices"]),
            (Viewer("eve"), []),
            (Viewer("alice"), ["alices"]),
            (Viewer("zed"), ["open", "finance", "either", "alices"]),
            (Viewer("carol", is_approver=True), ["open", "either", "alices"]),
            (
                Viewer("fay", is_approver=True, groups=frozenset({"finance"})),
                ["open", "finance", "either", "alices"],
            ),
        ],
    )
    def test_who_sees_what(self, store: Store, viewer: Viewer | None, visible: list[str]) -> None:
        """One's own calls, those of one's own sessions, and for an approver what is routed to them:
        no other request is on a page, counted, or named among the changes.
        """
        finance, anybody = Quorum(1, ("finance",)), Quorum(2)
        filed = [
            due("open", 1.0),
            due("finance", 2.0, approvers=(finance,)),
            due("either", 3.0, approvers=(finance, anybody)),
            due("alices", 4.0, caller=Caller("alice")),
        ]
        lease = store.acquire("s", owner="zed")
        write(store, lease, 1, [ApprovalFiled(each) for each in filed])
        query = ApprovalQuery(viewer=viewer, order="deadline")

        page = store.inbox(query)

        assert (ids(page), page.total) == (visible, len(visible))
        assert sorted(store.inbox_marks(query)) == sorted(visible)

    def test_the_version_changes_with_the_inbox(self, store: Store) -> None:
        """A request that is filed, voted for or decided is noticed; reading changes nothing."""
        lease = store.acquire("s")
        seen = [store.inbox_version()]
        write(store, lease, 1, [ApprovalFiled(due("a1", None, approvers=(Quorum(2),)))])
        seen.append(store.inbox_version())
        marks = store.inbox_marks(ApprovalQuery())
        ballot = Ballot(Approve(), (Vote(PERSON, 2.0),))
        assert store.vote("a1", "d1", ballot, after=None)
        seen.append(store.inbox_version())
        assert store.inbox_marks(ApprovalQuery()) != marks
        assert store.decide(decided(Deny()))
        seen.append(store.inbox_version())

        assert len(set(seen)) == 4
        assert store.inbox_version() == seen[-1]

    def test_a_cursor_of_somewhere_else_is_refused(self, store: Store) -> None:
        """It leads nowhere, and is no crash."""
        with pytest.raises(UsageError, match="unknown cursor"):
            store.inbox(ApprovalQuery(), cursor="x")
