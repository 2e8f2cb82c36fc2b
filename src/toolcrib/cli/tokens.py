"""`toolcrib tokens`: tokens for the people and programs that use a server."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from toolcrib.approval.duration import read_duration
from toolcrib.cli.output import fail, show, show_json, show_note
from toolcrib.cli.store_options import Json, OptionalStore, open_store, time_text
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Role
    from toolcrib.serving.tokens import IssuedToken, TokenRecord, TokenRecords
    from toolcrib.store.address import StoreAddress
    from toolcrib.store.store import Store

app = typer.Typer(
    help="Make, list, replace and revoke the tokens of a server. A running server follows at once.",
    no_args_is_help=True,
)

TokensPath = Annotated[
    Path | None,
    typer.Option("--tokens", metavar="FILE", help="The file of tokens, if not the default one."),
]
Wanted = Annotated[
    str, typer.Argument(metavar="TOKEN", help="The id or the name of a token, as listed.")
]


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose token it is.")],
    role: Annotated[
        list[str],
        typer.Option(
            "--role",
            metavar="ROLE[,ROLE]",
            help="caller, approver, auditor or admin; may be repeated.",
        ),
    ],
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="GROUP", help="A group of theirs; may be repeated."),
    ] = None,
    expires: Annotated[
        str,
        typer.Option("--expires", metavar="TIME", help="After 30m, 12h or 90d; or never."),
    ] = "90d",
    may_approve_own: Annotated[
        bool, typer.Option("--may-approve-own", help="They may approve their own calls.")
    ] = False,
    tokens: TokensPath = None,
    store: OptionalStore = None,
    json: Json = False,
) -> None:
    """Make a token and print it. It cannot be shown again: the file, or the store that servers
    share, keeps its hash only.

    Example: toolcrib tokens create alice --role caller --group engineers --expires 90d

    Example: toolcrib tokens create ci --role caller,auditor --expires never
    """
    with _tokens(tokens, store) as file:
        issued = file.create(
            name,
            cast("list[Role]", _split(role)),
            groups=_split(group or []),
            lifetime_seconds=None if expires == "never" else read_duration(expires),
            may_approve_own=may_approve_own,
        )
    _show_issued(issued, file, json)


@app.command("list")
def list_command(
    tokens: TokensPath = None, store: OptionalStore = None, json: Json = False
) -> None:
    """Print the tokens, without their secrets.

    Example: toolcrib tokens list
    """
    with _tokens(tokens, store) as file:
        records = file.records()
    if json:
        show_json([_facts(record) for record in records])
        return
    for record in records:
        show(_line(record))
    if not records:
        show_note(f"{file.place} has no tokens")


@app.command()
def revoke(token: Wanted, tokens: TokensPath = None, store: OptionalStore = None) -> None:
    """End a token, or all tokens of a name, and the streams that they have open.

    Example: toolcrib tokens revoke alice
    """
    with _tokens(tokens, store) as file:
        removed = file.revoke(token)
    for record in removed:
        show_note(f"revoked {record.id} of {record.name}")


@app.command()
def rotate(
    token: Wanted,
    keep_old: Annotated[
        str | None,
        typer.Option("--keep-old", metavar="TIME", help="The old token works on: for 1h, 1d."),
    ] = None,
    tokens: TokensPath = None,
    store: OptionalStore = None,
    json: Json = False,
) -> None:
    """Replace a token by a new one with the same rights, and print the new one.

    Example: toolcrib tokens rotate ci --keep-old 1h
    """
    with _tokens(tokens, store) as file:
        grace = 0.0 if keep_old is None else read_duration(keep_old)
        issued = file.rotate(token, grace_seconds=grace)
    _show_issued(issued, file, json)


@contextmanager
def _tokens(path: Path | None, address: StoreAddress | None) -> Generator[TokenRecords]:
    """The tokens of a file that is named, else of a store that servers share, else of the default
    file; a fault ends the command with status 1.
    """
    from toolcrib.serving.tokens import TokenFile, default_tokens_file

    try:
        if path is None and address is not None and not isinstance(address, Path):
            with open_store(address) as store:
                yield _stored(store)
        else:
            yield TokenFile(path or default_tokens_file())
    except UsageError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{path or default_tokens_file()} cannot be changed: {error.strerror}")


def _stored(store: Store) -> TokenRecords:
    from toolcrib.serving.shared_document import SharedDocument
    from toolcrib.serving.stored_identity import TOKENS_NAME, StoredTokens
    from toolcrib.store.shared_store import is_shared

    if not is_shared(store):
        raise UsageError("this store keeps no tokens; name a file of them: --tokens FILE")
    document = SharedDocument(store, TOKENS_NAME)
    document.load()
    return StoredTokens(document)


def _split(names: list[str]) -> list[str]:
    return [name.strip() for each in names for name in each.split(",") if name.strip()]


def _show_issued(issued: IssuedToken, file: TokenRecords, json: bool) -> None:
    if json:
        show_json({**_facts(issued.record), "token": issued.token})
        return
    show(issued.token)
    show_note(f"{_line(issued.record)}")
    show_note(f"it is kept as a hash in {file.place} and is not shown again")


def _facts(record: TokenRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "name": record.name,
        "roles": list(record.roles),
        "groups": list(record.groups),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "may_approve_own": record.may_approve_own,
    }


def _line(record: TokenRecord) -> str:
    groups = f"  groups {','.join(record.groups)}" if record.groups else ""
    end = "never expires" if record.expires_at is None else f"until {time_text(record.expires_at)}"
    own = "  may approve own calls" if record.may_approve_own else ""
    return f"{record.id}  {record.name}  {','.join(record.roles)}{groups}  {end}{own}"
