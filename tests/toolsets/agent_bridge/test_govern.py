"""`govern`: hooks, policy, approval, limits and ledger around toolsets that somebody else wrote."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelRetry,
    RunContext,
    Tool,
    ToolDefinition,
    ToolReturn,
)
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, UserError
from pydantic_ai.toolsets import CombinedToolset, ExternalToolset

from tests.adapters.openai.loopback_adapter import ask
from tests.toolsets.agent_bridge.agents import (
    Greet,
    agent_of,
    call,
    deferred,
    endings,
    invocations,
    returns,
    run,
    scripted,
    told,
)
from toolcrib import (
    Approve,
    Executor,
    Hooks,
    Limits,
    Policy,
    Rule,
    Session,
    SqliteStore,
    tool,
)
from toolcrib.adapters.pydantic_ai import PydanticAIAdapter
from toolcrib.context import AgentContext
from toolcrib.errors import ResultDeferred, UsageError
from toolcrib.ledger import CallDeferred as CallHandedOver
from toolcrib.toolsets import Toolset, govern, govern_agent


def files(ran: list[str]) -> FunctionToolset[Any]:
    """A toolset as anybody writes one, which notes what it ran."""

    async def wipe(ctx: RunContext[Any], path: str) -> str:
        """Wipe a disk."""
        ran.append(path)
        return f"wiped {path}"

    def read(path: str, lines: int = 10) -> str:
        """Read a file."""
        ran.append(path)
        return f"{lines} lines of {path}"

    return FunctionToolset([wipe, read], id="files")


class TestPath:
    async def test_calls_are_in_the_ledger_with_their_identity(self) -> None:
        """F2: a call of a function toolset is a call of the session: source, name, digest, turn."""
        ctx, ran = AgentContext(), list[str]()
        result = await run(govern(files(ran), ctx), [call("read", path="a")])

        assert told(result) == ("success", "10 lines of a")
        (invoked,) = invocations(ctx.session)
        assert invoked.tool is not None
        assert (invoked.tool.id, invoked.tool.place) == ("toolset:files/read", "local")
        assert invoked.params == {"path": "a", "lines": 10}
        assert len(invoked.tool.digest) == 64

    async def test_hooks_change_arguments_and_results(self) -> None:
        """Hooks around somebody else's tool see and rewrite what goes in and what comes out."""

        async def pre(ctx: RunContext[Any], name: str, args: dict[str, Any]) -> dict[str, Any]:
            return {**args, "lines": 3}

        async def post(ctx: RunContext[Any], result: Any) -> Any:
            return result.upper()

        hooks = Hooks(global_pre=pre, post={"read": post})
        result = await run(govern(files([]), hooks=hooks), [call("read", path="a")])

        assert told(result) == ("success", "3 LINES OF A")

    async def test_a_policy_decides(self) -> None:
        """A deny rule keeps somebody else's tool from running, and the model reads why."""
        ran: list[str] = []
        policy = Policy(
            rules=(
                Rule("deny", "wipe", "toolset:files", reason="No wiping."),
                Rule("allow", "*"),
            )
        )
        toolset = govern(files(ran), policy=policy)
        result = await run(toolset, [call("wipe", "c1", path="/"), call("read", "c2", path="a")])

        assert told(result, "c1") == ("denied", "No wiping.")
        assert told(result, "c2") == ("success", "10 lines of a")
        assert ran == ["a"]

    async def test_limits_hold(self) -> None:
        """The executor's limits are those of the tools: long arguments are not taken."""
        ran: list[str] = []
        toolset = govern(files(ran), limits=Limits(max_arguments_bytes=20))
        result = await run(toolset, [call("read", path="x" * 50)])

        assert told(result)[0] == "retried"
        assert ran == []

    async def test_a_tool_of_ours_is_governed_once(self) -> None:
        """A `Toolset` inside a governed combination keeps its own gate and makes one record."""
        ctx = AgentContext()
        both = CombinedToolset([Toolset(ctx, [Greet]).for_agent(), files([])])
        result = await run(
            govern(both, ctx), [call("greet", "c1", who="Ada"), call("read", "c2", path="a")]
        )

        assert told(result, "c1") == ("success", "Hello, Ada.")
        assert sorted(endings(ctx.session)) == [("c1", None), ("c2", None)]

    def test_a_function_is_not_a_toolset(self) -> None:
        """The error names the two ways to write it."""
        with pytest.raises(UsageError, match=r"FunctionToolset\(\[\.\.\.\]\).*Toolset\(tools="):
            govern(lambda: None)  # pyright: ignore[reportArgumentType]


