"""The list of fonts that containers are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import logs_of, python, run_code
from toolcrib.embedded.containers.interpreter_pool import known_fonts, make_fonts
from toolcrib.sandbox import find_sandbox

SEEN = "import glob, os\nprint([os.path.getmtime(n) for n in glob.glob('/tmp/fontlist-*')])"
IMPORT = (
    "import time\nbegan = time.process_time()\nimport matplotlib.pyplot\n"
    "print(time.process_time() - began)"
)
PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2]);None"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


async def test_a_new_container_has_the_list_and_does_not_make_it_anew(cache: Path) -> None:
    """The list is made once on a machine; matplotlib takes it as its own."""
    assert known_fonts() is None
    made = await make_fonts(await find_sandbox())
    assert made is not None
    assert made == known_fonts()
    assert made.is_relative_to(cache)
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        before = await run_code(client, SEEN, container)
        drawn = await run_code(client, PLOT, container)
        after = await run_code(client, SEEN, container)
    assert "[]" not in logs_of(before)
    assert logs_of(before) == logs_of(after)
    assert [each.type for each in drawn.output[0].outputs] == ["image"]


async def test_without_a_list_code_runs_and_the_list_is_made_meanwhile(cache: Path) -> None:
    """Nobody waits for it; where it cannot be kept, everything works without."""
    (cache / "toolcrib").write_text("in the way")
    async with served(python) as (client, _):
        response = await run_code(client, "1 + 1", {"type": "auto"})
    assert logs_of(response) == "2\n"
    assert await make_fonts(await find_sandbox()) is None
    assert known_fonts() is None


@pytest.mark.load
async def test_the_first_chart_of_a_container(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list saves work, counted in time of the processor, which others cannot make longer."""

    async def seconds() -> float:
        async with served(python) as (client, _):
            container = (await client.containers.create(name="c")).id
            return float(logs_of(await run_code(client, IMPORT, container)))

    in_the_way = cache / "toolcrib"
    in_the_way.write_text("nothing can be kept")
    without = min([await seconds() for _ in range(3)])
    in_the_way.unlink()
    await make_fonts(await find_sandbox())
    having = min([await seconds() for _ in range(3)])
    with capsys.disabled():
        print(
            f"\nimport of matplotlib.pyplot: {without * 1000:.0f} ms of the processor, "
            f"with the list of fonts {having * 1000:.0f} ms",
            end="",
        )
    assert having < without
