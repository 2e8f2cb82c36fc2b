"""Tools that the tests of sessions call."""

from toolcrib import Executor, Session, tool


@tool
async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


@tool
async def fail() -> str:
    """Fail."""
    raise LookupError("no such book")


@tool(requires_approval=True)
async def erase(path: str) -> str:
    """Erase a file."""
    return f"erased {path}"


def executor(session: Session) -> Executor:
    """An executor with all of them."""
    return Executor(session, [add, fail, erase])


async def add_up(session: Session, times: int = 1) -> None:
    """Make some calls."""
    calls = executor(session)
    for number in range(times):
        await calls.call("add", {"a": number, "b": 1})