class TestApproval:
    async def test_the_list_of_the_user_counts(self) -> None:
        """F1, F2: the run's context asks about a tool of somebody else's toolset; inbox and agent
        both know of the request, and the approved call runs once with what was approved.
        """
        ran: list[str] = []
        user = AgentContext(need_user_approve_tools=["wipe"])
        agent = agent_of(govern(files(ran)), steps=[[call("wipe", path="/")]])

        waiting = await agent.run("go", deps=user)
        assert [each.tool_name for each in deferred(waiting).approvals] == ["wipe"]
        (request,) = user.session.approvals.pending()
        assert request.arguments == {"path": "/"}
        assert ran == []

        answers = DeferredToolResults(approvals={"c1": True})
        result = await agent.run(
            message_history=waiting.all_messages(), deferred_tool_results=answers, deps=user
        )
        assert told(result) == ("success", "wiped /")
        assert ran == ["/"]
        assert user.session.approvals.pending() == []

    async def test_a_decision_in_the_inbox_counts(self) -> None:
        """Somebody approves in the inbox; the agent's own answer only says to go on."""
        ran: list[str] = []
        user = AgentContext(need_user_approve_tools=["wipe"])
        agent = agent_of(govern(files(ran)), steps=[[call("wipe", path="/")]])
        waiting = await agent.run("go", deps=user)

        await user.session.approvals.decide("c1", Approve(), by="jo")
        answers = DeferredToolResults(approvals={"c1": True})
        await agent.run(
            message_history=waiting.all_messages(), deferred_tool_results=answers, deps=user
        )
        (invoked,) = invocations(user.session)
        assert invoked.decided_by is not None
        assert invoked.decided_by.name == "jo"

    async def test_requires_approval_of_their_tool_goes_through_the_gate(self) -> None:
        """`Tool(requires_approval=True)` files a request here; a bare yes of a run is not enough
        to run what nobody was asked about.
        """
        ran: list[str] = []

        def wipe(path: str) -> str:
            """Wipe a disk."""
            ran.append(path)
            return "wiped"

        ctx = AgentContext()
        toolset = govern(FunctionToolset([Tool(wipe, requires_approval=True)]), ctx)
        agent = agent_of(toolset, steps=[[call("wipe", path="/")]])

        waiting = await agent.run("go")
        assert len(deferred(waiting).approvals) == 1
        assert len(ctx.session.approvals.pending()) == 1

        denied = DeferredToolResults(approvals={"c1": False})
        await agent.run(message_history=waiting.all_messages(), deferred_tool_results=denied)
        assert endings(ctx.session) == [("c1", "denied")]
        assert ran == []

    async def test_a_tool_that_asks_while_it_runs_is_asked_about(self) -> None:
        """pydantic-ai's `ApprovalRequired` of a function, with its metadata, and on with it."""

        async def pay(ctx: RunContext[Any], amount: int) -> str:
            """Pay."""
            if not ctx.tool_call_approved:
                raise ApprovalRequired({"why": "money"})
            return f"paid {amount}"

        agent = agent_of(govern(FunctionToolset([pay])), steps=[[call("pay", amount=3)]])
        waiting = await agent.run("go")
        assert deferred(waiting).metadata == {"c1": {"why": "money"}}

        answers = DeferredToolResults(approvals={"c1": True})
        result = await agent.run(
            message_history=waiting.all_messages(), deferred_tool_results=answers
        )
        assert told(result) == ("success", "paid 3")


