"""A host tool whose definition says `sandbox`: the same tool, in a process of its own."""

import asyncio
import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sandbox import handlers
from toolcrib import Executor, Session
from toolcrib.approval.policy import Policy, Rule
from toolcrib.calls.outcome import Outcome
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import HostToolDefinition, ToolScope, load_host_tools_file
from toolcrib.ledger.events import ToolEmitted, ToolInvoked
from toolcrib.sandbox import SandboxLimits, SandboxOptions, detection
from toolcrib.testing import Recorder

MEBIBYTE = 1024 * 1024


def confined(handler: Callable[..., Any], **options: Any) -> HostToolDefinition:
    return HostToolDefinition(
        name="tried",
        description="Is tried.",
        parameters={"type": "object"},
        handler=handler,
        timeout=options.pop("timeout", None),
        sandbox=options or True,
    )


async def call(handler: Callable[..., Any], /, **options: Any) -> Outcome:
    arguments = options.pop("arguments", {})
    executor = Executor(Session("s"), [confined(handler, **options)])
    return await executor.call("tried", arguments)


async def test_it_gives_the_same_result_as_in_the_process() -> None:
    """R44: plain, async, a `ToolResult` and a method: the value is the handler's."""
    added = await call(handlers.add, arguments={"a": 1, "b": 2})
    result = await call(handlers.result)
    later = await call(handlers.later)
    looked = await call(handlers.Desk.look)

    assert (added.value, added.text) == (3, "3")
    assert (result.value, result.text, dict(result.metadata)) == (
        1,
        "One, as it happens.",
        {"unit": "piece"},
    )
    assert later.value == {"call": later.call_id, "session": "s", "tool": "tried"}
    assert looked.value == "tidy"


