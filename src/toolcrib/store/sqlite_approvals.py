"""The inbox as queries of the SQLite file: pages in an order, by what their viewer may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from toolcrib.store.approval_query import ApprovalQuery, InboxPage, Viewer, cursor_at, place_of
from toolcrib.store.sqlite_rows import filed_approval
from toolcrib.store.sqlite_schema import BY_DEADLINE, TOOL_NAME

if TYPE_CHECKING:
    from toolcrib.store.sqlite_reader import Reader
    from toolcrib.store.vault import Vault

_FIELDS: Final = "filed, request, state, decided, vault, ballot"
_REQUEST: Final = "CAST(request AS TEXT)"
_PRINCIPAL: Final = f"json_extract({_REQUEST}, '$.caller.principal')"
_IS_APPROVED: Final = "json_extract(CAST(decided AS TEXT), '$.decision.kind') = 'approve'"
_OWN: Final = "session_id IN (SELECT session_id FROM sessions WHERE owner = ?)"
_ROUTED: Final = (
    f"json_array_length({_REQUEST}, '$.approvers') = 0 OR EXISTS ("
    f"SELECT 1 FROM json_each({_REQUEST}, '$.approvers') AS quorum"
    " WHERE json_array_length(quorum.value, '$.groups') = 0 OR EXISTS ("
    "SELECT 1 FROM json_each(quorum.value, '$.groups') AS member WHERE member.value IN ({groups})))"
)
_ORDER: Final = {"created": "0.0", "deadline": BY_DEADLINE}

_Condition = tuple[str, tuple[object, ...]]


def inbox_page(
    reader: Reader, vault: Vault, query: ApprovalQuery, cursor: str | None, limit: int
) -> InboxPage:
    """A page of the inbox, and how many requests there are in all."""
    where, parameters = _where(_conditions(query))
    (total,) = reader.rows(f"SELECT count(*) FROM approvals WHERE {where}", *parameters)[0]
    order, sign = ("DESC", "<") if query.newest_first else ("ASC", ">")
    key = _ORDER[query.order]
    conditions = _conditions(query)
    if cursor is not None:
        conditions.append(_after(query, key, sign, cursor))
    where, parameters = _where(conditions)
    # By number alone, SQLite follows an index and does not sort.
    by = f"filed {order}" if query.order == "created" else f"{key} {order}, filed {order}"
    rows = reader.rows(
        f"SELECT {_FIELDS}, {key} FROM approvals WHERE {where} ORDER BY {by} LIMIT ?",
        *parameters,
        limit + 1,
    )
    end = cursor_at((rows[limit - 1][-1], rows[limit - 1][0])) if len(rows) > limit else None
    items = tuple(filed_approval(row[:-1], vault) for row in rows[:limit])
    return InboxPage(items, end, total=total)


def inbox_marks(reader: Reader, query: ApprovalQuery) -> dict[str, object]:
    """The id of every request, with what differs once somebody has voted for it."""
    where, parameters = _where(_conditions(query))
    return dict(
        reader.rows(f"SELECT approval_id, ballot FROM approvals WHERE {where}", *parameters)
    )


def _after(query: ApprovalQuery, key: str, sign: str, cursor: str) -> _Condition:
    value, number = place_of(cursor)
    if query.order == "created":
        return f"filed {sign} ?", (number,)
    return f"({key}, filed) {sign} (?, ?)", (value, number)


def _conditions(query: ApprovalQuery) -> list[_Condition]:
    conditions: list[_Condition] = [
        (condition, (value,))
        for condition, value in (
            ("session_id = ?", query.session_id),
            ("state = ?", query.state),
            (f"{TOOL_NAME} = ?", query.tool),
            (f"{_PRINCIPAL} = ?", query.principal),
        )
        if value is not None
    ]
    if query.is_approved:
        conditions.append((_IS_APPROVED, ()))
    if query.viewer is not None:
        conditions.append(_visible(query.viewer))
    return conditions


def _visible(viewer: Viewer) -> _Condition:
    condition, parameters = f"{_PRINCIPAL} = ? OR {_OWN}", (viewer.name, viewer.name)
    if not viewer.is_approver:
        return condition, parameters
    groups = sorted(viewer.groups)
    routed = _ROUTED.format(groups=", ".join("?" * len(groups)))
    return f"{condition} OR {routed}", (*parameters, *groups)


def _where(conditions: list[_Condition]) -> tuple[str, list[Any]]:
    where = " AND ".join(f"({condition})" for condition, _ in conditions) or "1"
    return where, [value for _, values in conditions for value in values]
