"""One list of calls: every view of what a provider ran says the same."""

from __future__ import annotations

import base64
import itertools
import logging
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai import scripted_provider as provider
from tests.adapters.openai.loopback_adapter import bench
from toolcrib import (
    Approve,
    HostedTool,
    MarkdownSection,
    NativeTool,
    Prompt,
    Session,
    ToolContext,
    ToolInvoked,
    ToolResult,
    tool,
)
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.adapters.openai.adapter import default_codecs
from toolcrib.errors import UsageError
from toolcrib.ledger import FilesCited
from toolcrib.session.artifacts import Artifacts
from toolcrib.store import SqliteStore
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.tools import OpenAICodeInterpreterTool, as_tool
from toolcrib.tools.citations import (
    Citation,
    ContainerFileCitation,
    FileCitation,
    FilePathCitation,
    GeneratedFile,
)
from toolcrib.tools.code_interpreter import CodeInterpreterResult, code_interpreter_tool
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.image_generation import ImageGenerationResult, image_generation_tool
from toolcrib.tools.shell import ShellResult, container_shell_tool
from toolcrib.tools.web_search import WebSearchConfig, WebSearchResult, web_search_tool

Json = dict[str, Any]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def ask(*tools: Any) -> Prompt[str]:
    section = MarkdownSection(title="Task", key="task", template="Do it.", tools=tools)
    return Prompt[str](ns="test", key="ask", sections=[section])


OPENED: list[OpenAIAdapter] = []


@pytest.fixture(autouse=True)
def closing() -> Generator[None]:
    """Close the adapters of a test: those that block have a thread of their own."""
    yield
    while OPENED:
        OPENED.pop().close()


def adapter(*steps: Sequence[Json], **options: Any) -> OpenAIAdapter:
    made = OpenAIAdapter(model="gpt-5-mini", client=ScriptedOpenAI(*steps).client(), **options)
    OPENED.append(made)
    return made


def ran(number: int = 1, logs: str = "1\n", **fields: Any) -> Json:
    return {
        "type": "code_interpreter_call",
        "id": f"ci_{number}",
        "status": "completed",
        "container_id": "cntr_1",
        "code": f"print({number})",
        "outputs": [{"type": "logs", "logs": logs}],
        **fields,
    }


def searched(number: int = 1, **fields: Any) -> Json:
    action = {"type": "search", "query": "q", "sources": [{"url": f"https://{number}.org"}]}
    call = {"type": "web_search_call", "id": f"ws_{number}", "status": "completed"}
    return {**call, "action": action, **fields}


def cites_file(file_id: str, start: int, end: int, container: str = "cntr_1") -> Json:
    return {
        "type": "container_file_citation",
        "container_id": container,
        "file_id": file_id,
        "filename": f"{file_id}.csv",
        "start_index": start,
        "end_index": end,
    }


def cites_page(start: int, end: int) -> Json:
    place = {"start_index": start, "end_index": end}
    return {"type": "url_citation", "url": "https://a", "title": "A", **place}


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def invoked(session: Session) -> list[ToolInvoked]:
    return [event for event in session.events() if isinstance(event, ToolInvoked)]


# Shapes


def test_every_kind_of_citation_is_in_the_answer_without_a_call() -> None:
    """Finding 2c, C25: a turn without a call cites pages, files, files of containers and paths,
    each with its span or None.
    """
    text = "See page, plot.csv."
    cited = says(
        text,
        {
            "type": "url_citation",
            "url": "https://a",
            "title": "A",
            "start_index": 4,
            "end_index": 8,
        },
        {"type": "file_citation", "file_id": "f", "filename": "a.md", "index": 9},
        cites_file("plot", 10, 18),
        {"type": "file_path", "file_id": "p", "index": 2},
        {"type": "brand_new", "file_id": "x"},
    )

    response = adapter([cited]).evaluate(ask(web_search_tool()))

    assert response.citations == (
        Citation("https://a", "A", (4, 8)),
        FileCitation("f", "a.md", 9, None),
        ContainerFileCitation("cntr_1", "plot", "plot.csv", (10, 18)),
        FilePathCitation("p", 2, None),
    )
    assert response.hosted_outputs == {}
    assert isinstance(response.citations[2], GeneratedFile)


