"""openai-agents: its Runner on its own model class for the Responses API."""

from agents import Agent, ModelSettings, RunConfig, Runner, function_tool
from agents.models.openai_responses import OpenAIResponsesModel
from looping import Loop
from scripted import MODEL, TASK, History, Script
from workload import search_json


def loop(script: Script, history: History) -> Loop:
    """A run of the Runner. Its default allows ten turns."""
    agent = Agent(
        name="bench",
        model=OpenAIResponsesModel(model=MODEL, openai_client=script.client()),
        model_settings=ModelSettings(store=None if history == "server" else False),
        tools=[function_tool(search_json, name_override="search")],
    )
    # Tracing is off: it is their exporter to a service, and the peer is faster without it.
    config = RunConfig(tracing_disabled=True)

    async def run() -> str:
        result = await Runner.run(
            agent,
            TASK,
            max_turns=script.steps + 1,
            run_config=config,
            auto_previous_response_id=history == "server",
        )
        return result.final_output

    return run
