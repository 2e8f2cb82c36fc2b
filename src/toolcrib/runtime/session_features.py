"""Reads of resources and prompts in one session: each is a call of the tool behind it, decided and
recorded as the session's other calls are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from toolcrib.calls.tool_table import is_visible
from toolcrib.features.declaration import missing_feature
from toolcrib.runtime.features import FeatureRead
from toolcrib.store.store import ask_store

if TYPE_CHECKING:
    from toolcrib.approval.caller import Caller
    from toolcrib.calls.executor import Executor
    from toolcrib.runtime.features import Features
    from toolcrib.session.session import Session
    from toolcrib.tools.tool import Tool

_MOST_EXECUTORS: Final = 256


class SessionFeatures:
    """Finds the executor for a read. Tools of one name come from several sources, so each has an
    executor of its own, on the ledger and the governance of the session.
    """

    def __init__(
        self,
        session: Session,
        features: Features,
        make_executor: Callable[[Tool[Any, Any]], Executor],
        is_wanted: Callable[[str], bool],
    ) -> None:
        self._session = session
        self._features = features
        self._make_executor = make_executor
        self._is_wanted = is_wanted
        self._executors: dict[Tool[Any, Any], Executor] = {}

    async def executor(
        self, name: str, arguments: Mapping[str, Any] | None, call_id: str | None, caller: Caller
    ) -> tuple[Executor, Mapping[str, Any] | None]:
        """The executor of a read, and its arguments there. None for `arguments` stands for those of
        the call that waits. What is not shown to the caller is not there.
        """
        read = await self._find(name, arguments, call_id)
        if not is_visible(read.tool, caller):
            read = FeatureRead(missing_feature(name), arguments or {})
        executor = self._executors.get(read.tool)
        if executor is None:
            if len(self._executors) >= _MOST_EXECUTORS:
                self._executors.clear()
            executor = self._executors[read.tool] = self._make_executor(read.tool)
        return executor, None if arguments is None else read.arguments

    def reconfigure(self) -> None:
        """Use the governance of now for reads that begin from now on."""
        self._executors.clear()

    async def _find(
        self, name: str, arguments: Mapping[str, Any] | None, call_id: str | None
    ) -> FeatureRead:
        session = self._session
        if not self._is_wanted(name):
            return FeatureRead(missing_feature(name), arguments or {})
        if arguments is not None or call_id is None:
            return await self._features.find(session.session_id, name, arguments)
        calls = await ask_store(session.store, session.open_calls)
        open_call = next((call for call in calls if call.call_id == call_id), None)
        if open_call is None:
            return FeatureRead(missing_feature(name), {})
        for server in self._features.servers(session.session_id):
            tool = server.tool(name)
            if server.source == open_call.tool.source and tool is not None:
                return FeatureRead(tool, {})
        return await self._features.find(session.session_id, name, from_json(open_call.arguments))
