"""Containers of the code interpreter: created, checked and replaced.

A container expires after some minutes without use, and its files go with it. Nothing brings it
back; a new one takes its place. In a history that is sent again, runs in an expired container are
told as text.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from toolcrib.adapters.codec import RawItem
from toolcrib.adapters.items import (
    Item,
    ModelMessage,
    ReasoningItem,
    UserMessage,
    mappings_of,
    maybe_text,
    plain,
    text_of,
)
from toolcrib.adapters.openai.container_options import wire_network
from toolcrib.adapters.openai.request_errors import WHAT_TO_DO, error_text, is_container_gone
from toolcrib.adapters.openai.sdk_clients import as_async
from toolcrib.errors import ContainerGone, PromptEvaluationError, UsageError
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeRun,
    Container,
    ExistingContainer,
    MemoryLimit,
    NetworkPolicy,
)

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI

    from toolcrib.adapters.answer import PromptResponse
    from toolcrib.adapters.tool_declarations import HostedDeclaration


logger = logging.getLogger(__name__)

_GONE: Final = frozenset({"expired", "deleted"})


async def create_container(
    client: AsyncOpenAI | OpenAI,
    *,
    name: str,
    memory_limit: MemoryLimit = "1g",
    network_policy: NetworkPolicy | None = None,
    file_ids: tuple[str, ...] = (),
    minutes: int | None = None,
    prompt_name: str = "",
) -> ExistingContainer:
    """Make a container that several prompts can use, with these uploaded files in it.

    It expires after so many minutes without use; None leaves that to the provider. Raises
    `InvalidTool` before anything is sent, and `PromptEvaluationError` (phase request).
    """
    wanted = AutoContainer(memory_limit, file_ids, network_policy)
    if minutes is not None and minutes < 1:
        raise UsageError(f"minutes must be 1 or more, not {minutes!r}")
    options: dict[str, Any] = {"name": name, "memory_limit": wanted.memory_limit}
    if wanted.file_ids:
        options["file_ids"] = list(wanted.file_ids)
    if wanted.network_policy is not None:
        options["network_policy"] = wire_network(wanted.network_policy)
    if minutes is not None:
        options["expires_after"] = {"anchor": "last_active_at", "minutes": minutes}
    try:
        created = plain(await as_async(client).containers.create(**options))
        container = ExistingContainer(text_of(created, "id"), memory_limit)
    except Exception as error:
        raise _failed(
            f"no container was made: {error_text(error, client)}", error, prompt_name
        ) from error
    logger.info("made container %s with %s of memory", container.id, memory_limit)
    return container


async def check_container(
    client: AsyncOpenAI | OpenAI, container: ExistingContainer | str, *, prompt_name: str = ""
) -> ExistingContainer:
    """Ask the provider for a container before it is used, and return it with its memory.

    It may still expire before the next request. Raises `ContainerGone` when it is not there, and
    `PromptEvaluationError` when it has other memory than was said, or cannot be asked for.
    """
    wanted = ExistingContainer(container) if isinstance(container, str) else container
    try:
        reply = plain(await as_async(client).containers.retrieve(wanted.id))
    except Exception as error:
        raise _unanswered(wanted.id, error, client, prompt_name) from error
    status = text_of(reply, "status")
    if status.lower() in _GONE:
        message = f"container {wanted.id} is {status}.{WHAT_TO_DO}"
        raise ContainerGone(message, prompt_name=prompt_name, phase="request")
    memory: Any = maybe_text(reply, "memory_limit") or wanted.memory_limit
    if wanted.memory_limit not in (None, memory):
        raise PromptEvaluationError(
            f"container {wanted.id} was made with {memory} of memory, not {wanted.memory_limit}; "
            "memory cannot be changed, so say what it has, or make another container",
            prompt_name=prompt_name,
            phase="request",
        )
    logger.info("container %s is %s, with %s of memory", wanted.id, status, memory)
    return ExistingContainer(wanted.id, memory)


async def renew_container(
    client: AsyncOpenAI | OpenAI,
    container: ExistingContainer | str,
    *,
    name: str,
    network_policy: NetworkPolicy | None = None,
    file_ids: tuple[str, ...] = (),
    minutes: int | None = None,
    prompt_name: str = "",
) -> ExistingContainer:
    """The container, if it is still there; else a new one with as much memory as was said of it,
    and with these files.
    """
    wanted = ExistingContainer(container) if isinstance(container, str) else container
    try:
        return await check_container(client, wanted, prompt_name=prompt_name)
    except ContainerGone as gone:
        logger.info("%s", gone)
    return await create_container(
        client,
        name=name,
        memory_limit=wanted.memory_limit or "1g",
        network_policy=network_policy,
        file_ids=file_ids,
        minutes=minutes,
        prompt_name=prompt_name,
    )


def _unanswered(
    container_id: str, error: Exception, client: Any, prompt_name: str
) -> PromptEvaluationError:
    message = error_text(error, client)
    if not is_container_gone(error):
        fault = f"the status of container {container_id} could not be read: {message}"
        return _failed(fault, error, prompt_name)
    return ContainerGone(
        f"container {container_id} cannot be used: {message}",
        prompt_name=prompt_name,
        phase="request",
        request_id=getattr(error, "request_id", None),
    )


def _failed(message: str, error: Exception, prompt_name: str) -> PromptEvaluationError:
    return PromptEvaluationError(
        message,
        prompt_name=prompt_name,
        phase="request",
        request_id=getattr(error, "request_id", None),
    )


async def ready_containers(
    offered: Sequence[HostedDeclaration], client: Any, prompt_name: str
) -> None:
    """Log in which containers code will run. With a client, ask for those that must be there.

    Raises `PromptEvaluationError` (phase request) when one is not.
    """
    for hosted in offered:
        config = hosted.tool.config
        if isinstance(config, CodeInterpreterConfig):
            logger.info("%s: %s runs code in %s", prompt_name, hosted.tool.name, _named(config))
            if client is not None and isinstance(config.container, ExistingContainer):
                await check_container(client, config.container, prompt_name=prompt_name)


def log_runs(response: PromptResponse[Any]) -> None:
    """Log in which containers code did run."""
    ran = dict.fromkeys(
        (name, invocation.params.container_id)
        for name, invocation in response.invocations
        if isinstance(invocation.params, CodeRun)
    )
    for name, container_id in ran:
        logger.info("%s: %s ran code in container %s", response.prompt_name, name, container_id)


def _named(config: CodeInterpreterConfig) -> str:
    container: Container = config.container
    match container:
        case AutoContainer():
            return f"a container of the provider's own with {container.memory_limit} of memory"
        case ExistingContainer(id=container_id, memory_limit=memory):
            return f"container {container_id} with {memory or 'unknown'} memory"


_RUN: Final = "code_interpreter_call"


def retold(items: Sequence[Item], container_ids: Collection[str] | None = None) -> list[Item]:
    """The items with every run of code in these containers, or in any, told as a message of the
    model instead.

    The reasoning that led to a run goes with it: the provider refuses it without the run.
    """
    rewritten: list[Item] = []
    for item in items:
        container_id = _container_of(item)
        if container_id is None or not (container_ids is None or container_id in container_ids):
            rewritten.append(item)
            continue
        while rewritten and isinstance(rewritten[-1], ReasoningItem):
            rewritten.pop()
        assert not isinstance(item, UserMessage)
        rewritten.append(ModelMessage((), _run_as_message(item.raw)))
    return rewritten


def containers_in(items: Iterable[Item]) -> Iterator[str]:
    """The containers that code ran in, in order."""
    return (text for item in items if (text := _container_of(item)))


def _container_of(item: Item) -> str | None:
    """The container that an item's code ran in; None for every other item."""
    if isinstance(item, UserMessage) or item.raw.get("type") != _RUN:
        return None
    return text_of(item.raw, "container_id")


def _run_as_message(run: RawItem) -> RawItem:
    printed = "".join(text_of(output, "logs") for output in mappings_of(run, "outputs"))
    text = (
        "I ran this code, in a container that is gone by now, with its files:\n"
        f"{text_of(run, 'code')}\n\nIt printed:\n{printed}"
    )
    return {"type": "message", "role": "assistant", "content": text}
