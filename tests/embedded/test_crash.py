"""A provider is killed while it makes a response; the next one finds everything as it must be."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openai import APIConnectionError, APIError, OpenAI

from tests.helpers.child_process import ChildProcess, child_process
from tests.helpers.patience import PATIENCE

pytestmark = [pytest.mark.crash, pytest.mark.wire]

MAIN = (sys.executable, "-c", "from toolcrib.cli import main; main()")
SCENARIO = """
name: keeper
turns:
  - when: write
    steps:
      - calls:
          - tool: python
            arguments: {code: "open('/mnt/data/kept.txt', 'w').write('kept'); print('written')"}
      - say: It is written.
  - when: hang
    steps:
      - calls:
          - tool: python
            arguments: {code: "import time; print('begun', flush=True); time.sleep(600)"}
      - say: Never said.
"""
CODE: Any = [{"type": "code_interpreter", "container": {"type": "auto"}}]


class Running:
    """A provider as a process of its own."""

    def __init__(self, process: ChildProcess, url: str, token: str) -> None:
        self.process = process
        self.client = OpenAI(base_url=url, api_key=token, max_retries=0, timeout=PATIENCE)

    def kill(self) -> None:
        """End it as a power cut would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(folder: Path) -> Generator[Running]:
    """`toolcrib provider` on a free port, with its state in the folder."""
    scenario, token_file = folder / "scenario.yaml", folder / "token"
    scenario.write_text(SCENARIO)
    command = [*MAIN, "provider", "--backend", f"scripted:{scenario}", "--port", "0"]
    places = ["--data", str(folder / "data"), "--token-file", str(token_file)]
    env = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
    with child_process([*command, *places], env=env) as process:
        url = re.search(r"http://\S+", process.stderr.next_line())
        assert url is not None
        process.stderr.next_line(containing="state is kept")
        live = Running(process, url[0], token_file.read_text().strip())
        with live.client:
            yield live
        process.send_signal(signal.SIGTERM)
        process.wait()


def read_until_killed(live: Running, stream: Any, seen: list[Any]) -> None:
    """Read on, and kill the provider in the middle of a call of its interpreter."""
    for event in stream:
        seen.append(event)
        if event.type == "response.code_interpreter_call.interpreting":
            live.kill()


def test_nothing_that_was_kept_is_lost_when_the_provider_is_killed(tmp_path: Path) -> None:
    """Stored responses and containers with their files are as they were, a response in the
    background is told as failed, and the client that waited hears of it at once.
    """
    with running(tmp_path) as first:
        kept = first.client.responses.create(model="keeper", input="write", tools=CODE)
        [call] = [item for item in kept.output if item.type == "code_interpreter_call"]
        behind = first.client.responses.create(
            model="keeper", input="hang", tools=CODE, background=True
        )
        stream: Any = first.client.responses.create(
            model="keeper", input="hang", tools=CODE, stream=True
        )
        seen: list[Any] = []
        with pytest.raises(APIError, match=r"(?i)connection|closed|disconnected|reset"):
            read_until_killed(first, stream, seen)

    with running(tmp_path) as second:
        client = second.client
        again = client.responses.retrieve(kept.id)
        assert again.output == kept.output
        assert client.containers.retrieve(call.container_id).status == "running"
        [file] = client.containers.files.list(call.container_id).data
        content = client.containers.files.content.retrieve(
            file.id, container_id=call.container_id
        ).read()
        assert content == b"kept"
        for lost in (behind.id, seen[0].response.id):
            told = client.responses.retrieve(lost)
            assert told.status == "failed"
            assert told.error is not None
            assert "stopped during this response" in told.error.message
        events: Any = client.responses.retrieve(behind.id, stream=True)
        assert [event.type for event in events][-1] == "response.failed"
        onward = client.responses.create(
            model="keeper", input="write", tools=CODE, previous_response_id=kept.id
        )
        assert onward.output_text == "It is written."


def test_whoever_asks_a_killed_provider_is_told(tmp_path: Path) -> None:
    """A blocking request ends with an error of the connection, not with half an answer."""
    with running(tmp_path) as live:
        live.client.models.list()
        live.kill()
        with pytest.raises(APIConnectionError):
            live.client.responses.create(model="keeper", input="write")


def test_a_provider_that_is_told_to_stop_ends_what_it_makes(tmp_path: Path) -> None:
    """SIGTERM: the response is kept as cancelled, and the process ends with status 0."""
    with running(tmp_path) as first:
        behind = first.client.responses.create(
            model="keeper", input="hang", tools=CODE, background=True
        )
        events: Any = first.client.responses.retrieve(behind.id, stream=True)
        for event in events:
            if event.type == "response.code_interpreter_call.interpreting":
                break
        events.close()
        first.process.send_signal(signal.SIGTERM)
        assert first.process.wait() == 0
    with running(tmp_path) as second:
        assert second.client.responses.retrieve(behind.id).status == "cancelled"
