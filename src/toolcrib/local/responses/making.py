"""A response that is being made."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.local.responses.items import KeptItem

if TYPE_CHECKING:
    from toolcrib.local.responses.history import History
    from toolcrib.local.responses.run import Run


@dataclass(frozen=True, slots=True)
class Making:
    """What is made, from what, and by whom. `answering` may be cancelled; `task` ends after it,
    when the response is kept, and is never cancelled.
    """

    run: Run
    history: History
    answering: asyncio.Task[tuple[str, dict[str, Any]]]
    task: asyncio.Task[None]

    async def stop(self) -> None:
        """Make it no further, and wait until what there is of it is kept."""
        self.answering.cancel()
        await asyncio.wait([self.task])

    @property
    def items(self) -> list[KeptItem]:
        """The whole conversation, with what was made."""
        answers, output = self.run.answers, self.run.response["output"]
        made = [KeptItem(item, answers.get(item["id"])) for item in output]
        return [*self.history.before, *self.history.given, *made]
