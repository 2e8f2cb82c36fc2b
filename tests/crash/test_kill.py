"""A process is killed at any moment; the next one finds everything as it must be."""

import random
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.crash.invariants import Books
from tests.crash.reaper import Death, Reaper, reaper
from tests.crash.workload import IDEMPOTENT, POINTS, SESSION, Plan, make_tools
from toolcrib import Actor, CallbackApprover, Deny, Executor, Reply, Session, SqliteStore
from toolcrib.approval.decision import ApprovalRequest, Decided
from toolcrib.store.store import every

pytestmark = pytest.mark.crash

LIVES = 11


@pytest.fixture(scope="module")
def lives() -> Iterator[Reaper]:
    with reaper() as running:
        yield running


class Scene:
    """One store, worked on and killed again and again."""

    def __init__(self, folder: Path) -> None:
        self.store = folder / "s.sqlite3"
        self.effects = folder / "effects"
        self.books = Books(self.store, self.effects)
        self._reports = folder / "reports"

    def plan(self, seed: int, point: str = "", times: int = 1) -> Plan:
        paths = (str(self.store), str(self.effects), str(self._reports))
        return Plan(*paths, seed=seed, point=point, times=times)

    def decide_some(self, rng: random.Random) -> None:
        """Somebody answers half of what is in doubt while no process works on the session."""
        with closing(SqliteStore(self.store)) as store:
            for filed in every(lambda cursor: store.approvals(state="pending", cursor=cursor)):
                request = filed.request
                if request.rule == "in_doubt" and rng.random() < 0.5:
                    denial = Deny("it may have happened")
                    actor = Actor("person", "ada")
                    assert store.decide(
                        Decided(request.approval_id, request.digest, denial, actor, 1.0)
                    )

    async def settle(self) -> None:
        """A last life that lives: it takes up everything, with somebody who denies what waits."""

        async def deny(request: ApprovalRequest) -> Reply:
            return Reply(Deny("no"), Actor("person", "ada"))

        with closing(SqliteStore(self.store)) as store:
            async with await Session.open(store, SESSION) as session:
                tools = make_tools(str(self.effects))
                executor = Executor(session, tools, approver=CallbackApprover(deny))
                left = {call.call_id for call in session.open_calls()}
                outcomes = await executor.resume()
                assert {outcome.call_id for outcome in outcomes} == left
                assert await executor.resume() == []


@pytest.mark.parametrize("seed", range(20))
async def test_a_kill_at_any_moment_loses_and_repeats_nothing(
    lives: Reaper, tmp_path: Path, seed: int
) -> None:
    """R46: 220 kills at random moments of work, start and recovery, eleven on each store."""
    rng = random.Random(seed)
    scene = Scene(tmp_path)
    for life in range(LIVES):
        death = draw_death(rng)
        scene.books.hear(lives.run(scene.plan(seed * 100 + life), death))
        if scene.store.exists() and has_session(scene.store):
            scene.books.check()
            scene.decide_some(rng)
    assert scene.books.interrupted > 0

    await scene.settle()

    scene.books.check_settled()


@pytest.mark.parametrize("times", [1, 5, 40])
@pytest.mark.parametrize("point", POINTS)
async def test_a_kill_at_a_chosen_point_loses_and_repeats_nothing(
    lives: Reaper, tmp_path: Path, point: str, times: int
) -> None:
    """R46: the process dies exactly here, twice, and the call is neither lost nor run again."""
    scene = Scene(tmp_path)
    for life in range(2):
        scene.books.hear(lives.run(scene.plan(life, point, times), None))
        scene.books.check()

    await scene.settle()

    scene.books.check_settled()


async def test_a_call_that_died_after_its_effect_is_in_doubt(lives: Reaper, tmp_path: Path) -> None:
    """A call with an effect and without an end is reported once, and ends as in doubt."""
    scene = Scene(tmp_path)
    scene.books.hear(lives.run(scene.plan(1, "after_effect", 20), None))
    scene.books.check()
    left = {
        call_id: story
        for call_id, story in scene.books.stories.items()
        if story.is_running and story.started[0].tool.name not in IDEMPOTENT
    }
    assert left

    await scene.settle()

    scene.books.check_settled()
    for call_id in left:
        story = scene.books.stories[call_id]
        (end,) = story.invoked
        assert end.failure is not None
        assert end.failure.kind == "in_doubt"
        assert story.doubts == 1
        assert len(story.started) == 1


def draw_death(rng: random.Random) -> Death:
    """Mostly in the middle of the work; one time in five while the process is still starting."""
    if rng.random() < 0.2:
        return Death(0, rng.uniform(0, 0.03))
    return Death(rng.randrange(1, 150), rng.uniform(0, 0.004))


def has_session(path: Path) -> bool:
    """Whether the first life got as far as making the session."""
    with closing(SqliteStore(path)) as store:
        return bool(store.sessions().items)
