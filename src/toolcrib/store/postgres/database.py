"""The database: how it is reached, and what its errors mean.

A connection that is lost says nothing about the statement that was on its way. `is_connection_lost`
tells such errors from answers of the database, which say that nothing was changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import StoreError, UsageError
from toolcrib.extras import install_command
from toolcrib.store.address import DatabaseUrl

try:
    import asyncpg
except ModuleNotFoundError:
    raise UsageError(
        f"a store on PostgreSQL needs asyncpg; run: {install_command('postgres')}"
    ) from None

if TYPE_CHECKING:
    from asyncpg import Record as _Record

    DatabaseConnection = asyncpg.Connection[_Record]

OLDEST_SERVER: Final = 15
"""The oldest PostgreSQL that the store is tested on."""
_SCHEMES: Final = ("postgresql", "postgres")
_LOST: Final = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    # What the driver says when the server hung up while the connection was idle.
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    # After a failover, a connection to what is a standby by now.
    asyncpg.ReadOnlySQLTransactionError,
    OSError,
    TimeoutError,
    EOFError,
)


def is_connection_lost(error: BaseException) -> bool:
    """Whether the database did not answer, or is not the one to write to, so that trying again
    later, over another connection, may help.
    """
    # A statement that took too long was cancelled by the database, which is there; a value that
    # cannot be sent never left.
    return isinstance(error, _LOST) and not isinstance(
        error, asyncpg.QueryCanceledError | ValueError
    )


def is_timed_out(error: BaseException) -> bool:
    """Whether a statement was given up because it took too long."""
    return isinstance(error, asyncpg.QueryCanceledError | TimeoutError)


def is_rolled_back(error: BaseException) -> bool:
    """Whether the database undid a transaction only because others were at work."""
    return isinstance(error, asyncpg.DeadlockDetectedError | asyncpg.SerializationError)


def is_locked_out(error: BaseException) -> bool:
    """Whether a statement gave up because somebody keeps rows locked; it changed nothing."""
    return isinstance(error, asyncpg.LockNotAvailableError)


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long the database is waited for, in seconds."""

    connect: float = 5.0
    statement: float = 30.0
    """One statement, also when nothing answers at all."""
    outage: float = 30.0
    """How long work waits for a database that is away, before it fails."""


