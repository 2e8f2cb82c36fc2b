"""pydantic-ai: an agent on its own model class for the Responses API."""

from looping import Loop
from pydantic_ai import Agent, UsageLimits
from pydantic_ai.models.openai import OpenAIResponsesModel, OpenAIResponsesModelSettings
from pydantic_ai.providers.openai import OpenAIProvider
from scripted import MODEL, TASK, History, Script
from workload import search


def loop(script: Script, history: History) -> Loop:
    """An agent run. Its default allows fifty requests."""
    provider = OpenAIProvider(openai_client=script.client())
    settings: OpenAIResponsesModelSettings = (
        {"openai_previous_response_id": "auto"} if history == "server" else {"openai_store": False}
    )
    model = OpenAIResponsesModel(MODEL, provider=provider)
    agent = Agent(model, tools=[search], model_settings=settings)

    async def run() -> str:
        return (await agent.run(TASK, usage_limits=UsageLimits(request_limit=None))).output

    return run
