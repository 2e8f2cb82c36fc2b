"""A running project follows its files in one step, or not at all."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.project.test_runtime import options
from toolcrib.project.reload import ProjectReload, ReloadReport
from toolcrib.project.runtime import hosted_runtime
from toolcrib.runtime.runtime import Runtime

TOOLS = '''
from reload_helper import GREETING
from toolcrib import tool


@tool
def greet() -> str:
    """Greet."""
    return GREETING


@tool(requires_approval=True)
def wipe() -> str:
    """Wipe."""
    return "wiped"
'''
PROJECT = "tools: {modules: [reload_tools]}\npolicy: policy.yaml\n"
ALLOW = "version: 1\nrules: [{allow: greet}]\n"
DENY = "version: 1\nrules: [{deny: greet, reason: closed}, {deny: wipe, reason: closed}]\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with a module of tools, and a module that this one imports."""
    (tmp_path / "reload_helper.py").write_text('GREETING = "hello"\n', "utf-8")
    (tmp_path / "reload_tools.py").write_text(TOOLS, "utf-8")
    (tmp_path / "policy.yaml").write_text(ALLOW, "utf-8")
    (tmp_path / "toolcrib.yaml").write_text(PROJECT, "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    for name in ("reload_helper", "reload_tools", "reload_hooks"):
        sys.modules.pop(name, None)


class Running:
    """A runtime with one session, its reload, and what was reported."""

    def __init__(self, folder: Path, runtime: Runtime, session_id: str) -> None:
        self.folder = folder
        self.runtime = runtime
        self.session_id = session_id
        self.reports: list[ReloadReport] = []

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, "utf-8")

    async def call(self, tool: str = "greet", call_id: str | None = None) -> Any:
        params = {"session_id": self.session_id, "name": tool, "call_id": call_id}
        return await self.runtime.ask("tools.call", params)


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[tuple[Running, ProjectReload]]:
    """The project of the folder, with a session that is open before anything changes."""
    given = options(folder, (folder / "toolcrib.yaml").read_text("utf-8"))

    def again() -> Any:
        return options(folder, (folder / "toolcrib.yaml").read_text("utf-8"))

    async with hosted_runtime(given, print) as host, host.runtime as runtime:
        session = await runtime.ask("session.create", {})
        state = Running(folder, runtime, session.session_id)
        reload = ProjectReload(host, given, again, state.reports.append)
        yield state, reload


async def test_a_changed_policy_holds_in_open_sessions_at_once(folder: Path) -> None:
    """Newcomers 6: turning an allow into a deny takes effect without a restart."""
    async with running(folder) as (state, reload):
        assert (await state.call()).text == "hello"
        state.write("policy.yaml", DENY)
        await reload.reload()
        denied = await state.call()
        assert (denied.status, denied.failure.kind) == ("failed", "not_permitted")


async def test_a_call_that_waits_is_judged_by_the_new_policy(folder: Path) -> None:
    """A yes that was given under the old policy does not beat a deny of the new one."""
    async with running(folder) as (state, reload):
        waiting = await state.call("wipe")
        assert waiting.status == "waiting"
        params = {"approval_id": waiting.approval_id, "decision": "approve"}
        await state.runtime.ask("approvals.decide", params)
        state.write("policy.yaml", DENY)
        await reload.reload()
        ended = await state.call("wipe", waiting.call_id)
        assert (ended.status, ended.failure.kind) == ("failed", "not_permitted")


async def test_a_changed_module_is_executed_again(folder: Path) -> None:
    """F14: with modules too, `--reload` reloads; also those that a module of tools imports."""
    async with running(folder) as (state, reload):
        assert (await state.call()).text == "hello"
        state.write("reload_helper.py", 'GREETING = "good day"\n')
        report = await reload.reload()
        assert (await state.call()).text == "good day"
    assert "modules executed again: reload_helper, reload_tools" in report.changes


async def test_a_broken_file_keeps_everything_as_it_was(folder: Path) -> None:
    """One fault, and neither the module nor the policy changes; the fault has its line."""
    async with running(folder) as (state, reload):
        state.write("reload_helper.py", 'GREETING = "good day"\n')
        state.write("policy.yaml", "version: 1\nrules: [{dney: greet}]\n")
        report = await reload.reload()
        assert report.fault is not None
        assert "policy.yaml:2:" in report.fault
        assert (await state.call()).text == "hello"
        state.write("policy.yaml", ALLOW)
        assert (await reload.reload()).fault is None
        assert (await state.call()).text == "good day"


async def test_a_module_with_a_syntax_error_changes_nothing(folder: Path) -> None:
    """The old functions go on."""
    async with running(folder) as (state, reload):
        state.write("reload_tools.py", "def broken(:\n")
        report = await reload.reload()
        assert report.fault is not None
        assert "reload_tools" in report.fault
        assert (await state.call()).text == "hello"


async def test_a_policy_for_a_tool_that_is_not_there_changes_nothing(folder: Path) -> None:
    """As at the start."""
    async with running(folder) as (state, reload):
        state.write("policy.yaml", "version: 1\nrules: [{deny: gret}]\n")
        report = await reload.reload()
        assert report.fault is not None
        assert "gret" in report.fault
        assert (await state.call()).text == "hello"


