"""Parameters without effect are named to the client; other names of models find their backend."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.embedded.provider_server import listening
from tests.embedded.scripted_provider import Puppet, served
from toolcrib.embedded import (
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
)
from toolcrib.errors import UsageError

SILENT: Any = {
    "service_tier": "flex",
    "safety_identifier": "u-1",
    "prompt_cache_key": "k",
    "prompt_cache_retention": "24h",
    "extra_body": {"client_metadata": {"session": "s"}, "access_programs": {"cyber": "standard"}},
}
"""What clients send as a matter of course, and what needs nothing from a provider."""


def raw_responses(client: AsyncOpenAI) -> Any:
    """The client's responses with their headers; its types know no unknown parameter."""
    return client.responses.with_raw_response


def quiet(request: BackendRequest) -> Sequence[BackendOutput]:
    return [BackendText("ok")]


async def test_an_unknown_parameter_is_named_in_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The request is answered; header, metadata and log name what had no effect."""
    unknown = {"colour": "red", "text": {"shade": 1}, "nothing": None}
    with caplog.at_level(logging.WARNING):
        async with served(quiet) as (client, _):
            raw = await raw_responses(client).create(
                model="puppet", input="x", include=["all"], extra_body=unknown
            )
            response = raw.parse()
            kept = await client.responses.retrieve(response.id)
    named = "ignored parameters: colour, include.all, text.shade"
    assert response.output_text == "ok"
    assert raw.headers["toolcrib-warning"] == named
    assert response.metadata == kept.metadata == {"toolcrib_warning": named}
    assert named in caplog.text


async def test_a_stream_and_the_other_routes_warn_too() -> None:
    """The header comes with a stream, a count and a compaction."""
    more: Any = {"extra_body": {"colour": "red"}}
    async with served(quiet) as (client, _):
        responses = raw_responses(client)
        answers = [
            await responses.create(model="puppet", input="x", stream=True, **more),
            await responses.create(model="puppet", input="x", background=True, **more),
            await responses.compact(model="puppet", input="x", **more),
            await client.responses.input_tokens.with_raw_response.count(
                model="puppet", input="x", **more
            ),
        ]
    assert {answer.headers["toolcrib-warning"] for answer in answers} == {
        "ignored parameters: colour"
    }


async def test_what_every_client_sends_warns_of_nothing() -> None:
    """Parameters that need nothing from a provider pass without a word."""
    async with served(quiet) as (client, _):
        raw = await raw_responses(client).create(model="puppet", input="x", **SILENT)
    assert "toolcrib-warning" not in raw.headers
    assert raw.parse().metadata == {}


async def test_scores_of_a_moderation_are_not_made_up() -> None:
    """A moderation that only scores is ignored by name; one that blocks is refused elsewhere."""
    async with served(quiet) as (client, _):
        response = await client.responses.create(
            model="puppet", input="x", moderation={"model": "omni-moderation-latest"}
        )
    assert response.metadata == {"toolcrib_warning": "ignored parameters: moderation"}


async def test_a_name_cannot_write_headers_or_lines(caplog: pytest.LogCaptureFixture) -> None:
    """The names come from the client: nothing in them ends a header or a line of the log."""
    name = 'a"\r\nset-cookie: x\\' + "b" * 100
    async with served(quiet) as (client, _):
        raw = await raw_responses(client).create(model="puppet", input="x", extra_body={name: 1})
    assert "set-cookie" not in raw.headers
    assert raw.headers["toolcrib-warning"].isascii()
    assert "\nset-cookie" not in caplog.text


@pytest.mark.wire
async def test_a_socket_warns_in_the_metadata() -> None:
    """A socket has no header for each response."""
    async with listening(quiet) as place:
        [turn] = await place.talk(
            {"type": "response.create", "model": "puppet", "input": "x", "colour": 1}
        )
    warning = "ignored parameters: colour"
    assert turn.response["metadata"] == {"toolcrib_warning": warning}


async def test_an_alias_is_another_name_of_a_model() -> None:
    """It is listed, answers, and the response names the model that answered."""
    async with served(quiet, aliases={"gpt-5": "puppet"}) as (client, puppet):
        response = await client.responses.create(model="gpt-5", input="x")
        models = {model.id: model.model_extra async for model in client.models.list()}
        assert (await client.models.retrieve("gpt-5")).id == "gpt-5"
        with pytest.raises(NotFoundError, match=r"there is gpt-5, puppet.*--alias"):
            await client.responses.create(model="gpt-6", input="x")
    assert (response.model, puppet.requests[0].model) == ("puppet", "puppet")
    assert response.metadata == {}
    assert models == {"puppet": {}, "gpt-5": {"root": "puppet"}}


async def test_any_model_answers_with_a_warning() -> None:
    """The first backend answers for every name, and says so."""
    async with served(quiet, any_model=True) as (client, _):
        response = await client.responses.create(model="gpt-6", input="x")
    assert response.metadata == {
        "toolcrib_warning": "the model 'puppet' answers, under another name"
    }


@pytest.mark.parametrize(
    ("aliases", "message"),
    [({"gpt-5": "other"}, "there is puppet"), ({"puppet": "puppet"}, "choose another")],
)
def test_an_alias_of_nothing_is_refused(aliases: dict[str, str], message: str) -> None:
    """A wrong alias is an error of the operator, not of a client later."""
    with pytest.raises(UsageError, match=message):
        EmbeddedProvider(Puppet(quiet), aliases=aliases)
