"""Worker threads for sync handlers: reused, given up without harm, and never in the way."""

import asyncio
import threading

import pytest

from tests.helpers.patience import PATIENCE
from toolcrib import Executor, Session, tool
from toolcrib.calls import threads
from toolcrib.calls.threads import WorkerThreads, shared_threads


class TestSubmit:
    async def test_the_result_comes_back(self) -> None:
        """What the function returns is what is awaited."""
        assert await WorkerThreads().submit(pow, 2, 10) == 1024

    async def test_an_error_comes_back(self) -> None:
        """What the function raises is raised where it is awaited."""
        with pytest.raises(ZeroDivisionError):
            await WorkerThreads().submit(divmod, 1, 0)

    async def test_the_threads_are_daemons(self) -> None:
        """A handler that never returns does not keep the process alive."""
        is_daemon = await WorkerThreads().submit(lambda: threading.current_thread().daemon)

        assert is_daemon

    async def test_many_at_once_each_get_their_own(self) -> None:
        """Functions that wait for each other all run."""
        together = threading.Barrier(8)
        workers = WorkerThreads()

        async with asyncio.timeout(PATIENCE):
            places = await asyncio.gather(
                *(workers.submit(together.wait) for _ in range(together.parties))
            )

        assert sorted(places) == list(range(8))


class TestGivingUp:
    async def test_a_thread_that_was_given_up_serves_again(self) -> None:
        """Once the forgotten function returns, its thread is free for others."""
        let_go, together = threading.Event(), threading.Barrier(2)
        workers = WorkerThreads()
        blocked: list[int] = []

        def block() -> None:
            blocked.append(threading.get_ident())
            let_go.wait(PATIENCE)

        def both() -> int:
            together.wait(PATIENCE)
            return threading.get_ident()

        workers.submit(block).cancel()
        let_go.set()

        async with asyncio.timeout(PATIENCE):
            serving: tuple[int, ...] = ()
            while not blocked or blocked[0] not in serving:
                serving = await asyncio.gather(workers.submit(both), workers.submit(both))

        assert blocked[0] in serving

    async def test_a_late_result_is_dropped(self) -> None:
        """A future that was cancelled stays cancelled when its function returns after all."""
        let_go = threading.Event()
        workers = WorkerThreads()
        future = workers.submit(let_go.wait, 10)
        future.cancel()
        let_go.set()

        await workers.submit(int)
        await asyncio.sleep(0)

        assert future.cancelled()

    def test_a_loop_that_is_gone_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A function that returns after its loop was closed ends without a word: an exception in
        the thread would fail this test.
        """
        monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
        let_go, begun = threading.Event(), threading.Event()
        used: list[threading.Thread] = []

        def block() -> str:
            used.append(threading.current_thread())
            begun.set()
            let_go.wait(PATIENCE)
            return "late"

        async def scene() -> None:
            WorkerThreads().submit(block)

        asyncio.run(scene())
        assert begun.wait(PATIENCE)
        let_go.set()
        used[0].join(PATIENCE)

        assert not used[0].is_alive()


class TestIdleness:
    async def test_an_idle_thread_ends(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Threads that nobody needs do not stay; the next call starts another one."""
        monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
        workers = WorkerThreads()

        first = await workers.submit(threading.current_thread)
        first.join(PATIENCE)

        assert not first.is_alive()
        second = await workers.submit(threading.current_thread)
        assert second is not first


async def test_sessions_share_their_threads() -> None:
    """F17: 40 sessions with a sync call each, one after the other, take one thread and not 40."""

    @tool
    def where() -> str:
        """Say which thread it is."""
        return threading.current_thread().name + str(threading.get_ident())

    names = [(await Executor(Session(), [where]).call("where")).text for _ in range(40)]
    assert len(set(names)) <= 2  # a thread that has just answered may not be idle yet


def test_a_forked_process_has_threads_of_its_own() -> None:
    """The idle threads of the parent are not there; a job for one of them would never run."""
    before = shared_threads()
    threads._forget_threads()  # pyright: ignore[reportPrivateUsage]
    assert shared_threads() is not before
