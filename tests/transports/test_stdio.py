"""A runtime on the pipes of a real process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.transports.rpc_client import Json
from tests.transports.stdio_host import PATIENCE, ROOT, SHOP, StdioHost, hosted
from toolcrib.errors import Refused
from toolcrib.transports.pipes import Lines

ONE = {"session_id": "one"}


def call(name: str, **more: Any) -> dict[str, Any]:
    return {**ONE, "name": name, **more}


async def opened(host: StdioHost) -> None:
    await host.ask("session.create", ONE)


async def heard(host: StdioHost, kind: str) -> Json:
    """The next event of a kind."""
    while (event := await host.events("one").get())["kind"] != kind:
        pass
    return event


async def begin_endless(host: StdioHost) -> Any:
    """A call that has entered its handler."""
    await host.ask("events.subscribe", ONE)
    running = await host.begin("tools.call", call("endless"))
    await heard(host, "tool.output")
    return running


async def test_stdout_is_the_protocols_alone() -> None:
    """What modules, tools and their children print goes to stderr, and their stdin is empty."""
    async with hosted() as host:
        await opened(host)
        told = await host.ask("tools.call", call("noisy"))
        assert await host.end_input() == 0

    assert told["value"] == "quiet"
    assert host.garbage == []
    for noise in ("as it is loaded", "noise of Python", "noise of the system", "noise of a child"):
        assert noise in host.errors


async def test_the_end_of_input_answers_what_is_asked_and_exits_with_0() -> None:
    """A request without a line break at the end of the input is answered too."""
    async with hosted() as host:
        await opened(host)
        running = await host.begin("tools.call", call("large"))
        last = await host.begin("ping")
        await host.write(b'{"jsonrpc":"2.0","id":"bare","method":"nothing"}')

        assert await host.end_input() == 0
        assert (await host.end(running))["status"] == "completed"
        assert await host.end(last) == {}
        assert host.complaints.get_nowait()["code"] == -32601


async def test_what_outlasts_the_draining_is_cancelled_and_told() -> None:
    """The end of input does not wait for ever, and leaves no request without an answer."""
    async with hosted("--hasty") as host:
        await opened(host)
        running = await begin_endless(host)

        assert await host.end_input() == 0
        assert await failed(host, running) in ("cancelled", "closing")


async def test_sigterm_says_so_drains_and_exits_with_0() -> None:
    """Nothing new is taken, what runs is told how it ended, and the process ends by itself."""
    async with hosted("--hasty") as host:
        await opened(host)
        running = await begin_endless(host)

        host.process.send_signal(signal.SIGTERM)

        assert (await host.told.get())["method"] == "runtime.closing"
        with pytest.raises(Refused) as told:
            await host.ask("session.create", {})
        assert told.value.kind == "closing"
        assert await failed(host, running) in ("cancelled", "closing")
        assert await host.exit_code() == 0


async def failed(host: StdioHost, request_id: Any) -> str:
    """Why a call that was in flight came to nothing."""
    try:
        return (await host.end(request_id))["failure"]["kind"]
    except Refused as refused:
        return refused.kind


async def test_a_turn_holds_up_nothing_else() -> None:
    """R39: while a prompt waits for a person, the same connection answers pings, calls, approvals
    and cancels.
    """
    async with hosted("--model") as host:
        await opened(host)
        await host.ask("prompt.send", {**ONE, "text": "Greet Ada."})
        await host.ask("events.subscribe", ONE)
        turn = await host.begin("prompt.send", {**ONE, "text": "Greet Bob."})
        await heard(host, "approval.requested")

        assert await host.ask("ping") == {}
        assert (await host.ask("tools.call", call("broken")))["status"] == "failed"
        with pytest.raises(Refused) as told:
            await host.ask("prompt.send", {**ONE, "text": "And me?"})
        assert told.value.kind == "busy"
        assert len((await host.ask("approvals.list", ONE))["approvals"]) == 1
        assert not host.is_answered(turn)
        await host.ask("$/cancel", {"id": turn})

        assert (await host.end(turn))["status"] == "cancelled"


async def test_a_line_over_the_cap_is_refused_and_the_next_is_read() -> None:
    """However long a line is, only the cap of it is kept."""
    async with hosted("--small") as host:
        await host.write(b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * 3_000_000 + b'"}\n')

        assert (await host.complaints.get())["code"] == -32013
        assert await host.ask("ping") == {}


def test_files_serve_as_input_and_output(tmp_path: Path) -> None:
    """Requests may come from a file, and answers go to one; neither can be waited for."""
    asked, told = tmp_path / "asked", tmp_path / "told"
    asked.write_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')

    with asked.open("rb") as reads, told.open("wb") as writes:
        done = subprocess.run(SHOP, stdin=reads, stdout=writes, cwd=ROOT, timeout=PATIENCE)

    assert done.returncode == 0
    assert json.loads(told.read_bytes()) == {"jsonrpc": "2.0", "id": 1, "result": {}}


def test_a_client_that_closes_its_end_has_left() -> None:
    """The process ends by itself when nobody reads its answers, although its input is open."""
    with subprocess.Popen(SHOP, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.close()
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.stdin.flush()

        assert process.wait(PATIENCE) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_lines_are_cut_wherever_chunks_end(size: int) -> None:
    """However bytes arrive, the lines are the same; long ones are shortened to one over the cap."""
    text = b"one\r\n\n  \ntwo\n" + b"x" * 50 + b"\nrest"
    lines = Lines(10)

    found = [line for at in range(0, len(text), size) for line in lines.feed(text[at : at + size])]

    assert [*found, *lines.end()] == [b"one\r", b"two", b"x" * 11, b"rest"]
    assert lines.end() == []


TOOLS = '''
from toolcrib import tool

print("loading")

@tool
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b
'''


def command(*more: str) -> tuple[str, ...]:
    main = "from toolcrib.cli import main; main()"
    return (sys.executable, "-c", main, "serve", "--stdio", *more)


async def test_the_command_serves_a_modules_tools_and_keeps_sessions(tmp_path: Path) -> None:
    """R31: `toolcrib serve --stdio` loads a module of the folder it runs in; the sessions are in
    the store for the next process.
    """
    (tmp_path / "adding.py").write_text(TOOLS, "utf-8")
    asked = command("--host-tools-module", "adding", "--store", "crib.sqlite3")

    async with hosted(command=asked, cwd=tmp_path) as host:
        await opened(host)
        names = [each["name"] for each in (await host.ask("tools.list", ONE))["tools"]]
        assert names == ["add"]
        told = await host.ask("tools.call", call("add", arguments={"a": 2, "b": 3}))
        assert told["value"] == 5
        assert await host.end_input() == 0
    assert host.garbage == []

    async with hosted(command=asked, cwd=tmp_path) as host:
        assert (await host.ask("session.resume", ONE))["last_seq"] > 1
        assert await host.end_input() == 0


MODEL = """
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import ScriptedOpenAI, calls, says