class Address(BaseModel):
    town: str


class TestMeaning:
    async def test_arguments_are_those_that_the_validator_makes(self) -> None:
        """Models, dates and coerced numbers reach the function as pydantic-ai makes them; the
        record has the same in JSON.
        """
        got: list[Any] = []

        def send(to: Address, on: date, copies: int) -> str:
            """Send."""
            got.extend((to, on, copies))
            return "sent"

        ctx = AgentContext()
        sent = call("send", to={"town": "Bern"}, on="2026-01-02", copies="2")
        await run(govern(FunctionToolset([send]), ctx), [sent])

        assert got == [Address(town="Bern"), date(2026, 1, 2), 2]
        (invoked,) = invocations(ctx.session)
        assert invoked.params == {"to": {"town": "Bern"}, "on": "2026-01-02", "copies": 2}

    async def test_invalid_arguments_are_retried_and_recorded(self) -> None:
        """The model reads the faults as from pydantic-ai, and the ledger has the call."""
        ctx = AgentContext()
        result = await run(govern(files([]), ctx), [call("read", lines="many")])

        assert told(result)[0] == "retried"
        assert endings(ctx.session) == [("c1", "invalid_arguments")]

    async def test_a_check_of_valid_arguments_comes_before_the_question(self) -> None:
        """Their `args_validator` says no before a person is asked, and the ledger has the call."""

        def check(ctx: RunContext[Any], path: str) -> None:
            if path == "/":
                raise ModelRetry("Not the root.")

        def wipe(path: str) -> str:
            """Wipe a disk."""
            return "wiped"

        ctx = AgentContext(need_user_approve_tools=["wipe"])
        toolset = govern(FunctionToolset([Tool(wipe, args_validator=check)]), ctx)
        result = await run(toolset, [call("wipe", path="/")])

        assert told(result) == ("retried", "Not the root.")
        assert endings(ctx.session) == [("c1", "invalid_arguments")]
        assert ctx.session.approvals.pending() == []

    async def test_deps_retries_and_returns(self) -> None:
        """Deps, `retry`, `ModelRetry` and `ToolReturn` with its metadata are as without us."""

        async def lookup(ctx: RunContext[dict[str, str]], key: str) -> Any:
            """Look up."""
            if ctx.retry == 0:
                raise ModelRetry("Again.")
            return ToolReturn(ctx.deps[key], metadata={"row": 7}, content="seen")

        agent = agent_of(
            govern(FunctionToolset([lookup])),
            steps=[[call("lookup", "c1", key="a")], [call("lookup", "c2", key="a")]],
        )
        result = await agent.run("go", deps={"a": "b"})

        assert told(result, "c1") == ("retried", "Again.")
        part = returns(result)["c2"]
        assert (part.content, part.metadata) == ("b", {"row": 7})
        assert "seen" in str(result.all_messages())

    async def test_exceptions_leave_the_run(self) -> None:
        """What a function raises is raised out of the run, the same object."""
        fault = RuntimeError("broken")

        def lookup() -> str:
            """Look up."""
            raise fault

        ctx = AgentContext()
        with pytest.raises(RuntimeError) as raised:
            await run(govern(FunctionToolset([lookup]), ctx), [call("lookup")])
        assert raised.value is fault
        assert endings(ctx.session) == [("c1", "tool_error")]

    async def test_retries_run_out_as_before(self) -> None:
        """`max_retries` of a tool is its own."""

        def lookup() -> str:
            """Look up."""
            raise ModelRetry("Again.")

        toolset = govern(FunctionToolset([Tool(lookup, max_retries=1)]))
        with pytest.raises(Exception, match=r"(?i)exceeded.*max.*retries.*1"):
            await run(toolset, [call("lookup", "c1")], [call("lookup", "c2")])


