"""Attachments: texts, images, files and files that lie with the provider, in each one's words."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.pydantic_ai.faulty_server import Body
from tests.adapters.pydantic_ai.provider_dialects import ANTHROPIC, GOOGLE, SPEECHES
from tests.adapters.pydantic_ai.scripted_adapter import ask, wire_bench
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptEvaluationError, Session
from toolcrib.errors import InvalidState
from toolcrib.prompt import Attachment, FileAttachment, TextAttachment

PNG = b"\x89PNG"
CODED = base64.b64encode(PNG).decode()
TALE = TextAttachment("Once upon a time.", title="A tale")
PLOT = FileAttachment(data=PNG, name="plot.png")
DATA = FileAttachment(data=b"a,b", name="data.csv", media_type="text/csv")


def sent(provider: str, *attachments: Attachment) -> list[Json]:
    """The parts of the first message, after the prompt's own text."""
    speech = SPEECHES[provider]
    with wire_bench(speech, speech.says("Fine.")) as (adapter, server):
        adapter.evaluate(ask().bind(attachments=list(attachments)))
    (body,) = server.bodies
    if provider == "google":
        return body["contents"][0]["parts"][1:]
    messages = body["input"] if provider == "openai-responses" else body["messages"]
    return messages[-1]["content"][1:]


def test_anthropic_gets_documents_and_images() -> None:
    """C20: what is written in a file is text, whatever its name ends with."""
    tale, plot, data = sent("anthropic", TALE, PLOT, DATA)

    assert tale == {"type": "text", "text": "A tale\n\nOnce upon a time."}
    assert plot["type"] == "image"
    assert plot["source"] == {"type": "base64", "media_type": "image/png", "data": CODED}
    assert data["type"] == "document"
    assert data["source"] == {"type": "text", "media_type": "text/plain", "data": "a,b"}


def test_google_gets_inline_data() -> None:
    """C20: bytes with their media type."""
    tale, plot, data = sent("google", TALE, PLOT, DATA)

    assert tale["text"] == "A tale\n\nOnce upon a time."
    assert set(plot["inlineData"].values()) == {CODED, "image/png"}
    assert "text/csv" in data["inlineData"].values()


def test_openai_gets_data_urls() -> None:
    """C20: as our own adapter sends them."""
    tale, plot, _ = sent("openai-responses", TALE, PLOT, DATA)

    assert tale["text"] == "A tale\n\nOnce upon a time."
    assert (plot["type"], plot["image_url"]) == ("input_image", f"data:image/png;base64,{CODED}")


@pytest.mark.parametrize(
    ("file", "kind", "source"),
    [
        (FileAttachment(file_id="file_1", media_type="image/png"), "image", "file_1"),
        (FileAttachment(file_id="file_2", name="terms.pdf"), "document", "file_2"),
        (FileAttachment(file_id="file_3"), "document", "file_3"),
    ],
    ids=["image", "named", "unknown"],
)
def test_a_file_that_lies_with_the_provider_is_named_as_what_it_is(
    file: FileAttachment, kind: str, source: str
) -> None:
    """C20: its id does not tell an image from a document; its media type, or its name, does."""
    (found,) = sent("anthropic", file)

    assert found["type"] == kind
    assert found["source"] == {"type": "file", "file_id": source}


def test_an_id_of_openais_is_one_too() -> None:
    """C20: images and files lie apart there as well."""
    image = FileAttachment(file_id="file_1", media_type="image/png")
    plain = FileAttachment(file_id="file_2", media_type="application/pdf")
    found = sent("openai-responses", image, plain)

    assert [(each["type"], each["file_id"]) for each in found] == [
        ("input_image", "file_1"),
        ("input_file", "file_2"),
    ]


def test_an_attachment_that_is_not_there_is_told_before_any_request(tmp_path: Path) -> None:
    """A missing file has phase render, and the prompt's name."""
    prompt = ask().bind(attachments=[FileAttachment(path=tmp_path / "gone.csv")])
    session = Session()
    with (
        wire_bench(GOOGLE) as (adapter, server),
        pytest.raises(PromptEvaluationError, match=r"gone\.csv") as caught,
    ):
        adapter.evaluate(prompt, session=session)

    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    assert (server.requests, session.turn) == ([], 0)


@pytest.mark.parametrize(
    ("provider", "file", "text"),
    [
        ("groq", FileAttachment(file_id="file_1"), "cannot be attached by its id"),
        ("google", FileAttachment(file_id="file_1"), "does not take this request"),
        (
            "anthropic",
            FileAttachment(data=b"x", name="a.mp3"),
            "the model does not take this request",
        ),
    ],
    ids=["no_files", "no_address", "no_sound"],
)
def test_what_a_model_cannot_read_is_told(provider: str, file: FileAttachment, text: str) -> None:
    """Nothing is sent without a part of what was asked."""
    speech = SPEECHES[provider]
    with wire_bench(speech, speech.says("Fine.")) as (adapter, server):
        with pytest.raises(PromptEvaluationError) as caught:
            adapter.evaluate(ask().bind(attachments=[file]))

        assert server.requests == []
    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("given", "changed"),
    [
        (TALE, None),
        (TALE, TextAttachment("Once upon a time.", title="Another")),
        (PLOT, FileAttachment(data=b"\x89PN", name="plot.png")),
        (FileAttachment(file_id="a"), FileAttachment(file_id="b")),
    ],
    ids=["none", "title", "data", "id"],
)
def test_a_turn_goes_on_only_with_the_attachments_it_began_with(
    given: Attachment, changed: Attachment | None
) -> None:
    """What is attached is part of the question, whatever it is and wherever it lies."""
    session = Session()
    down = Body({"error": {"type": "invalid_request_error", "message": "no"}}, 400)
    others: list[Any] = [changed] if changed else []
    with wire_bench(ANTHROPIC, down, ANTHROPIC.says("Fine.")) as (adapter, server):
        with pytest.raises(PromptEvaluationError):
            adapter.evaluate(ask().bind(attachments=[given]), session=session)
        with pytest.raises(InvalidState, match="is not what it was"):
            adapter.resume(ask().bind(attachments=others), session=session)
        found = adapter.resume(ask().bind(attachments=[given]), session=session)

    assert found.text == "Fine."
    assert server.bodies[0] == server.bodies[1]
