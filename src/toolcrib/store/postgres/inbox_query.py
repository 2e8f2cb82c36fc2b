"""The inbox as queries of PostgreSQL: pages in an order, by what their viewer may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic_core import to_json

from toolcrib.approval.decision import ApprovalRequest
from toolcrib.store.approval_query import ApprovalQuery, InboxPage, Viewer, cursor_at, place_of
from toolcrib.store.postgres.parameters import Parameters

if TYPE_CHECKING:
    from toolcrib.store.cipher import Cipher
    from toolcrib.store.postgres.database import DatabaseConnection

_ORDER: Final = {
    "created": "0.0::double precision",
    "deadline": "coalesce(a.deadline, 'Infinity'::double precision)",
}
INBOX_VERSION: Final = "SELECT coalesce(sum(version), 0)::bigint FROM inbox_versions"


def searched_by(request: ApprovalRequest) -> tuple[str, str | None, str, bool]:
    """What a request is found by: its tool, who asked, the groups that it is routed to (as JSON),
    and whether any approver may decide.
    """
    approvers = request.approvers
    groups = sorted({_text(group) for quorum in approvers for group in quorum.groups})
    for_anyone = not approvers or any(not quorum.groups for quorum in approvers)
    principal = request.caller.principal
    name = None if principal is None else _text(principal)
    return _text(request.tool.name), name, to_json(groups).decode(), for_anyone


def _text(name: str) -> str:
    # PostgreSQL has no place for these in a text; nothing that is looked for has them either.
    return name.encode("utf-8", "replace").decode().replace("\0", "")


async def inbox_page(
    connection: DatabaseConnection,
    cipher: Cipher,
    query: ApprovalQuery,
    cursor: str | None,
    limit: int,
) -> InboxPage:
    """A page of the inbox, and how many requests there are in all."""
    from toolcrib.store.postgres.inbox_rows import filed_approval

    put = Parameters()
    where = _where(query, put)
    total = await connection.fetchval(
        f"SELECT count(*) FROM approvals a WHERE {where}", *put.values
    )
    statement, put = page_statement(query, cursor, limit + 1)
    rows = await connection.fetch(statement, *put.values)
    end = cursor_at((rows[limit - 1][-1], rows[limit - 1][0])) if len(rows) > limit else None
    items = tuple(filed_approval(tuple(row), cipher) for row in rows[:limit])
    return InboxPage(items, end, total=total)


def page_statement(query: ApprovalQuery, cursor: str | None, limit: int) -> tuple[str, Parameters]:
    """The statement of a page, whose rows end with what they are ordered by."""
    from toolcrib.store.postgres.inbox_rows import FILED_FIELDS

    put = Parameters()
    where = _where(query, put)
    order, sign = ("DESC", "<") if query.newest_first else ("ASC", ">")
    key = _ORDER[query.order]
    if cursor is not None:
        value, number = place_of(cursor)
        if query.order == "created":
            where += f" AND a.filed {sign} {put(number)}"
        else:
            where += f" AND ({key}, a.filed) {sign} ({put(value)}::double precision, {put(number)})"
    by = f"a.filed {order}" if query.order == "created" else f"{key} {order}, a.filed {order}"
    fields = f"SELECT {FILED_FIELDS}, {key} FROM approvals a"
    return f"{fields} WHERE {where} ORDER BY {by} LIMIT {put(limit)}", put


async def inbox_marks(connection: DatabaseConnection, query: ApprovalQuery) -> dict[str, object]:
    """The id of every request, with what differs once somebody has voted for it."""
    put = Parameters()
    where = _where(query, put)
    rows = await connection.fetch(
        f"SELECT a.approval_id, a.ballot FROM approvals a WHERE {where}", *put.values
    )
    return {row[0]: row[1] for row in rows}


def _where(query: ApprovalQuery, put: Parameters) -> str:
    conditions = [
        f"{column} = {put(_text(value))}"
        for column, value in (
            ("a.state", query.state),
            ("a.tool", query.tool),
            ("a.principal", query.principal),
        )
        if value is not None
    ]
    if query.session_id is not None:
        number = f"(SELECT number FROM sessions WHERE session_id = {put(_text(query.session_id))})"
        conditions.append(f"a.session = {number}")
    if query.is_approved:
        conditions.append("a.verdict = 'approve'")
    if query.viewer is not None:
        conditions.append(_visible(query.viewer, put))
    return " AND ".join(conditions) or "true"


def _visible(viewer: Viewer, put: Parameters) -> str:
    name = put(_text(viewer.name))
    own = f"a.session IN (SELECT number FROM sessions WHERE owner = {name})"
    condition = f"a.principal = {name} OR {own}"
    if viewer.is_approver:
        groups = put([_text(group) for group in sorted(viewer.groups)])
        condition += f" OR a.for_anyone OR a.groups && {groups}::text[]"
    return f"({condition})"
