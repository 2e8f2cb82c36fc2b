"""The containers of a prompt: written to the log, and asked for beforehand if that is wanted."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.adapters.openai.containers import check_container
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeRun,
    Container,
    ExistingContainer,
)

if TYPE_CHECKING:
    from toolcrib.adapters.declared import Hosted
    from toolcrib.adapters.response import PromptResponse

O = TypeVar("O")  # noqa: E741

logger = logging.getLogger(__name__)


async def ready_containers(offered: Sequence[Hosted], client: Any, prompt_name: str) -> None:
    """Log in which containers code will run. With a client, ask for those that must be there.

    Raises `PromptEvaluationError` (phase request) when one is not.
    """
    for hosted in offered:
        config = hosted.tool.config
        if isinstance(config, CodeInterpreterConfig):
            logger.info("%s: %s runs code in %s", prompt_name, hosted.tool.name, _named(config))
            if client is not None and isinstance(config.container, ExistingContainer):
                await check_container(client, config.container, prompt_name=prompt_name)


def log_runs(response: PromptResponse[O]) -> PromptResponse[O]:
    """Log in which containers code did run; returns the response."""
    ran = dict.fromkeys(
        (name, invocation.params.container_id)
        for name, invocation in response.invocations
        if isinstance(invocation.params, CodeRun)
    )
    for name, container_id in ran:
        logger.info("%s: %s ran code in container %s", response.prompt_name, name, container_id)
    return response


def _named(config: CodeInterpreterConfig) -> str:
    container: Container = config.container
    match container:
        case AutoContainer():
            return f"a container of the provider's own with {container.memory_limit} of memory"
        case ExistingContainer(id=container_id, memory_limit=memory):
            return f"container {container_id} with {memory or 'unknown'} memory"