async def test_the_project_file_itself_is_reloaded(folder: Path) -> None:
    """Another policy may be named; what cannot change while it runs is told."""
    async with running(folder) as (state, reload):
        state.write("strict.yaml", DENY)
        state.write(
            "toolcrib.yaml",
            "tools: {modules: [reload_tools]}\npolicy: strict.yaml\n"
            "store: crib.sqlite3\nserve: {port: 9}\n",
        )
        report = await reload.reload()
        assert report.needs_restart == ("store", "serve.port")
        assert (await state.call()).status == "failed"


async def test_a_project_that_loses_its_policy_is_told(folder: Path) -> None:
    """It is what the file says, but nobody must miss it."""
    async with running(folder) as (_, reload):
        assert not (await reload.reload()).lost_policy
        file = folder / "toolcrib.yaml"
        text = file.read_text("utf-8").replace("policy: policy.yaml", "")
        file.write_text(text, "utf-8")
        assert (await reload.reload()).lost_policy
        assert not (await reload.reload()).lost_policy


async def test_a_broken_project_file_changes_nothing(folder: Path) -> None:
    """With the line of the fault."""
    async with running(folder) as (state, reload):
        state.write("toolcrib.yaml", "polcy: policy.yaml\n")
        report = await reload.reload()
        assert report.fault is not None
        assert "toolcrib.yaml:1: polcy: unknown key" in report.fault
        assert (await state.call()).text == "hello"


async def test_hooks_are_replaced_in_open_sessions(folder: Path) -> None:
    """They govern calls as the policy does."""
    (folder / "reload_hooks.py").write_text(
        "from toolcrib.calls.hooks import Hooks, Refuse\n\n\n"
        "async def refuse(context, name, arguments):\n    return Refuse('not now')\n\n\n"
        "hooks = Hooks(global_pre=refuse)\n",
        "utf-8",
    )
    async with running(folder) as (state, reload):
        state.write("toolcrib.yaml", f"{PROJECT}hooks: ['reload_hooks:hooks']\n")
        await reload.reload()
        assert "not now" in (await state.call()).text


async def test_a_tool_that_is_gone_cannot_be_called(folder: Path) -> None:
    """And one that is new can."""
    async with running(folder) as (state, reload):
        state.write("policy.yaml", "version: 1\nrules: [{allow: salute}]\n")
        state.write("reload_tools.py", TOOLS.replace("greet", "salute").replace("Greet", "Salute"))
        report = await reload.reload()
        assert report.changes[0] == "changed tools: greet, salute, wipe"
        assert (await state.call("salute")).text == "hello"
        assert (await state.call("greet")).failure.kind == "not_found"


async def test_the_files_of_the_project_are_watched(folder: Path) -> None:
    """All that what is served comes from."""
    async with running(folder) as (_, reload):
        names = {path.name for path in reload.files()}
    assert names == {"toolcrib.yaml", "policy.yaml", "reload_tools.py", "reload_helper.py"}


async def test_tools_and_policy_change_together_or_not_at_all(folder: Path) -> None:
    """A renamed tool that the policy still names is a fault, and the old tool stays."""
    async with running(folder) as (state, reload):
        state.write("reload_tools.py", TOOLS.replace("greet", "salute").replace("Greet", "Salute"))
        report = await reload.reload()
        assert report.fault is not None
        assert "greet" in report.fault
        assert (await state.call()).text == "hello"
        assert (await state.call("salute")).failure.kind == "not_found"
        state.write("policy.yaml", "version: 1\nrules: [{allow: salute}]\n")
        assert (await reload.reload()).fault is None
        assert (await state.call("salute")).text == "hello"


async def test_code_that_raises_anything_changes_nothing(folder: Path) -> None:
    """What code of the project raises is told as a fault, and the next reload works."""
    async with running(folder) as (project, reload):
        project.write(
            "reload_hooks.py", 'def __getattr__(name):\n    raise RuntimeError("no hooks")\n'
        )
        project.write("toolcrib.yaml", PROJECT + "hooks: [reload_hooks:hooks]\n")
        failed = await reload.reload()
        kept = await project.call()
        project.write("toolcrib.yaml", PROJECT)
        project.write("policy.yaml", DENY)
        mended = await reload.reload()
        denied = await project.call()

    assert failed.fault == "RuntimeError: no hooks"
    assert kept.value == "hello"
    assert mended.fault is None
    assert denied.failure.kind == "not_permitted"


FEATURES = """
from toolcrib.features import prompt, resource


@resource("shop://hours")
def hours() -> str:
    return "HOURS"


@prompt
def greet_them(name: str) -> str:
    return f"Greet {name}."
"""


async def test_resources_and_prompts_of_a_module_are_reloaded(folder: Path) -> None:
    """They are collected as tools are, and taken away with the module that had them."""
    (folder / "reload_tools.py").write_text(TOOLS + FEATURES, "utf-8")
    async with running(folder) as (state, reload):
        features = state.runtime.registry.features
        before = [feature.key for feature in features.all]
        state.write("reload_tools.py", TOOLS + FEATURES.replace("HOURS", "9 to 5"))
        await reload.reload()
        params = {
            "session_id": state.session_id,
            "name": "resources.read",
            "arguments": {"uri": "shop://hours"},
        }
        read = await state.runtime.ask("tools.call", params)
        state.write("reload_tools.py", TOOLS)
        await reload.reload()
        after = features.all

    assert before == ["resource shop://hours", "prompt greet_them"]
    assert read.text == "9 to 5"
    assert after == []
