"""Containers on every sandbox that there is here."""

from __future__ import annotations

import pytest

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import call_tool, logs_of, python, relay, run_code
from toolcrib.errors import SandboxUnavailable
from toolcrib.sandbox import Sandbox, find_sandbox
from toolcrib.sandbox.command import BackendName

CODE = """
import os
import matplotlib.pyplot as plt
plt.plot([1, 2])
name = 'y.txt'
open('/mnt/data/x.txt', 'w').write('x')
open(f'/mnt/data/{name}', 'w').write('y')
print(open('x.txt').read(), open('y.txt').read(), os.path.isdir('/mnt/data'))
"""
SHELL = {"type": "shell", "environment": {"type": "container_auto"}}


@pytest.fixture(params=["bubblewrap", "sandlock", "rlimits"])
async def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> BackendName:
    name: BackendName = request.param
    try:
        await find_sandbox(name)
    except SandboxUnavailable as error:
        pytest.skip(str(error))

    async def chosen(*, allow_unconfined: bool) -> Sandbox:
        return await find_sandbox(name)

    monkeypatch.setattr("toolcrib.embedded.containers.repository.find_sandbox", chosen)
    return name


async def test_code_finds_its_files_where_it_looks(backend: BackendName) -> None:
    """Paths in /mnt/data work also where a sandbox cannot show the folder there, and nothing but
    results are files of the container.
    """
    async with served(python) as (client, _):
        response = await run_code(client, CODE, {"type": "auto"})
        container = await client.containers.retrieve(response.output[0].container_id)
        files = (await client.containers.files.list(container.id)).data
    assert logs_of(response) == "x y True\n"
    assert container.model_dump()["toolcrib_sandbox"] == backend
    names = sorted(each.path for each in files)
    assert names[1:] == ["/mnt/data/x.txt", "/mnt/data/y.txt"]
    assert names[0].startswith("/mnt/data/figure_")


async def test_commands_find_their_files_where_they_look(backend: BackendName) -> None:
    """The same for a shell."""
    commands = ["echo hello > /mnt/data/x.txt", "cat x.txt"]
    async with served(relay) as (client, _):
        response = await call_tool(client, SHELL, "shell", {"commands": commands})
    assert response.output[1].output[1].stdout == "hello\n"


async def test_nothing_runs_where_nothing_confines(monkeypatch: pytest.MonkeyPatch) -> None:
    """The backend is told what is missing; the item says that nothing was run."""

    async def none(*, allow_unconfined: bool) -> Sandbox:
        raise SandboxUnavailable("nothing here can confine a program; install one")

    monkeypatch.setattr("toolcrib.embedded.containers.repository.find_sandbox", none)
    async with served(python) as (client, _):
        response = await run_code(client, "open('x', 'w')", {"type": "auto"})
        container = await client.containers.retrieve(response.output[0].container_id)
        files = (await client.containers.files.list(container.id)).data
    async with served(relay) as (client, _):
        shell = await call_tool(client, SHELL, "shell", {"commands": ["id"]})
    assert response.output[0].status == "failed"
    assert "install one" in response.output_text
    assert shell.output[0].status == "incomplete"
    assert "uid=" not in shell.output_text
    assert files == []
    assert container.model_dump()["toolcrib_sandbox"] is None
