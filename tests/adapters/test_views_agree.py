"""All views of the calls of a turn agree, whatever happened in it.

A turn is drawn: steps of provider-run calls of every kind, calls of this process, failures, hooks
and messages that cite files. It is evaluated in one go, and again with people who are asked and
processes that die, each time taken up by a fresh session on the same store.
"""

from __future__ import annotations

import asyncio
import base64
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_core import from_json, to_json

from toolcrib import (
    Approve,
    MarkdownSection,
    NativeTool,
    Prompt,
    PromptEvaluationError,
    PromptResponse,
    Session,
    ToolContext,
    ToolInvoked,
    ToolResult,
    tool,
)
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.ledger import FilesCited
from toolcrib.store import SqliteStore
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.file_search import FileSearchConfig, file_search_tool
from toolcrib.tools.image_generation import image_generation_tool
from toolcrib.tools.mcp import McpConfig, mcp_tool
from toolcrib.tools.shell import (
    CommandOutput,
    LegacyShellParams,
    container_shell_tool,
    legacy_shell_tool,
)
from toolcrib.tools.web_search import web_search_tool

Json = dict[str, Any]
FAILED: Json = {"status": "failed", "error": {"code": "down", "message": "later"}}
CONTAINERS = ("cntr_1", "cntr_2")
FILES = ("a", "b", "c")


@dataclass
class Query:
    queries: tuple[str, ...]


@dataclass
class Sources:
    """A result type of the prompt's own."""

    source_urls: tuple[str, ...]
    status: str
    payload: Json


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
async def broken(why: str) -> str:
    """Fail."""
    raise ValueError(why)


def run_command(params: LegacyShellParams) -> CommandOutput:
    return CommandOutput(stdout=" ".join(params.command), exit_code=0)


def replace_output(result: CodeInterpreterResult, context: ToolContext) -> Any:
    return ToolResult(message="hooked", value=CodeInterpreterResult(stdout=f"<{result.stdout}>"))


def refuse_output(result: CodeInterpreterResult, context: ToolContext) -> Any:
    return ToolResult[CodeInterpreterResult](success=False, message="no good")


def keep_output(result: CodeInterpreterResult, context: ToolContext) -> Any:
    return None


def break_down(result: CodeInterpreterResult, context: ToolContext) -> Any:
    raise LookupError("oops")


HOOKS: tuple[Any, ...] = (None, keep_output, replace_output, refuse_output, break_down)


def tools_of(hook: Any, *, is_typed: bool) -> list[Any]:
    search: Any = (
        NativeTool[Query, Sources](name="web_search", description="Search.")
        if is_typed
        else web_search_tool()
    )
    return [
        search,
        OpenAICodeInterpreterTool(name="python", handle_provider_output=hook),
        file_search_tool(FileSearchConfig(("vs_1",))),
        image_generation_tool(),
        mcp_tool(
            McpConfig(server_label="wiki", server_url="https://w.org", require_approval="never")
        ),
        container_shell_tool(),
    ]


# What a provider may send. Ids are given when the turn is put together.


def searched(is_ok: bool) -> list[Json]:
    action = {"type": "search", "query": "q", "sources": [{"url": "https://a.org"}]}
    return [{"type": "web_search_call", "status": "completed", "action": action, **bad(is_ok)}]


def ran(is_ok: bool, container: str) -> list[Json]:
    logs = "1\n" if is_ok else "Traceback (most recent call last):\n  x\nValueError: no\n"
    outputs = [{"type": "logs", "logs": logs}]
    return [
        {
            "type": "code_interpreter_call",
            "status": "completed",
            "container_id": container,
            "code": "x",
            "outputs": outputs,
        }
    ]


def not_run() -> list[Json]:
    return [{"type": "code_interpreter_call", "code": "x", "outputs": None, **FAILED}]


def looked(is_ok: bool) -> list[Json]:
    hits = [{"file_id": "f", "filename": "f.md", "text": "t", "score": 0.5}]
    call = {"type": "file_search_call", "status": "completed", "queries": ["q"], "results": hits}
    return [{**call, **bad(is_ok)}]


