"""Containers and their files over the official client."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, BadRequestError, NotFoundError

from tests.embedded.scripted_provider import Puppet, served
from tests.embedded.tools.hosted_calls import Clock, logs_of, python, run_code
from tests.helpers.patience import PATIENCE
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.access import PROCESS_ACCESS, ResourceAccess
from toolcrib.embedded.containers import repository
from toolcrib.embedded.containers.container import Container, ContainerOptions
from toolcrib.sandbox import find_sandbox


async def test_a_container_is_made_listed_and_deleted() -> None:
    """The whole life of a container, and its name of what confines it."""
    async with served(python) as (client, _):
        made = await client.containers.create(
            name="mine",
            memory_limit="4g",
            expires_after={"anchor": "last_active_at", "minutes": 5},
        )
        await client.containers.create(name="other")
        named = (await client.containers.list(name="mine")).data
        both = [each.name for each in (await client.containers.list(order="asc")).data]
        await client.containers.delete(made.id)
        with pytest.raises(NotFoundError, match=made.id):
            await client.containers.retrieve(made.id)
    assert [each.id for each in named] == [made.id]
    assert both == ["mine", "other"]
    assert (made.status, made.memory_limit) == ("running", "4g")
    assert made.expires_after is not None
    assert made.expires_after.minutes == 5
    assert made.model_dump()["toolcrib_sandbox"] == (await find_sandbox()).backend


async def test_the_sandbox_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Once for each provider, not for each call."""
    caplog.set_level(logging.INFO, "toolcrib.embedded.containers.repository")
    async with served(python) as (client, _):
        for _ in range(3):
            await client.containers.create(name="c")
    name = (await find_sandbox()).backend
    assert caplog.messages == [f"code of containers is confined by {name}"]


@pytest.mark.parametrize(
    ("options", "param"),
    [
        ({"expires_after": {"anchor": "last_active_at", "minutes": 21}}, "minutes"),
        ({"expires_after": {"anchor": "last_active_at", "minutes": True}}, "expires_after"),
        ({"expires_after": {"anchor": "created_at", "minutes": 5}}, "expires_after"),
        ({"memory_limit": "2g"}, "memory_limit"),
        ({"memory_limit": ["1g"]}, "memory_limit"),
        ({"file_ids": "file_1"}, "file_ids"),
        ({"file_ids": ["f"] * 51}, "file_ids"),
        ({"network_policy": {"type": "allowlist", "allowed_domains": ["*"]}}, "network_policy"),
        ({"network_policy": "open"}, "network_policy"),
        ({"skills": [{"type": "x"}]}, "skills"),
    ],
)
async def test_terms_that_cannot_be_kept_are_refused(options: dict[str, Any], param: str) -> None:
    """The answer names what is wrong, and no container is made."""
    async with served(python) as (client, _):
        with pytest.raises(BadRequestError) as caught:
            await client.post("/containers", body={"name": "c", **options}, cast_to=object)
        assert (await client.containers.list()).data == []
    assert caught.value.param is not None
    assert caught.value.param.endswith(param)


async def test_a_container_needs_a_name() -> None:
    """And its body has to be an object."""
    async with served(python) as (client, _):
        bodies: list[Any] = [{}, [], {"name": 5}]
        for body in bodies:
            with pytest.raises(BadRequestError):
                await client.post("/containers", body=body, cast_to=object)


async def test_files_go_in_by_upload_and_by_id_and_out_as_they_were() -> None:
    """Each is where the code finds it, and can be removed again."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        stored = await client.files.create(file=("b.txt", b"by id"), purpose="user_data")
        up = await client.containers.files.create(container, file=("a.txt", b"uploaded"))
        by_id = await client.containers.files.create(container, file_id=stored.id)
        code = "import os\nprint([open(n).read() for n in sorted(os.listdir('.'))])"
        seen = await run_code(client, code, container)
        content = await client.containers.files.content.retrieve(up.id, container_id=container)
        assert content.read() == b"uploaded"
        assert content.response.headers["x-content-type-options"] == "nosniff"
        found = await client.containers.files.retrieve(by_id.id, container_id=container)
        await client.containers.files.delete(up.id, container_id=container)
        left = [each.id for each in (await client.containers.files.list(container)).data]
        with pytest.raises(NotFoundError):
            await client.containers.files.retrieve(up.id, container_id=container)
        with pytest.raises(BadRequestError, match="file_id"):
            await client.post(f"/containers/{container}/files", body={}, cast_to=object)
    assert logs_of(seen) == "['uploaded', 'by id']\n"
    assert (up.path, up.source, up.bytes) == ("/mnt/data/a.txt", "user", 8)
    assert found.path == f"/mnt/data/{stored.id}-b.txt"
    assert left == [by_id.id]


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "..", "x" * 400])
async def test_a_name_cannot_lead_out_of_the_container(name: str, tmp_path: Path) -> None:
    """Only the last part of a name counts, cut to what file systems take."""
    async with served(python, data=tmp_path / "data") as (client, _):
        container = (await client.containers.create(name="c")).id
        file = await client.containers.files.create(container, file=(name, b"x"))
    folder = tmp_path / "data" / "containers" / container
    assert file.path.startswith("/mnt/data/")
    assert file.path.count("/") == 3
    assert [each.name for each in folder.iterdir()] == [file.path.rpartition("/")[2]]


async def test_a_file_that_changed_has_a_new_id() -> None:
    """What was cited stays what it was: the old id leads nowhere, the new one to the new bytes."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        await run_code(client, "open('x', 'w').write('one')", container)
        [first] = (await client.containers.files.list(container)).data
        await run_code(client, "None", container)
        [same] = (await client.containers.files.list(container)).data
        await run_code(client, "open('x', 'w').write('two')", container)
        [second] = (await client.containers.files.list(container)).data
        await run_code(client, "import os; os.remove('x')", container)
        assert (await client.containers.files.list(container)).data == []
    assert first.id == same.id != second.id


