"""`toolcrib acp`: a runtime as the agent of an editor."""

from __future__ import annotations

from toolcrib.cli.extras import require_extra
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    RuntimeOptions,
    run_hosted,
    takes_runtime_options,
)


@takes_runtime_options(*HOST_OPTIONS, "adapter", "reload")
def acp(options: RuntimeOptions) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.

    Prompts need --adapter. With --store, sessions can be loaded after a restart.

    Example: toolcrib acp --host-tools tools.yaml --adapter mymodel:adapter --store crib.sqlite3
    """
    require_extra("acp", "acp")
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    from toolcrib.transports.acp.server import serve_acp

    run_hosted(options, lambda runtime: serve_acp(runtime, pipes))