async def test_it_is_another_process_with_little_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R44: its own process id, environment and directory; files only as given. What it prints is
    not its result.
    """
    monkeypatch.setenv("TOOLCRIB_TEST_SECRET", "hush")
    given, kept = tmp_path / "given", tmp_path / "kept"
    given.touch()
    kept.touch()
    paths = {"paths": [str(given), str(kept), "/etc/shadow", os.getcwd() + "/pyproject.toml"]}

    found = await call(
        handlers.around, arguments=paths, readable=[str(given)], env={"CITY": "Oslo"}
    )

    assert found.value["pid"] != os.getpid()
    assert found.value["cwd"] not in (os.getcwd(), "/")
    assert not is_there(found.value["cwd"])
    environment = found.value["environment"]
    assert environment.keys() <= {"CITY", "HOME", "LANG", "LC_CTYPE", "PWD"}
    assert environment["CITY"] == "Oslo"
    assert found.value["context"] == environment
    assert found.value["readable"] == [str(given)]


def is_there(path: str) -> bool:
    return os.path.lexists(path)


async def test_what_it_raises_is_told_by_its_own_name() -> None:
    """R44: an exception is a failure like one in the process, and a retry is one."""
    raised = await call(handlers.raises)
    exits = await call(handlers.exits)
    retries = await call(handlers.retries)

    assert raised.failure is not None
    assert (raised.failure.kind, raised.failure.error_type) == ("tool_error", "KeyError")
    assert raised.text == "KeyError: 'no such item'"
    assert exits.failure is not None
    assert exits.failure.error_type == "SystemExit"
    assert retries.failure is not None
    assert (retries.failure.error_type, retries.text) == ("ModelRetry", "Ask for fewer.")


@pytest.mark.parametrize(
    ("handler", "options", "told"),
    [
        (handlers.crashes, {}, "exit code 139 before it returned a result"),
        (handlers.leaves, {}, "exit code 7 before it returned a result"),
        (handlers.prints, {"output_bytes": 10_000}, "printed more than the limit of 10000 bytes"),
        (handlers.answers_much, {}, "the result has more than 1048576 bytes"),
        (handlers.lies, {}, "before it returned a result"),
        (handlers.swells, {"memory_bytes": 100 * MEBIBYTE}, "MemoryError"),
        (handlers.calls, {}, "cannot call tools"),
    ],
)
async def test_a_crash_is_an_error_result(
    handler: Callable[..., Any], options: dict[str, Any], told: str
) -> None:
    """R44: whatever becomes of its process, the call ends in a typed failure."""
    found = await call(handler, **options)

    assert found.failure is not None
    assert found.failure.kind == "tool_error"
    assert told in found.text


@pytest.mark.parametrize(
    "options", [{"seconds": 0.5}, {"cpu_seconds": 1}, {"timeout": 0.5}], ids=str
)
async def test_it_is_killed_when_its_time_is_up(options: dict[str, Any]) -> None:
    """R44: by the clock, the processor's or the tool's own limit; nothing goes on running."""
    found = await call(handlers.spins, **options)

    assert found.failure is not None
    assert found.failure.kind == "timeout"
    assert not found.failure.still_running


async def test_a_cancelled_call_ends_its_process() -> None:
    """R44: the call is cancelled, not given up."""
    executor = Executor(session := Session("s"), [confined(handlers.spins)])
    emitted = asyncio.Event()
    session.bus.subscribe(ToolEmitted, lambda _: emitted.set())
    task = asyncio.create_task(executor.call("tried", {}, call_id="c1"))
    await emitted.wait()

    assert executor.cancel("c1")
    found = await task

    assert found.failure is not None
    assert (found.failure.kind, found.failure.still_running) == ("cancelled", False)


async def test_its_place_is_in_the_records_and_known_to_the_policy() -> None:
    """R44: a rule for the sandbox covers it, and an event names what confined it."""
    session = Session("s")
    recorder = Recorder(session.bus)
    executor = Executor(session, [confined(handlers.add)])

    assert (await executor.call("tried", {"a": 1, "b": 1})).value == 2
    [invoked] = recorder.of(ToolInvoked)
    assert invoked.tool is not None
    assert invoked.tool.place == "sandbox"
    [emitted] = recorder.of(ToolEmitted)
    assert emitted.type == "tool.tried.confined"
    assert emitted.data["backend"] in ("bubblewrap", "sandlock")

    policy = Policy((Rule("deny", place="sandbox"),))
    denied = await Executor(Session("t"), [confined(handlers.add)], policy=policy).call("tried", {})
    assert denied.failure is not None
    assert denied.failure.kind == "not_permitted"


async def test_without_a_sandbox_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """R44: a machine that can confine nothing makes the tool unavailable, unless the definition
    says that it may run weaker; then the event says so too.
    """
    found_nothing = {"bubblewrap": "no namespaces", "sandlock": "no Landlock"}
    monkeypatch.setattr(detection, "_results", found_nothing)
    session = Session("s")
    recorder = Recorder(session.bus)
    arguments = {"a": 1, "b": 2}

    refused = await Executor(session, [confined(handlers.add)]).call("tried", arguments)
    assert refused.failure is not None
    assert refused.failure.kind == "unavailable"
    assert "bubblewrap: no namespaces; sandlock: no Landlock" in refused.text
    assert "install toolcrib[sandbox]" in refused.text
    assert recorder.of(ToolEmitted) == []

    weaker = Executor(session, [confined(handlers.add, allow_unconfined=True)])
    assert (await weaker.call("tried", arguments)).value == 3
    [emitted] = recorder.of(ToolEmitted)
    assert emitted.data == {"backend": "rlimits"}


async def test_a_source_that_was_edited_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finding 3: the process would load the file as it is now, which nobody has approved."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    source = "def act(input, context):\n    return {answer!r}\n"
    (tmp_path / "edited_handler.py").write_text(source.format(answer="before"))
    tool = confined(importlib.import_module("edited_handler").act)
    executor = Executor(Session("s"), [tool])
    assert (await executor.call("tried", {})).value == "before"

    (tmp_path / "edited_handler.py").write_text(source.format(answer="after"))
    edited = await executor.call("tried", {})

    assert edited.failure is not None
    assert edited.failure.kind == "unavailable"
    assert "has changed since it was loaded" in edited.text
    monkeypatch.delitem(sys.modules, "edited_handler")


def no_factory(context: Any) -> Callable[..., Any]:
    return handlers.add


def outer() -> Callable[..., Any]:
    def inner(input: dict[str, Any], context: Any) -> None: ...

    return inner


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"handler": outer()}, "must be a function of a module"),
        ({"handler": handlers.add, "sandbox": {"sceonds": 1}}, "no option 'sceonds'"),
        ({"handler": handlers.add, "sandbox": {"seconds": 0}}, "above 0"),
        ({"handler": len}, "two arguments"),
        (
            {"factory": no_factory, "scope": ToolScope.SESSION},
            "in place of factory",
        ),
    ],
)
def test_what_cannot_be_confined_is_refused(facts: dict[str, Any], told: str) -> None:
    """R44: a tool that says `sandbox` and could not run in one is never defined."""
    given: dict[str, Any] = {"sandbox": True, **facts}
    with pytest.raises(InvalidTool, match=told):
        HostToolDefinition("t", "Does.", {"type": "object"}, **given)


def test_an_empty_table_is_a_sandbox_too() -> None:
    """R44: only `false` leaves a tool unconfined."""
    empty: dict[str, Any] = {}
    for given in (empty, True, SandboxOptions(limits=SandboxLimits(seconds=1))):
        tool = HostToolDefinition(
            "t", "Does.", {"type": "object"}, handler=handlers.add, sandbox=given
        )
        assert tool.ref.place == "sandbox"
    unconfined = HostToolDefinition("t", "Does.", {"type": "object"}, handler=handlers.add)
    assert unconfined.ref.place == "local"


async def test_from_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R44: `sandbox` in a file; the module's folder is not shown, what is named is."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lone_handler.py").write_text(
        "import os\n"
        "def look(input, context):\n"
        "    import beside\n"
        "    return [beside.WORD, os.path.exists(input['path'])]\n"
    )
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "beside.py").write_text("WORD = 'found'\n")
    (tmp_path / "secret.env").write_text("KEY=1")
    (tmp_path / "tools.yaml").write_text(
        "tools:\n"
        "  - name: look\n"
        "    description: Looks.\n"
        "    module: lone_handler\n"
        "    function: look\n"
        "    parameters: {type: object}\n"
        "    sandbox: {readable: [lib], seconds: 20}\n"
    )
    [definition] = load_host_tools_file("tools.yaml").definitions
    executor = Executor(Session("s"), [definition])

    found = await executor.call("look", {"path": str(tmp_path / "secret.env")})

    assert found.value == ["found", False]