script = ScriptedOpenAI([calls("add", {"a": 2, "b": 3})], [says("It is 5.")])
adapter = OpenAIAdapter(model="scripted", client=script.client())
"""


async def test_the_command_answers_prompts_with_an_adapter(tmp_path: Path) -> None:
    """`--adapter` names the model that calls the host's tools; a policy has them ask first."""
    (tmp_path / "adding.py").write_text(TOOLS, "utf-8")
    (tmp_path / "answering.py").write_text(MODEL, "utf-8")
    (tmp_path / "policy.yaml").write_text("version: 1\nrules:\n  - ask: add\n", "utf-8")
    tools = ("--host-tools-module", "adding", "--policy", "policy.yaml")
    asked = command(*tools, "--adapter", "answering:adapter")

    async with hosted(command=asked, cwd=tmp_path) as host:
        await opened(host)
        await host.ask("events.subscribe", ONE)
        turn = await host.begin("prompt.send", {**ONE, "text": "What is 2 and 3?"})
        wanted = (await heard(host, "approval.requested"))["data"]["request"]["approval_id"]
        await host.ask("approvals.decide", {"approval_id": wanted, "decision": "approve"})

        assert (await host.end(turn))["text"] == "It is 5."
        assert (await heard(host, "tool.invoked"))["data"]["value"] == 5
        assert await host.end_input() == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--host-tools-module", "nowhere_to_be_found"), "nowhere_to_be_found"),
        (("--host-tools", "missing.yaml"), "missing.yaml"),
        (("--policy", "missing.yaml"), "missing.yaml"),
        (("--adapter", "json:dumps"), "json:dumps"),
    ],
)
async def test_what_cannot_be_loaded_ends_the_command(
    tmp_path: Path, flags: tuple[str, ...], said: str
) -> None:
    """R30: the exit code is not 0, stderr names what was wrong, and stdout stays empty."""
    async with hosted(command=command(*flags), cwd=tmp_path) as host:
        assert await host.exit_code() == 1

    assert said in host.errors
    assert "Traceback" not in host.errors
    assert host.garbage == []
