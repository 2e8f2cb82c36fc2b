"""One conversation on the embedded provider, with files and code that really runs, in every way to
keep it: the same answers, one upload, one container.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from tests.embedded.scripted_provider import Puppet
from tests.embedded.tools.hosted_calls import Clock
from toolcrib import MarkdownSection, Prompt, Session, SqliteStore
from toolcrib.adapters.answer import PromptResponse
from toolcrib.embedded import (
    BackendCallResult,
    BackendMessage,
    BackendOutput,
    BackendRequest,
    BackendText,
    BackendUsage,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.ledger.prompt_events import (
    ContainerExpired,
    ContainerUsed,
    FilesStaged,
    HistoryOmitted,
)
from toolcrib.prompt import FileAttachment, TextAttachment
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import AutoContainer

pytestmark = pytest.mark.wire

WAYS: Final = [
    pytest.param(history, stream, id=f"{history}-{'streamed' if stream else 'blocking'}")
    for history in ("server", "client")
    for stream in (False, True)
]
NOTE: Final = TextAttachment("The note says: blue.")
TABLE: Final = FileAttachment(data=b"a,b\n", name="table.csv")


def analyst(request: BackendRequest) -> Sequence[BackendOutput]:
    """Adds up the mounted numbers, then works with what it kept of them."""
    said = [turn for turn in request.history if isinstance(turn, BackendMessage)]
    last = max(at for at, turn in enumerate(request.history) if turn is said[-1])
    results = [turn for turn in request.history[last:] if isinstance(turn, BackendCallResult)]
    text, usage = said[-1].text, BackendUsage(10, 5)
    if "Add up" in text:
        path = text.rpartition(" is at ")[2].split()[0]
        code = f"x = sum(map(int, open('{path}').read().split()))\nprint(x)"
    elif "Double" in text:
        code = "print(x * 2)"
    else:
        is_known = any("The note says: blue." in turn.text for turn in said)
        answers = [turn.text for turn in said if turn.role == "assistant"]
        return [BackendText(f"{answers} {is_known}"), usage]
    if not results:
        return [ProposedCall("python", json.dumps({"code": code})), usage]
    return [BackendText(f"It is {results[-1].text.strip()}."), usage]


def prompt(text: str, container: AutoContainer | None = None) -> Prompt[str]:
    """A prompt whose code interpreter has the numbers."""
    python = OpenAICodeInterpreterTool(
        container=container or AutoContainer(), host_mounts=(HostMount("numbers.txt"),)
    )
    section = MarkdownSection[Any](title="Task", key="task", template=text, tools=[python])
    return Prompt[str](ns="test", key="analyst", sections=[section])


@dataclass(slots=True)
class Desk:
    """A provider, and a session that every turn opens anew, like another process."""

    provider: EmbeddedProvider
    folder: Path
    options: dict[str, Any]

    async def ask(self, asked: Prompt[str], **options: Any) -> PromptResponse[str]:
        with SqliteStore(self.folder / "store.db") as store:
            async with (
                await Session.open(store, "s") as session,
                self.provider.adapter(host_roots=(self.folder,), **self.options) as adapter,
            ):
                return await adapter.evaluate_async(asked, session=session, **options)

    async def compact(self) -> None:
        with SqliteStore(self.folder / "store.db") as store:
            async with (
                await Session.open(store, "s") as session,
                self.provider.adapter(**self.options) as adapter,
            ):
                await adapter.compact_async(session)

    def happened(self, kind: type[Any]) -> list[Any]:
        with SqliteStore(self.folder / "store.db") as store:
            events = [record.event for record in store.records("s")]
        return [event for event in events if isinstance(event, kind)]

    async def uploads(self) -> int:
        return len((await self.provider.client().files.list()).data)

    async def containers(self) -> int:
        return len((await self.provider.client().containers.list()).data)


async def converse(desk: Desk, stream: bool) -> list[PromptResponse[str]]:
    first = prompt("Add up the numbers.").bind(attachments=[NOTE, TABLE])
    return [
        await desk.ask(first, stream=stream),
        await desk.ask(prompt("Double it."), stream=stream, follows=True),
        await desk.ask(prompt("What did we say?"), stream=stream, follows=True),
    ]


@pytest.mark.parametrize(("history", "stream"), WAYS)
async def test_a_conversation_is_the_same_however_it_is_kept(
    tmp_path: Path, history: str, stream: bool
) -> None:
    """Findings 2b and 2d: variables and attachments stay known, also to another process; the file
    is uploaded once, and all code runs in one container.
    """
    (tmp_path / "numbers.txt").write_text("1 2 3")
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {"history": history})
        one, two, three = await converse(desk, stream)
        uploads, containers = await desk.uploads(), await desk.containers()

    assert (one.text, two.text) == ("It is 6.", "It is 12.")
    assert three.text == "['It is 6.', 'It is 12.'] True"
    assert (uploads, containers) == (1, 1)
    assert [facts(each) for each in (one, two, three)] == [
        ("completed", ["6\n"], (1, 20, 10)),
        ("completed", ["12\n"], (1, 20, 10)),
        ("completed", [], (1, 10, 5)),
    ]
    assert desk.happened(ContainerExpired) == []
    assert desk.happened(HistoryOmitted) == []


def facts(response: PromptResponse[str]) -> tuple[Any, ...]:
    """What a response says besides its text and the ids that the provider chose."""
    printed = [invocation.value.stdout for _, invocation in response.invocations]
    usage = response.usage
    return response.status, printed, (usage.requests, usage.input_tokens, usage.output_tokens)


@pytest.mark.parametrize("history", ["server", "client"])
async def test_a_changed_file_is_uploaded_again(tmp_path: Path, history: str) -> None:
    """Finding 2d: what was uploaded is known by its content; the container stays."""
    file = tmp_path / "numbers.txt"
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {"history": history})
        for numbers in ("1 2 3", "1 2 3", "4 5"):
            file.write_text(numbers)
            last = await desk.ask(prompt("Add up the numbers."), follows=True)
        uploads, containers = await desk.uploads(), await desk.containers()

    assert last.text == "It is 9."
    assert (uploads, containers) == (2, 1)
    first, second, third = desk.happened(FilesStaged)
    (used,) = {event.container_id for event in desk.happened(ContainerUsed)}
    assert first.files == second.files != third.files
    assert [event.container_id for event in (first, second, third)] == [None, used, used]


@pytest.mark.parametrize("history", ["server", "client"])
async def test_variables_stay_when_the_conversation_is_shortened(
    tmp_path: Path, history: str
) -> None:
    """Finding 2d: the ledger knows the container, whatever the provider still knows of it."""
    (tmp_path / "numbers.txt").write_text("1 2 3")
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {"history": history})
        await desk.ask(prompt("Add up the numbers."))
        await desk.compact()
        doubled = await desk.ask(prompt("Double it."), follows=True)

    assert doubled.text == "It is 12."


async def test_prompts_that_do_not_follow_share_the_upload_and_no_container(
    tmp_path: Path,
) -> None:
    """Finding 2d: an independent prompt of the session gets a container of its own."""
    (tmp_path / "numbers.txt").write_text("1 2 3")
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {})
        for _ in range(2):
            await desk.ask(prompt("Add up the numbers."))
        assert (await desk.uploads(), await desk.containers()) == (1, 2)


async def test_an_upload_that_the_provider_deleted_is_made_again(tmp_path: Path) -> None:
    """What the ledger knows of an upload is asked of the provider before it is relied on."""
    (tmp_path / "numbers.txt").write_text("1 2 3")
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {})
        await desk.ask(prompt("Add up the numbers."))
        (upload,) = (await provider.client().files.list()).data
        await provider.client().files.delete(upload.id)
        assert (await desk.ask(prompt("Add up the numbers."))).text == "It is 6."


@pytest.mark.parametrize(("history", "stream"), WAYS)
async def test_an_expired_container_is_replaced(tmp_path: Path, history: str, stream: bool) -> None:
    """A container that is gone is recorded; the next code runs in a new one, with the same file,
    which is not uploaded again.
    """
    clock = Clock()
    (tmp_path / "numbers.txt").write_text("1 2 3")
    async with EmbeddedProvider(Puppet(analyst), clock=clock) as provider:
        desk = Desk(provider, tmp_path, {"history": history})
        await desk.ask(prompt("Add up the numbers."), stream=stream)
        clock.now += 30 * 60
        lost = await desk.ask(prompt("Double it."), stream=stream, follows=True)
        again = await desk.ask(prompt("Add up the numbers."), stream=stream, follows=True)
        uploads = await desk.uploads()

    assert "NameError" in lost.text
    assert again.text == "It is 6."
    assert uploads == 1
    (expired,) = desk.happened(ContainerExpired)
    used = [event.container_id for event in desk.happened(ContainerUsed)]
    assert expired.container_ids == (used[0],)
    assert "expired" in expired.reason
    assert used[0] not in used[1:]
    assert len(set(used[1:])) == 1


async def test_other_options_of_the_container_make_another_one(tmp_path: Path) -> None:
    """A container has the memory it was made with: a prompt that asks for more gets a new one."""
    async with EmbeddedProvider(Puppet(analyst)) as provider:
        desk = Desk(provider, tmp_path, {})
        (tmp_path / "numbers.txt").write_text("1 2 3")
        await desk.ask(prompt("Add up the numbers."))
        larger = prompt("Add up the numbers.", container=AutoContainer("4g"))
        await desk.ask(larger, follows=True)
        assert await desk.containers() == 2
