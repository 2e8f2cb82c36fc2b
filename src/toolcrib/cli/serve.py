"""`toolcrib serve`: a runtime with the host's tools, for clients to connect to."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.streams import fail, note
from toolcrib.errors import StoreError, UsageError

if TYPE_CHECKING:
    from toolcrib.host_tools.registry import HostToolRegistry
    from toolcrib.runtime.runtime import Runtime

HostToolFiles = Annotated[
    list[Path] | None,
    typer.Option("--host-tools", metavar="FILE", help="Tools in a YAML file; may be repeated."),
]
HostToolModules = Annotated[
    list[str] | None,
    typer.Option(
        "--host-tools-module", metavar="MODULE", help="Tools in a module; may be repeated."
    ),
]


def serve(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="JSON-RPC lines on stdin and stdout.")
    ] = False,
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", metavar="FILE", help="Keep sessions in an SQLite file."),
    ] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", metavar="FILE", help="The policy, a YAML file.")
    ] = None,
    adapter: Annotated[
        str | None,
        typer.Option("--adapter", metavar="MODULE:NAME", help="The adapter of a model."),
    ] = None,
) -> None:
    """Serve tools to a client until it ends its input, or this process is told to stop.

    Example: toolcrib serve --stdio --host-tools tools.yaml --store crib.sqlite3
    """
    import asyncio

    if not stdio:
        raise typer.BadParameter("say how to serve: --stdio")
    from toolcrib.transports.stdio import serve_stdio
    from toolcrib.transports.stdio_pipes import claim_pipes

    # Before any module of the host's is loaded: it may print.
    pipes = claim_pipes()
    try:
        registry = asyncio.run(_loaded(host_tools or [], host_tools_module or []))
        runtime = _runtime(registry, store, policy, adapter)
        try:
            asyncio.run(serve_stdio(runtime, pipes))
        finally:
            runtime.store.close()
    except (UsageError, StoreError, OSError) as error:
        fail(str(error))


async def _loaded(files: list[Path], modules: list[str]) -> HostToolRegistry:
    from toolcrib.host_tools.loading import load_host_tools
    from toolcrib.host_tools.registry import HostToolRegistry

    registry = HostToolRegistry()
    loaded = await load_host_tools(registry, files=files, modules=modules)
    for server in loaded.mcp_servers:
        note(f"mcp_servers.{server.name} is not mounted: this command serves host tools", "yellow")
    return registry


def _runtime(
    registry: HostToolRegistry, store: Path | None, policy: Path | None, adapter: str | None
) -> Runtime:
    from toolcrib.approval.policy_file import load_policy
    from toolcrib.runtime.config import RuntimeConfig
    from toolcrib.runtime.runtime import create_runtime
    from toolcrib.store.sqlite import SqliteStore

    config = RuntimeConfig(
        host_tool_registry=registry,
        store=None if store is None else SqliteStore(store),
        policy=None if policy is None else load_policy(policy),
        adapter=None if adapter is None else _adapter(adapter),
    )
    return create_runtime(config)


def _adapter(place: str) -> Any:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.host_tools.importing import import_named

    module, _, name = place.partition(":")
    found = getattr(import_named(module), name or "adapter", None)
    if not isinstance(found, PromptAdapter):
        raise UsageError(f"--adapter {place}: there is no adapter; write MODULE:NAME of one")
    return found