def test_failed_calls_say_so_in_the_outputs() -> None:
    """Finding 7, H44: a search, a run and a file search that failed have status and error."""
    files = file_search_tool(FileSearchConfig(("vs_1",)))
    failed: Json = {"status": "failed", "error": {"code": "down", "message": "later"}}
    looked = {"type": "file_search_call", "id": "fs_1", "queries": ["q"], **failed}
    steps = [searched(**failed), ran(outputs=None, **failed), looked, says("Sorry.")]

    response = adapter(steps).evaluate(ask(web_search_tool(), code_interpreter_tool(), files))

    for output in response.hosted_outputs.values():
        assert output.status == "failed"
        assert output.error.endswith("failed: down: later")
    assert [run.value.status for _, run in response.invocations] == ["failed"] * 3
    assert len(response.hosted_outputs) == 3


def test_several_runs_stay_several() -> None:
    """Finding 7: no glued output; an exception in the first run keeps its exit code."""
    python = code_interpreter_tool()
    traceback = "Traceback (most recent call last):\n  File x\nValueError: no\n"

    response = adapter([ran(1, traceback), ran(2, "2\n"), says("2")]).evaluate(ask(python))

    first, second = response.outputs_of(python)
    assert (first.exit_code, first.stdout) == (1, traceback)
    assert (second.exit_code, second.stdout) == (None, "2\n")
    whole = response.output_of(python)
    assert whole is not None
    assert (whole.stdout, whole.runs, whole.error) == ("2\n", (first, second), first.error)


@dataclass
class Query:
    queries: tuple[str, ...]


@dataclass
class Sources:
    source_urls: tuple[str, ...]
    text: str = ""


def test_outputs_have_the_declared_type() -> None:
    """Finding 17, N2: of a tool with its own result type, every view has that type."""
    search = NativeTool[Query, Sources](name="web_search", description="Search.")
    seen: list[ToolInvoked] = []
    session = Session()
    session.bus.subscribe(ToolInvoked, seen.append)

    response = adapter([searched(1), searched(2), says("Hi.")]).evaluate(
        ask(search), session=session
    )

    assert response.output_of(search) == Sources(("https://1.org", "https://2.org"), "Hi.")
    assert response.outputs_of(search) == (Sources(("https://1.org",)), Sources(("https://2.org",)))
    assert [event.value for event in seen] == [run.value for _, run in response.invocations]
    assert all(isinstance(event.value, Sources) for event in seen)


def test_only_a_provider_run_tool_has_an_output() -> None:
    """A local tool's results are elsewhere, and the error says where."""
    response = adapter([says("Hi.")]).evaluate(ask(web_search_tool()))

    assert response.output_of(web_search_tool()) is None
    assert response.outputs_of(web_search_tool()) == ()
    with pytest.raises(UsageError, match=r"'add' does not run at the provider.*transcript"):
        response.output_of(as_tool(add))


# One list


def replaces(result: CodeInterpreterResult, context: ToolContext) -> Any:
    return ToolResult(message="HOOKED", value=CodeInterpreterResult(stdout="REPLACED"))


async def test_the_hooks_value_is_in_every_view_also_after_resume(tmp_path: Path) -> None:
    """Finding 9b and 9c, X6: the value comes back from the ledger, in another process too, in the
    tool's type; the hook does not run again.
    """
    python = OpenAICodeInterpreterTool(handle_provider_output=replaces)
    model = ScriptedOpenAI([ran(), calls("add", {"a": 1, "b": 2})], [says("3")])
    path = tmp_path / "s.db"
    with SqliteStore(path) as store:
        session = Session(store=store, session_id="s", need_user_approve_tools=["add"])
        own = OpenAIAdapter(model="m", client=model.client())
        before = await own.evaluate_async(ask(python, add), session=session)
    with SqliteStore(path) as store:
        session = Session(store=store, session_id="s", need_user_approve_tools=["add"])
        await session.approvals.decide("call_1", Approve(), by="ann")
        own = OpenAIAdapter(model="m", client=model.client())
        after = await own.resume_async(ask(python, add), session=session)
        entry = session.transcript()[0]
        (event, _) = invoked(session)

    expected = CodeInterpreterResult(stdout="REPLACED")
    for response in (before, after):
        assert [run.value for _, run in response.invocations] == [expected]
        assert [run.message for _, run in response.invocations] == ["HOOKED"]
        assert response.output_of(python) == expected
        assert response.hosted_outputs == {"code_interpreter": expected}
    assert after.status == "completed"
    assert entry.value == event.value
    assert (entry.value["stdout"], entry.text) == ("REPLACED", "HOOKED")


