"""`toolcrib gateway`: the credentials of mounted MCP servers, in the store of this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from toolcrib.cli.output import fail, show, show_json, show_note
from toolcrib.cli.runtime_options import RuntimeOptions, run_hosted, takes_runtime_options
from toolcrib.cli.store_options import Json
from toolcrib.cli.table import Row, moment_text, show_table
from toolcrib.errors import CredentialFailed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from toolcrib.mcp_client.server_credentials import ServerCredentials
    from toolcrib.runtime.runtime import Runtime

T = TypeVar("T")

app = typer.Typer(
    help="Sign in to mounted MCP servers, sign out, and see who has.", no_args_is_help=True
)
_OPTIONS = ("host_tools", "store", "store_key_file")

ServerName = Annotated[str, typer.Argument(metavar="SERVER", help="A server of mcp_servers.")]
PrincipalName = Annotated[
    str,
    typer.Option(
        "--principal",
        metavar="NAME",
        help="Whose credential it is; `local` is who uses toolcrib mcp, `owner` the owner.",
    ),
]


@app.command("sign-in")
@takes_runtime_options(*_OPTIONS, "allow_egress")
def sign_in(
    options: RuntimeOptions,
    server: ServerName,
    principal: PrincipalName = "local",
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="Where the browser comes back to; 0 is any port."
        ),
    ] = 0,
    seconds: Annotated[
        float, typer.Option("--timeout", min=1, help="How many seconds to wait for the person.")
    ] = 600.0,
) -> None:
    """Print a link, and wait until a person has signed in there with a browser on this machine.
    The tokens are kept in the store, encrypted with TOOLCRIB_STORE_KEY.

    Example: toolcrib gateway sign-in docs --host-tools gateway.yaml --store crib.sqlite3
    """
    _check_store(options)

    async def signed_in(credentials: ServerCredentials) -> None:
        import asyncio

        from toolcrib.cli.loopback_callback import loopback_callback

        async with loopback_callback(port) as callback:
            departure = await credentials.begin(server, principal, callback.redirect_uri)
            show(departure.url)
            show_note("Open this link in a browser on this machine.")
            try:
                async with asyncio.timeout(seconds):
                    answer = await callback.answer(departure.state)
            except TimeoutError:
                fail(f"nobody signed in within {seconds:g} seconds; run the command again")
        facts = await credentials.finish(answer)
        whose = "everybody" if facts.principal is None else facts.principal
        show_note(f"signed in to {server} for {whose}", "green")

    _run(options, signed_in)


@app.command("sign-out")
@takes_runtime_options(*_OPTIONS, "allow_egress")
def sign_out(
    options: RuntimeOptions, server: ServerName, principal: PrincipalName = "local"
) -> None:
    """Revoke the tokens at the authorization server, where it offers that, and forget them.

    Example: toolcrib gateway sign-out docs --host-tools gateway.yaml --store crib.sqlite3
    """
    _check_store(options)

    async def signed_out(credentials: ServerCredentials) -> bool:
        whose = None if credentials.is_shared(server) else principal
        return await credentials.sign_out(server, whose)

    if not _run(options, signed_out):
        fail(f"there is no credential of {principal} for {server}")
    show_note(f"signed out of {server}", "green")


@app.command("list")
@takes_runtime_options("store", "store_key_file")
def list_command(options: RuntimeOptions, json: Json = False) -> None:
    """Print who has credentials for which servers. The tokens are not shown.

    Example: toolcrib gateway list --store crib.sqlite3
    """
    _check_store(options)
    found = _run(options, lambda credentials: credentials.list())
    if json:
        from dataclasses import asdict

        show_json([asdict(each) for each in found])
        return
    rows = [
        Row(
            (
                each.server,
                each.principal or "everybody",
                each.issuer,
                each.scope or "-",
                moment_text(each.signed_in_at),
                "yes" if each.can_renew else "no",
            )
        )
        for each in found
    ]
    header = ("server", "principal", "issuer", "scope", "signed in", "renews")
    show_table(header, rows, widest=(0, 0, 0, 0, 0, 0))


def _check_store(options: Any) -> None:
    if options.store is None:
        raise typer.BadParameter("credentials are in a store; name it: --store FILE|URL")


def _run(options: RuntimeOptions, work: Callable[[ServerCredentials], Awaitable[T]]) -> T:
    async def worked(runtime: Runtime) -> T:
        try:
            return await work(runtime.gateway.credentials)
        except CredentialFailed as error:
            fail(str(error))

    return run_hosted(options, worked)
