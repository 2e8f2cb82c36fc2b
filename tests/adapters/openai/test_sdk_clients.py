"""Blocking and asynchronous clients of the SDK: either is taken, or refused before any request."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import KEY, add, ask, sdk_client
from tests.adapters.openai.scripted_provider import Body, Provider, Text, call, message, response
from toolcrib import PromptEvaluationError, TextDelta
from toolcrib.adapters.openai import (
    OpenAIAdapter,
    check_container,
    download_files,
    download_files_blocking,
)
from toolcrib.errors import UsageError
from toolcrib.session.bus import EventBus
from toolcrib.tools.code_interpreter import GeneratedFile

FILE = GeneratedFile("c1", "f1", "plot.png")
CONTENT = "GET /v1/containers/c1/files/f1/content"


@pytest.fixture
def provider() -> Generator[Provider]:
    with Provider(routes={CONTENT: Text("picture", "application/octet-stream")}) as provider:
        yield provider


def blocking(provider: Provider) -> Any:
    from httpx2 import Client
    from openai import OpenAI

    return OpenAI(base_url=provider.url, api_key=KEY, http_client=Client(verify=False))


@pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
def test_hosted_tools_5_a_blocking_client_is_taken(provider: Provider, stream: bool) -> None:
    """The client of document C evaluates prompts, with tools, streamed or not."""
    provider.add(response(call("add", {"a": 1, "b": 2})), response(message("It is 3.")))
    bus, pieces = EventBus(), list[str]()
    bus.subscribe(TextDelta, lambda event: pieces.append(event.text))
    with blocking(provider) as client, OpenAIAdapter(model="m", client=client) as adapter:
        found = adapter.evaluate(ask(add), bus=bus, stream=stream)

    assert (found.text, len(provider.requests)) == ("It is 3.", 2)
    assert found.request_ids == ("req_1", "req_2")
    assert "".join(pieces) == ("It is 3." if stream else "")


def test_an_error_of_a_blocking_client_is_told_like_any_other(provider: Provider) -> None:
    """With the provider's words, and without the key."""
    provider.add(Body({"error": {"message": f"no such model, {KEY}"}}, 404))
    with (
        blocking(provider) as client,
        OpenAIAdapter(model="m", client=client) as adapter,
        pytest.raises(PromptEvaluationError, match="no such model") as caught,
    ):
        adapter.evaluate(ask())
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("client", ["sk-key", 3, object(), OpenAIAdapter])
def test_hosted_tools_5_what_is_no_client_is_refused_when_it_is_given(client: object) -> None:
    """Before any prompt, with what to give instead; the value, which may be a key, is not told."""
    with pytest.raises(UsageError, match="client must be an AsyncOpenAI or an OpenAI") as caught:
        OpenAIAdapter(model="m", client=client)
    assert "sk-key" not in str(caught.value)


async def test_a_blocking_client_downloads_and_checks_in_threads(
    provider: Provider, tmp_path: Path
) -> None:
    """The functions beside the adapter take both kinds too."""
    provider.routes["GET /v1/containers/c1"] = Body({"id": "c1", "status": "running"})
    with blocking(provider) as client:
        [path] = await download_files(client, [FILE], tmp_path)
        container = await check_container(client, "c1")

    assert (path.read_text(), container.id) == ("picture", "c1")


def test_an_asynchronous_client_is_refused_in_blocking_code(
    provider: Provider, tmp_path: Path
) -> None:
    """Before any request, and nothing is written."""
    client = sdk_client(provider.url)
    with pytest.raises(UsageError, match="with AsyncOpenAI use download_files"):
        download_files_blocking(client, [FILE], tmp_path / "new")
    assert provider.others == []
    assert not (tmp_path / "new").exists()
