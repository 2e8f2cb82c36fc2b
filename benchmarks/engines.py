"""A turn of five calls on DBOS and on Temporal, used bare, beside ours on PostgreSQL.

Bare means that the steps of the engine are the only log, as their tutorials for agents show it: a
step is a plain function. Ours has all that it always has: the OpenAI SDK with a scripted server,
checked arguments, policy, and a ledger that says what was done. DBOS starts its workflows in the
process, without a queue, as a program does that evaluates prompts in sessions of its own. Temporal
and `prompt.send` make a turn durable first, and give it to whoever takes it up. Temporal's server
for developers keeps its log in SQLite.
"""

import asyncio
import json
import random
import resource
import subprocess
import sys
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass

import httpx2
from databases import postgres_server, server_seconds, tree_seconds
from engine_turn import ANSWER, AT_ONCE, CALLS, add, model
from harness import Bound, Spread
from openai import AsyncOpenAI
from quiet import silence
from report import quarters, table

from toolcrib import MarkdownSection, Prompt, RuntimeConfig, Session, create_runtime, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key
from toolcrib.testing import calls, says

OURS, SESSIONS = "toolcrib, prompt.send on PostgreSQL", "toolcrib, sessions on PostgreSQL"
DBOS, TEMPORAL = "DBOS on PostgreSQL", "Temporal (SQLite)"
Turn = Callable[[], Awaitable[None]]
Stop = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Run:
    """What a contestant did in one round."""

    rate: float
    """Calls of tools in a second."""
    client_us: float
    server_us: float

    @property
    def cpu_us(self) -> float:
        """Of both."""
        return self.client_us + self.server_us


def _reply(request: httpx2.Request) -> httpx2.Response:
    """What the model says to the call that the request brings the output of."""
    body = json.loads(request.content)
    ended = [item["call_id"] for item in body["input"] if item["type"] == "function_call_output"]
    said = model(int(ended[-1].removeprefix("call_")) + 1 if ended else 0)
    item = calls("add", {"a": said, "b": 2}, call_id=f"call_{said}")
    output = [says(said) if isinstance(said, str) else item]
    reply = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "status": "completed"}
    reply |= {"model": "m", "output": output}
    if not body.get("stream"):
        return httpx2.Response(200, json=reply)
    event = json.dumps({"type": "response.completed", "response": reply})
    text = f"event: response.completed\ndata: {event}\n\n"
    return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def _adapter() -> OpenAIAdapter:
    http = httpx2.AsyncClient(transport=httpx2.MockTransport(_reply))
    return OpenAIAdapter(model="m", client=AsyncOpenAI(api_key="none", http_client=http))


async def _ours(url: str) -> tuple[Turn, Stop]:
    """Prompts that a runtime queues, claims and answers."""
    config = RuntimeConfig(
        store=PostgresStore(url, key=new_key()),
        adapter=_adapter(),
        tools=[tool(add)],
        max_turns=AT_ONCE,
    )
    runtime = create_runtime(config)
    await runtime.start()

    async def turn() -> None:
        session_id = (await runtime.ask("session.create", {})).session_id
        result = await runtime.ask("prompt.send", {"session_id": session_id, "text": "Add."})
        if result.text != ANSWER:
            raise SystemExit(f"the turn came to another end: {result}")
        await runtime.ask("session.close", {"session_id": session_id})

    async def stop() -> None:
        await runtime.close()
        assert config.store is not None
        await asyncio.to_thread(config.store.close)

    return turn, stop


async def _sessions(url: str) -> tuple[Turn, Stop]:
    """Prompts that a program evaluates itself, in a session each."""
    adapter, store = _adapter(), PostgresStore(url)
    section = MarkdownSection(title="Task", key="task", template="Add.", tools=[tool(add)])
    prompt = Prompt(ns="bench", key="engines", sections=[section])

    async def turn() -> None:
        async with await Session.open(store) as session:
            response = await adapter.evaluate_async(prompt, session=session)
            if response.text != ANSWER:
                raise SystemExit("the turn came to another end")

    async def stop() -> None:
        await asyncio.to_thread(store.close)

    return turn, stop


