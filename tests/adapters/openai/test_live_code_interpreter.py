"""The code interpreter on the real provider. Runs only with a key, and costs some cents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import ask, happened
from toolcrib import Session
from toolcrib.adapters.openai import OpenAIAdapter, create_container, download_files
from toolcrib.ledger.events import ToolInvoked
from toolcrib.ledger.prompt_events import FilesStaged
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool, VfsPath
from toolcrib.tools.code_interpreter import CodeInterpreterResult, Container

pytestmark = [
    pytest.mark.skipif("OPENAI_API_KEY" not in os.environ, reason="needs OPENAI_API_KEY"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
]

MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1")


def python(container: Container | None = None, *mounts: HostMount) -> OpenAICodeInterpreterTool:
    return OpenAICodeInterpreterTool(name="python", container=container, host_mounts=mounts)


async def evaluated(
    client: Any, tool: OpenAICodeInterpreterTool, text: str, session: Session, **options: Any
) -> CodeInterpreterResult:
    adapter = OpenAIAdapter(model=MODEL, client=client, **options)
    answer = await adapter.evaluate_async(
        ask(tool, text=text), session=session, tool_choice="python"
    )
    return answer.hosted_outputs["python"]


async def test_simple_python_runs() -> None:
    """C36: a sum is computed by code, and the call is recorded as any other."""
    from openai import AsyncOpenAI

    session = Session()
    async with AsyncOpenAI() as client:
        result = await evaluated(
            client, python(), "Compute 12345 * 6789 with Python and print it.", session
        )

    assert "83810205" in result.stdout
    assert happened(session, ToolInvoked)[0].success


async def test_a_container_is_used_again() -> None:
    """C36: what one prompt writes, the next one reads."""
    from openai import AsyncOpenAI

    async with AsyncOpenAI() as client:
        container = await create_container(client, name="toolcrib-live")
        write = "Write the word lathe to /mnt/data/word.txt with Python."
        first = await evaluated(client, python(container), write, Session())
        read = "Print what /mnt/data/word.txt holds, with Python."
        second = await evaluated(client, python(container), read, Session())
        await client.containers.delete(container.id)

    assert first.container_id == second.container_id == container.id
    assert "lathe" in second.stdout


async def test_a_host_file_goes_in_and_a_picture_comes_out(tmp_path: Path) -> None:
    """C36: staging, the path that the model is told, citations, and the download."""
    from openai import AsyncOpenAI

    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "input.csv").write_text("value\n1\n2\n6\n")
    session = Session()
    mount = HostMount("data", VfsPath(("workspace",)))
    text = (
        "Load /workspace/input.csv, print the mean of the value column, save a histogram as "
        "histogram.png and link to it."
    )
    async with AsyncOpenAI() as client:
        result = await evaluated(client, python(None, mount), text, session, host_roots=(tmp_path,))
        saved = await download_files(client, result.files, tmp_path / "out")
        for file in happened(session, FilesStaged)[0].files:
            await client.files.delete(file.file_id)

    assert "3" in result.stdout
    assert any(path.read_bytes().startswith(b"\x89PNG") for path in saved)
