"""Prompts on OpenAI's Responses API."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack, get_args

from pydantic_core import to_json

from toolcrib.adapters.budget import Budget
from toolcrib.adapters.openai.clients import Clients
from toolcrib.adapters.openai.containers_in_use import log_runs, ready_containers
from toolcrib.adapters.openai.content import first_message
from toolcrib.adapters.openai.conversation import History
from toolcrib.adapters.openai.declared import AnyCodec
from toolcrib.adapters.openai.enclosing import around
from toolcrib.adapters.openai.evaluation import Evaluation, Question
from toolcrib.adapters.openai.file_types import SUPPORTED_TYPES, check_types
from toolcrib.adapters.openai.opening import Dialect, OnUnsupported, open_turn
from toolcrib.adapters.openai.prompt_executor import PromptExecutor
from toolcrib.adapters.openai.registry import default_client_codecs, default_codecs
from toolcrib.adapters.openai.request import TurnOptions
from toolcrib.adapters.openai.retry import Retry
from toolcrib.adapters.openai.staging import staging_of, without_mounts
from toolcrib.adapters.openai.staging_plan import HostFiles
from toolcrib.adapters.openai.wire import Wire
from toolcrib.adapters.openai.withholding import Governance
from toolcrib.adapters.portal import Portal
from toolcrib.errors import InvalidPrompt, PromptEvaluationError, UsageError
from toolcrib.session.events import Event
from toolcrib.session.session import Session
from toolcrib.session.turns import call_here
from toolcrib.vfs.roots import check_roots

if TYPE_CHECKING:
    from toolcrib.adapters.response import PromptResponse
    from toolcrib.prompt.prompt import Prompt
    from toolcrib.session.bus import EventBus

O = TypeVar("O")  # noqa: E741

PROVIDER = "openai"


class Options(TypedDict, total=False):
    """How a prompt is evaluated. All of it may be left out."""

    bus: EventBus | None
    """Hears everything that happens while the prompt is evaluated."""
    governance: Governance | None
    tool_choice: str
    """`auto`, `none`, `required`, or the name of the tool that the model must use first."""
    budget: Budget | None
    stream: bool
    settings: Mapping[str, Any] | None
    """Further fields of the request, as the provider names them."""


class OpenAIAdapter:
    """Evaluates prompts on the Responses API, with tools of ours and of the provider.

    `history` says who keeps the conversation: the provider (`server`), or we (`client`), who then
    send all of it with every request and ask the provider to store nothing. With
    `on_unsupported="drop"` a tool that OpenAI does not have is left out, and that is recorded.

    `host_roots` are the folders whose files a code interpreter's `host_mounts` may upload, and
    `upload_types` the extensions that such files may have. With `check_containers`, a container
    that a prompt names is asked for before the prompt is sent.
    """

    name = PROVIDER

    def __init__(
        self,
        *,
        model: str,
        client: Any = None,
        base_url: str | None = None,
        api_key: str | None = None,
        hosted_tool_codecs: Mapping[str, AnyCodec] | None = None,
        history: History = "server",
        on_unsupported: OnUnsupported = "raise",
        retry: Retry | None = None,
        host_roots: Iterable[str | os.PathLike[str]] = (),
        upload_types: Collection[str] = SUPPORTED_TYPES,
        check_containers: bool = False,
    ) -> None:
        if client is not None and (base_url is not None or api_key is not None):
            raise UsageError("give a client, or base_url and api_key for a new one, not both")
        _check_choice("history", history, get_args(History))
        _check_choice("on_unsupported", on_unsupported, get_args(OnUnsupported))
        self.model = model
        self.hosted_tool_codecs: dict[str, AnyCodec] = dict(
            default_codecs() if hosted_tool_codecs is None else hosted_tool_codecs
        )
        self.history: History = history
        self.on_unsupported: OnUnsupported = on_unsupported
        self._clients = Clients(client, base_url, api_key)
        self.check_containers = check_containers
        self._retry = retry or Retry()
        self._host_files = HostFiles(check_roots(host_roots), check_types(upload_types))
        self._portal = Portal()

    def evaluate(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Evaluate a prompt and wait for the answer. In async code, await `evaluate_async`."""
        return self._portal.run(
            lambda: self.evaluate_async(prompt, session=session, **options), "evaluate_async"
        )

    def resume(
        self, prompt: Prompt[O], *, session: Session, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Go on with a prompt that stopped. In async code, await `resume_async`."""
        return self._portal.run(
            lambda: self.resume_async(prompt, session=session, **options), "resume_async"
        )

    async def evaluate_async(
        self, prompt: Prompt[O], *, session: Session | None = None, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Evaluate a prompt. Raises `PromptEvaluationError`; nothing is sent before it is known
        that everything in the prompt can be.

        Inside a call, without another session, it is a turn of the call's own session.
        """
        call = call_here()
        session = session or (call.session if call else Session())
        with _heard_by(session, options.get("bus")):
            evaluation = await self._open(prompt, session, options)
            return log_runs(await evaluation.start())

    async def resume_async(
        self, prompt: Prompt[O], *, session: Session, **options: Unpack[Options]
    ) -> PromptResponse[O]:
        """Go on where a prompt stopped, to wait or with an error, in this process or another: what
        was asked and what ran is taken from the session's ledger and not repeated.
        """
        with _heard_by(session, options.get("bus")):
            evaluation = await self._open(prompt, session, options)
            return log_runs(await evaluation.go_on())

    def close(self) -> None:
        """End the connections and the thread that blocking calls use."""
        self._portal.close(self._clients.close_here)

    async def aclose(self) -> None:
        """End the connections that were made in this event loop."""
        await self._clients.close_here()

    async def _open(self, prompt: Prompt[O], session: Session, options: Options) -> Evaluation[O]:
        _check_options(options)
        asked = TurnOptions(
            model=self.model,
            tool_choice=options.get("tool_choice", "auto"),
            budget=options.get("budget") or Budget(),
            stream=options.get("stream", False),
            settings=dict(options.get("settings") or {}),
        )
        question = _render(prompt)
        governance, outer = options.get("governance"), around(session)
        is_inherited = governance is None and outer is not None
        governance = governance or (outer.governance if outer else Governance())
        can_stage = bool(self._host_files.roots)
        opening = open_turn(
            without_mounts(question.prompt) if can_stage else question.prompt,
            session,
            governance,
            Dialect(
                PROVIDER, self.hosted_tool_codecs, default_client_codecs(), self.on_unsupported
            ),
            lambda tools: PromptExecutor(
                session, tools, governance, prompt=prompt, adapter=self, is_inherited=is_inherited
            ),
        )
        opening.declared.choice(asked.tool_choice, question.prompt.name)
        wire = Wire(self._clients.here(), self._retry)
        asked_for = wire.client if self.check_containers else None
        await ready_containers(opening.declared.hosted, asked_for, question.prompt.name)
        staging = staging_of(question.prompt, opening, self._host_files, asked.budget.seconds)
        return Evaluation(question, session, opening, asked, wire, self.history, staging)


def _check_choice(option: str, value: object, choices: tuple[str, ...]) -> None:
    """Refuse a misspelt word: history or a tool would go where nobody meant it to."""
    if value not in choices:
        raise UsageError(f"{option} must be one of {', '.join(choices)}, not {value!r}")


def _check_options(options: Options) -> None:
    """Refuse what is no option: a misspelt `governance` or `budget` would bind nothing."""
    known = Options.__annotations__
    unknown = sorted(options.keys() - known.keys())
    if unknown:
        raise UsageError(
            f"there is no option {unknown[0]!r}; besides session there are: {', '.join(known)}"
        )


def _render(prompt: Prompt[O]) -> Question[O]:
    try:
        rendered = prompt.render()
        message = first_message(rendered)
    except InvalidPrompt as error:
        raise PromptEvaluationError(str(error), prompt_name=prompt.name, phase="render") from error
    hasher = sha256(to_json(message))
    for tool in rendered.declared:
        hasher.update(f"\n{tool.name}\n{tool.description}".encode())
    return Question(rendered, message, hasher.hexdigest())


@contextmanager
def _heard_by(session: Session, bus: EventBus | None) -> Generator[None]:
    """Let a bus hear the session's events meanwhile, unless it hears them already."""
    own = session.bus
    if bus is None or bus is own or bus.publish in own.subscribers.get(Event, ()):
        yield
        return
    unsubscribe = own.subscribe(Event, bus.publish)
    try:
        yield
    finally:
        unsubscribe()
