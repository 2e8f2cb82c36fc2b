"""`toolcrib calls`, `audit query` and `audit usage`: the calls of all sessions, and their sums."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import typer

from toolcrib.cli.output import show_json, show_json_line, show_note
from toolcrib.cli.service import OptionalStore, TokenFile, Url, open_service
from toolcrib.cli.store_options import Json, short_time_text, time_text

if TYPE_CHECKING:
    from toolcrib.cli.service import ServiceConnection

Since = Annotated[
    str | None,
    typer.Option("--since", metavar="TIME", help="From then on: 7d, 12h, 2026-11-17T08:00."),
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Before then.")]
ByPrincipal = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Calls that this principal asked for.")
]
ToolPattern = Annotated[
    str | None, typer.Option("--tool", metavar="NAME", help="A tool, or a pattern such as 'git_*'.")
]
Source = Annotated[
    str | None, typer.Option("--source", metavar="NAME", help="Tools from here, e.g. python.")
]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Requests to a model.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, with a header.")]

PAGE: Final = 1_000
"""How many calls one request asks for."""
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
_STYLES: Final = {"failed": "red", "in_doubt": "red", "denied": "yellow", "waiting": "cyan"}
_COLUMNS: Final = (
    *("time", "at", "session_id", "call_id", "kind", "tool", "source", "model", "principal"),
    *("transport", "owner", "status", "failure", "decision", "decided_by", "approver"),
    *("duration_seconds", "waited_seconds", "turn", "parent_call_id", "input_tokens"),
    *("output_tokens", "cost", "prices", "seq", "last_seq"),
)


def query(
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    since: Since = None,
    until: Until = None,
    by: ByPrincipal = None,
    owner: Annotated[
        str | None, typer.Option(metavar="NAME", help="Calls in the sessions of this principal.")
    ] = None,
    tool: ToolPattern = None,
    source: Source = None,
    model: Model = None,
    status: Annotated[
        str | None,
        typer.Option(
            metavar="STATUS",
            help="completed, failed, denied, waiting, approved, running, in_doubt; several with "
            "commas.",
        ),
    ] = None,
    is_failed: Annotated[
        bool, typer.Option("--failed", help="Short for --status failed,denied,in_doubt.")
    ] = False,
    failure: Annotated[
        str | None, typer.Option(metavar="KIND", help="The kind of failure, e.g. timeout.")
    ] = None,
    decision: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="allowed, denied, edited, answered or expired."),
    ] = None,
    decided_by: Annotated[
        str | None, typer.Option(metavar="WHO", help="person, rule, grant or timeout.")
    ] = None,
    approver: Annotated[
        str | None, typer.Option(metavar="NAME", help="The person, rule or grant that decided.")
    ] = None,
    session: Annotated[str | None, typer.Option(metavar="ID", help="Calls of one session.")] = None,
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="tool, model (requests to models), or any.")
    ] = "tool",
    min_cost: Annotated[
        float | None, typer.Option(metavar="DOLLARS", min=0, help="That cost at least so much.")
    ] = None,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The oldest first; else the newest.")
    ] = False,
    limit: Annotated[int, typer.Option("-n", "--limit", min=1, help="How many at most.")] = 100,
    cursor: Annotated[
        str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")
    ] = None,
    has_all: Annotated[bool, typer.Option("--all", help="Every call, not only --limit.")] = False,
    json: Json = False,
    jsonl: Annotated[bool, typer.Option("--jsonl", help="Print JSON, one call per line.")] = False,
    csv: Csv = False,
) -> None:
    """Print the calls of all sessions that pass every filter, the newest first.

    Example: toolcrib calls --since 7d --by alice --tool 'stock_*' --failed

    Example: toolcrib audit query --since 2026-11-01 --all --csv --store crib.sqlite3 > calls.csv
    """
    if sum((json, jsonl, csv)) > 1:
        raise typer.BadParameter("print it in one form: --json, --jsonl or --csv")
    if is_failed and status is not None:
        raise typer.BadParameter("--failed is short for a --status; give one of them")
    filters = {
        "since": since,
        "until": until,
        "principal": by,
        "owner": owner,
        "tool": tool,
        "source": source,
        "model": model,
        "status": "failed,denied,in_doubt" if is_failed else status,
        "failure": failure,
        "decision": decision,
        "decided_by": decided_by,
        "approver": approver,
        "session_id": session,
        "kind": "model" if model is not None and kind == "tool" else kind,
        "min_cost": min_cost,
        "oldest_first": oldest_first,
    }
    with open_service(store, url, token_file) as service:
        pages = _Pages(service, filters, cursor, None if has_all else limit)
        if jsonl:
            for row in pages:
                show_json_line(row)
        elif csv:
            _print_csv(_COLUMNS, map(_csv_row, pages))
        elif json:
            rows = list(pages)
            show_json({"calls": rows, "cursor": pages.cursor})
            return
        else:
            _print_calls(list(pages))
    if pages.cursor is not None:
        show_note(f"there are more: --cursor '{pages.cursor}', --limit or --all")


class _Pages:
    """The calls of a query, page after page; then `cursor` is where the next ones begin."""

    def __init__(
        self,
        service: ServiceConnection,
        filters: Mapping[str, Any],
        cursor: str | None,
        limit: int | None,
    ) -> None:
        self.cursor = cursor
        self._service = service
        self._filters = filters
        self._left = limit

    def __iter__(self) -> Iterator[dict[str, Any]]:
        while self._left is None or self._left > 0:
            count = PAGE if self._left is None else min(PAGE, self._left)
            params = {**self._filters, "cursor": self.cursor, "limit": count}
            page = self._service.ask(
                "calls.list", {name: value for name, value in params.items() if value is not None}
            )
            self.cursor = page["cursor"]
            yield from page["calls"]
            if self.cursor is None:
                return
            if self._left is not None:
                self._left -= len(page["calls"])


def _print_calls(rows: Sequence[dict[str, Any]]) -> None:
    from toolcrib.cli.table import Row, show_table

    header = ("time (UTC)", "by", "tool", "status", "took", "about")
    cells = [
        Row(
            (
                short_time_text(row["at"]),
                row["principal"] or "-",
                row["tool"] or row["model"] or "-",
                row["status"],
                _seconds_text(row["duration_seconds"]),
                _about(row),
            ),
            _STYLES.get(row["status"]),
        )
        for row in rows
    ]
    show_table(header, cells, widest=(19, 16, 28, 9, 8, 0))
    if not rows:
        show_note("no such calls")


def _about(row: Mapping[str, Any]) -> str:
    """What else there is to say of a call: why it failed, who decided, what it cost."""
    said: list[str] = []
    if row["decision"] is not None:
        said.append(f"{row['decision']} by {row['approver'] or row['decided_by']}")
    if row["failure"] not in (None, "denied"):
        said.append(row["failure"])
    if row["input_tokens"]:
        said.append(_tokens_text(row))
    if row["cost"] is not None:
        said.append(_dollars(row["cost"]))
    return ", ".join(said)


def usage(
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    key: Annotated[
        str, typer.Option("--by", metavar="KEY", help="day, tool, principal or model.")
    ] = "day",
    since: Since = None,
    until: Until = None,
    principal: Annotated[
        str | None, typer.Option(metavar="NAME", help="Calls that this principal asked for.")
    ] = None,
    tool: ToolPattern = None,
    source: Source = None,
    model: Model = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Print what calls took together: how many, how long, tokens and cost, by day (UTC).

    Example: toolcrib audit usage --by principal --since 30d
    """
    filters = {
        "by": key,
        "since": since,
        "until": until,
        "principal": principal,
        "tool": tool,
        "source": source,
        "model": model,
    }
    with open_service(store, url, token_file) as service:
        sums = service.ask(
            "calls.sums", {name: value for name, value in filters.items() if value is not None}
        )["sums"]
    if json:
        show_json(sums)
    elif csv:
        columns = [*sums[0]] if sums else ["key"]
        _print_csv(columns, ([_cell(each[name]) for name in columns] for each in sums))
    else:
        _print_sums(sums, key)