@pytest.mark.parametrize("is_hooked", [False, True])
def test_files_that_are_cited_a_step_later_belong_to_their_call(is_hooked: bool) -> None:
    """Finding 10, C29: the invocation, the output, the transcript and the ledger have them."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Any:
        return ToolResult(message="ran", value=CodeInterpreterResult(stdout="mine"))

    python = OpenAICodeInterpreterTool(handle_provider_output=hook if is_hooked else None)
    session = Session()
    later: list[FilesCited] = []
    session.bus.subscribe(FilesCited, later.append)
    steps = [[ran(), calls("add", {"a": 1, "b": 2})], [says("Take it.", cites_file("f", 5, 7))]]

    response = adapter(*steps).evaluate(ask(python, add), session=session)

    file = GeneratedFile("cntr_1", "f", "f.csv", (5, 7))
    whole = response.output_of(python)
    assert whole is not None
    assert whole.files == response.invocations[0][1].value.files == (file,)
    assert whole.stdout == ("mine" if is_hooked else "1\n")
    (event,) = later
    assert (event.call_id, event.tool, event.files) == ("ci_1", "code_interpreter", (file,))
    assert session.transcript()[0].value["files"][0]["file_id"] == "f"
    assert [e for e in session.events() if isinstance(e, FilesCited)] == later


async def test_files_that_are_cited_later_are_recorded_once(tmp_path: Path) -> None:
    """Finding 10: a process that died after the answer was recorded makes the rest good, once."""
    python = code_interpreter_tool()
    first = says("Wrote it.", cites_file("f", 0, 5))
    steps = [
        [ran(), calls("add", {"a": 1, "b": 2}, call_id="one")],
        [first, calls("add", {"a": 1, "b": 2}, call_id="two")],
        [says("Done.")],
    ]
    model = ScriptedOpenAI(*steps)
    path = tmp_path / "s.db"
    rules: Any = {"session_id": "s", "need_user_approve_tools": ["add"]}
    with SqliteStore(path) as store:
        session = Session(store=store, **rules)
        own = OpenAIAdapter(model="m", client=model.client())
        await own.evaluate_async(ask(python, add), session=session)
        await session.approvals.decide("one", Approve(), by="ann")
        waiting = await own.resume_async(ask(python, add), session=session)
    with SqliteStore(path) as store:
        session = Session(store=store, **rules)
        await session.approvals.decide("two", Approve(), by="ann")
        own = OpenAIAdapter(model="m", client=model.client())
        after = await own.resume_async(ask(python, add), session=session)
        cited = [event for event in session.events() if isinstance(event, FilesCited)]

    files = (GeneratedFile("cntr_1", "f", "f.csv", None),)
    assert waiting.status == "waiting"
    assert [event.files for event in cited] == [files]
    for response in (waiting, after):
        output = response.output_of(python)
        assert output is not None
        assert output.files == files


def test_files_of_a_hosted_shell_are_files() -> None:
    """Finding 10: like those of the code interpreter, each with the call that made it."""
    shell = container_shell_tool()
    environment = {"type": "container_reference", "container_id": "cntr_1"}
    call: Json = {
        "type": "shell_call",
        "id": "sh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"commands": ["make"]},
        "environment": environment,
    }
    done: Json = {"type": "shell_call_output", "call_id": "c1", "status": "completed", "output": []}

    response = adapter([call, done, says("Here it is.", cites_file("f", 0, 4))]).evaluate(
        ask(shell)
    )

    assert response.output_of(shell) == ShellResult(
        (), "cntr_1", (GeneratedFile("cntr_1", "f", "f.csv", (0, 4)),)
    )
    assert response.invocations[0][1].raw == {**call, "answer": done}


def test_a_prompt_in_a_hook_stands_under_its_tool() -> None:
    """Finding 9f: the transcript names the tool whose hook evaluates the prompt."""

    def hook(result: CodeInterpreterResult, context: ToolContext) -> Any:
        assert isinstance(context.adapter, OpenAIAdapter)
        inner = Prompt[str](
            ns="test",
            key="inner",
            sections=[MarkdownSection(title="Sum up", key="sum", template="Sum up.")],
        )
        text = context.adapter.evaluate(inner, session=context.session).text
        return ToolResult(message=text, value=result)

    python = OpenAICodeInterpreterTool(name="python", handle_provider_output=hook)
    session = Session()

    adapter([ran(), says("Fine.")], [says("One.")]).evaluate(ask(python), session=session)

    entries = [(entry.tool, entry.what, entry.text) for entry in session.transcript()]
    assert entries == [("python", "prompt", "test:inner"), ("python", "completed", "One.")]


async def test_a_provider_call_has_a_digest() -> None:
    """Finding 19: of what was asked. How long a call ran is not known when nobody watched it."""
    session = Session()
    other = searched(2, action={"type": "search", "query": "z"})
    await adapter([searched(1), other, says("Hi.")]).evaluate_async(
        ask(web_search_tool()), session=session
    )

    first, second = (event.arguments_digest for event in invoked(session))
    assert len(first) == len(second) == 64
    assert first != second
    assert [event.duration_seconds for event in invoked(session)] == [0, 0]


def test_a_streamed_call_has_a_duration() -> None:
    """Finding 19: it runs from the first moment that the stream tells of it to the last."""
    ticks = itertools.count(1.0)
    session = Session(clock=lambda: next(ticks))
    with bench(provider.response(searched(), provider.message("Hi."))) as (own, _):
        own.evaluate(ask(web_search_tool()), session=session, stream=True)

    (event,) = invoked(session)
    assert event.duration_seconds > 0


# Pictures


PICTURE = bytes(range(256)) * 3000


def drawn(**fields: Any) -> Json:
    data = base64.b64encode(PICTURE).decode()
    return {
        "type": "image_generation_call",
        "id": "ig_1",
        "status": "completed",
        "result": data,
        **fields,
    }


async def test_a_picture_is_stored_once(tmp_path: Path) -> None:
    """Finding 18: 750 KB make a database of well under 1.2 MB; subscribers get a reference that
    loads the bytes, and a conversation that goes on sends them as they came.
    """
    draw = image_generation_tool()
    path = tmp_path / "s.db"
    model = ScriptedOpenAI([drawn(), calls("add", {"a": 1, "b": 2})], [says("Here.")])
    seen: list[ToolInvoked] = []
    with SqliteStore(path) as store:
        session = Session(store=store, session_id="s", need_user_approve_tools=["add"])
        session.bus.subscribe(ToolInvoked, seen.append)
        own = OpenAIAdapter(model="m", client=model.client(), history="client")
        await own.evaluate_async(ask(draw, add), session=session)
        assert len(seen[0].value.base64) < 100
        assert seen[0].value.data == PICTURE
        assert len(str(seen[0].raw)) < 1000
    assert size_of(tmp_path) < 1_050_000
    with SqliteStore(path) as store:
        session = Session(store=store, session_id="s", need_user_approve_tools=["add"])
        await session.approvals.decide("call_1", Approve(), by="ann")
        own = OpenAIAdapter(model="m", client=model.client(), history="client")
        response = await own.resume_async(ask(draw, add), session=session)
        session.verify()
        kept = invoked(session)[0]
        whole = session.artifacts.whole(kept.value, kept.kept)

    output = response.output_of(draw)
    assert isinstance(output, ImageGenerationResult)
    assert [image.data for image in output.images] == [PICTURE]
    assert base64.b64decode(whole["base64"]) == PICTURE
    assert model.requests[1]["input"][1] == drawn()


async def test_what_looks_like_a_reference_is_left_alone() -> None:
    """A model that writes a reference gets no text of the session's for it."""
    session = Session()
    text = "toolcrib-artifact:data_" + "0" * 32

    response = await adapter([says(text)]).evaluate_async(ask(), session=session)

    assert response.text == text
    assert isinstance(session.artifacts, Artifacts)
    assert session.artifacts.whole({"a": text}, ()) == {"a": text}


