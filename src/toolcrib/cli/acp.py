"""`toolcrib acp`: a runtime as the agent of an editor."""

from __future__ import annotations

from toolcrib.cli.hosting import (
    AdapterName,
    Hosting,
    HostToolFiles,
    HostToolModules,
    KeepIn,
    Plugins,
    PolicyFile,
    Reload,
    run_hosted,
)


def acp(
    host_tools: HostToolFiles = None,
    host_tools_module: HostToolModules = None,
    plugins: Plugins = False,
    store: KeepIn = None,
    policy: PolicyFile = None,
    adapter: AdapterName = None,
    reload: Reload = False,
) -> None:
    """Serve an editor that speaks the Agent Client Protocol, on stdin and stdout.

    Prompts need --adapter. With --store, sessions can be loaded again after the process has ended.

    Example: toolcrib acp --host-tools tools.yaml --adapter mymodel:adapter --store crib.sqlite3
    """
    asked = Hosting(
        files=host_tools,
        modules=host_tools_module,
        plugins=plugins,
        store=store,
        policy=policy,
        adapter=adapter,
        reload=reload,
    )
    from toolcrib.transports.stdio_pipes import claim_pipes

    pipes = claim_pipes()
    # After the claim: the SDK is optional, and what is missing is told on stderr.
    from toolcrib.cli.streams import fail

    try:
        from toolcrib.transports.acp.serving import serve_acp
    except ModuleNotFoundError as error:
        if error.name != "acp":
            raise
        fail("toolcrib acp needs the extra: pip install 'toolcrib[acp]'")
    run_hosted(asked, lambda runtime: serve_acp(runtime, pipes))
