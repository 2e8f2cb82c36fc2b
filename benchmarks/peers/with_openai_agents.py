"""openai-agents: the step of the Runner that executes function tool calls."""

from contextlib import AsyncExitStack
from typing import Any

from agents import Agent, RunConfig, RunContextWrapper, RunHooks, function_tool
from agents.run_internal.agent_bindings import bind_public_agent
from agents.run_internal.run_steps import ToolRunFunction
from agents.run_internal.tool_execution import execute_function_tool_calls
from harness import Variant
from openai.types.responses import ResponseFunctionToolCall
from workload import call_id, search_json


class _RunnerPath:
    """One agent with the tool, and the run that its calls belong to."""

    def __init__(self, hooks: RunHooks[Any]) -> None:
        self._tool = function_tool(search_json, name_override="search")
        self._bindings = bind_public_agent(Agent(name="bench", tools=[self._tool]))
        self._hooks = hooks
        # Tracing is off: it is their exporter to a service, and the peer is faster without it.
        self._config = RunConfig(tracing_disabled=True)
        self.start_run()

    def start_run(self) -> None:
        """Forget the calls so far: the run remembers every one of them."""
        self._context: RunContextWrapper[Any] = RunContextWrapper(context=None)

    async def call(self, payload: bytes) -> str:
        request = ResponseFunctionToolCall(
            arguments=payload.decode(), call_id=call_id(), name="search", type="function_call"
        )
        results, _, _ = await execute_function_tool_calls(
            bindings=self._bindings,
            tool_runs=[ToolRunFunction(request, self._tool)],
            hooks=self._hooks,
            context_wrapper=self._context,
            config=self._config,
        )
        return results[0].output


class _Hooks(RunHooks[Any]):
    async def on_tool_start(self, context: Any, agent: Any, tool: Any) -> None:
        return None

    async def on_tool_end(self, context: Any, agent: Any, tool: Any, result: Any) -> None:
        return None


def _variant(path: str, hooks: RunHooks[Any]) -> Variant:
    runner = _RunnerPath(hooks)
    return Variant("openai-agents", path, runner.call, fresh=runner.start_run)


async def variants(stack: AsyncExitStack) -> list[Variant]:
    """Without hooks."""
    return [_variant("Runner path", RunHooks())]


async def hooked(stack: AsyncExitStack) -> list[Variant]:
    """With one hook before and one after."""
    return [_variant("Runner path + RunHooks", _Hooks())]