class TestWrappers:
    async def test_prefixed_inside_and_outside(self) -> None:
        """The ledger knows a tool by the name that the governed toolset lists."""
        ctx = AgentContext()
        inside = govern(files([]).prefixed("fs"), ctx)
        assert told(await run(inside, [call("fs_read", path="a")]))[0] == "success"
        outside = govern(files([]), ctx).prefixed("fs")
        assert told(await run(outside, [call("fs_read", "c2", path="a")]), "c2")[0] == "success"

        assert [each.name for each in invocations(ctx.session)] == ["fs_read", "read"]

    async def test_filtered_and_combined(self) -> None:
        """What a filter leaves out is not there, and cannot be called."""
        ctx = AgentContext()
        some = files([]).filtered(lambda ctx, tool: tool.name != "wipe")
        toolset = govern(CombinedToolset([some, FunctionToolset([now])]), ctx)
        result = await run(toolset, [call("now", "c1"), call("wipe", "c2", path="/")])

        assert told(result, "c1") == ("success", "noon")
        assert told(result, "c2")[0] == "retried"
        assert endings(ctx.session) == [("c1", None)]

    async def test_a_toolset_of_the_run(self) -> None:
        """A function of the run gives the toolset; each user's calls are in their own ledger."""
        agent = agent_of(steps=[[call("read", path="a")]])

        @agent.toolset
        def toolset(ctx: RunContext[AgentContext]) -> Any:
            return govern(files([]), ctx.deps)

        ann, bob = AgentContext(), AgentContext()
        await agent.run("go", deps=ann)
        await agent.run("go", deps=bob)
        assert endings(ann.session) == endings(bob.session) == [("c1", None)]


def now() -> str:
    """Tell the time."""
    return "noon"


@dataclass
class Deps:
    """An application's own deps, with a context among them."""

    user: str
    context: AgentContext


class TestContexts:
    async def test_deps_that_hold_a_context(self) -> None:
        """The context may be an attribute of the deps."""
        deps = Deps("ann", AgentContext())
        await run(govern(files([])), [call("read", path="a")], deps=deps)
        assert endings(deps.context.session) == [("c1", None)]

    async def test_a_function_finds_the_context(self) -> None:
        """`context=` says which context belongs to the deps."""
        contexts = {"ann": AgentContext(), "bob": AgentContext()}
        toolset = govern(files([]), context=contexts.__getitem__)
        await run(toolset, [call("read", path="a")], deps="bob")
        assert endings(contexts["ann"].session) == []
        assert endings(contexts["bob"].session) == [("c1", None)]

    async def test_two_contexts_are_ambiguous(self) -> None:
        """Nobody guesses whose approval list counts."""
        both = {"a": AgentContext(), "b": AgentContext()}
        with pytest.raises(UsageError, match="hold 2 contexts; say which one counts"):
            await run(govern(files([])), [call("read", path="a")], deps=both)

    async def test_a_misspelt_name_of_a_user_is_refused(self) -> None:
        """F14: a list that asks about "wip" must not leave wipe ungated in silence."""
        user = AgentContext(need_user_approve_tools=["wip"])
        with pytest.raises(UsageError, match="did you mean 'wipe'"):
            await run(govern(files([])), [call("wipe", path="/")], deps=user)


