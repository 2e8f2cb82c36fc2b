"""`image_generation`: items and events of the official types, made by the image backend."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from openai import BadRequestError

from tests.embedded.scripted_provider import served
from tests.embedded.sdk_types import check_event, check_input_item, check_response
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    ProposedCall,
)
from toolcrib.embedded.images import (
    ChartImages,
    DrawRequest,
    FinishedImage,
    ImageFormat,
    ImageOutput,
    ImageSize,
)
from toolcrib.errors import BackendFailed

TOOL: Any = {"type": "image_generation"}
CHART = json.dumps({"chart": "bar", "title": "Sales", "values": [1, 2]})


def draws(prompt: str) -> Any:
    """A backend that asks for one image and tells what came of it."""

    def script(request: BackendRequest) -> Sequence[BackendOutput]:
        last = request.history[-1]
        if isinstance(last, BackendCallResult):
            return [BackendText(last.text)]
        return [ProposedCall("image_generation", json.dumps({"prompt": prompt}))]

    return script


async def test_an_image_is_made_and_shown() -> None:
    """The item has the image and what is known of it; the next response goes on from it."""
    tool: Any = {**TOOL, "output_format": "svg", "size": "640x400", "background": "transparent"}
    async with served(draws(CHART), images=ChartImages()) as (client, puppet):
        response = await client.responses.create(
            model="puppet", input="x", tools=[tool], tool_choice={"type": "image_generation"}
        )
        await client.responses.create(
            model="puppet", input="y", tools=[tool], previous_response_id=response.id
        )
        listed: Any = client.responses.input_items.with_raw_response
        check_input_item(json.loads((await listed.list(response.id)).content)["data"][0])
    body = json.loads(response.to_json())
    check_response(body)
    image, message = body["output"]
    assert base64.b64decode(image["result"]).startswith(b"<svg")
    assert {key: image[key] for key in ("status", "output_format", "size", "background")} == {
        "status": "completed",
        "output_format": "svg",
        "size": "640x400",
        "background": "transparent",
    }
    assert image["revised_prompt"] == "bar chart 'Sales': 1 series of 2 values"
    assert "The user sees the image" in message["content"][0]["text"]
    assert "image/" not in str(puppet.requests[-1].history)


async def test_a_stream_shows_partial_images() -> None:
    """As many as were asked for, in order, before the whole."""
    tool: Any = {**TOOL, "partial_images": 2, "output_format": "png"}
    async with served(draws(CHART), images=ChartImages()) as (client, _):
        stream: Any = await client.responses.create(
            model="puppet", input="x", tools=[tool], stream=True
        )
        events = [json.loads(event.to_json()) async for event in stream]
        whole = await client.responses.create(model="puppet", input="x", tools=[tool])
    for event in events:
        check_event(event)
    kinds = [event["type"] for event in events if "image_generation" in event["type"]]
    assert kinds == [
        "response.image_generation_call.in_progress",
        "response.image_generation_call.generating",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.partial_image",
        "response.image_generation_call.completed",
    ]
    partial = [event for event in events if "partial_image_b64" in event]
    assert [event["partial_image_index"] for event in partial] == [0, 1]
    images = {event["partial_image_b64"] for event in partial}
    final = events[-1]["response"]["output"][0]["result"]
    assert len(images | {final}) == 3
    assert whole.output[0].to_dict()["result"] == final


async def test_what_cannot_be_drawn_fails_for_the_model_to_read() -> None:
    """The item failed, and the model knows why and how to ask."""
    async with served(draws("a cat"), images=ChartImages()) as (client, _):
        response = await client.responses.create(model="puppet", input="x", tools=[TOOL])
    body = json.loads(response.to_json())
    check_response(body)
    assert (body["status"], body["output"][0]["status"]) == ("completed", "failed")
    assert "no values" in body["output"][0]["error"]["message"]
    assert "Write the prompt as JSON" in response.output_text


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({"action": "edit"}, "action"),
        ({"input_image_mask": {"file_id": "f"}}, "input_image_mask"),
        ({"output_format": "gif"}, "output_format"),
        ({"partial_images": 4}, "partial_images"),
        ({"size": "huge"}, "size"),
        ({"size": "9999x10"}, "size"),
        ({"background": "blue"}, "background"),
        ({"background": "transparent", "output_format": "jpeg"}, "background"),
    ],
)
async def test_what_the_backend_cannot_do_is_refused(tool: Any, param: str) -> None:
    """Before anything is drawn, by its name."""
    async with served(draws(CHART), images=ChartImages()) as (client, puppet):
        tools: Any = [{**TOOL, **tool}]
        with pytest.raises(BadRequestError) as refused:
            await client.responses.create(model="puppet", input="x", tools=tools)
    assert (refused.value.param, puppet.requests) == (f"tools[0].{param}", [])


async def test_without_an_image_backend_the_tool_is_refused() -> None:
    """The fault says what to configure."""
    async with served(draws(CHART)) as (client, _):
        with pytest.raises(BadRequestError, match="configure an image backend") as refused:
            await client.responses.create(model="puppet", input="x", tools=[TOOL])
    assert refused.value.param == "tools[0].type"


class Painter:
    """An image backend of an application."""

    about = "Paint anything."
    formats: tuple[ImageFormat, ...] = ("png",)

    def __init__(self, image: FinishedImage | None) -> None:
        self.image = image
        self.requests: list[DrawRequest] = []

    async def draw(self, request: DrawRequest) -> AsyncIterator[ImageOutput]:
        self.requests.append(request)
        if self.image is None:
            raise BackendFailed("the paint is dry")
        yield self.image


async def test_an_application_may_bring_its_own_painter() -> None:
    """It gets the request, and its image or its failure is what the client sees."""
    painter = Painter(FinishedImage(b"data", "png", ImageSize(10, 10), "a cat"))
    async with served(draws("a cat"), images=painter) as (client, puppet):
        response = await client.responses.create(model="puppet", input="x", tools=[TOOL])
        painter.image = None
        failed = await client.responses.create(model="puppet", input="x", tools=[TOOL])
    assert painter.requests[0] == DrawRequest("a cat")
    assert puppet.requests[0].tools[0].description == "Paint anything."
    assert response.output[0].to_dict()["result"] == base64.b64encode(b"data").decode()
    assert failed.output[0].to_dict()["status"] == "failed"
    assert failed.output_text == "No image was made: the paint is dry"
