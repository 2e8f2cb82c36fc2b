"""A secret argument reaches the handler and nothing else: no record, event, log or failure."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import SecretStr, StringConstraints

from tests.calls.runs import Run, invoked, run
from tests.store.facts import TOOL
from toolcrib import (
    ApprovalRequired,
    Approve,
    CallbackApprover,
    Executor,
    Hooks,
    ModelRetry,
    Secret,
    Session,
    SqliteStore,
    ToolContext,
    ToolResult,
    tool,
)
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.ledger.events import ToolInvoked
from toolcrib.store import OpenCall
from toolcrib.testing import Recorder, run_in_virtual_time
from toolcrib.tools import redaction

TOKEN = "tok-live-1234567890"
QUOTED = 'tok"with\\quotes\nand lines'

Body = Callable[[str, ToolContext], Awaitable[Any]]


@dataclass(frozen=True)
class Watched:
    """A call with a secret argument, and everything that was heard of it."""

    ended: Run
    heard: Recorder

    @property
    def seen(self) -> str:
        """All that others than the handler got to see, in one text."""
        session = self.ended.session
        artifact = self.ended.outcome.artifact_id
        parts: list[Any] = [
            [record.payload for record in session.records()],
            self.heard.events,
            self.ended.outcome.text,
            self.ended.outcome.failure,
            session.transcript(),
            session.artifacts.read(artifact).text if artifact else "",
        ]
        return repr(parts)


async def watch(body: Body, token: Any = TOKEN, **options: Any) -> Watched:
    """Run `body` as a tool that takes a secret."""
    limit = options.pop("max_result_chars", None)

    @tool(max_result_chars=limit)
    async def fetch(ctx: ToolContext, url: str, token: Annotated[str, Secret()]) -> Any:
        """Fetch."""
        return await body(token, ctx)

    session = Session()
    heard = Recorder(session.bus)
    ended = await run(fetch, {"url": "u", "token": token}, session=session, **options)
    return Watched(ended, heard)


async def echo(token: str, _: ToolContext) -> Any:
    return f"used {token}"


async def echo_json(token: str, _: ToolContext) -> Any:
    return {"used": token, "list": [token]}


async def report(token: str, _: ToolContext) -> Any:
    return ToolResult(value={"token": token}, message=f"{token} was refused", success=False)


async def tell(token: str, _: ToolContext) -> Any:
    return ToolResult(value={"token": token}, message=f"{token} works")


async def fail(token: str, _: ToolContext) -> Any:
    raise PermissionError(f"{token} was refused")


async def retry(token: str, _: ToolContext) -> Any:
    raise ModelRetry(f"{token} was refused")


async def speak(token: str, ctx: ToolContext) -> Any:
    ctx.progress(1, 2, f"trying {token}")
    ctx.output(f"$ curl -H {token}")
    ctx.emit("tool.fetch.tried", {"with": token, "and": [token]})
    return "done"


async def ask(token: str, ctx: ToolContext) -> Any:
    if not ctx.tool_call_approved:
        raise ApprovalRequired({"token": token})
    return "done"


BODIES = [echo, echo_json, report, tell, fail, retry, speak, ask]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__)
async def test_a_secret_is_seen_nowhere(body: Body, caplog: pytest.LogCaptureFixture) -> None:
    """R46: whatever a handler does with a secret, it is in no record, event, failure, transcript
    or log.
    """
    caplog.set_level(logging.DEBUG)

    watched = await watch(body)

    assert TOKEN not in watched.seen
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("body", [echo, echo_json, tell], ids=lambda body: body.__name__)
async def test_an_awkward_secret_is_seen_nowhere(body: Body) -> None:
    """R46: a secret that JSON writes with escapes is found all the same."""
    watched = await watch(body, QUOTED)

    assert "with" not in watched.seen.replace("without", "")


@pytest.mark.parametrize("body", [echo_json], ids=lambda body: body.__name__)
async def test_a_short_secret_is_hidden_in_values(body: Body) -> None:
    """R46: a secret too short to be looked for in texts is still hidden where it is a value."""
    watched = await watch(body, "q7")

    assert "q7" not in watched.seen


@pytest.mark.parametrize("limit", range(6, 12))
async def test_no_piece_of_a_secret_is_left_by_cutting(limit: int) -> None:
    """R46: a result is cut after its secrets are hidden, so half a secret does not stay."""
    watched = await watch(echo, max_result_chars=limit)

    assert "tok-" not in watched.seen


def test_a_handler_that_was_given_up_leaks_nothing_later(caplog: pytest.LogCaptureFixture) -> None:
    """R46: what a forgotten handler raises is logged without what it may quote."""
    let_go = asyncio.Event()

    @tool(timeout=5)
    async def deaf(token: SecretStr) -> str:
        """Never stop, then fail."""
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        raise PermissionError(token.get_secret_value())

    async def scene() -> None:
        await run(deaf, {"token": TOKEN})
        let_go.set()
        await asyncio.sleep(1)

    run_in_virtual_time(scene())

    assert "was given up and failed later" in caplog.text
    assert TOKEN not in caplog.text


async def test_the_handler_gets_the_secret() -> None:
    """What is hidden from others is there for the handler, and in what it returns to the
    application.
    """
    watched = await watch(echo)

    assert watched.ended.outcome.value == f"used {TOKEN}"
    assert watched.ended.record.params == {"url": "u", "token": "[secret]"}
    assert watched.ended.record.value == "used [secret]"


async def test_record_and_live_event_hide_the_same() -> None:
    """R46: subscribers see of a secret exactly what the ledger keeps."""
    watched = await watch(echo_json)

    (live,) = [event for event in watched.heard.events if event.kind == "tool.invoked"]
    assert live == watched.ended.record


async def test_a_secret_that_a_hook_puts_in_stays_hidden_from_the_model() -> None:
    """A pre hook may swap a name for the real credential; the model must not read it back."""

    async def fill(_: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return {**arguments, "token": TOKEN}

    watched = await watch(echo, "the usual", hooks=Hooks(pre={"fetch": fill}))

    assert watched.ended.outcome.text == "used [secret]"
    assert TOKEN not in watched.seen


async def test_the_approver_sees_no_secret() -> None:
    """R42, R46: who approves reads the redacted view, and the note on an edit has it, too."""
    requests: list[ApprovalRequest] = []

    @tool(requires_approval=True)
    async def fetch(url: str, token: Annotated[str, Secret()]) -> str:
        """Fetch."""
        return f"{url} {len(token)}"

    async def edit(request: ApprovalRequest) -> Approve:
        requests.append(request)
        return Approve({"url": "v", "token": "[secret]"})

    ended = await run(fetch, {"url": "u", "token": TOKEN}, approver=CallbackApprover(edit))

    assert requests[0].arguments == {"url": "u", "token": "[secret]"}
    assert ended.outcome.value == f"v {len(TOKEN)}"
    assert TOKEN not in ended.outcome.text
    assert TOKEN not in repr([record.payload for record in ended.session.records()])


class TestInvalidArguments:
    @pytest.mark.parametrize(
        "arguments",
        [
            {"url": 1, "token": TOKEN},
            {"url": "u", "token": [TOKEN]},
            {"url": "u", "tokne": TOKEN},
            {"url": "u", "token": TOKEN, "more": TOKEN},
            '{"url": "u", "token": "' + TOKEN,
            TOKEN,
        ],
        ids=["other field", "wrong type", "misspelt", "extra", "cut off", "no JSON"],
    )
    async def test_refused_arguments_are_not_quoted(self, arguments: Any) -> None:
        """R45, R46: faults are named by pointer, without the value; the arguments of a call that
        could not be understood are not recorded when they may hold a secret.
        """

        @tool
        async def fetch(url: str, token: SecretStr) -> str:
            """Fetch."""
            raise AssertionError("never called")

        session = Session()
        heard = Recorder(session.bus)
        ended = await run(fetch, arguments, session=session)

        assert ended.failure == "invalid_arguments"
        assert ended.record.params is None
        assert ended.record.arguments_digest
        seen = repr([*session.records(), *heard.events, ended.outcome])
        assert TOKEN not in seen

    async def test_a_validators_own_words_are_not_repeated(self) -> None:
        """R45, R46: a type of the user's may quote what it refuses; that quote goes nowhere."""

        class Key(str):
            @classmethod
            def __get_pydantic_core_schema__(cls, _: Any, handler: Any) -> Any:
                from pydantic_core import core_schema

                def check(value: str) -> str:
                    raise KeyError(value)

                return core_schema.no_info_after_validator_function(check, handler(str))

        async def fetch(token: Annotated[str, Secret()]) -> str:
            """Fetch."""
            raise AssertionError("never called")

        fetch.__annotations__["token"] = Annotated[Key, Secret()]
        ended = await run(tool(fetch), {"token": TOKEN})

        assert ended.failure == "invalid_arguments"
        assert TOKEN not in repr([*ended.session.records(), ended.outcome])


