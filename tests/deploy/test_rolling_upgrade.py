"""Replicas of two versions behind one balancer: an upgrade, and the way back, under load."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

import toolcrib
from tests.cli.command import Served, run
from tests.deploy.replica_set import ReplicaSet
from tests.deploy.rolling_load import RollingLoad
from tests.helpers.patience import PATIENCE
from tests.servers.postgres import PostgresServer
from toolcrib.ledger.record import verify
from toolcrib.store import PostgresStore
from toolcrib.store.postgres.schema import newest_version

pytestmark = [pytest.mark.wire, pytest.mark.slow]

OLD: Final = toolcrib.__version__
NEW: Final = f"{OLD}.post1"
NOTES_OF_EACH: Final = 12
"""How many calls each version that runs has to do before the next step."""
TOOLS: Final = '''
import asyncio
import os
from pathlib import Path

import toolcrib
from toolcrib import tool


@tool
async def note(number: int) -> str:
    """Write a number down, once for each call, and say so a moment later.

    Args:
        number: What to write.
    """
    with Path(os.environ["NOTES"]).open("a") as file:
        file.write(f"{number} {toolcrib.__version__}\\n")
    await asyncio.sleep(0.05)
    return f"noted {number}"
'''
MODEL: Final = '''
import json

from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, calls, says


class NotingModel(ScriptedOpenAI):
    """Calls `note` with the number of the prompt, then repeats what it was told."""

    def _answer(self, request):
        items = json.loads(request.content)["input"]
        last = items[-1]
        if last.get("type") == "function_call_output":
            self._outputs.append([says(last["output"])])
        else:
            number = int(str(last["content"]).split("note ")[1].split("'")[0])
            self._outputs.append([calls("note", {"number": number}, call_id=f"call_{number}")])
        return super()._answer(request)


adapter = OpenAIAdapter(model="noting", client=NotingModel().client(), history="client")
'''
EXPAND: Final = """
CREATE TABLE added (note text);
DO $$ DECLARE place regclass; BEGIN
    FOR place IN SELECT oid FROM pg_class WHERE relkind IN ('r', 'p') AND NOT relispartition
        AND relnamespace = 'public'::regnamespace ORDER BY relname
    LOOP EXECUTE format('ALTER TABLE %s ADD COLUMN added text', place); END LOOP;
