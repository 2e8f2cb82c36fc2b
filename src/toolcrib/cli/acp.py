"""`toolcrib acp`: a runtime as the agent of an editor."""

from __future__ import annotations

from toolcrib.cli.output import fail
from toolcrib.cli.runtime_options import (
    AdapterName,
    HostToolFiles,
    HostToolModules,
    KeepIn,
    Plugins,
    PolicyFile,
    ReloadOption,
    RuntimeOptions,
    run_hosted,
)


def acp(
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    adapter: AdapterName = None,
    reload: ReloadOption = False,
) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.

    Prompts need --adapter. With --store, sessions can be loaded again after the process has ended.

    Example: toolcrib acp --host-tools tools.yaml --adapter mymodel:adapter --store crib.sqlite3
    """
    from importlib.util import find_spec

    if find_spec("acp") is None:
        fail("the Agent Client Protocol is not installed here; pip install 'toolcrib[acp]'")
    asked = RuntimeOptions(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        reload=reload,
    )
    from toolcrib.transports.pipes import claim_pipes

    pipes = claim_pipes()
    from toolcrib.transports.acp.server import serve_acp

    run_hosted(asked, lambda runtime: serve_acp(runtime, pipes))