def drawn(is_ok: bool, is_large: bool) -> list[Json]:
    picture = LARGE if is_large else "cGljdHVyZQ=="
    call = {"type": "image_generation_call", "status": "completed", "result": picture}
    return [{**call, **bad(is_ok)}]


LARGE = "LARGE"
"""Stands for a long picture: what is drawn is printed when the test fails."""


def as_sent(step: Sequence[Json]) -> list[Json]:
    picture = base64.b64encode(b"picture" * 3000).decode()
    return [{**item, "result": picture} if item.get("result") == LARGE else item for item in step]


def remote(is_ok: bool) -> list[Json]:
    call = {"type": "mcp_call", "server_label": "wiki", "name": "ask", "arguments": '{"q": "x"}'}
    return [{**call, "status": "completed", "output": "yes", **bad(is_ok)}]


def shelled(has_output: bool, container: str) -> list[Json]:
    call = {
        "type": "shell_call",
        "status": "completed",
        "call_id": "?",
        "action": {"commands": ["ls"]},
        "environment": {"type": "container_reference", "container_id": container},
    }
    chunk = {"stdout": "x\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 1}}
    answer = {"type": "shell_call_output", "call_id": "?", "output": [chunk]}
    return [call, answer] if has_output else [call]


def unheard_of() -> list[Json]:
    return [{"type": "dream_call", "status": "completed", "output": "sheep"}]


def bad(is_ok: bool) -> Json:
    return {} if is_ok else FAILED


def citing(cited: Sequence[tuple[str, str]]) -> list[Json]:
    text = "Take the file."
    notes = [
        {
            "type": "container_file_citation",
            "container_id": container,
            "file_id": file,
            "filename": f"{file}.csv",
            "start_index": 5,
            "end_index": 13,
        }
        for container, file in cited
    ]
    return [says(text, *notes)]


HOSTED = st.one_of(
    st.builds(searched, st.booleans()),
    st.builds(ran, st.booleans(), st.sampled_from(CONTAINERS)),
    st.builds(not_run),
    st.builds(looked, st.booleans()),
    st.builds(drawn, st.booleans(), st.booleans()),
    st.builds(remote, st.booleans()),
    st.builds(shelled, st.booleans(), st.sampled_from(CONTAINERS)),
    st.builds(unheard_of),
)
MESSAGES = st.lists(st.tuples(st.sampled_from(CONTAINERS), st.sampled_from(FILES)), max_size=3).map(
    citing
)
LOCAL_CALLS: list[Json] = [
    calls("add", {"a": 1, "b": 2}),
    calls("add", {"a": "one"}),
    calls("broken", {"why": "it is"}),
    calls("nobody", {}),
    {"type": "local_shell_call", "action": {"type": "exec", "command": ["ls"], "env": {}}},
]
LOCAL = st.sampled_from(LOCAL_CALLS)


@dataclass
class Turn:
    """The steps of a turn, what its tools are, and where it is interrupted."""

    steps: list[list[Json]]
    hook: Any
    is_typed: bool
    asks: bool
    dies_before: set[int] = field(default_factory=set[int])


@st.composite
def turns(draw: st.DrawFn) -> Turn:
    count = draw(st.integers(0, 3))
    steps: list[list[Json]] = []
    for _ in range(count):
        pieces = draw(st.lists(HOSTED | MESSAGES, max_size=4))
        asked = draw(st.lists(LOCAL, min_size=1, max_size=2))
        steps.append([*joined(pieces), *asked])
    last = draw(st.lists(HOSTED | MESSAGES, max_size=4))
    steps.append([*joined(last), *draw(MESSAGES)])
    return Turn(
        [numbered(step, place) for place, step in enumerate(steps)],
        draw(st.sampled_from(HOOKS)),
        draw(st.booleans()),
        draw(st.booleans()),
        draw(st.sets(st.integers(1, count), max_size=2)) if count else set(),
    )


def joined(pieces: Sequence[list[Json]]) -> list[Json]:
    return [item for piece in pieces for item in piece]


def numbered(step: Sequence[Json], place: int) -> list[Json]:
    """The items with ids of their own; an output has the id of the call before it."""
    items: list[Json] = []
    for number, item in enumerate(step):
        key = f"{place}_{number}"
        if item["type"] == "shell_call_output":
            key = f"{place}_{number - 1}"
        fields: Json = {"id": f"id_{key}"}
        if "call_id" in item or item["type"] == "local_shell_call":
            fields["call_id"] = f"call_{key}"
        items.append({**item, **fields})
    return items


class Evaluated:
    """A turn that was evaluated, and everything that could be seen of it."""

    def __init__(self, turn: Turn, *, is_interrupted: bool) -> None:
        self.turn = turn
        self.heard: list[tuple[ToolInvoked | FilesCited, Any]] = []
        self.tools = tools_of(turn.hook, is_typed=turn.is_typed)
        self._is_interrupted = is_interrupted
        self._done = 0
        shell = legacy_shell_tool(run_command, requires_approval=False)
        section = MarkdownSection(
            title="T", key="t", template="x", tools=(*self.tools, add, broken, shell)
        )
        self._prompt = Prompt[str](ns="test", key="views", sections=[section])

    def run(self, path: Path) -> None:
        asyncio.run(self._run(path))

    async def _run(self, path: Path) -> None:
        response: PromptResponse[str] | None = None
        while response is None or response.status == "waiting":
            with SqliteStore(path) as store:
                session = self._session(store)
                for request in response.pending if response else ():
                    await session.approvals.decide(request.call_id, Approve(), by="ann")
                is_new = not any(True for _ in session.events(kinds=("prompt.started",)))
                response = await self._go_on(session, is_new) or response
                self.response = response
                self._look(session)
                if self._is_cut:
                    response = None

    async def _go_on(self, session: Session, is_new: bool) -> PromptResponse[str] | None:
        steps = self.turn.steps
        cuts = [cut for cut in sorted(self.turn.dies_before) if cut > self._done]
        end = cuts[0] if cuts and self._is_interrupted else len(steps)
        model = ScriptedOpenAI(*map(as_sent, steps[self._done : end]))
        adapter = OpenAIAdapter(model="m", client=model.client())
        self._is_cut = False
        try:
            if is_new:
                return await adapter.evaluate_async(self._prompt, session=session)
            return await adapter.resume_async(self._prompt, session=session)
        except PromptEvaluationError:
            if end == len(steps):
                raise
            self._is_cut = True
            return None
        finally:
            self._done += min(len(model.requests), end - self._done)

    def _session(self, store: SqliteStore) -> Session:
        asks = ["add"] if self.turn.asks and self._is_interrupted else []
        session = Session(store=store, session_id="s", need_user_approve_tools=asks)
        for kind in (ToolInvoked, FilesCited):
            session.bus.subscribe(kind, self._hear)
        return session

    def _hear(self, event: ToolInvoked | FilesCited) -> None:
        """Take an event as a subscriber sees it, with what its references load."""
        self.heard.append((event, loaded(getattr(event, "value", None))))

    def _look(self, session: Session) -> None:
        self.ledger = folded(
            [
                (event, session.artifacts.whole(getattr(event, "value", None), kept_by(event)))
                for event in session.events()
                if isinstance(event, ToolInvoked | FilesCited)
            ]
        )
        self.told = folded(self.heard)
        kept = [text for event in session.events() for text in kept_by(event)]
        self.transcript = [
            Seen(
                entry.call_id,
                entry.tool,
                entry.text,
                entry.what == "completed",
                session.artifacts.whole(entry.value, kept),
            )
            for entry in session.transcript()
            if entry.origin == "provider"
        ]


def kept_by(event: Any) -> Sequence[Any]:
    return getattr(event, "kept", ())


def loaded(value: Any) -> Any:
    """A typed value of an event as JSON, with its pictures."""
    plain = from_json(to_json(value))
    data = getattr(value, "data", None) if getattr(value, "base64", None) else None
    return {**plain, "base64": base64.b64encode(data).decode()} if data is not None else plain


@dataclass
class Seen:
    """A call as one view has it."""

    call_id: str
    tool: str
    message: str
    success: bool
    value: Any


def folded(events: Sequence[tuple[ToolInvoked | FilesCited, Any]]) -> list[Seen]:
    """The provider-run calls among events, with the files that later events add."""
    seen: dict[str, Seen] = {}
    for event, value in events:
        if isinstance(event, FilesCited):
            call = seen[event.call_id]
            fields: Json = cast("Json", call.value) if isinstance(call.value, dict) else {}
            if "files" in fields:
                call.value = {**fields, "files": from_json(to_json(event.files))}
        elif event.origin == "provider":
            assert event.call_id not in seen, "a call was recorded or announced twice"
            seen[event.call_id] = Seen(
                event.call_id, event.name, event.message, event.success, value
            )
    return list(seen.values())


def invocations_of(response: PromptResponse[str]) -> list[Seen]:
    return [
        Seen(call.item_id, name, call.message, call.success, from_json(to_json(call.value)))
        for name, call in response.invocations
    ]


def json_of(value: Any) -> Any:
    return from_json(to_json(value))


def check_outputs(evaluated: Evaluated) -> None:
    """Outputs hold what the invocations of their tool hold, and nothing else."""
    response = evaluated.response
    assert response is not None
    by_tool: dict[str, list[Any]] = {}
    for name, call in response.invocations:
        by_tool.setdefault(name, []).append(call.value)
    for declared in evaluated.tools:
        values = [value for value in by_tool.get(declared.name, []) if value is not None]
        outputs, whole = response.outputs_of(declared), response.output_of(declared)
        assert len(outputs) == len(values)
        assert (whole is None) == (not values)
        assert whole is response.hosted_outputs.get(declared.name)
        if values:
            check_whole(declared.name, values, outputs, whole)


def check_whole(name: str, values: list[Any], outputs: Sequence[Any], whole: Any) -> None:
    match name:
        case "image_generation":
            assert list(whole.images) == [value for value in values if value.error is None]
            assert list(whole.errors) == [value.error for value in values if value.error]
        case "wiki":
            assert list(whole.calls) == values
            assert [output.calls for output in outputs] == [(value,) for value in values]
        case "python":
            assert list(outputs) == values
            assert list(whole.runs or (whole,)) == values
            assert set(whole.files) == {file for value in values for file in value.files}
            assert whole.stdout == values[-1].stdout
        case "shell":
            assert list(outputs) == values
            assert list(whole.outputs) == [line for value in values for line in value.outputs]
            assert set(whole.files) == {file for value in values for file in value.files}
        case "web_search":
            assert list(outputs) == values
            urls = [url for value in values for url in value.source_urls]
            assert list(whole.source_urls) == list(dict.fromkeys(urls))
            assert type(whole) is type(values[0])
        case _:
            assert list(outputs) == values
            assert whole.results == tuple(hit for value in values for hit in value.results)
            assert whole.error == next((value.error for value in values if value.error), None)


def check(evaluated: Evaluated) -> None:
    """Every view of one evaluation says the same."""
    response = evaluated.response
    assert response is not None
    expected = invocations_of(response)
    assert evaluated.ledger == expected
    assert evaluated.told == expected
    assert evaluated.transcript == expected
    check_outputs(evaluated)


def counted(turn: Turn) -> int:
    types = [item["type"] for step in turn.steps for item in step]
    others = ("message", "function_call", "shell_call_output", "local_shell_call")
    return sum(kind not in others for kind in types)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turn=turns())
def test_all_views_of_a_turn_agree(turn: Turn) -> None:
    """X6, issue 14: invocations, outputs, events, transcript and ledger are views of one list, and
    an interrupted turn comes to the same as one that was not.
    """
    found: list[Evaluated] = []
    for is_interrupted in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            evaluated = Evaluated(turn, is_interrupted=is_interrupted)
            evaluated.run(Path(folder) / "s.db")
        check(evaluated)
        found.append(evaluated)
    whole, resumed = found
    assert whole.response is not None
    assert resumed.response is not None
    assert len(whole.ledger) == counted(turn)
    assert whole.response.invocations == resumed.response.invocations
    assert whole.response.hosted_outputs == resumed.response.hosted_outputs
    assert whole.response.citations == resumed.response.citations
    assert whole.response.text == resumed.response.text
