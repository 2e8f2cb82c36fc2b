"""langgraph: its prebuilt agent on langchain-openai's model class."""

import warnings

from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.prebuilt import create_react_agent
from looping import Loop
from scripted import MODEL, TASK, History, Script
from workload import search_json


def loop(script: Script, history: History) -> Loop:
    """A run of the graph, which takes two of its own steps for each of ours."""
    model = ChatOpenAI(
        model=MODEL,
        api_key="sk-bench",
        http_async_client=script.http(),
        use_responses_api=True,
        use_previous_response_id=history == "server",
        store=None if history == "server" else False,
    )
    tool = StructuredTool.from_function(coroutine=search_json, name="search")
    with warnings.catch_warnings():
        # Its successor comes with another package, langchain; this one is langgraph's own.
        warnings.simplefilter("ignore", DeprecationWarning)
        graph = create_react_agent(model, [tool])
    config = {"recursion_limit": 2 * script.steps + 2}

    async def run() -> str:
        state = await graph.ainvoke({"messages": [("user", TASK)]}, config)
        return state["messages"][-1].text

    return run