class PostgresDatabase:
    """The address of a database and a few connections to it. Used in one event loop only."""

    def __init__(self, url: str, timeouts: Timeouts, pool_size: int) -> None:
        self.shown = shown_url(url)
        self.timeouts = timeouts
        self._url = url
        self._idle: list[DatabaseConnection] = []
        self._slots = asyncio.Semaphore(pool_size)
        self._is_closed = False

    async def connect(self) -> DatabaseConnection:
        """A new connection. Raises what the driver raises, and `StoreError` for a server that is
        too old.
        """
        connection: DatabaseConnection = await asyncpg.connect(
            self._url,
            timeout=self.timeouts.connect,
            command_timeout=self.timeouts.statement,
            server_settings={"application_name": "toolcrib"},
        )
        version = connection.get_server_version()
        if version.major < OLDEST_SERVER:
            connection.terminate()
            raise StoreError(
                f"{self.shown} is PostgreSQL {version.major}; a store needs {OLDEST_SERVER} or a "
                "newer one"
            )
        # Set by a statement: poolers refuse settings that they do not know at the start. Every page
        # has an index in its order; the planner knows too little of one long session, and would
        # read all of it and sort.
        milliseconds = int(self.timeouts.statement * 1000)
        try:
            await connection.execute(
                f"SET jit = off; SET statement_timeout = {milliseconds};"
                f"SET idle_in_transaction_session_timeout = {milliseconds};"
                "SET enable_bitmapscan = off"
            )
        except BaseException:
            connection.terminate()
            raise
        return connection

    @asynccontextmanager
    async def connection(self) -> AsyncGenerator[DatabaseConnection]:
        """A connection out of the pool; one that broke does not go back."""
        async with self._slots:
            connection = await self._take()
            try:
                yield connection
            except BaseException as error:
                if not isinstance(error, asyncpg.PostgresError) or is_connection_lost(error):
                    connection.terminate()
                raise
            finally:
                if not connection.is_closed():
                    self._idle.append(connection)

    async def close(self) -> None:
        """Close what is idle."""
        self._is_closed = True
        while self._idle:
            await close_connection(self._idle.pop())

    def drop_idle(self) -> None:
        """Forget idle connections: the server they lead to has gone."""
        while self._idle:
            self._idle.pop().terminate()

    def explain(self, error: BaseException) -> StoreError:
        """The same error in words that say what to do. No parameter of a statement is in them."""
        match error:
            case StoreError():
                return error
            case asyncpg.InvalidPasswordError() | asyncpg.InvalidAuthorizationSpecificationError():
                return StoreError(
                    f"{self.shown} refuses this user or password; check the URL of the store"
                )
            case asyncpg.InvalidCatalogNameError():
                return StoreError(
                    f"{self.shown} has no such database; create it with `createdb`, or give "
                    "another URL"
                )
            case asyncpg.InsufficientPrivilegeError():
                return StoreError(
                    f"{self.shown} does not allow this ({_words(error)}); let the user own the "
                    "schema of the store"
                )
            case _:
                return self._explain_statement(error)

    def locked(self) -> StoreError:
        """The error of a change that waited too long for somebody else's."""
        return StoreError(
            f"somebody keeps rows of the session in {self.shown} locked; nothing was saved"
        )

    def _explain_statement(self, error: BaseException) -> StoreError:
        match error:
            case asyncpg.QueryCanceledError():
                return StoreError(
                    f"{self.shown} took longer than {self.timeouts.statement:g} seconds for one "
                    "statement, and undid it"
                )
            case asyncpg.UniqueViolationError() if error.constraint_name == "approvals_pkey":
                return StoreError("an approval of this commit is filed already")
            case _ if _is_unfit(error):
                # What the driver says quotes the value.
                return StoreError(
                    "a name or an id has a character that PostgreSQL cannot keep: the character 0, "
                    "or half of a surrogate pair; nothing was changed"
                )
            case asyncpg.ReadOnlySQLTransactionError():
                return StoreError(
                    f"{self.shown} takes no changes: it is a standby, or was made read-only; give "
                    "the URL of the primary"
                )
            case asyncpg.DuplicatePreparedStatementError() | asyncpg.InvalidSQLStatementNameError():
                return StoreError(
                    f"{self.shown} is a pooler that gives each transaction another connection; set "
                    "it to session pooling (PgBouncer: pool_mode = session), or give the URL of "
                    "the database itself"
                )
            case asyncpg.LockNotAvailableError():
                return self.locked()
            case asyncpg.DiskFullError():
                return StoreError(f"the disk of {self.shown} is full; nothing was saved")
            case _ if is_connection_lost(error):
                return StoreError(
                    f"{self.shown} cannot be reached ({_words(error)}); check that the server runs "
                    "and that this machine may connect to it"
                )
            case _:
                return StoreError(f"{self.shown} refused a statement: {_words(error)}")

    async def _take(self) -> DatabaseConnection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return await self.connect()


def _is_unfit(error: BaseException) -> bool:
    """Whether a value cannot be kept, by the word of the database or of the driver."""
    # The driver's own is of no class below it.
    return type(error) is asyncpg.DataError or isinstance(
        error, asyncpg.CharacterNotInRepertoireError
    )


def _words(error: BaseException) -> str:
    # Details of an error quote rows, which may hold anything; its first line does not.
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0]}" if text and text[0] else type(error).__name__


async def close_connection(connection: DatabaseConnection, seconds: float = 2.0) -> None:
    """Say goodbye, or hang up when that takes too long."""
    try:
        await connection.close(timeout=seconds)
    except Exception:
        connection.terminate()


def is_database_url(text: str) -> bool:
    """Whether a store is named by the URL of a PostgreSQL database."""
    return text.partition("://")[0] in _SCHEMES


def shown_url(url: str) -> str:
    """A URL as it may be shown: with neither password nor parameters."""
    if not is_database_url(url):
        raise UsageError(
            "the URL of a PostgreSQL store begins with postgresql://, as in "
            "postgresql://user@host/database"
        )
    return str(DatabaseUrl(url))


Row = tuple[Any, ...]