async def test_a_pydantic_secret_is_hidden_like_our_own() -> None:
    """R46: `SecretStr` needs no further mark."""

    @tool
    async def fetch(token: SecretStr) -> str:
        """Fetch."""
        return token.get_secret_value()

    ended = await run(fetch, {"token": TOKEN})

    assert ended.outcome.value == TOKEN
    assert invoked(ended.session)[0].params == {"token": "[secret]"}
    assert TOKEN not in repr(list(ended.session.records()))


class TestNested:
    """Security 5: a nested call inherits the secrets of the calls that it is part of."""

    @staticmethod
    def tools(**options: Any) -> tuple[Any, ...]:
        @tool(**options)
        async def plain(ctx: ToolContext, x: str) -> str:
            """Take anything."""
            ctx.progress(1, 2, f"trying {x}")
            ctx.emit("tool.plain.tried", {"with": x})
            if x.startswith("fail"):
                raise type(f"Bad {x[4:]}", (Exception,), {})(f"bad {x}")
            return f"ok {x}"

        @tool(uses=("plain",))
        async def between(ctx: ToolContext, x: str) -> str:
            """Pass it on."""
            return (await ctx.call_tool("plain", {"x": x})).text

        @tool(uses=("plain", "between"))
        async def outer(
            ctx: ToolContext, way: str, prefix: str, token: Annotated[str, Secret()]
        ) -> str:
            """Call another tool with the secret."""
            await ctx.call_tool(way, {"x": f"{prefix}{token}"})
            return "done"

        return plain, between, outer

    @pytest.mark.parametrize("way", ["plain", "between"])
    @pytest.mark.parametrize("prefix", ["", "fail"])
    async def test_a_nested_call_shows_no_secret(
        self, way: str, prefix: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Neither records nor events, failures, logs or artifacts of it do, however deep it is."""
        caplog.set_level(logging.DEBUG)
        session = Session()
        heard = Recorder(session.bus)
        executor = Executor(session, self.tools(max_result_chars=8))
        arguments = {"way": way, "prefix": prefix, "token": TOKEN}

        assert (await executor.call("outer", arguments)).ok

        artifacts = [
            session.artifacts.read(event.artifact_id).text
            for event in heard.of(ToolInvoked)
            if event.artifact_id
        ]
        records = [record.payload for record in session.records()]
        seen = repr([records, heard.events, session.transcript(), artifacts])
        assert TOKEN not in seen
        assert TOKEN not in caplog.text
        (inner,) = [event for event in heard.of(ToolInvoked) if event.name == "plain"]
        assert inner.params == {"x": f"{prefix}[secret]"}

    @pytest.mark.parametrize("is_elsewhere", [False, True], ids=["same session", "another"])
    async def test_an_executor_within_a_call_shows_no_secret(self, is_elsewhere: bool) -> None:
        """A tool that makes calls in its own way passes its secrets on as hidden, also when such a
        call waits and is taken up later.
        """
        session = Session()

        @tool(requires_approval=True)
        async def careful(x: str) -> str:
            """Repeat."""
            return f"got {x}"

        inner = Executor(Session() if is_elsewhere else session, [careful])

        @tool
        async def login(token: Annotated[str, Secret()]) -> str:
            """Log in."""
            return (await inner.call("careful", {"x": token})).call_id

        waiting = (await Executor(session, [login]).call("login", {"token": TOKEN})).text
        await inner.session.approvals.decide(waiting, Approve(), by="jo")
        (outcome,) = await inner.resume()

        assert outcome.value == f"got {TOKEN}"
        for each in (session, inner.session):
            assert TOKEN not in "".join(repr(record.payload) for record in each.records())

    async def test_an_approver_of_a_nested_call_sees_no_secret(self) -> None:
        """Security, found afterwards: the request about a nested call hides the parent's secret."""
        requests: list[ApprovalRequest] = []

        def decide(request: ApprovalRequest) -> Approve:
            requests.append(request)
            return Approve()

        session = Session()
        executor = Executor(
            session, self.tools(requires_approval=True), approver=CallbackApprover(decide)
        )
        arguments = {"way": "plain", "prefix": "", "token": TOKEN}

        assert (await executor.call("outer", arguments)).ok

        (request,) = requests
        assert request.arguments == {"x": "[secret]"}
        assert TOKEN not in repr([record.payload for record in session.records()])

    async def test_a_nested_call_has_its_arguments_in_the_vault(self, sqlite_path: Path) -> None:
        """While it is open, the secret is in no database file."""
        with SqliteStore(sqlite_path) as store:
            async with await Session.open(store, "s") as session:
                seen: list[bytes] = []

                @tool
                def plain(x: str) -> str:
                    """Look at the file."""
                    seen.extend(Path(f"{sqlite_path}{end}").read_bytes() for end in ("", "-wal"))
                    return "ok"

                *_, outer = self.tools()
                between = self.tools()[1]
                executor = Executor(session, [plain, between, outer])
                arguments = {"way": "plain", "prefix": "", "token": TOKEN}
                assert (await executor.call("outer", arguments)).ok

        assert seen
        assert not any(TOKEN.encode() in data for data in seen)


async def test_a_class_name_shows_no_secret() -> None:
    """Security 25: nor does the type of an exception."""

    async def body(token: str, _: ToolContext) -> Any:
        raise type(token, (Exception,), {})("no")

    watched = await watch(body, token="hunter2hunter2")

    assert "hunter2" not in watched.seen
    assert watched.ended.outcome.failure is not None
    assert watched.ended.outcome.failure.error_type == "[secret]"


def test_a_call_without_secrets_makes_no_scrubber(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no call needs costs no call anything."""

    def refuse(*_: Any) -> None:
        raise AssertionError("nothing is secret here")

    monkeypatch.setattr(redaction.Scrubber, "__init__", refuse)

    @tool
    async def plain(x: str) -> str:
        """Echo."""
        return x

    outcome = asyncio.run(Executor(Session(), [plain]).call("plain", {"x": "y"}))
    assert outcome.ok


async def test_a_scrubber_is_made_once_for_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the call says."""
    made: list[Any] = []
    real = redaction.Scrubber.__init__

    def count(self: Any, secrets: list[Any], *rest: Any) -> None:
        made.append(secrets)
        real(self, secrets, *rest)

    monkeypatch.setattr(redaction.Scrubber, "__init__", count)
    await watch(speak)

    # Those that `redact` makes for the arguments themselves are not counted twice.
    assert len([secrets for secrets in made if secrets == [TOKEN]]) <= 4


async def test_a_secret_that_validation_changes_is_hidden_in_both_forms() -> None:
    """Neither what was sent nor what the handler got is shown."""

    @tool
    async def login(
        ctx: ToolContext, token: Annotated[str, Secret(), StringConstraints(to_lower=True)]
    ) -> str:
        """Log in."""
        ctx.output(f"{token} was TOK-LIVE-ABC")
        return token

    session = Session()
    outcome = await Executor(session, [login]).call("login", {"token": "TOK-LIVE-ABC"})

    assert outcome.ok
    seen = repr([record.payload for record in session.records()])
    assert "tok-live" not in seen.lower()


async def test_an_open_call_shows_no_arguments() -> None:
    """Whoever logs one logs no secret."""
    call = OpenCall("c", TOOL, b'{"token":"hush"}', "d", "started", 1.0, submitted=b'"hush"')

    assert "hush" not in repr(call)
