"""Conversations made shorter, and the size of requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError

from tests.embedded.scripted_provider import Puppet, function, served
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.responses.compaction import MAX_ANSWERED, MAX_SAID


def script(request: BackendRequest) -> Sequence[BackendOutput]:
    last = request.history[-1]
    if request.tools and not isinstance(last, BackendCallResult):
        return [ProposedCall("look", '{"at": "shelf"}')]
    return [BackendText("a" * 3 * MAX_SAID)]


async def shorter(client: AsyncOpenAI, **asked: Any) -> Any:
    """The items of a compaction as they stand on the wire."""
    raw = await client.responses.with_raw_response.compact(model="puppet", **asked)
    return raw.http_response.json()["output"]


async def test_a_kept_conversation_is_made_shorter_and_gone_on_from() -> None:
    """What the user said stays whole; what was said and done is told to the backend, shortened, and
    again when it is made shorter once more.
    """
    async with served(script) as (client, puppet):
        tools: Any = [function("look")]
        first = await client.responses.create(model="puppet", input="where is it", tools=tools)
        [call] = first.output
        assert call.type == "function_call"
        output: Any = {
            "type": "function_call_output",
            "call_id": call.call_id,
            "output": "b" * 3 * MAX_ANSWERED,
        }
        second = await client.responses.create(
            model="puppet", previous_response_id=first.id, input=[output]
        )
        items = await shorter(client, previous_response_id=second.id)
        again = await shorter(client, input=items)
        onward: Any = [*again, {"role": "user", "content": "?"}]
        await client.responses.create(model="puppet", input=onward)
    assert [item["type"] for item in items] == ["message", "compaction"]
    user, told, asked = puppet.requests[-1].history
    assert (user, asked) == (BackendMessage("user", "where is it"), BackendMessage("user", "?"))
    assert isinstance(told, BackendMessage)
    assert "user: where is it" in told.text
    assert 'called look: {"at": "shelf"}' in told.text
    assert f"look answered: {'b' * MAX_ANSWERED} [{2 * MAX_ANSWERED} more characters]" in told.text
    assert f"assistant: {'a' * MAX_SAID} [{2 * MAX_SAID} more characters]" in told.text
    assert "b" * (MAX_ANSWERED + 1) not in told.text


@pytest.mark.parametrize("content", ["", "not base64!", "e30=", "bnVsbA==", "W10="])
async def test_a_compaction_of_somebody_else_is_refused(content: str) -> None:
    """What cannot be read is not passed over."""
    item: Any = {"type": "compaction", "id": "cmp_1", "encrypted_content": content}
    async with served(script) as (client, _):
        with pytest.raises(BadRequestError, match="not made here") as refused:
            await client.responses.create(model="puppet", input=[item])
    assert refused.value.param == "input[0].encrypted_content"


async def test_there_must_be_something_to_make_shorter() -> None:
    """A model, and a conversation that is known."""
    async with served(script) as (client, _):
        with pytest.raises(BadRequestError, match="input"):
            await client.responses.compact(model="puppet")
        with pytest.raises(NotFoundError, match="does not exist"):
            await client.responses.compact(model="other", input="x")
        with pytest.raises(BadRequestError) as refused:
            await client.responses.compact(model="puppet", previous_response_id="resp_none")
    assert refused.value.code == "previous_response_not_found"


async def test_tokens_are_counted_before_they_are_sent() -> None:
    """The estimate is the documented one: four bytes a token and four tokens a turn, 85 an image;
    instructions, tools and what came before count too.
    """
    image: Any = {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "low"}
    parts: Any = [{"role": "user", "content": [{"type": "input_text", "text": "1234"}, image]}]
    async with served(lambda q: [BackendText("12345678")]) as (client, puppet):
        count = client.responses.input_tokens.count
        assert (await count(model="puppet", input="12345678")).input_tokens == 6
        assert (await count(input="12345678", instructions="1234")).input_tokens == 11
        assert (await count(input=parts)).input_tokens == 90
        tools: Any = [function("look")]
        assert (await count(input="1", tools=tools)).input_tokens > 20
        asked = len(puppet.requests)
        first = await client.responses.create(model="puppet", input="1234")
        more = await count(previous_response_id=first.id, input="1234")
        assert more.input_tokens == 5 + 6 + 5
    assert asked == 0


async def test_a_backend_that_can_count_is_asked() -> None:
    """A model's own tokens are better than an estimate."""

    class Counting(Puppet):
        async def count(self, request: BackendRequest) -> int:
            return 7 * len(request.history)

    async with EmbeddedProvider(Counting(script)) as provider:
        client: Any = provider.client()
        counted = await client.responses.input_tokens.count(model="puppet", input="hello")
    assert counted.input_tokens == 7
