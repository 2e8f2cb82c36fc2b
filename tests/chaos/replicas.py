"""The replicas of a chaos run: real `toolcrib serve` processes on one database, with clients."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.helpers.child_process import PYTHON_PATH
from tests.helpers.patience import PATIENCE
from toolcrib.client import AsyncClient

OWNER_TOKEN: Final = "chaos-owner-token-0123456789abcdef"
REQUEST_SECONDS: Final = 10.0
"""How long a client waits for an answer of one replica before it asks another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSettings:
    """What all replicas of a run have in common."""

    folder: Path
    world: str
    store_key: str
    lease_seconds: float
    tool_seconds: float = 0.3
    has_process_check: bool = False
    """False plays other machines: a killed process counts as gone when its lease is over."""
    has_hints: bool = True
    options: tuple[str, ...] = ()
    """More options of `toolcrib serve`."""


class Nursery:
    """The process that the replicas are forked from."""

    def __init__(self) -> None:
        self._process: Final = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.nursery"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": PYTHON_PATH},
        )

    def start(self, argv: list[str], env: dict[str, str], log: Path) -> int:
        """Start a command; returns its pid."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"argv": argv, "env": env, "log": str(log)}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End it. Replicas that still run go on."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(PATIENCE)


@dataclass(slots=True)
class ServedReplica:
    """One replica over all its lives. It has the same port in each."""

    name: str
    store: str
    settings: ReplicaSettings
    nursery: Nursery
    port: int = field(default_factory=lambda: _free_port())
    life: int = 0
    pid: int | None = None
    is_paused: bool = False
    started_at: float = 0.0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.settings.folder / f"replica-{self.name}.log"

    def start(self) -> None:
        """Begin the next life."""
        self.life += 1
        self.started_at = time.time()
        settings = self.settings
        argv = ["toolcrib"]
        argv += ["--set", f"replica.process_check={json.dumps(settings.has_process_check)}"]
        argv += ["--set", f"replica.hints={json.dumps(settings.has_hints)}"]
        argv += ["serve", "--port", str(self.port), "--no-console", "--no-access-log"]
        argv += ["--store", self.store, "--lease-seconds", str(settings.lease_seconds)]
        argv += ["--adapter", "tests.chaos.served:adapter", "--approve-own-calls"]
        argv += ["--host-tools-module", "tests.chaos.served", *settings.options]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(settings.folder),
            "PYTHONPATH": PYTHON_PATH,
            "NO_COLOR": "1",
            "TOOLCRIB_OWNER_TOKEN": OWNER_TOKEN,
            "TOOLCRIB_STORE_KEY": settings.store_key,
            "CHAOS_WORLD": settings.world,
            "CHAOS_TOOL_SECONDS": str(settings.tool_seconds),
            "CHAOS_REPLICA": f"{self.name}#{self.life}",
        }
        self.pid = self.nursery.start(argv, env, self.log)

    @property
    def is_running(self) -> bool:
        """Whether its process is there, also one that stands still."""
        if self.pid is None:
            return False
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it is there."""
        if self.pid is not None and self.is_running:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End this life at once."""
        self.signal(signal.SIGKILL)
        self.is_paused = False

    def pause(self) -> None:
        """Let it stand still, as a machine does that is out of memory."""
        self.signal(signal.SIGSTOP)
        self.is_paused = True

    def go_on(self) -> None:
        """Let it run again; it does not know how long it stood."""
        self.signal(signal.SIGCONT)
        self.is_paused = False

    def is_serving(self) -> bool:
        """Whether it takes connections; one that stands still does not count."""
        if self.is_paused or not self.is_running:
            return False
        with socket.socket() as probe:
            probe.settimeout(0.5)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    async def until_serving(self) -> None:
        """Wait until it takes connections."""
        end = time.monotonic() + PATIENCE
        while not self.is_serving():
            if not self.is_running or time.monotonic() > end:
                raise AssertionError(f"replica {self.name} does not serve: {self.last_words()}")
            await asyncio.sleep(0.05)

    async def until_gone(self) -> None:
        """Wait until its process has ended."""
        end = time.monotonic() + PATIENCE
        while self.is_running:
            assert time.monotonic() < end, f"replica {self.name} does not end: {self.last_words()}"
            await asyncio.sleep(0.01)

    def last_words(self, size: int = 3_000) -> str:
        """The end of its log."""
        return self.log.read_text("utf-8", "replace")[-size:] if self.log.exists() else "no log"


class Replicas:
    """All replicas of a run, and a client of each. A balancer without memory: any will do."""

    def __init__(
        self, settings: ReplicaSettings, stores: list[str], rng: random.Random | None = None
    ) -> None:
        self._rng = rng or random.Random()
        self._nursery = Nursery()
        self.all: Final = [
            ServedReplica("abcdefgh"[place], store, settings, self._nursery)
            for place, store in enumerate(stores)
        ]
        self.clients: Final = {
            replica.name: AsyncClient(replica.url, OWNER_TOKEN, timeout=REQUEST_SECONDS)
            for replica in self.all
        }

    def __getitem__(self, place: int) -> ServedReplica:
        return self.all[place]

    async def start(self) -> None:
        """Start all, and wait until each serves."""
        for replica in self.all:
            replica.start()
        for replica in self.all:
            await replica.until_serving()

    def any(self) -> ServedReplica:
        """Any replica that is thought to be there; whether it answers is another question."""
        running = [each for each in self.all if each.is_running] or self.all
        return self._rng.choice(running)

    def client(self) -> AsyncClient:
        """The client of any replica."""
        return self.clients[self.any().name]

    async def close(self) -> None:
        """End all of it."""
        for client in self.clients.values():
            await client.aclose()
        for replica in self.all:
            replica.kill()
        for replica in self.all:
            await replica.until_gone()
        self._nursery.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
