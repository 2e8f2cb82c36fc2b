"""No secret argument is ever written to the database, and none is left anywhere when its call is
over. Every file is read, byte by byte.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.calls.interrupted_process import kill_in_the_middle
from tests.calls.payments import kind_of
from tests.calls.places import history
from tests.calls.secret_leaks import (
    ARGUMENTS,
    KEYS,
    PIN,
    SECRETS,
    TOKEN,
    WAYS,
    Bench,
    assert_only_in_vault,
    close,
    files_with_secrets,
    forms,
    live,
    open_bench,
)
from toolcrib.approval.decision import Answer, Approve, Decision, Deny
from toolcrib.approval.policy import Policy, Rule
from toolcrib.errors import InvalidDecision
from toolcrib.ledger.events import ToolEmitted, ToolOutput, ToolProgress
from toolcrib.session.session import Session
from toolcrib.session.state import ResumableState
from toolcrib.testing import Recorder


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    """A bench where nothing is asked about."""
    found = await open_bench(tmp_path)
    yield found
    await close(found)


@pytest.fixture
async def gated(tmp_path: Path) -> AsyncGenerator[Bench]:
    """A bench where every call waits."""
    found = await open_bench(tmp_path, Policy((Rule("ask", "*"),)))
    yield found
    await close(found)


def test_a_secret_in_a_file_would_be_found(tmp_path: Path) -> None:
    """The search that the tests rely on sees secrets in any of their forms."""
    for number, secret in enumerate(SECRETS):
        folder = tmp_path / str(number)
        folder.mkdir()
        for form in forms(secret):
            (folder / "file").write_bytes(b"\0\1" + form + b"\2")
            assert files_with_secrets(folder) == {"file"}


@pytest.mark.parametrize("how", [how for how in WAYS if how != "ask"])
async def test_a_tool_cannot_write_its_secrets_down(bench: Bench, how: str) -> None:
    """R46: whatever a handler does with its secrets, no file has them: not the result, an
    exception, progress, output, an event of its own or an artifact.
    """
    heard = Recorder(bench.session.bus)

    await bench.call(how=how)

    assert files_with_secrets(bench.folder) == set()
    kinds = {type(each) for each in history(bench.session)}
    assert {ToolProgress, ToolOutput, ToolEmitted} <= kinds
    assert not any(form in repr(heard.events).encode() for form in forms(KEYS[0]))
    if how == "artifact":
        text = bench.session.artifacts.read("artifact_c1").text
        assert "[secret]" in text


async def test_a_running_call_has_its_secrets_in_the_vault_only(bench: Bench) -> None:
    """They must survive a crash, so that the call can be asked about; the database never has
    them.
    """
    bench.may_end.clear()
    task = asyncio.create_task(bench.call())
    await bench.is_running.wait()

    assert_only_in_vault(bench.folder)
    bench.may_end.set()
    assert await task == "completed"
    assert files_with_secrets(bench.folder) == set()


@pytest.mark.parametrize(
    ("decision", "end"),
    [
        (Approve(), "completed"),
        (
            Approve(
                {
                    "user": "bob",
                    "token": "[secret]",
                    "pin": "[secret]",
                    "vault": {"name": "spare", "keys": "[secret]"},
                }
            ),
            "completed",
        ),
        (Deny("no"), "denied"),
        (Answer("done by hand"), "completed"),
        (None, "cancelled"),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
async def test_a_waiting_call_has_its_secrets_in_the_vault_only(
    gated: Bench, decision: Decision | None, end: str
) -> None:
    """Waiting, decided and reopened: only the vault has them; over, and nothing has."""
    assert await gated.call() == "waiting"
    assert_only_in_vault(gated.folder)
    (request,) = gated.session.approvals.pending()
    assert request.arguments["pin"] == request.arguments["token"] == "[secret]"

    if decision is not None:
        await gated.session.approvals.decide("c1", decision, by="jo")
    assert_only_in_vault(gated.folder)
    await gated.session.close()
    gated.session.store.close()
    assert_only_in_vault(gated.folder)

    again = await open_bench(gated.folder, gated.policy)
    gated.session = again.session
    if decision is None:
        outcome = await gated.executor().withdraw("c1")
        assert kind_of(outcome) == end
    else:
        assert [kind_of(each) for each in await gated.executor().resume()] == [end]


async def test_a_question_of_the_handler_shows_no_secret(bench: Bench) -> None:
    """What a tool shows to its approver is written down, so secrets in it are not shown."""
    assert await bench.call(how="ask") == "waiting"

    assert_only_in_vault(bench.folder)
    (request,) = bench.session.approvals.pending()
    assert request.metadata is not None
    assert "[secret]" in request.metadata["preview"]
    assert await bench.decide(Approve()) == ["completed"]


@pytest.mark.parametrize("change", ["token", "pin", "keys", "added"])
async def test_a_secret_typed_by_an_approver_is_not_taken(gated: Bench, change: str) -> None:
    """It would be written down with the decision; refused, it is nowhere."""
    await gated.call()
    (request,) = gated.session.approvals.pending()
    edited = request.arguments
    match change:
        case "keys":
            edited["vault"]["keys"] = [TOKEN]
        case "added":
            edited["other"] = TOKEN
        case _:
            edited[change] = ARGUMENTS[change]

    with pytest.raises(InvalidDecision) as refused:
        await gated.session.approvals.decide("c1", Approve(edited), by="jo")

    assert_only_in_vault(gated.folder)
    assert not any(secret in str(refused.value) for secret in (TOKEN, str(PIN), *KEYS))
    assert await gated.decide(Deny()) == ["denied"]


async def test_an_exported_state_has_the_secrets_of_open_calls() -> None:
    """A state must be able to go on elsewhere, so it is to be kept like the secrets in it; when
    the calls are over it has none.
    """
    session = Session()
    waiting = Bench(Path(), session, asyncio.Event(), asyncio.Event(), Policy((Rule("ask", "*"),)))
    waiting.may_end.set()
    await waiting.call()
    open_state = session.export_state().to_json()
    await waiting.decide(Approve())
    closed_state = session.export_state().to_json()

    def read(state: bytes) -> str:
        decoded = ResumableState.from_json(state)
        return f"{decoded} {[call.arguments for call in decoded.open_calls]}"

    assert all(secret in read(open_state) for secret in KEYS)
    assert not any(secret in read(closed_state) for secret in (*KEYS, str(PIN)))
    assert not any(secret in repr(ResumableState.from_json(open_state)) for secret in KEYS)


@pytest.mark.wire
async def test_a_killed_process_leaves_secrets_in_the_vault_only(tmp_path: Path) -> None:
    """A call in doubt keeps what it needs to run again; when it is settled, that is erased."""
    await asyncio.to_thread(kill_in_the_middle, tmp_path, live)

    assert_only_in_vault(tmp_path)
    bench = await open_bench(tmp_path)
    assert [kind_of(each) for each in await bench.executor().resume()] == ["waiting"]
    assert_only_in_vault(tmp_path)
    assert await bench.decide(Approve()) == ["completed"]
    await close(bench)


async def test_a_log_has_no_secret(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """What is logged about a failed call can be kept with other logs."""
    caplog.set_level(logging.DEBUG)

    await bench.call(how="exception")

    assert not any(secret in caplog.text for secret in (*KEYS, str(PIN), "7f3a9c"))