async def _contestant(name: str, place: str) -> tuple[Turn, Stop]:
    if name == OURS:
        return await _ours(place)
    if name == SESSIONS:
        return await _sessions(place)
    if name == DBOS:
        from peers import turn_dbos

        turn_dbos.start(place)
        return turn_dbos.turn, turn_dbos.stop
    from peers import turn_temporal

    engine = turn_temporal.Engine()
    await engine.start(place)
    return engine.turn, engine.stop


async def _serve(name: str, place: str, turns: int) -> None:
    """Run turns, some at a time, from the moment that a line comes, and say what it took."""
    turn, stop = await _contestant(name, place)
    await asyncio.gather(*(turn() for _ in range(AT_ONCE)))
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    free = asyncio.Semaphore(AT_ONCE)

    async def one() -> None:
        async with free:
            await turn()

    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF)
    await asyncio.gather(*(one() for _ in range(turns)))
    wall, spent = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = spent.ru_utime + spent.ru_stime - used.ru_utime - used.ru_stime
    print(json.dumps([wall, cpu]), flush=True)
    await stop()


def _measure(name: str, place: str, seconds: Callable[[], float], turns: int) -> Run:
    command = [sys.executable, __file__, name, place, str(turns)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        if child.stdout.readline() != "ready\n":
            raise SystemExit(f"{name} ended by itself; its error is above")
        before = seconds()
        child.stdin.write("go\n")
        child.stdin.flush()
        wall, cpu = json.loads(child.stdout.readline())
        after = seconds()
    calls = turns * CALLS
    return Run(calls / wall, cpu / calls * 1e6, (after - before) / calls * 1e6)


def run(quick: bool) -> list[Bound]:
    """Every engine once a round, in a new order each time."""
    from tests.servers.temporal import temporary_temporal

    rounds, turns, rng = (2, 64, random.Random(1)) if quick else (5, 160, random.Random(1))
    runs: dict[str, list[Run]] = {name: [] for name in (OURS, SESSIONS, DBOS, TEMPORAL)}
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        temporal = stack.enter_context(temporary_temporal())
        order = list(runs)
        for _ in range(rounds):
            rng.shuffle(order)
            for name in order:
                if name == TEMPORAL:
                    place, seconds = temporal.address, lambda: tree_seconds(temporal.pid)
                else:
                    place, seconds = server.database(), lambda: server_seconds(server)
                runs[name].append(_measure(name, place, seconds, turns))
    rows: list[list[str]] = []
    for name, each in runs.items():
        rate = Spread.of([one.rate for one in each])
        client = Spread.of([one.client_us for one in each]).median
        database = Spread.of([one.server_us for one in each]).median
        rows.append(
            [name, f"{rate.median:,.0f}", quarters(rate, 0), f"{client:.0f}", f"{database:.0f}"]
        )
    table(
        f"{turns} turns of {CALLS} calls, {AT_ONCE} at once, {rounds} rounds",
        ["engine", "tool calls/s", "IQR", "client CPU us/call", "server CPU us/call"],
        rows,
    )
    pairs = ((SESSIONS, DBOS), (OURS, TEMPORAL))
    return [_bound(ours, runs[ours], peer, runs[peer]) for ours, peer in pairs]


def _bound(name: str, ours: list[Run], peer: str, theirs: list[Run]) -> Bound:
    """CPU time of client and server: it does not depend on who else runs."""
    pairs = zip(ours, theirs, strict=True)
    ratio = Spread.of([mine.cpu_us / other.cpu_us for mine, other in pairs]).median
    promise = f"{name}, a turn of {CALLS} calls: less CPU than {peer}"
    return Bound(promise, f"{ratio:.2f}x of it", ratio < 1)


if __name__ == "__main__":
    silence()
    asyncio.run(_serve(sys.argv[1], sys.argv[2], int(sys.argv[3])))