class TestDeferred:
    async def test_an_external_tool_waits_and_gets_its_result(self) -> None:
        """F16: an external call is one of place `client` that waits; then its result is recorded,
        in the same call.
        """
        ctx = AgentContext()
        schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
        tools = [ToolDefinition(name="ask_user", parameters_json_schema=schema)]
        agent = agent_of(govern(ExternalToolset(tools), ctx), steps=[[call("ask_user", q="age")]])

        waiting = await agent.run("go")
        assert [each.tool_name for each in deferred(waiting).calls] == ["ask_user"]
        assert deferred(waiting).approvals == []
        (handed,) = ctx.session.events(kinds=(CallHandedOver.kind,))
        assert isinstance(handed, CallHandedOver)
        assert (handed.tool.place, handed.params) == ("client", {"q": "age"})
        assert [entry.what for entry in ctx.session.transcript()] == ["waiting"]
        assert [each.state for each in ctx.session.open_calls()] == ["deferred"]

        results = DeferredToolResults(calls={"c1": {"age": 7}})
        result = await agent.run(
            message_history=waiting.all_messages(), deferred_tool_results=results
        )
        assert told(result) == ("success", {"age": 7})
        (invoked,) = invocations(ctx.session)
        assert (invoked.call_id, invoked.success, invoked.value) == ("c1", True, {"age": 7})
        assert ctx.session.open_calls() == []

    async def test_external_arguments_are_checked(self) -> None:
        """Nothing else checks them: the schema does, and the model reads the fault."""
        ctx = AgentContext()
        schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
        tools = [ToolDefinition(name="ask_user", parameters_json_schema=schema)]
        result = await run(govern(ExternalToolset(tools), ctx), [call("ask_user", q=1)])

        assert told(result)[0] == "retried"
        assert endings(ctx.session) == [("c1", "invalid_arguments")]

    async def test_an_external_tool_may_need_approval_first(self) -> None:
        """The gate comes before the hand-over: first an approval, then a deferred call."""
        ctx = AgentContext(need_user_approve_tools=["ask_user"])
        tools = [ToolDefinition(name="ask_user", parameters_json_schema={"type": "object"})]
        agent = agent_of(govern(ExternalToolset(tools), ctx), steps=[[call("ask_user")]])

        first = await agent.run("go")
        assert len(deferred(first).approvals) == 1
        answers = DeferredToolResults(approvals={"c1": True})
        second = await agent.run(
            message_history=first.all_messages(), deferred_tool_results=answers
        )
        assert [each.tool_name for each in deferred(second).calls] == ["ask_user"]
        assert [each.state for each in ctx.session.open_calls()] == ["deferred"]

    async def test_a_function_that_defers(self) -> None:
        """F16: `CallDeferred` of a tool is no `tool_error`; a failed result is recorded as such."""

        def start_job() -> str:
            """Start a job."""
            raise CallDeferred({"job": 7})

        ctx = AgentContext()
        agent = agent_of(govern(FunctionToolset([start_job]), ctx), steps=[[call("start_job")]])
        waiting = await agent.run("go")
        assert deferred(waiting).metadata == {"c1": {"job": 7}}
        assert invocations(ctx.session) == []

        results = DeferredToolResults(calls={"c1": ModelRetry("It failed.")})
        await agent.run(message_history=waiting.all_messages(), deferred_tool_results=results)
        assert endings(ctx.session) == [("c1", "tool_error")]


