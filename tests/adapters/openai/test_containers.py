"""Containers that outlive one prompt: made, looked after, replaced, and logged."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.adapters.openai.files_server import Fault, FilesServer, Json, Said, code_call, opened
from tests.adapters.openai.loopback_adapter import KEY, ask, sdk_client
from tests.adapters.openai.scripted_provider import message, response
from toolcrib.adapters.openai import (
    OpenAIAdapter,
    check_container,
    create_container,
    renew_container,
)
from toolcrib.errors import ContainerGone, InvalidTool, PromptEvaluationError, UsageError
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import ExistingContainer, NetworkPolicy, code_interpreter_tool

DONE = response(message("Done."))


@asynccontextmanager
async def bench(*script: Any) -> AsyncGenerator[tuple[Any, FilesServer]]:
    """The SDK's own client and a server."""
    with FilesServer(*script) as server:
        async with sdk_client(server.url) as client:
            yield client, server


class TestCreate:
    async def test_a_container_is_made_as_wanted(self) -> None:
        """C26: memory, network, files and idle minutes are said when it is made, and only then."""
        async with bench() as (client, server):
            made = await create_container(
                client,
                name="analysis",
                memory_limit="4g",
                network_policy=NetworkPolicy(("a.example",)),
                file_ids=(),
                minutes=5,
            )

        assert made == ExistingContainer("cntr_1", "4g")
        assert server.containers["cntr_1"].options == {
            "name": "analysis",
            "memory_limit": "4g",
            "network_policy": {"type": "allowlist", "allowed_domains": ["a.example"]},
            "expires_after": {"anchor": "last_active_at", "minutes": 5},
        }

    async def test_what_is_not_said_is_left_to_the_provider(self) -> None:
        """Defaults are the provider's own, but for the memory that we log."""
        async with bench() as (client, server):
            await create_container(client, name="plain")

        assert server.containers["cntr_1"].options == {"name": "plain", "memory_limit": "1g"}

    async def test_uploaded_files_are_put_into_it(self) -> None:
        """C27: files that were uploaded before are there from the start."""
        async with bench() as (client, server):
            made = await client.files.create(file=("a.csv", b"1"), purpose="user_data")
            await create_container(client, name="files", file_ids=(made.id,))

        assert server.containers["cntr_1"].read("/mnt/data/file-1-a.csv") == b"1"

    @pytest.mark.parametrize(
        ("options", "error"),
        [
            ({"memory_limit": "3g"}, InvalidTool),
            ({"file_ids": ("",)}, InvalidTool),
            ({"file_ids": tuple(f"file-{n}" for n in range(51))}, InvalidTool),
            ({"network_policy": "none"}, InvalidTool),
            ({"minutes": 0}, UsageError),
        ],
    )
    async def test_unsound_wishes_are_refused_before_the_call(
        self, options: Any, error: type[Exception]
    ) -> None:
        """C31: a bad tier or id is a configuration error; nothing is sent."""
        async with bench() as (client, server):
            with pytest.raises(error):
                await create_container(client, name="bad", **options)

        assert server.seen == []

    async def test_a_refusal_is_told_without_the_key(self) -> None:
        """C31: provisioning failures are PromptEvaluationErrors (phase request)."""
        async with bench() as (client, server):
            server.faults["POST /v1/containers"] = [Fault(403, f"Not for {KEY}.")]
            with pytest.raises(PromptEvaluationError, match="no container was made") as caught:
                await create_container(client, name="no", prompt_name="test:ask")

        assert (caught.value.phase, caught.value.prompt_name) == ("request", "test:ask")
        assert caught.value.request_id == "req_1"
        assert "Not for [secret]." in str(caught.value)

    async def test_a_reply_without_an_id_makes_no_container(self) -> None:
        """What cannot be named cannot be used."""
        async with bench() as (client, server):
            server.faults["POST /v1/containers"] = [Said({"status": "running"})]
            with pytest.raises(PromptEvaluationError, match="no container was made"):
                await create_container(client, name="nameless")


