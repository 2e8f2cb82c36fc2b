"""Our loop: the adapter as a reader of the docs would use it, nothing switched off."""

from looping import Loop
from scripted import MODEL, TASK, History, Script
from workload import search

from toolcrib import MarkdownSection, Prompt, Session, tool
from toolcrib.adapters.openai import Budget, OpenAIAdapter
from toolcrib.ledger.prompt_events import ModelResponded


def loop(script: Script, history: History) -> Loop:
    """The ledger's records are read at the end."""
    evaluate = _evaluation(script, history)

    async def run() -> str:
        session = Session()
        text = await evaluate(session)
        _read(session)
        return text

    return run


def loop_with_reader(script: Script, history: History) -> Loop:
    """The ledger's records are read at every step, so that none is put off."""
    evaluate = _evaluation(script, history)

    async def run() -> str:
        session = Session()
        session.bus.subscribe(ModelResponded, lambda _: _read(session))
        text = await evaluate(session)
        _read(session)
        return text

    return run


def _evaluation(script: Script, history: History):
    section = MarkdownSection(title="Task", key="task", template=TASK, tools=[tool(search)])
    prompt = Prompt(ns="bench", key="loop", sections=[section])
    adapter = OpenAIAdapter(model=MODEL, client=script.client(), history=history)

    async def evaluate(session: Session) -> str:
        # The default allows fifty steps.
        budget = Budget(max_steps=None)
        return (await adapter.evaluate_async(prompt, session=session, budget=budget)).text

    return evaluate


def _read(session: Session) -> None:
    """Make every record exist: built, digested and chained."""
    if session.head() is None:
        raise SystemExit("the ledger is empty; nothing was recorded")