# Codecs and markers


class DocumentCodec:
    """The codec of document H, word for word in how it reads."""

    kind = "web_search"

    def serialize(self, tool: HostedTool[WebSearchConfig]) -> Json:
        return {"type": "web_search"}

    def parse_output(
        self, response_items: Sequence[Any], tool: HostedTool[WebSearchConfig]
    ) -> WebSearchResult | None:
        web_search_call = None
        message_content = None
        for item in response_items:
            item_type = getattr(item, "type", None)
            if item_type == "web_search_call":
                web_search_call = item
            elif item_type == "message":
                message_content = item
        if web_search_call is None:
            return None
        text = ""
        citations: list[Citation] = []
        if message_content:
            for part in getattr(message_content, "content", []):
                if getattr(part, "type", None) == "output_text":
                    text = getattr(part, "text", "")
                    for ann in getattr(part, "annotations", []):
                        if getattr(ann, "type", None) == "url_citation":
                            span = (getattr(ann, "start_index", 0), getattr(ann, "end_index", 0))
                            url, title = getattr(ann, "url", ""), getattr(ann, "title", "")
                            citations.append(Citation(url=url, title=title, span=span))
        return WebSearchResult(text=text, citations=tuple(citations), source_urls=())


class BlindCodec(DocumentCodec):
    """A codec that finds nothing."""

    def parse_output(self, response_items: Sequence[Any], tool: HostedTool[Any]) -> None:
        return None