class TestCheck:
    async def test_a_live_container_comes_back_with_its_memory(self) -> None:
        """C31: the preflight also tells what memory a container has."""
        async with bench() as (client, server):
            server.container("cntr_1", memory_limit="16g")

            assert await check_container(client, "cntr_1") == ExistingContainer("cntr_1", "16g")

    @pytest.mark.parametrize("status", ["expired", "deleted", "Expired"])
    async def test_a_dead_one_is_told_with_what_to_do(self, status: str) -> None:
        """C26: gone is gone; the error says how to get another."""
        async with bench() as (client, server):
            server.container("cntr_1").status = status
            with pytest.raises(ContainerGone, match=r"cntr_1 is .*create_container") as caught:
                await check_container(client, "cntr_1", prompt_name="test:ask")

        assert (caught.value.phase, caught.value.prompt_name) == ("request", "test:ask")

    async def test_an_unknown_one_is_told(self) -> None:
        """C31: an id that the provider does not know is the same kind of error."""
        async with bench() as (client, _):
            with pytest.raises(ContainerGone, match=r"cntr_9 cannot be used: HTTP 404.*Auto"):
                await check_container(client, ExistingContainer("cntr_9"))

    async def test_expiry_told_as_an_error_is_known_by_its_words(self) -> None:
        """C26: some servers say it with status 400 and a sentence."""
        async with bench() as (client, server):
            server.faults["GET /v1/containers/cntr_1"] = [Fault(400, "Container is expired.")]
            with pytest.raises(ContainerGone, match="cntr_1 cannot be used: HTTP 400"):
                await check_container(client, "cntr_1")

    async def test_other_memory_than_was_said_is_an_error(self) -> None:
        """C13: a reference's memory is checked, never sent."""
        async with bench() as (client, server):
            server.container("cntr_1", memory_limit="1g")
            with pytest.raises(PromptEvaluationError, match="made with 1g of memory, not 64g"):
                await check_container(client, ExistingContainer("cntr_1", "64g"))

    async def test_a_server_that_fails_says_nothing_about_the_container(self) -> None:
        """A fault is not taken for an expiry."""
        async with bench() as (client, server):
            server.container("cntr_1")
            server.faults["GET /v1/containers/cntr_1"] = [Fault(500, "Sorry.")] * 3
            with pytest.raises(PromptEvaluationError, match="could not be read") as caught:
                await check_container(client, "cntr_1")

        assert not isinstance(caught.value, ContainerGone)


class TestRenew:
    async def test_a_live_one_is_kept(self) -> None:
        """C26: nothing is made while the old one lasts."""
        async with bench() as (client, server):
            server.container("cntr_old", memory_limit="4g")

            kept = await renew_container(client, ExistingContainer("cntr_old", "4g"), name="new")

        assert kept == ExistingContainer("cntr_old", "4g")
        assert server.counted("POST /v1/containers") == 0

    @pytest.mark.parametrize("wanted", ["cntr_old", ExistingContainer("cntr_old", "16g")])
    async def test_a_dead_one_is_replaced(self, wanted: Any) -> None:
        """C26: the new one has as much memory, and the files that are given."""
        async with bench() as (client, server):
            server.container("cntr_old", memory_limit="16g").status = "expired"
            made = await client.files.create(file=("a.csv", b"1"), purpose="user_data")

            fresh = await renew_container(client, wanted, name="new", file_ids=(made.id,))

        memory = "1g" if isinstance(wanted, str) else "16g"
        assert fresh == ExistingContainer("cntr_2", memory)
        assert server.containers["cntr_2"].read("/mnt/data/file-1-a.csv") == b"1"

    async def test_a_fault_makes_no_second_container(self) -> None:
        """Only a container that is known to be gone is replaced: each one costs money."""
        async with bench() as (client, server):
            server.faults["GET /v1/containers/cntr_old"] = [Fault(500, "Sorry.")] * 3
            with pytest.raises(PromptEvaluationError, match="could not be read"):
                await renew_container(client, "cntr_old", name="new")

        assert server.counted("POST /v1/containers") == 0