class TestCapability:
    async def test_plain_functions_of_an_agent_are_governed(self) -> None:
        """F2: `Agent(tools=[...])` goes through the gate with one capability."""
        ran: list[str] = []

        def wipe(path: str) -> str:
            """Wipe a disk."""
            ran.append(path)
            return "wiped"

        ctx = AgentContext(need_user_approve_tools=["wipe"])
        kinds: Any = [str, DeferredToolRequests]
        agent: Agent[Any, Any] = Agent(
            scripted([call("wipe", path="/")]),
            tools=[wipe],
            output_type=kinds,
            capabilities=[govern_agent(ctx)],
        )
        waiting = await agent.run("go")
        assert len(deferred(waiting).approvals) == 1
        assert len(ctx.session.approvals.pending()) == 1
        assert ran == []

        answers = DeferredToolResults(approvals={"c1": True})
        await agent.run(message_history=waiting.all_messages(), deferred_tool_results=answers)
        assert ran == ["/"]
        (invoked,) = invocations(ctx.session)
        assert invoked.tool is not None
        assert invoked.tool.source == "agent"

    async def test_toolsets_of_the_agent_and_of_the_run_are_governed(self) -> None:
        """Wherever a tool comes from, its call is in the ledger once."""
        ctx = AgentContext()
        agent: Agent[Any, str] = Agent(
            scripted(
                [call("read", "c1", path="a"), call("greet", "c2", who="Ada"), call("now", "c3")]
            ),
            toolsets=[files([]), Toolset(ctx, [Greet])],
            capabilities=[govern_agent(ctx)],
        )
        await agent.run("go", toolsets=[FunctionToolset([now])])
        assert sorted(endings(ctx.session)) == [("c1", None), ("c2", None), ("c3", None)]

    async def test_a_gated_tool_as_a_plain_function_is_still_refused(self) -> None:
        """F2: the capability does not weaken the refusal of a gated `@tool`."""

        @tool(requires_approval=True)
        async def wipe(path: str) -> str:
            """Wipe a disk."""
            return "wiped"

        with pytest.raises(UserError, match="requires approval"):
            Agent(scripted(), tools=[wipe], capabilities=[govern_agent()])


async def test_a_deferred_call_survives_its_process(tmp_path: Path) -> None:
    """F16: opened again, the call is not in doubt: it waits, and takes its result."""
    tools = [ToolDefinition(name="ask_user", parameters_json_schema={"type": "object"})]
    first = AgentContext(await Session.open(SqliteStore(tmp_path / "s.db"), "s"))
    agent = agent_of(govern(ExternalToolset(tools)), steps=[[call("ask_user")]])
    waiting = await agent.run("go", deps=first)
    await first.session.close()

    later = AgentContext(await Session.open(SqliteStore(tmp_path / "s.db"), "s"))
    assert [each.state for each in later.session.open_calls()] == ["deferred"]
    again = agent_of(govern(ExternalToolset(tools)), steps=[[call("ask_user")]])
    results = DeferredToolResults(calls={"c1": "seven"})
    await again.run(
        message_history=waiting.all_messages(), deferred_tool_results=results, deps=later
    )
    (invoked,) = invocations(later.session)
    assert (invoked.call_id, invoked.value) == ("c1", "seven")
    assert later.session.open_calls() == []
    await later.session.close()


async def test_a_hand_over_outside_of_agents() -> None:
    """A handler hands its call over; `complete` brings the result, once, and nothing else does."""

    @tool
    async def start_job() -> str:
        """Start a job."""
        raise ResultDeferred({"job": 7})

    executor = Executor(Session(), [start_job])
    handed = await executor.call("start_job", call_id="j1")
    assert (handed.status, handed.approval, handed.metadata) == ("waiting", None, {"job": 7})
    with pytest.raises(ResultDeferred):
        handed.unwrap()
    assert [each.status for each in await executor.resume()] == ["waiting"]

    done = await executor.complete("j1", "finished")
    assert (done.status, done.value) == ("completed", "finished")
    with pytest.raises(UsageError, match="no call 'j1' waits"):
        await executor.complete("j1", "again")
    assert (await executor.call("start_job", call_id="j1")).value == "finished"


async def test_a_prompt_waits_for_a_result_from_outside() -> None:
    """F16: on an adapter the prompt waits, and goes on with the result when it is resumed."""

    @tool
    async def start_job() -> str:
        """Start a job."""
        raise ResultDeferred

    session, adapter = Session(), PydanticAIAdapter(scripted([call("start_job")]))
    waiting = await adapter.evaluate_async(ask(start_job), session=session)
    assert (waiting.status, waiting.pending) == ("waiting", ())

    await Executor(session, [start_job]).complete("c1", "finished")
    response = await adapter.resume_async(ask(start_job), session=session)
    assert (response.status, response.text) == ("completed", "done")