def codecs(codec: Any) -> Mapping[str, Any]:
    return {**default_codecs(), "web_search": codec}


def test_a_codec_in_the_words_of_document_h_works() -> None:
    """Finding 13, H41: items can be read by attribute and as mappings."""
    note = {
        "type": "url_citation",
        "url": "https://a",
        "title": "A",
        "start_index": 0,
        "end_index": 2,
    }
    script = [searched(), says("Hi.", note)]

    response = adapter(script, hosted_tool_codecs=codecs(DocumentCodec())).evaluate(
        ask(web_search_tool())
    )

    expected = WebSearchResult("Hi.", (Citation("https://a", "A", (0, 2)),))
    assert response.output_of(web_search_tool()) == expected
    assert [run.value for _, run in response.invocations] == [WebSearchResult("")]


def test_a_codec_that_finds_nothing_in_its_own_call_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Finding 13: silence would look like a search that did not happen."""
    script = [searched(), says("Hi.")]
    with caplog.at_level(logging.WARNING):
        response = adapter(script, hosted_tool_codecs=codecs(BlindCodec())).evaluate(
            ask(web_search_tool())
        )

    assert response.output_of(web_search_tool()) is None
    assert "BlindCodec" in caplog.text
    assert "gave no output although the provider ran 'web_search'" in caplog.text


@dataclass
class Note:
    text: str


@pytest.mark.parametrize("is_escaped", [False, True])
def test_citation_marks_leave_typed_answers(is_escaped: bool) -> None:
    """Finding 14, E6: the value has no marks; the text and the places in it stay as they came."""
    marker = r"\ue200cite\ue202turn0search0\ue201" if is_escaped else "\ue200cite\ue202t0\ue201"
    text = '{"text": "hi ' + marker + '"}'
    section = MarkdownSection(title="T", key="t", template="x", tools=(web_search_tool(),))
    prompt = Prompt[Note](ns="test", key="note", sections=[section])

    response = adapter([searched(), says(text, cites_page(10, 12))]).evaluate(prompt)

    assert response.output == Note("hi")
    assert response.text == text
    assert response.citations == (Citation("https://a", "A", (10, 12)),)