def runs_code(server: FilesServer, body: Json) -> Json:
    return response(code_call(opened(server, body), "print(1)", "1\n"), message("Done."))


class TestPrompts:
    async def test_a_container_is_used_again(self) -> None:
        """C36: one container for two prompts, by its bare id."""
        async with bench(runs_code, runs_code) as (client, server):
            container = await create_container(client, name="mine")
            adapter = OpenAIAdapter(model="m", client=client)
            tool = OpenAICodeInterpreterTool(container=container)
            for _ in range(2):
                answer = await adapter.evaluate_async(ask(tool))
                assert answer.hosted_outputs["code_interpreter"].container_id == "cntr_1"

        assert [body["tools"][0]["container"] for body in server.asked] == ["cntr_1", "cntr_1"]

    async def test_a_dead_container_is_found_before_the_prompt_is_sent(self) -> None:
        """C31: with `check_containers`, an expired reference is an error before the call."""
        tool = OpenAICodeInterpreterTool(container=ExistingContainer("cntr_1"))
        async with bench() as (client, server):
            server.container("cntr_1").status = "expired"
            adapter = OpenAIAdapter(model="m", client=client, check_containers=True)
            with pytest.raises(ContainerGone, match="cntr_1 is expired") as caught:
                await adapter.evaluate_async(ask(tool))

        assert server.asked == []
        assert caught.value.prompt_name == ask(tool).name

    async def test_a_live_container_passes_the_preflight(self) -> None:
        """C31: and one that the provider makes itself needs none."""
        existing = OpenAICodeInterpreterTool(container=ExistingContainer("cntr_1"))
        async with bench(DONE, DONE) as (client, server):
            server.container("cntr_1")
            adapter = OpenAIAdapter(model="m", client=client, check_containers=True)
            await adapter.evaluate_async(ask(existing))
            await adapter.evaluate_async(ask(code_interpreter_tool()))

        assert server.counted("GET /v1/containers/cntr_1") == 1
        assert len(server.asked) == 2

    async def test_without_the_preflight_nothing_is_asked(self) -> None:
        """C31: it is a choice, because it costs a request and proves little."""
        existing = OpenAICodeInterpreterTool(container=ExistingContainer("cntr_1"))
        async with bench(DONE) as (client, server):
            await OpenAIAdapter(model="m", client=client).evaluate_async(ask(existing))

        assert server.seen == ["POST /v1/responses"]

    async def test_expiry_at_call_time_is_told(self) -> None:
        """C26: what the preflight cannot see is mapped when the provider refuses."""
        existing = OpenAICodeInterpreterTool(container=ExistingContainer("cntr_1"))
        async with bench() as (client, server):
            server.faults["POST /v1/responses"] = [Fault(400, "Container is expired.")]
            with pytest.raises(ContainerGone, match=r"gone .*create_container"):
                await OpenAIAdapter(model="m", client=client).evaluate_async(ask(existing))

    async def test_ids_and_memory_are_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """C37: container ids and memory tiers, before and after; nothing on standard output."""
        auto = OpenAICodeInterpreterTool(
            name="python", container={"type": "auto", "memory_limit": "4g"}
        )
        async with bench(runs_code, runs_code) as (client, server):
            with caplog.at_level(logging.INFO, logger="toolcrib"):
                made = await create_container(client, name="mine", memory_limit="16g")
                adapter = OpenAIAdapter(model="m", client=client, check_containers=True)
                await adapter.evaluate_async(ask(auto))
                await adapter.evaluate_async(ask(OpenAICodeInterpreterTool(container=made)))

        prompt = ask(auto).name
        assert caplog.messages == [
            "made container cntr_1 with 16g of memory",
            f"{prompt}: python runs code in a container of the provider's own with 4g of memory",
            f"{prompt}: python ran code in container cntr_auto_1",
            f"{prompt}: code_interpreter runs code in container cntr_1 with 16g memory",
            "container cntr_1 is running, with 16g of memory",
            f"{prompt}: code_interpreter ran code in container cntr_1",
        ]
        assert len(server.containers) == 2
