"""The adapter itself: how it is made, called and closed."""

from __future__ import annotations

import asyncio
import base64
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.loopback_adapter import KEY, add, ask, bench, sdk_client
from tests.adapters.openai.scripted_provider import Provider, call, message, response
from tests.helpers.patience import PATIENCE
from toolcrib import PromptEvaluationError, PromptResponse, Session, tool
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.errors import UsageError
from toolcrib.extras import install_command
from toolcrib.prompt.attachments import FileAttachment, TextAttachment

ANSWER = response(message("Fine."))


def test_importing_the_adapter_imports_no_sdk() -> None:
    """The SDK takes a second to import; it is there when the first request is made."""
    code = (
        "import sys; from toolcrib.adapters.openai import OpenAIAdapter; "
        "OpenAIAdapter(model='m', api_key='k'); print('openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_an_unknown_name_of_the_package_is_an_attribute_error() -> None:
    """Lazy names do not hide misspelt ones."""
    import toolcrib.adapters.openai as package

    assert "OpenAIAdapter" in dir(package)
    with pytest.raises(AttributeError, match="no attribute 'OpenAiAdapter'"):
        _ = package.OpenAiAdapter  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


async def test_the_blocking_call_says_what_to_await_in_a_loop() -> None:
    """Blocking a running loop would stop everything in it, the answer included."""
    with bench() as (adapter, provider):
        with pytest.raises(UsageError, match="await evaluate_async instead"):
            adapter.evaluate(ask())
        with pytest.raises(UsageError, match="await resume_async instead"):
            adapter.resume(ask(), session=Session())

    assert provider.requests == []


def test_a_client_or_what_to_make_one_of() -> None:
    """Two answers to one question are refused."""
    with pytest.raises(UsageError, match="not both"):
        OpenAIAdapter(model="m", client=object(), api_key="k")


@pytest.mark.parametrize("option", ["history", "on_unsupported"])
def test_a_misspelt_choice_is_refused_when_the_adapter_is_made(option: str) -> None:
    """Else history would be stored, and tools dropped, where nobody meant it."""
    choices: dict[str, Any] = {option: "cleint"}

    with pytest.raises(UsageError, match=rf"{option} must be one of \w+, \w+, not 'cleint'"):
        OpenAIAdapter(model="m", **choices)


@pytest.mark.parametrize("method", ["evaluate", "resume"])
@pytest.mark.parametrize("option", ["goverance", "budgets", "tool_choise"])
def test_a_misspelt_option_is_refused_before_anything_happens(method: str, option: str) -> None:
    """A policy or a limit that binds nothing must not look as if it did."""
    session = Session()
    with (
        bench() as (adapter, provider),
        pytest.raises(UsageError, match=rf"no option '{option}'; .* governance, tool_choice"),
    ):
        getattr(adapter, method)(ask(), session=session, **{option: None})

    assert provider.requests == []
    assert session.turn == 0


def test_a_missing_key_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK's own exception does not reach the user, and nothing was sent."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    adapter = OpenAIAdapter(model="m")

    with pytest.raises(UsageError, match="set OPENAI_API_KEY"):
        adapter.evaluate(ask())
    adapter.close()


def test_a_missing_sdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK is an extra."""
    monkeypatch.setitem(sys.modules, "openai", None)
    adapter = OpenAIAdapter(model="m", api_key="k")

    with pytest.raises(UsageError, match=re.escape(install_command("openai"))):
        adapter.evaluate(ask())
    adapter.close()


def test_the_key_is_sent_and_shown_nowhere() -> None:
    """The key goes to the provider only."""
    with Provider(ANSWER) as provider:
        adapter = OpenAIAdapter(model="m", base_url=provider.url, api_key=KEY)
        adapter.evaluate(ask())
        adapter.close()

    assert provider.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(adapter)


def test_one_adapter_serves_several_loops() -> None:
    """Connections belong to a loop; the adapter keeps a client for each."""
    with Provider(*[ANSWER] * 3) as provider:
        adapter = OpenAIAdapter(model="m", base_url=provider.url, api_key=KEY)

        async def once() -> str:
            found = await adapter.evaluate_async(ask())
            await adapter.aclose()
            return found.text

        texts = [asyncio.run(once()), adapter.evaluate(ask()).text, asyncio.run(once())]
        adapter.close()

    assert texts == ["Fine."] * 3


def test_a_client_that_was_given_stays_open() -> None:
    """Whoever made it closes it."""
    with Provider(ANSWER, ANSWER) as provider:
        client = sdk_client(provider.url)
        for _ in range(2):
            adapter = OpenAIAdapter(model="m", client=client)
            assert adapter.evaluate(ask()).text == "Fine."
            adapter.close()

    assert not client.is_closed()


def test_closing_leaves_no_thread() -> None:
    """An adapter that was used and closed leaves nothing behind."""
    with bench(ANSWER) as (adapter, _):
        adapter.evaluate(ask())

    assert "toolcrib-portal" not in [thread.name for thread in threading.enumerate()]


async def test_evaluations_run_side_by_side() -> None:
    """Two prompts on one adapter do not wait for each other, nor mix."""
    met = asyncio.Barrier(2)

    @tool
    async def meet(who: str) -> str:
        """Wait for the other."""
        await met.wait()
        return who

    async def one(adapter: OpenAIAdapter) -> PromptResponse[Any]:
        return await adapter.evaluate_async(ask(meet))

    replies = [response(call("meet", {"who": "x"})), ANSWER]
    with bench(*replies) as (first, _), bench(*replies) as (second, _):
        found = await asyncio.wait_for(asyncio.gather(one(first), one(second)), PATIENCE)

    assert [each.text for each in found] == ["Fine.", "Fine."]


async def test_a_cancelled_evaluation_stops() -> None:
    """Cancellation goes through to the tools, and nothing more is asked."""
    started = asyncio.Event()

    @tool
    async def forever() -> str:
        """Never return."""
        started.set()
        await asyncio.Event().wait()
        return ""

    session = Session()
    with bench(response(call("forever"))) as (adapter, provider):
        work = asyncio.create_task(adapter.evaluate_async(ask(forever), session=session))
        await started.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work

    assert [entry.what for entry in session.transcript()] == ["cancelled"]
    assert len(provider.requests) == 1


def test_attachments_are_part_of_the_first_message(tmp_path: Path) -> None:
    """C20: texts, images and files go into `input` beside the prompt's text."""
    (tmp_path / "plot.png").write_bytes(b"\x89PNG")
    prompt = ask().bind(
        attachments=[
            TextAttachment("Once upon a time.", title="A tale"),
            FileAttachment(path=tmp_path / "plot.png"),
            FileAttachment(data=b"a,b", name="data.csv", media_type="text/csv"),
            FileAttachment(file_id="file_1", media_type="application/pdf"),
        ]
    )
    with bench(ANSWER) as (adapter, provider):
        adapter.evaluate(prompt)

    (sent,) = provider.bodies[0]["input"]
    assert sent["content"][1:] == [
        {"type": "input_text", "text": "A tale\n\nOnce upon a time."},
        {
            "type": "input_image",
            "detail": "auto",
            "image_url": "data:image/png;base64," + base64.b64encode(b"\x89PNG").decode(),
        },
        {
            "type": "input_file",
            "filename": "data.csv",
            "file_data": "data:text/csv;base64," + base64.b64encode(b"a,b").decode(),
        },
        {"type": "input_file", "file_id": "file_1"},
    ]


def test_an_attachment_that_is_not_there_is_told_before_any_request(tmp_path: Path) -> None:
    """A missing file has phase render, and the prompt's name."""
    prompt = ask().bind(attachments=[FileAttachment(path=tmp_path / "gone.csv")])
    session = Session()
    with (
        bench() as (adapter, provider),
        pytest.raises(PromptEvaluationError, match=r"gone\.csv") as caught,
    ):
        adapter.evaluate(prompt, session=session)

    assert (caught.value.phase, caught.value.prompt_name) == ("render", "test:ask")
    assert provider.requests == []
    assert session.turn == 0


def test_a_response_says_what_was_asked_and_answered() -> None:
    """H40: the response has the prompt's name, the model that answered, and read-only outputs."""
    with bench(ANSWER) as (adapter, _):
        found = adapter.evaluate(ask(add))

    assert (found.prompt_name, found.status, found.output) == ("test:ask", "completed", "Fine.")
    assert (found.model, found.pending, found.skipped) == ("test-model", (), {})
    assert dict(found.hosted_outputs) == {}
