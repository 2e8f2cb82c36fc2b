"""A real chat endpoint before a real model: llama.cpp's own server, on loopback."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.backends.chat import ChatBackend
from toolcrib.embedded.model_files import SMALL, model_folder

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        "TOOLCRIB_MODEL_TEST" not in os.environ, reason="runs with `make model-test`"
    ),
]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server that speaks OpenAI's chat protocol."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    llama: Any = pytest.importorskip("xllamacpp")
    params = llama.CommonParams()
    params.model.path = str(model_folder() / SMALL.filename)
    params.n_ctx, params.n_parallel = 4096, 1
    params.use_jinja, params.warmup, params.verbosity = True, False, -1
    server = llama.Server(params)
    yield f"{server.listening_address}/v1"
    del server


async def test_text_is_streamed_and_counted(address: str) -> None:
    """Several pieces, the tokens that it took, and the end that it came to."""
    async with EmbeddedProvider(ChatBackend("small", base_url=address)) as provider:
        stream = await provider.client().responses.create(
            model="small", input="Count from one to five, in words.", temperature=0, stream=True
        )
        events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert len(deltas) > 2
    assert "three" in "".join(deltas).lower()
    usage = events[-1].response.usage
    assert usage.input_tokens > 0
    assert usage.output_tokens >= len(deltas) / 2


async def test_a_schema_is_kept_to(address: str) -> None:
    """The server enforces the form, and the answer is in it."""
    schema = {
        "type": "object",
        "properties": {"capital": {"type": "string", "maxLength": 30}},
        "required": ["capital"],
        "additionalProperties": False,
    }
    form: Any = {"format": {"type": "json_schema", "name": "a", "schema": schema, "strict": True}}
    async with EmbeddedProvider(ChatBackend("small", base_url=address)) as provider:
        response = await provider.client().responses.create(
            model="small", input="What is the capital of France?", text=form, temperature=0
        )
    assert json.loads(response.output_text) == {"capital": "Paris"}


async def test_too_few_tokens_cut_the_answer(address: str) -> None:
    """`finish_reason: length` of a real server is an incomplete response."""
    async with EmbeddedProvider(ChatBackend("small", base_url=address)) as provider:
        response = await provider.client().responses.create(
            model="small", input="Tell a long story.", max_output_tokens=16
        )
    assert response.status == "incomplete"
    assert response.incomplete_details.reason == "max_output_tokens"
