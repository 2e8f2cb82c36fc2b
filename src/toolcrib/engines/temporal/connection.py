"""The connection to a Temporal server: the client, the worker and the workflow of a session."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from toolcrib.errors import UsageError
from toolcrib.extras import install_command

if find_spec("temporalio") is None:
    raise UsageError(f"Temporal needs temporalio; install it with: {install_command('temporal')}")

from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.service import TLSConfig
from temporalio.worker import Worker
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner, SandboxRestrictions

from toolcrib.engines.temporal.turn_workflow import WAKE, WORKFLOW, TurnOrder, TurnWorkflow

if TYPE_CHECKING:
    from toolcrib.engines.temporal.options import TemporalOptions
    from toolcrib.engines.temporal.turn_activities import TurnActivities

WORKFLOW_PREFIX: Final = "toolcrib-turn-"
"""A workflow's id is this and the session id: a session has one turn at a time."""
_CONNECT_SECONDS: Final = 10.0
_STEP_SECONDS: Final = 3.0
"""How long one step of a workflow may take, which reads no more than its history. The step that a
worker took as it ended, also in good order, is lost, and is given to another one only then.
"""


async def connect(options: TemporalOptions) -> Client:
    """A client of the server. Raises what the server, or the way to it, has against it."""
    tls: TLSConfig | bool | None = None
    if options.tls is not None:
        tls = TLSConfig(
            server_root_ca_cert=options.tls.server_ca,
            client_cert=options.tls.cert,
            client_private_key=options.tls.key,
            domain=options.tls.server_name,
        )
    connecting = Client.connect(
        options.address, namespace=options.namespace, api_key=options.api_key, tls=tls
    )
    return await asyncio.wait_for(connecting, _CONNECT_SECONDS)


async def start_workflow(client: Client, options: TemporalOptions, session_id: str) -> None:
    """Start the workflow of a session, or wake the one that runs. The server does one of the two in
    one step: a workflow that is about to end hears of it and looks again.
    """
    await client.start_workflow(
        WORKFLOW,
        TurnOrder(session_id, options.heartbeat_seconds, options.turn_seconds),
        id=f"{WORKFLOW_PREFIX}{session_id}",
        task_queue=options.task_queue,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        start_signal=WAKE,
        task_timeout=timedelta(seconds=_STEP_SECONDS),
    )


def turn_worker(
    client: Client, options: TemporalOptions, activities: TurnActivities, *, drain_seconds: float
) -> Worker:
    """What takes workflows and activities from the queue and runs them in this process."""
    restrictions = SandboxRestrictions.default.with_passthrough_modules("toolcrib")
    # How often the server hears of an activity, and the activity of a cancelled workflow.
    throttle = timedelta(seconds=min(options.heartbeat_seconds / 3, 1.0))
    return Worker(
        client,
        task_queue=options.task_queue,
        workflows=[TurnWorkflow],
        activities=[activities.advance, activities.cancel],
        workflow_runner=SandboxedWorkflowRunner(restrictions=restrictions),
        max_concurrent_activities=options.max_turns,
        # A turn that waits is in nobody's memory. Nor does what wakes it go to the process that
        # ran it last, where it would lie for ten seconds if that one is dead.
        max_cached_workflows=0,
        max_heartbeat_throttle_interval=throttle,
        default_heartbeat_throttle_interval=throttle,
        graceful_shutdown_timeout=timedelta(seconds=drain_seconds),
    )
