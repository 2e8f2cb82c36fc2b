"""`shell`: commands that really run, in containers."""

from __future__ import annotations

from typing import Any

import pytest
from openai import BadRequestError
from openai.types.responses import (
    ResponseFunctionShellToolCall,
    ResponseFunctionShellToolCallOutput,
)

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import Clock, call_tool, relay

AUTO: dict[str, Any] = {"type": "shell", "environment": {"type": "container_auto"}}


def in_container(container_id: str) -> dict[str, Any]:
    environment = {"type": "container_reference", "container_id": container_id}
    return {"type": "shell", "environment": environment}


async def test_each_command_has_its_output_and_its_exit_code() -> None:
    """Commands run one after the other; the items are of the official types."""
    commands = ["echo out; echo err >&2; exit 3", "pwd"]
    async with served(relay) as (client, _):
        response = await call_tool(client, AUTO, "shell", {"commands": commands})
    call, output = response.output[:2]
    ResponseFunctionShellToolCall.model_validate(call.model_dump(), strict=True)
    ResponseFunctionShellToolCallOutput.model_validate(output.model_dump(), strict=True)
    assert (call.status, call.action.commands) == ("completed", commands)
    assert call.call_id == output.call_id
    first, second = output.output
    assert (first.stdout, first.stderr, first.outcome.exit_code) == ("out\n", "err\n", 3)
    assert second.stdout == "/mnt/data\n"


async def test_files_stay_in_the_container_and_can_be_had() -> None:
    """What a command writes is a file of the container, cited where the backend names it."""
    async with served(relay) as (client, _):
        container = (await client.containers.create(name="c")).id
        tool = in_container(container)
        await call_tool(client, tool, "shell", {"commands": ["echo hello > greeting.txt"]})
        response = await call_tool(client, tool, "shell", {"commands": ["cat greeting.txt"]})
        [file] = (await client.containers.files.list(container)).data
        content = await client.containers.files.content.retrieve(file.id, container_id=container)
        assert content.read() == b"hello\n"
    assert response.output[1].output[0].stdout == "hello\n"
    assert (file.path, file.source) == ("/mnt/data/greeting.txt", "assistant")


async def test_a_command_that_takes_too_long_is_a_timeout() -> None:
    """The call's own limit counts, and the next command runs all the same."""
    arguments = {"commands": ["echo begun; sleep 60", "echo next"], "timeout_ms": 300}
    async with served(relay) as (client, _):
        response = await call_tool(client, AUTO, "shell", arguments)
    first, second = response.output[1].output
    assert (first.stdout, first.outcome.type) == ("begun\n", "timeout")
    assert (second.stdout, second.outcome.exit_code) == ("next\n", 0)


async def test_output_is_cut_where_the_call_says() -> None:
    """`max_output_length` counts for stdout and for stderr."""
    arguments = {"commands": ["echo 123456; echo abcdef >&2"], "max_output_length": 3}
    async with served(relay) as (client, _):
        response = await call_tool(client, AUTO, "shell", arguments)
    [output] = response.output[1].output
    assert (output.stdout, output.stderr) == ("123", "abc")
    assert response.output[1].max_output_length == 3


async def test_a_command_sees_nothing_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment of the provider's, no home, no network."""
    monkeypatch.setenv("SECRET_KEY", "sk-very-secret")
    commands = ["env; cat /proc/*/environ | tr '\\0' '\\n'; ls -A /root /home; cat /proc/net/dev"]
    async with served(relay) as (client, _):
        response = await call_tool(client, AUTO, "shell", {"commands": commands})
    told = response.output[1].output[0].stdout
    assert "sk-very-secret" not in told
    assert "eth0" not in told


async def test_a_shell_on_the_client_is_refused() -> None:
    """This provider runs shells in containers only, and says so."""
    async with served(relay) as (client, _):
        local = {"type": "shell", "environment": {"type": "local"}}
        with pytest.raises(BadRequestError, match="in containers only") as caught:
            await call_tool(client, local, "shell", {"commands": ["id"]})
    assert caught.value.param == "tools[0].environment"


async def test_an_expired_container_is_refused() -> None:
    """By its id, before a response is begun."""
    clock = Clock()
    async with served(relay, clock=clock) as (client, _):
        container = (await client.containers.create(name="c")).id
        clock.now += 1200
        with pytest.raises(BadRequestError, match=r"Container is expired\."):
            await call_tool(client, in_container(container), "shell", {"commands": ["id"]})


@pytest.mark.parametrize("arguments", [{"commands": 5}, {}, {"commands": []}, {"commands": "id"}])
async def test_arguments_of_a_careless_backend_do_no_harm(arguments: dict[str, Any]) -> None:
    """What is no list of commands runs nothing; a single text is one command."""
    async with served(relay) as (client, _):
        response = await call_tool(client, AUTO, "shell", arguments)
    assert response.status == "completed"
    assert len(response.output[1].output) == (arguments.get("commands") == "id")