END $$;
"""


def make_next_version(folder: Path, *, least: int) -> Path:
    """The version after this one: another number, and a migration that adds a column to every
    table and can be used from the version `least` on.
    """
    package = folder / "toolcrib"
    shutil.copytree(Path(toolcrib.__file__).parent, package)
    (package / "_version.py").write_text(f'__version__ = "{NEW}"\n', "utf-8")
    step = package / f"store/postgres/migrations/{newest_version() + 1:04}_added.sql"
    step.write_text(f"-- least: {least}{EXPAND}", "utf-8")
    return folder


class Rolling:
    """Two replicas, replaced one after the other."""

    def __init__(self, replicas: ReplicaSet, stack: AsyncExitStack) -> None:
        self.set: Final = replicas
        self._stack = stack
        self._running: dict[int, Served] = {}

    async def start(self, number: int, code: Path | None) -> None:
        """Start a replica of the package in `code`, else of this one."""
        replica = self.set.replica(number, "--adapter", "crib_model:adapter", code=code)
        self._running[number] = await self._stack.enter_async_context(replica)

    async def replace(self, number: int, code: Path | None) -> None:
        """SIGTERM, its end, the other version."""
        await self.stop(number)
        await self.start(number, code)

    async def stop(self, number: int) -> None:
        """Tell a replica to stop; it ends in good order."""
        served = self._running.pop(number)
        assert await served.stop() == 0, "".join(served.said)

    async def both_work(self, load: asyncio.Future[None], versions: Collection[str]) -> None:
        """Wait until each version has done calls from now on, and none that should be gone."""
        before = len(self.notes())
        async with asyncio.timeout(PATIENCE):
            while not load.done():
                since = Counter(version for _, version in self.notes()[before:])
                if all(since[version] >= NOTES_OF_EACH for version in versions):
                    break
                await asyncio.sleep(0.05)
        assert not load.done(), await load
        with PostgresStore(self.set.store) as store:
            assert {each.version for each in store.replicas() if each.address} == set(versions)

    def notes(self) -> list[tuple[int, str]]:
        """What was written down, and by which version."""
        lines = self.set.notes.read_text("utf-8").splitlines()
        return [(int(number), version) for number, version in map(str.split, lines)]


async def ended(load: asyncio.Future[None]) -> None:
    """End the clients of a test that failed: a balancer waits for their streams."""
    load.cancel()
    await asyncio.wait([load])


async def test_replicas_are_replaced_by_the_next_version_under_load(
    tmp_path: Path, postgres_url: str
) -> None:
    """One after the other, and one back on the new tables, while clients call, prompt and follow.
    Both versions serve at once. Nothing is lost or done twice, and what is refused meanwhile is
    answered under the same key a moment later.
    """
    replicas = ReplicaSet(tmp_path, postgres_url)
    (tmp_path / "crib_tools.py").write_text(TOOLS, "utf-8")
    (tmp_path / "crib_model.py").write_text(MODEL, "utf-8")
    code = make_next_version(tmp_path / "next", least=newest_version())
    async with AsyncExitStack() as stack:
        rolling = Rolling(replicas, stack)
        await asyncio.gather(rolling.start(0, None), rolling.start(1, None))
        url = await stack.enter_async_context(replicas.balancer())
        load = RollingLoad(url, replicas.token)
        working = asyncio.ensure_future(load.work(callers=3, prompters=2))
        stack.push_async_callback(ended, working)
        await rolling.both_work(working, {OLD})
        await rolling.replace(0, code)
        await rolling.both_work(working, {OLD, NEW})
        await rolling.replace(1, code)
        await rolling.both_work(working, {NEW})
        await rolling.replace(0, None)
        await rolling.both_work(working, {OLD, NEW})
        load.stop()
        await working
        await asyncio.gather(rolling.stop(0), rolling.stop(1))

    assert load.faults == []
    assert load.prompts > 0
    numbers = Counter(number for number, _ in rolling.notes())
    assert numbers == dict.fromkeys(load.sent, 1)
    check_ledgers(postgres_url, load)


def check_ledgers(url: str, load: RollingLoad) -> None:
    """Every chain verifies, every call ended once and well, and every prompt has one answer."""
    kinds: Counter[str] = Counter()
    calls: Counter[tuple[str, str | None]] = Counter()
    with PostgresStore(url) as store:
        for name in load.sessions:
            verify(store.records(name), store.head(name))
            kinds.update(record.kind for record in store.records(name))
            calls.update((name, end.call_id) for end in store.records(name, kinds=["tool.invoked"]))
            assert store.open_calls(name) == []
        assert store.turns() == []
    assert set(calls.values()) == {1}
    assert len(calls) == len(load.sent)
    assert kinds["prompt.answered"] == load.prompts
    assert kinds["call.in_doubt"] == 0


def test_a_schema_that_needs_the_next_version_is_refused(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """A version that cannot use a schema any more says which it knows, and touches nothing."""
    url = postgres.database()
    code = make_next_version(tmp_path / "next", least=newest_version() + 1)
    migrated = run("store", "migrate", cwd=tmp_path, TOOLCRIB_STORE=url, PYTHONPATH=str(code))
    assert migrated.returncode == 0, migrated.stderr

    served = run("serve", "--port", "0", cwd=tmp_path, TOOLCRIB_STORE=url)
    checked = run("store", "migrate", "--check", cwd=tmp_path, TOOLCRIB_STORE=url)

    for refused in (served, checked):
        assert refused.returncode == 1
        assert f"has schema {newest_version() + 1}" in refused.stderr
        assert f"this version of Toolcrib knows {newest_version()}" in refused.stderr
        assert "Traceback" not in refused.stderr