def _print_sums(sums: Sequence[dict[str, Any]], key: str) -> None:
    from toolcrib.cli.table import Row, show_table

    header = (key, "calls", "failed", "p50", "p95", "waited", "tokens", "cost")
    rows = [
        Row(
            (
                each["key"] or "-",
                str(each["calls"]),
                str(each["failures"]),
                _seconds_text(each["p50_seconds"]),
                _seconds_text(each["p95_seconds"]),
                _seconds_text(each["waited_seconds"] or None),
                _tokens_text(each),
                _cost_text(each),
            )
        )
        for each in sums
    ]
    show_table(header, rows, widest=(22, 9, 7, 7, 7, 7, 13, 0))
    if tables := sorted({name for each in sums for name in each["prices"]}):
        show_note(f"prices: {', '.join(tables)}")
    if unpriced := sum(each["unpriced"] for each in sums):
        show_note(
            f"{unpriced} requests to models have no known price and are not in the cost (+, ?)"
        )


def _cost_text(each: Mapping[str, Any]) -> str:
    if each["cost"] is None:
        return "?" if each["unpriced"] else "-"
    return _dollars(each["cost"]) + ("+" if each["unpriced"] else "")


def _dollars(cost: float) -> str:
    return f"${cost:,.2f}" if cost >= 1 else f"${cost:.4f}"


def _tokens_text(row: Mapping[str, Any]) -> str:
    if not row["input_tokens"] and not row["output_tokens"]:
        return "-"
    return f"{_count_text(row['input_tokens'])}/{_count_text(row['output_tokens'])}"


def _count_text(count: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= size:
            return f"{count / size:.3g}{unit}"
    return str(count)


def _seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds:.2f}s" if seconds < 100 else f"{seconds / 60:.0f}m"


def _csv_row(row: Mapping[str, Any]) -> list[str]:
    facts = {**row, "time": time_text(row["at"])}
    return [_cell(facts[name]) for name in _COLUMNS]


def _cell(value: object) -> str:
    """A value for a spreadsheet. A text that one would take for a formula is made plain text."""
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return _cell("; ".join(map(str, cast("Sequence[object]", value))))
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return str(value)


def _print_csv(header: Sequence[str], rows: Iterator[Sequence[str]]) -> None:
    import csv

    # RFC 4180: a comma, quotes where they are needed, and both characters at the end of a line.
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    writer.writerow(header)
    writer.writerows(rows)
