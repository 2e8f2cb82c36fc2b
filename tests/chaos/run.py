"""A chaos run: replicas on one database, clients, people, and everything that goes wrong.

Usage: python -m tests.chaos.run [--disturbances N] [--replicas N] [--lease SECONDS] [--seed N]
    [--one-machine] [--no-hints] [--engine temporal] [--keep FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.callers import Callers
from tests.chaos.disturbance import Troublemaker
from tests.chaos.link import Link
from tests.chaos.people import People
from tests.chaos.replicas import Replicas, ReplicaSettings
from tests.chaos.verdict import Examination, Verdict
from tests.chaos.witness import Witness
from tests.chaos.world import World
from tests.servers.postgres import PostgresServer, remove_postgres, temporary_postgres
from toolcrib.store import PostgresStore
from toolcrib.store.cipher import new_key


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosPlan:
    """How much goes wrong, and for whom."""

    disturbances: int
    replicas: int = 3
    lease_seconds: float = 3.0
    tool_seconds: float = 0.3
    at_once: int = 10
    is_one_machine: bool = False
    """Whether a process that is gone counts as gone at once, as on one machine."""
    has_hints: bool = True
    seed: int = 16
    options: tuple[str, ...] = ()
    engine: str = "PostgreSQL"
    direct: float = 0.2
    """The share of sessions whose clients call tools without a model."""
    settle_seconds: float = 180.0

    @property
    def pace(self) -> tuple[float, float]:
        """The shortest and the longest pause between two disturbances: with a longer lease there
        are longer ones, so that a take-over ends now and then before the next kill.
        """
        return self.lease_seconds / 3, self.lease_seconds

    @property
    def title(self) -> str:
        machine = "one machine" if self.is_one_machine else "as on different machines"
        hints = "" if self.has_hints else ", without hints"
        return (
            f"{self.replicas} replicas, {self.engine} drives, lease {self.lease_seconds:g} s, "
            f"{machine}{hints}"
        )


@dataclass(frozen=True, slots=True)
class Servers:
    """The database of the replicas, and that of the world, which nobody restarts."""

    database: PostgresServer
    world: PostgresServer


@contextmanager
def servers() -> Generator[Servers]:
    """Both servers until the block ends."""
    database = temporary_postgres()
    try:
        world = temporary_postgres()
        try:
            yield Servers(database, world)
        finally:
            remove_postgres(world)
    finally:
        remove_postgres(database)


async def chaos(
    plan: ChaosPlan, places: Servers, folder: Path, *, is_loud: bool = False
) -> Verdict:
    """Run it, wait until all that was accepted has ended, and examine what is left."""
    rng = random.Random(plan.seed)
    store = await asyncio.to_thread(places.database.database)
    world_url = await asyncio.to_thread(places.world.database)
    world, witness, link, key = World(world_url), Witness(), Link(store), new_key()
    await world.make()
    settings = ReplicaSettings(
        folder=folder,
        world=world_url,
        store_key=key,
        lease_seconds=plan.lease_seconds,
        tool_seconds=plan.tool_seconds,
        has_process_check=plan.is_one_machine,
        has_hints=plan.has_hints,
        options=plan.options,
    )
    stores = [*[store] * (plan.replicas - 1), await link.open()]
    replicas = Replicas(settings, stores, rng)
    people = People(replicas, world)
    callers = Callers(replicas, witness, at_once=plan.at_once, rng=rng, direct=plan.direct)
    trouble = Troublemaker(
        replicas,
        places.database,
        store,
        link,
        lease_seconds=plan.lease_seconds,
        rng=rng,
        pace=plan.pace,
    )
    begun_at = time.monotonic()

    def tell(number: int) -> None:
        if is_loud and (number % 10 == 0 or number == plan.disturbances):
            ended = sum(status == "completed" for status in witness.prompts.values())
            print(
                f"{time.monotonic() - begun_at:5.0f} s: {number} disturbances, {ended} turns ended"
                f" of {len(witness.prompts)}, {len(people.reruns)} re-runs approved, "
                f"{len(witness.faults)} faults {witness.faults[-1:] or ''}",
                flush=True,
            )

    deciding = asyncio.create_task(people.work())
    try:
        await replicas.start()
        calling = asyncio.create_task(callers.work())
        await trouble.work(plan.disturbances, tell)
        await trouble.calm()
        callers.stop()
        try:
            await asyncio.wait_for(calling, plan.settle_seconds)
        except TimeoutError:
            witness.faults.append("clients still waited at the end")
        # Nothing may come after the end: a replica that woke up late would show itself here.
        await asyncio.sleep(plan.lease_seconds)
        effects, begun = await world.effects(), await world.begun()
        with PostgresStore(store, key=key) as opened:
            examination = Examination(opened, witness, people, trouble.log, effects, begun)
            verdict = await asyncio.to_thread(examination.verdict, plan.title)
        if is_loud:
            for text in (*trouble.log.exits, *witness.notes):
                print("note:", text, flush=True)
        return verdict
    finally:
        deciding.cancel()
        await asyncio.gather(deciding, return_exceptions=True)
        await replicas.close()
        await link.close()
        await world.close()


def _plan(arguments: argparse.Namespace, options: tuple[str, ...]) -> ChaosPlan:
    return ChaosPlan(
        disturbances=arguments.disturbances,
        replicas=arguments.replicas,
        lease_seconds=arguments.lease,
        is_one_machine=arguments.one_machine,
        has_hints=not arguments.no_hints,
        seed=arguments.seed,
        at_once=arguments.at_once,
        direct=arguments.direct,
        options=options,
        engine="Temporal" if arguments.engine == "temporal" else "PostgreSQL",
    )


def main() -> int:
    """Run what the command line says; the exit status is 1 when a rule did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.run")
    parser.add_argument("--disturbances", type=int, default=500)
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--lease", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--at-once", type=int, default=10)
    parser.add_argument("--direct", type=float, default=0.2, help="share without a model")
    parser.add_argument("--one-machine", action="store_true")
    parser.add_argument("--no-hints", action="store_true")
    parser.add_argument("--engine", choices=["postgres", "temporal"], default="postgres")
    parser.add_argument("--keep", type=Path, help="keep the logs of the replicas there")
    arguments = parser.parse_args()
    folder: Path = arguments.keep or Path(tempfile.mkdtemp(prefix="toolcrib-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with servers() as places:
            if arguments.engine == "temporal":
                from tests.servers.temporal import temporary_temporal

                with temporary_temporal() as temporal:
                    options = ("--engine", "temporal", "--engine-address", temporal.address)
                    plan = _plan(arguments, options)
                    verdict = asyncio.run(chaos(plan, places, folder, is_loud=True))
            else:
                plan = _plan(arguments, ())
                verdict = asyncio.run(chaos(plan, places, folder, is_loud=True))
    finally:
        if arguments.keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(verdict.report(), flush=True)
    return 1 if verdict.failures else 0


if __name__ == "__main__":
    sys.exit(main())
