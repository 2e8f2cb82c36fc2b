"""`toolcrib worker`: a replica that advances turns, with no clients of its own."""

from __future__ import annotations

from dataclasses import replace

import typer

from toolcrib.cli.http_options import ServerOptions, serve_over_http, takes_access_options
from toolcrib.cli.output import show_note
from toolcrib.cli.project_options import is_on_command_line
from toolcrib.cli.runtime_options import RuntimeOptions, takes_runtime_options
from toolcrib.cli.serve import SERVED_OPTIONS
from toolcrib.store.address import DatabaseUrl


@takes_runtime_options(*SERVED_OPTIONS, "reload")
@takes_access_options(port=0)
def worker(options: RuntimeOptions, server: ServerOptions) -> None:
    """Advance the turns of a store that replicas share, until SIGINT or SIGTERM.

    Servers accept prompts and make them durable; a worker runs them. It takes the options of
    `toolcrib serve`, and the same toolcrib.yaml: it needs the same tools, policy and model.

    It listens too, on any free port unless --port names one: for the other replicas, which forward
    what concerns a session that it has open, and for health checks. Send no clients there.

    Example: toolcrib worker --store postgresql://crib@db/crib --adapter mymodel:adapter

    Example: toolcrib worker --engine temporal --engine-address temporal:7233
    """
    if not isinstance(options.store, DatabaseUrl):
        raise typer.BadParameter(
            "a worker advances the turns of a store that it shares with servers; name it with "
            "--store postgresql://..., or as store: in toolcrib.yaml"
        )
    if not options.has_model:
        raise typer.BadParameter(
            "a worker runs prompts, and there is no model; name it with --adapter MODULE:NAME, or "
            "as model: in toolcrib.yaml"
        )
    if is_on_command_line("advance_turns"):
        raise typer.BadParameter(
            "--no-advance-turns is for `toolcrib serve`; a worker has no other"
        )
    # The port of the project is that of its server, which may run on this machine.
    port = server.port if is_on_command_line("port") else 0

    def ready(*_: object) -> None:
        show_note(f"advancing turns with {engine_text(options)}")

    serve_over_http(
        replace(options, advance_turns=True),
        replace(server, port=port, console=False),
        on_ready=ready,
    )


def engine_text(options: RuntimeOptions) -> str:
    """What drives the turns, for the person who started it."""
    if options.engine == "temporal":
        return f"Temporal at {options.engine_address}, task queue {options.engine_queue}"
    return "PostgreSQL"
