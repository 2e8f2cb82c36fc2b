"""`toolcrib dev`: the project of a folder, served and reloaded."""

import asyncio
import shlex
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import invoke, run, serving
from toolcrib.cli.dev import sample, sample_words

pytestmark = pytest.mark.usefixtures("folder")


@pytest.fixture
def project(folder: Path) -> Path:
    """What `init` wrote."""
    assert invoke("init", folder / "project").exit_code == 0
    return folder / "project"


@pytest.mark.slow
async def test_it_serves_reloads_and_says_what_to_paste(project: Path) -> None:
    """The line that it prints is a call that works, under the policy of the folder; changed tools
    and a changed policy take effect without a restart.
    """
    async with serving("--no-console", command="dev", cwd=project) as served:
        await served.hear("in another terminal:")
        line = shlex.split(await served.hear("toolcrib tools call"))
        first = await asyncio.to_thread(run, *line[1:], cwd=project)
        where = line[line.index("--url") :]
        order = ("tools", "call", "order_parts", "part=saws", "count=5000")
        denied = await asyncio.to_thread(run, *order, *where, cwd=project)

        source = project / "workshop.py"
        source.write_text(source.read_text("utf-8").replace('"bolts": 120', '"bolts": 7'), "utf-8")
        await served.hear("reloaded")
        second = await asyncio.to_thread(run, *line[1:], cwd=project)
        policy = project / "policy.yaml"
        policy.write_text(policy.read_text("utf-8").replace("min: 1000", "min: 9000"), "utf-8")
        await served.hear("policy.yaml")
        waiting = await asyncio.to_thread(run, *order, *where, cwd=project)
        assert await served.stop() == 0

    assert line[:5] == ["toolcrib", "tools", "call", "stock_level", "part=bolts"]
    assert (first.returncode, first.stdout) == (0, "120\n")
    assert denied.returncode == 3
    assert second.stdout == "7\n"
    assert waiting.returncode == 4
    assert any("token is in" in said for said in served.said)


@pytest.mark.wire
def test_a_taken_port_is_told_with_the_way_out(project: Path) -> None:
    """Status 1 and one sentence."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("dev", "--port", str(port), cwd=project)

    assert done.returncode == 1
    assert f"port {port}: another program has it; choose another, or 0 for any" in done.stderr


def test_without_a_project_it_says_how_to_make_one() -> None:
    """There is nothing to serve."""
    done = invoke("dev")

    assert done.exit_code == 2
    assert "toolcrib init FOLDER" in done.stderr


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"enum": ["a", "b"]}, "a"),
        ({"type": "string", "examples": ["x y"]}, "x y"),
        ({"enum": [5]}, "5"),
        ({"type": "integer", "minimum": 3}, "3"),
        ({"type": "boolean"}, "true"),
        ({"type": "array"}, "[]"),
        ({"type": "object"}, "{}"),
        ({}, "something"),
    ],
)
def test_a_sample_fits_its_schema(schema: dict[str, Any], text: str) -> None:
    """What is offered to be pasted is at least of the right type."""
    assert sample(schema) == text


def test_only_what_is_required_is_in_a_sample() -> None:
    """The shortest call."""
    properties = {"a": {"type": "integer"}, "b": {"type": "string"}}

    assert sample_words({"properties": properties, "required": ["a"]}) == ["a=1"]
