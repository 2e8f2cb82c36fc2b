"""An evaluation whose code interpreter needs files of the host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from toolcrib.adapters.evaluation import Evaluation
from toolcrib.adapters.openai.staging import message_with, opened_with

if TYPE_CHECKING:
    from toolcrib.adapters.openai.staging import Staging
    from toolcrib.adapters.openai.staging_plan import Plan
    from toolcrib.adapters.openai.wire import Wire
    from toolcrib.session.events import Event, FilesStaged

O = TypeVar("O")  # noqa: E741


class StagedEvaluation(Evaluation[O]):
    """Stages the files before the first request, and finds them again when it goes on."""

    def __init__(self, *args: Any, staging: Staging, wire: Wire, **options: Any) -> None:
        super().__init__(*args, **options)
        self._staging = staging
        self._wire = wire
        self._planned: Plan | None = None

    async def _plan(self) -> None:
        self._planned = await self._staging.plan()

    async def _prepare(self, turn: int) -> None:
        assert self._planned is not None
        self._bring(await self._staging.stage(self._planned, self._wire, self._session, turn))

    async def _prepare_again(self, happened: Sequence[Event], turn: int) -> None:
        self._bring(await self._staging.take_up(happened, self._wire, self._session, turn))

    def _bring(self, staged: FilesStaged) -> None:
        """Give the code interpreter its files, and say where they are."""
        self._opening = opened_with(staged, self._opening)
        message = message_with(staged, self._question.message)
        self._question = replace(self._question, message=message)
