"""One tool that remembers what it ran with, in an executor with hooks to be tried."""

from typing import Any

from toolcrib import Executor, Hooks, Outcome, Session, tool


class Bench:
    """`echo` says its text again; `ran` holds what it was asked to say."""

    def __init__(self, **hooks: Any) -> None:
        self.ran: list[str] = []
        self.session = Session()

        @tool
        async def echo(text: str) -> str:
            """Say it again."""
            self.ran.append(text)
            return text

        @tool
        async def other(text: str) -> str:
            """Say it again, too."""
            return text

        self.executor = Executor(self.session, [echo, other], hooks=Hooks(**hooks))

    async def call(self, text: str = "hello") -> Outcome:
        return await self.executor.call("echo", {"text": text})

    @property
    def recorded(self) -> Any:
        """The arguments in the ledger's last record."""
        return self.session.transcript()[-1].arguments
