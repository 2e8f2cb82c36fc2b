"""Containers stay with the provider that made them, and their ids say which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from openai import AsyncOpenAI, NotFoundError

from tests.embedded.scripted_provider import served
from tests.embedded.tools.hosted_calls import python, run_code
from toolcrib.embedded.database import Database
from toolcrib.embedded.faults import missing

AUTO = {"type": "auto"}


async def continued(client: AsyncOpenAI, code: str, earlier: Any) -> Any:
    """A response in the conversation of an earlier one, which the client keeps."""
    items = [item.model_dump(exclude_none=True) for item in earlier.output]
    create: Any = client.responses.create
    tools = [{"type": "code_interpreter", "container": AUTO}]
    asked = {"role": "user", "content": code}
    return await create(model="puppet", input=[*items, asked], tools=tools)


async def test_the_container_of_another_provider_is_named_so(tmp_path: Path) -> None:
    """Whoever names it elsewhere learns where it lies, and what to do."""
    async with served(python, data=tmp_path / "a") as (here, _):
        container = await here.containers.create(name="c")
    async with served(python, data=tmp_path / "b") as (there, _):
        with pytest.raises(NotFoundError, match="lies with the provider") as caught:
            await there.containers.retrieve(container.id)
        with pytest.raises(NotFoundError, match="create another one"):
            await run_code(there, "1", container.id)
    async with served(python, data=tmp_path / "a") as (here, _):
        assert (await here.containers.retrieve(container.id)).id == container.id

    assert caught.value.code == "other_provider"


async def test_the_model_begins_anew_and_knows_it(tmp_path: Path) -> None:
    """A conversation that goes on at another provider gets a new container; the model is told once
    that files and variables are gone.
    """
    async with served(python, data=tmp_path / "a") as (here, _):
        first = await run_code(here, "x = 1", AUTO)
    async with served(python, data=tmp_path / "b") as (there, puppet):
        second = await continued(there, "print(2)", first)
        heard = str(puppet.requests[-1].history[-1])
        await continued(there, "print(3)", second)
        heard_later = str(puppet.requests[-1].history[-1])

    assert second.output[0].container_id != first.output[0].container_id
    assert "new container without the files and variables of before" in heard
    assert first.output[0].container_id in heard
    assert "new container" not in heard_later


def test_an_id_of_this_place_is_plainly_missing() -> None:
    """Only another place is said to be one; what somebody else has here is not told apart."""
    database = Database(None)
    container_id = database.new_id("cntr")
    database.close()

    here, elsewhere = (
        missing("Container", container_id, here=place) for place in (database.place, "00000000")
    )
    assert (here.code, elsewhere.code) == (None, "other_provider")


def test_a_place_survives_a_restart(tmp_path: Path) -> None:
    """The state keeps its name."""
    places: list[str] = []
    for _ in range(2):
        database = Database(tmp_path / "provider.sqlite3")
        places.append(database.place)
        database.close()
    assert places[0] == places[1]
