"""Prompts of a session: asked, gone on with after a decision, cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from toolcrib.errors import PromptEvaluationError, Refused, ToolcribError
from toolcrib.prompt.prompt import Prompt
from toolcrib.prompt.section import MarkdownSection
from toolcrib.runtime.messages import PromptResult, SendPrompt

if TYPE_CHECKING:
    from toolcrib.adapters.prompt_adapter import PromptAdapter
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.runtime.held import HeldSession

POLL_SECONDS = 1.0
"""How often a decision is looked for that may be made in another process."""


async def answer(
    held: HeldSession, adapter: PromptAdapter, instructions: str, asked: SendPrompt
) -> PromptResult:
    """Have the model answer, waiting for the people whose approval it takes."""
    prompt = _prompt(held, instructions, asked.text)
    try:
        response = await adapter.evaluate_async(
            prompt, session=held.session, governance=held.governance, stream=True, follows=True
        )
        while response.status == "waiting":
            if not asked.waits:
                break
            await _decided(held, [each.approval_id for each in response.pending])
            response = await adapter.resume_async(
                prompt,
                session=held.session,
                governance=held.governance,
                stream=True,
                follows=True,
            )
    except asyncio.CancelledError:
        return PromptResult(
            session_id=held.session.session_id, turn=held.session.last_turn, status="cancelled"
        )
    except PromptEvaluationError as error:
        return PromptResult(
            session_id=held.session.session_id,
            turn=held.session.last_turn,
            status="failed",
            error=str(error),
        )
    except ToolcribError as error:
        raise Refused("invalid", str(error)) from error
    return _result(held, response)


def _prompt(held: HeldSession, instructions: str, text: str) -> Prompt[Any]:
    """A prompt with the session's tools. The text is a person's, not a template."""
    sections: list[MarkdownSection[Any]] = []
    if instructions:
        sections.append(
            MarkdownSection(title="Instructions", key="instructions", template=_plain(instructions))
        )
    tools = [each.tool for each in held.executor.tools.values()]
    sections.append(MarkdownSection(title="Task", key="task", template=_plain(text), tools=tools))
    return Prompt(ns="session", key="prompt", sections=sections)


def _plain(text: str) -> str:
    return text.replace("$", "$$")


async def _decided(held: HeldSession, approval_ids: list[str]) -> None:
    """Wait until one of the requests is decided, here or in another process."""
    store = held.session.store
    while True:
        for approval_id in approval_ids:
            filed = await held.session.ask_store(store.approval, approval_id)
            if filed is None or filed.state != "pending":
                return
        await held.wait_for_decision(POLL_SECONDS)


def _result(held: HeldSession, response: PromptResponse[Any]) -> PromptResult:
    usage = response.usage
    return PromptResult(
        session_id=held.session.session_id,
        turn=held.session.last_turn,
        status=response.status,
        text=response.text,
        pending=[each.approval_id for each in response.pending],
        usage={
            "requests": usage.requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        },
    )
