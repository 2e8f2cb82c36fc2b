"""A whole pydantic-ai agent run: our toolset beside the library's own, around the same function."""

import asyncio
import gc
import json
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness import Bound, Spread
from pydantic_ai import Agent, ModelMessage, ModelResponse, TextPart, ToolCallPart, UsageLimits
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AgentToolset, FunctionToolset
from report import quarters, table
from workload import PAYLOADS, Filter, Reply, expected, search

from toolcrib.context import AgentContext
from toolcrib.ledger.events import ToolInvoked
from toolcrib.toolsets import BaseTool, Toolset

STEPS = 50
TIMES_THEIRS = 1.15


class Search(BaseTool):
    """The tool that every contestant runs, as a class."""

    name = "search"
    description = "Search the catalogue and return the best matches."

    async def call(
        self,
        ctx: Any,
        query: str,
        limit: int,
        tags: list[str],
        filter: Filter,
        threshold: float = 0.5,
    ) -> Reply:
        return await search(query, limit, tags, filter, threshold)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A toolset for one run, and what it still has to do once the run is over."""

    name: str
    begin: Callable[[], tuple[AgentToolset[Any], Callable[[], None]]]


def theirs() -> tuple[AgentToolset[Any], Callable[[], None]]:
    return FunctionToolset([search]), lambda: None


def ours() -> tuple[AgentToolset[Any], Callable[[], None]]:
    """With a session and its ledger, of which every record is read in the end."""
    ctx = AgentContext()

    def check() -> None:
        kinds = [record.kind for record in ctx.session.records()]
        if kinds.count(ToolInvoked.kind) != STEPS:
            raise SystemExit(f"not every call is in the ledger: {kinds}")

    return Toolset(ctx, [Search]), check


CONTESTANTS = (Contestant("pydantic-ai: FunctionToolset", theirs), Contestant("toolcrib", ours))


async def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Fifty responses with one call each, and then the end."""
    step = sum(isinstance(message, ModelResponse) for message in messages)
    if step == STEPS:
        return ModelResponse(parts=[TextPart("done")])
    arguments = PAYLOADS[step % len(PAYLOADS)].decode()
    return ModelResponse(parts=[ToolCallPart("search", arguments, f"call_{step}")])


async def lap(contestant: Contestant) -> tuple[float, list[ModelMessage]]:
    """CPU milliseconds of one run, what its records cost included."""
    toolset, check = contestant.begin()
    agent = Agent(FunctionModel(script), toolsets=[toolset])
    gc.collect()
    began = time.process_time()
    result = await agent.run("go", usage_limits=UsageLimits(request_limit=None))
    check()
    return (time.process_time() - began) * 1e3, result.all_messages()


def probe(messages: Sequence[ModelMessage]) -> None:
    """Stop unless every call brought the right reply."""
    returns = [
        json.loads(part.model_response_str())
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if returns != [expected(PAYLOADS[step % len(PAYLOADS)]) for step in range(STEPS)]:
        raise SystemExit(f"wrong replies: {returns[:2]}")


async def measure(rounds: int) -> dict[str, list[float]]:
    """Each contestant once per round, in a shuffled order."""
    for contestant in CONTESTANTS:
        for _ in range(2):
            probe((await lap(contestant))[1])
    gc.collect()
    gc.freeze()
    costs: dict[str, list[float]] = {contestant.name: [] for contestant in CONTESTANTS}
    order, rng = list(CONTESTANTS), random.Random(1)
    for _ in range(rounds):
        rng.shuffle(order)
        for contestant in order:
            costs[contestant.name].append((await lap(contestant))[0])
    gc.unfreeze()
    return costs


def run(quick: bool) -> list[Bound]:
    """Measure whole runs and hold ours against the same run with the library's own toolset."""
    rounds = 7 if quick else 25
    costs = asyncio.run(measure(rounds))
    base, mine = (costs[contestant.name] for contestant in CONTESTANTS)
    ratio = Spread.of([one / other for one, other in zip(mine, base, strict=True)])
    rows = [
        [name, f"{Spread.of(c).median:.1f}", quarters(Spread.of(c))] for name, c in costs.items()
    ]
    table(f"An agent run of {STEPS} steps, {rounds} rounds", ["toolset", "CPU ms", "IQR"], rows)
    return [
        Bound(
            f"an agent run with our toolset costs at most {TIMES_THEIRS} times theirs",
            f"{ratio.median:.2f} (IQR {quarters(ratio, 2)})",
            ratio.median <= TIMES_THEIRS,
        )
    ]
