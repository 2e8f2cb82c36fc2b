"""The programs of examples/chat_agent run as a reader would run them, up to the network's edge."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.adapters.pydantic_ai.faulty_server import Asked, Reply, Server, Silence
from tests.adapters.pydantic_ai.provider_dialects import SPEECHES
from tests.adapters.pydantic_ai.wire.traffic import Json
from tests.helpers.patience import PATIENCE
from toolcrib import SqliteStore
from toolcrib.store.verification import verify_session

pytestmark = pytest.mark.wire  # every test starts processes

ROOT: Final = Path(__file__).parents[1]
FOLDER: Final = ROOT / "examples" / "chat_agent"
ENDPOINT: Final = "http://localhost:11434/v1"
PROVIDERS: Final = {
    "on_openai.py": "openai-responses",
    "on_pydantic_ai.py": "anthropic",
    "on_chat_endpoint.py": "openai-chat",
    "pydantic_ai_alone.py": "openai-responses",
}
PROGRAMS: Final = ("on_openai.py", "on_pydantic_ai.py", "on_chat_endpoint.py", "on_embedded.py")
MOST_LINES: Final = 30


class Program:
    """A program of the folder in a folder of its own, with a provider on loopback."""

    def __init__(self, name: str, folder: Path, server: Server | None = None) -> None:
        self.server = server
        url = None if server is None else server.url
        text = (FOLDER / name).read_text("utf-8")
        if name == "on_chat_endpoint.py":
            assert text.count(ENDPOINT) == 1
            text = text.replace(ENDPOINT, url or "")
        self.file = folder / name
        self.file.write_text(text, "utf-8")
        (folder / "scenario.yaml").write_bytes((FOLDER / "scenario.yaml").read_bytes())
        keys = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")
        self.environment = {**os.environ, **dict.fromkeys(keys, "sk-test")}
        if url is not None:
            self.environment |= {"OPENAI_BASE_URL": url, "ANTHROPIC_BASE_URL": url}
        self.environment["PYTHONPATH"] = str(ROOT / "src")

    def run(self, *lines: str) -> str:
        """What it prints when these lines are typed, the last one empty."""
        done = subprocess.run(
            [sys.executable, self.file.name],
            cwd=self.file.parent,
            env=self.environment,
            input="\n".join([*lines, "", ""]),
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return done.stdout

    def kill_at(self, mark: bytes, *lines: str) -> str:
        """Type these lines, and kill the process once it has printed the mark."""
        printed = b""
        with self._killed(*lines) as output:
            while mark not in printed:
                piece = os.read(output, 4096)
                assert piece, printed
                printed += piece
        return printed.decode()

    def kill_when(self, reached: threading.Event, *lines: str) -> None:
        """Type these lines, and kill the process once something is reached."""
        with self._killed(*lines):
            assert reached.wait(PATIENCE)

    @contextmanager
    def _killed(self, *lines: str) -> Generator[int]:
        """The output of a process that is killed at the end."""
        process = subprocess.Popen(
            [sys.executable, "-u", self.file.name],
            cwd=self.file.parent,
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n".join([*lines, ""]).encode())
            process.stdin.flush()
            try:
                yield process.stdout.fileno()
            finally:
                process.send_signal(signal.SIGKILL)


class Watched(Server):
    """A server that tells when it has been asked a number of times."""

    def __init__(self, *arguments: Any, count: int, reached: threading.Event) -> None:
        super().__init__(*arguments)
        self._count = count
        self._reached = reached

    def answer(self, request: Asked) -> tuple[int, Json | Reply]:
        answered = super().answer(request)
        if len(self.requests) == self._count:
            self._reached.set()
        return answered


@contextmanager
def program(name: str, folder: Path) -> Generator[Program]:
    """A program whose model looks into the stock, and orders after a question."""
    if name not in PROVIDERS:
        yield Program(name, folder)
        return
    speech = SPEECHES[PROVIDERS[name]]
    replies = [
        speech.calls(speech.call("stock", {"item": "saw"}, "call_1")),
        speech.says("There are 7 saws."),
        speech.calls(speech.call("order", {"item": "saw", "count": 5}, "call_2")),
        speech.says("5 more of saw are ordered."),
    ]
    with Server(speech.encode, *replies) as server:
        yield Program(name, folder, server)


def check_requests(agent: Program) -> None:
    """What the provider was asked: instructions each time, results, and what was said before."""
    if agent.server is None:
        return
    asked, speech = agent.server.bodies, SPEECHES[PROVIDERS[agent.file.name]]
    assert len(asked) == 4
    assert "7" in speech.outputs(asked[1])[0]
    assert "How many" in str(asked[3]) or "previous_response_id" in asked[3]
    assert all("Be brief." in str(body) for body in asked)


@pytest.mark.parametrize("name", [*PROGRAMS, "pydantic_ai_alone.py"])
def test_a_program_talks_calls_asks_and_remembers(name: str, tmp_path: Path) -> None:
    """N section A: history, tools, one approval and a session that outlives the process."""
    with program(name, tmp_path) as agent:
        first = agent.run("How many saws are there?")
        second = agent.run("Order 5 more.", "y")
        check_requests(agent)

    assert "There are 7 saws." in first
    assert re.search("order .*saw.*y/n 5 more of saw are ordered.", second)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_has_at_most_thirty_lines(name: str) -> None:
    """N section A: lines that are not blank, imports and docstrings included."""
    lines = [line for line in (FOLDER / name).read_text("utf-8").splitlines() if line.strip()]

    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= 100


def test_the_programs_differ_in_their_model_only() -> None:
    """One program, four models: an import and the line that makes the adapter."""
    texts = [(FOLDER / name).read_text("utf-8").splitlines() for name in PROGRAMS]
    for text in texts[1:]:
        assert len(text) == len(texts[0])
        different = [old for old, new in zip(texts[0], text, strict=True) if old != new]
        assert different == [
            "from toolcrib.adapters.openai import OpenAIAdapter",
            '    llm, store = OpenAIAdapter(model="gpt-5-mini"), SqliteStore("chat.db")',
        ]


def test_a_question_that_waits_survives_a_kill(tmp_path: Path) -> None:
    """The process is killed while it asks. Started again, it asks again, and the order runs once;
    no request that was answered is made again.
    """
    with program("on_openai.py", tmp_path) as agent:
        agent.run("How many saws are there?")
        printed = agent.kill_at(b"y/n", "Order 5 more.")
        after = agent.run("y")
        check_requests(agent)

    assert "ordered" not in printed
    assert re.match("order .*saw.*y/n 5 more of saw are ordered.", after)
    check_ledger(tmp_path / "chat.db", "call.started", 2)


def test_a_request_that_was_killed_is_made_again(tmp_path: Path) -> None:
    """The process is killed while the model writes. Started again, the request is made again, and
    the call before it is not.
    """
    speech, reached = SPEECHES[PROVIDERS["on_openai.py"]], threading.Event()
    replies = [
        speech.calls(speech.call("stock", {"item": "saw"})),
        Silence(),
        speech.says("There are 7 saws."),
    ]
    with Watched(speech.encode, *replies, count=2, reached=reached) as server:
        agent = Program("on_openai.py", tmp_path, server)
        agent.kill_when(reached, "How many saws are there?")
        after = agent.run()
        asked = server.bodies

    assert after.startswith("There are 7 saws.\n")
    assert len(asked) == 3
    assert asked[1] == asked[2]
    check_ledger(tmp_path / "chat.db", "call.started", 1)


def test_a_call_that_was_killed_is_in_doubt(tmp_path: Path) -> None:
    """The process is killed while the order runs. Started again, it does not order again unasked:
    the question says what happened, and the person decides.
    """
    with program("on_embedded.py", tmp_path) as agent:
        hanging = 'print("ordering", flush=True) or __import__("threading").Event().wait()'
        text = agent.file.read_text("utf-8")
        assert text.count('    return f"{count}') == 1
        text = text.replace('    return f"{count}', f'    {hanging}\n    return f"{{count}}')
        agent.file.write_text(text, "utf-8")
        agent.kill_at(b"ordering", "Order 5 more.", "y")
        after = agent.run("n")

    assert re.match("order .*saw.*process died while this call ran", after)
    assert "ordering" not in after
    assert "The user said no." in after
    check_ledger(tmp_path / "chat.db", "call.in_doubt", 1)


def test_pydantic_ai_alone_forgets_a_question_that_was_killed(tmp_path: Path) -> None:
    """What the page says of the other program: its file is that of the last turn that ended."""
    with program("pydantic_ai_alone.py", tmp_path) as agent:
        agent.run("How many saws are there?")
        agent.kill_at(b"y/n", "Order 5 more.")
        after = agent.run()

    assert after.strip() == ">"
    assert "Order 5 more" not in (tmp_path / "chat.json").read_text("utf-8")


def test_the_page_shows_the_programs() -> None:
    """What a reader copies from the page is what ran here."""
    page = (ROOT / "docs" / "agent.md").read_text("utf-8")

    assert (FOLDER / "on_openai.py").read_text("utf-8") in page
    assert (FOLDER / "pydantic_ai_alone.py").read_text("utf-8") in page
    assert (FOLDER / "scenario.yaml").read_text("utf-8") in page
    for name in PROGRAMS[1:]:
        lines = (FOLDER / name).read_text("utf-8").splitlines()
        own_import = next(line for line in reversed(lines) if line.startswith("from toolcrib."))
        adapter = next(line.strip() for line in lines if "llm, store =" in line)
        assert f"{own_import}\n" in page
        assert f"{adapter}\n" in page


def check_ledger(path: Path, kind: str, count: int) -> None:
    """Hold the ledger to its chain, and to so many records of a kind."""
    with SqliteStore(path) as store:
        verify_session(store, "shop")
        kinds = [record.kind for record in store.records("shop")]
    assert kinds.count(kind) == count