async def test_a_file_that_the_code_took_away_is_not_found() -> None:
    """A file that became a link to something else is not read either."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        file = await client.containers.files.create(container, file=("x", b"1"))
        code = "import os, threading; os.remove('x'); os.symlink('/etc/hostname', 'x')"
        await run_code(client, code, container)
        with pytest.raises(NotFoundError):
            await client.containers.files.content.retrieve(file.id, container_id=container)


async def test_containers_are_there_after_a_restart(tmp_path: Path) -> None:
    """Files stay; variables do not, and the backend is told."""
    async with EmbeddedProvider(Puppet(python), data=tmp_path) as provider:
        container = {"type": "auto"}
        first = await run_code(provider.client(), "x = 1; open('f', 'w').write('f')", container)
    async with EmbeddedProvider(Puppet(python), data=tmp_path) as provider:
        code = "print(open('f').read(), 'x' in globals())"
        second = await run_code(provider.client(), code, container, previous_response_id=first.id)
    assert logs_of(second) == "f False\n"
    assert "Python was restarted" in second.output_text


async def test_expired_containers_are_swept_while_others_are_made(tmp_path: Path) -> None:
    """Nobody has to ask for an expired container again for its folder to go."""
    clock = Clock()
    async with served(python, data=tmp_path, clock=clock) as (client, _):
        old = await client.containers.create(name="old")
        await client.containers.files.create(old.id, file=("x", b"1"))
        assert (tmp_path / "containers" / old.id).exists()
        clock.now += 1201
        await client.containers.create(name="new")
        assert not (tmp_path / "containers" / old.id).exists()
        assert (await client.containers.retrieve(old.id)).status == "expired"


async def test_a_file_larger_than_a_container_takes_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """413, and a container that should have begun with it is not made."""
    monkeypatch.setattr("toolcrib.embedded.containers.files.MAX_FILE_BYTES", 10)
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        stored = await client.files.create(file=("x", b"x" * 11), purpose="user_data")
        with pytest.raises(APIStatusError) as caught:
            await client.containers.files.create(container, file=("x", b"x" * 11))
        with pytest.raises(APIStatusError):
            await client.containers.create(name="d", file_ids=[stored.id])
        assert [each.name for each in (await client.containers.list()).data] == ["c"]
    assert caught.value.status_code == 413


async def test_many_new_files_are_told_of_in_parts() -> None:
    """One call notes at most so many; the next call notes the others."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        await run_code(client, "for n in range(250): open(f'{n}', 'w').write('x')", container)
        first = [each.path async for each in client.containers.files.list(container, limit=100)]
        await run_code(client, "None", container)
        second = [each.path async for each in client.containers.files.list(container, limit=100)]
    assert (len(first), len(second)) == (200, 250)


async def test_code_of_one_principal_leaves_room_for_others() -> None:
    """However many containers a principal makes, code runs in four of them at once; another
    principal's code does not wait for the rest.
    """
    async with EmbeddedProvider(Puppet(python)) as provider:
        containers = provider.containers
        eve, bob = (ResourceAccess(name, False, False) for name in ("eve", "bob"))
        hers = [await containers.create(ContainerOptions(), eve) for _ in range(6)]
        running: list[str] = []
        is_over = asyncio.Event()

        async def run(container: Container) -> None:
            async with containers.turn(container):
                running.append(container.owner)
                await is_over.wait()

        async with asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
            for container in hers:
                tasks.create_task(run(container))
            await asyncio.sleep(0)
            async with containers.turn(await containers.create(ContainerOptions(), bob)):
                assert running == ["eve"] * 4
            is_over.set()
    assert running == ["eve"] * 6


async def test_a_caller_does_not_name_away_the_memory_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit that a request names holds up to a quarter of what the machine has."""
    gibibyte = 1024**3
    monkeypatch.setattr(repository, "_machine_memory", lambda: 8 * gibibyte)
    async with EmbeddedProvider(Puppet(python)) as provider:
        limits = [
            provider.containers.limits(
                await provider.containers.create(
                    ContainerOptions(memory_limit=limit), PROCESS_ACCESS
                ),
                None,
            ).memory_bytes
            for limit in ("1g", "64g")
        ]
    assert limits == [gibibyte, 2 * gibibyte]
