"""`toolcrib calls`, `audit query` and `audit usage`: the calls of all sessions, and their sums."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from toolcrib.cli.output import show_json, show_json_line, show_note
from toolcrib.cli.service import TokenFile, Url, open_service, plain
from toolcrib.cli.shared_options import Command, option, takes_options
from toolcrib.cli.store_options import Json, OptionalStore, short_time_text

if TYPE_CHECKING:
    from toolcrib.runtime.blocking_operations import BlockingOperations

Csv = Annotated[bool, typer.Option("--csv", help="Print CSV, with a header.")]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="Print JSON, one call per line.")]
Limit = Annotated[int, typer.Option("-n", "--limit", min=1, help="How many at most.")]
Cursor = Annotated[str | None, typer.Option(metavar="CURSOR", help="Go on after an earlier page.")]
All = Annotated[bool, typer.Option("--all", help="Every call, not only --limit.")]


def _filter(metavar: str, text: str, *flags: str) -> Any:
    return Annotated[str | None, typer.Option(*flags, metavar=metavar, help=text)]


_COMMON_FILTERS: Final[dict[str, Any]] = {
    "since": _filter("TIME", "From then on: 7d, 12h, 2026-11-17T08:00."),
    "until": _filter("TIME", "Before then."),
    "tool": _filter("NAME", "A tool, or a pattern such as 'git_*'."),
    "source": _filter("NAME", "Tools from here, e.g. python."),
    "model": _filter("NAME", "Requests to a model."),
}
_QUERY_FILTERS: Final[dict[str, Any]] = {
    **_COMMON_FILTERS,
    "principal": _filter("NAME", "Calls that this principal asked for.", "--by"),
    "owner": _filter("NAME", "Calls in the sessions of this principal."),
    "status": _filter(
        "STATUS",
        "completed, failed, denied, waiting, approved, running, in_doubt; several with commas.",
    ),
    "failure": _filter("KIND", "The kind of failure, e.g. timeout."),
    "decision": _filter("WHAT", "allowed, denied, edited, answered or expired."),
    "decided_by": _filter("WHO", "person, rule, grant or timeout."),
    "approver": _filter("NAME", "The person, rule or grant that decided."),
    "session_id": _filter("ID", "Calls of one session.", "--session"),
    "kind": _filter("KIND", "tool (the default), model (requests to models), or any."),
    "min_cost": Annotated[
        float | None, typer.Option(metavar="DOLLARS", min=0, help="That cost at least so much.")
    ],
}
_USAGE_FILTERS: Final[dict[str, Any]] = {
    **_COMMON_FILTERS,
    "by": _filter("KEY", "day (the default, in UTC), tool, principal or model."),
    "principal": _filter("NAME", "Calls that this principal asked for."),
}


def _takes_filters(filters: Mapping[str, Any]) -> Callable[[Command], Command]:
    """Add filters to a command, which gets those that are given as its parameter `filters`."""
    options = [option(name, kind) for name, kind in filters.items()]
    return takes_options(
        "filters",
        options,
        lambda taken: {name: value for name, value in taken.items() if value is not None},
    )


PAGE: Final = 1_000
"""How many calls one request asks for."""
_STYLES: Final = {"failed": "red", "in_doubt": "red", "denied": "yellow", "waiting": "cyan"}


@_takes_filters(_QUERY_FILTERS)
def query(
    filters: dict[str, Any],
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    is_failed: Annotated[
        bool, typer.Option("--failed", help="Short for --status failed,denied,in_doubt.")
    ] = False,
    oldest_first: Annotated[
        bool, typer.Option("--oldest-first", help="The oldest first; else the newest.")
    ] = False,
    limit: Limit = 100,
    cursor: Cursor = None,
    has_all: All = False,
    json: Json = False,
    jsonl: Jsonl = False,
    csv: Csv = False,
) -> None:
    """Print the calls of all sessions that pass every filter, the newest first.

    Example: toolcrib calls --since 7d --by alice --tool 'stock_*' --failed

    Example: toolcrib audit query --since 2026-11-01 --all --csv --store crib.sqlite3 > calls.csv
    """
    if sum((json, jsonl, csv)) > 1:
        raise typer.BadParameter("print it in one form: --json, --jsonl or --csv")
    if is_failed:
        if "status" in filters:
            raise typer.BadParameter("--failed is short for a --status; give one of them")
        filters["status"] = "failed,denied,in_doubt"
    if "model" in filters:
        filters.setdefault("kind", "model")
    if "min_cost" in filters:
        filters.setdefault("kind", "any")
    with open_service(store, url, token_file) as service:
        pages = _Pages(
            service,
            {**filters, "oldest_first": oldest_first},
            cursor,
            None if has_all else limit,
        )
        _print_pages(pages, json=json, jsonl=jsonl, csv=csv)
    if pages.cursor is not None and not json:
        show_note(f"there are more: --cursor '{pages.cursor}', --limit or --all")


def _print_pages(pages: _Pages, *, json: bool, jsonl: bool, csv: bool) -> None:
    if jsonl:
        for row in pages:
            show_json_line(row)
    elif csv:
        from toolcrib.runtime.call_csv import CALL_COLUMNS, call_cells

        _print_csv(CALL_COLUMNS, map(call_cells, pages))
    elif json:
        rows = list(pages)
        show_json({"calls": rows, "cursor": pages.cursor})
    else:
        _print_calls(list(pages))


class _Pages:
    """The calls of a query, page after page; then `cursor` is where the next ones begin."""

    def __init__(
        self,
        service: BlockingOperations,
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
            page = self._service.list_calls(**self._filters, cursor=self.cursor, limit=count)
            self.cursor = page.cursor
            yield from plain(page.calls)
            if self.cursor is None:
                return
            if self._left is not None:
                self._left -= len(page.calls)


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


@_takes_filters(_USAGE_FILTERS)
def usage(
    filters: dict[str, Any],
    store: OptionalStore = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Print what calls took together: how many, how long, tokens and cost, by day.

    Example: toolcrib audit usage --by principal --since 30d
    """
    with open_service(store, url, token_file) as service:
        sums = plain(service.sum_calls(**filters).sums)
    if json:
        show_json(sums)
    elif csv:
        from toolcrib.runtime.call_csv import cell

        columns = [*sums[0]] if sums else ["key"]
        _print_csv(columns, ([cell(each[name]) for name in columns] for each in sums))
    else:
        _print_sums(sums, filters.get("by", "day"))


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


def _print_csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    from toolcrib.runtime.call_csv import csv_text

    sys.stdout.write(csv_text([header]))
    for line in lines:
        sys.stdout.write(csv_text([line]))
