"""Temporal bare: a workflow whose activities, the model's and the tools', are the only log."""

import asyncio
import uuid
from datetime import timedelta
from typing import Any

from engine_turn import ANSWER, AT_ONCE, CALLS, add, model
from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "turns"
OPTIONS: dict[str, Any] = {"start_to_close_timeout": timedelta(seconds=60)}


@activity.defn
async def ask_model(step: int) -> list[int | str]:
    return [model(step)]


@activity.defn
async def call(number: int) -> int:
    return await add(number, 2)


@workflow.defn(sandboxed=False)
class Turn:
    """The turn."""

    @workflow.run
    async def run(self) -> str:
        for step in range(CALLS + 1):
            (said,) = await workflow.execute_activity(ask_model, step, **OPTIONS)
            if isinstance(said, str):
                return said
            await workflow.execute_activity(call, said, **OPTIONS)
        raise AssertionError("no answer")


class Engine:
    """A client and a worker in one process."""

    async def start(self, address: str) -> None:
        self._client = await Client.connect(address)
        self._worker = Worker(
            self._client,
            task_queue=QUEUE,
            workflows=[Turn],
            activities=[ask_model, call],
            workflow_runner=UnsandboxedWorkflowRunner(),
            max_concurrent_activities=AT_ONCE,
        )
        self._task = asyncio.create_task(self._worker.run())

    async def turn(self) -> None:
        """One turn, from the request to its result."""
        name = uuid.uuid4().hex
        if await self._client.execute_workflow(Turn.run, id=name, task_queue=QUEUE) != ANSWER:
            raise SystemExit("the workflow came to another end")

    async def stop(self) -> None:
        """End the worker."""
        await self._worker.shutdown()
        await self._task
