"""`code_interpreter`: Python that really runs, in containers."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError
from openai.types.responses import ResponseCodeInterpreterToolCall

from tests.embedded.scripted_provider import Puppet, served
from tests.embedded.tools.hosted_calls import Clock, logs_of, python, run_code, until
from toolcrib.embedded import BackendOutput, BackendRequest, EmbeddedProvider

AUTO = {"type": "auto"}


async def test_output_errors_and_the_last_value_are_logs() -> None:
    """stdout, stderr and the last expression come back in order, and the item is of the official
    type.
    """
    code = "import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7"
    async with served(python) as (client, _):
        response = await run_code(client, code, AUTO)
    call = response.output[0]
    ResponseCodeInterpreterToolCall.model_validate(call.model_dump(), strict=True)
    assert (call.status, call.code) == ("completed", code)
    assert logs_of(response) == "out\nerr\n42\n"


async def test_without_include_the_outputs_are_null() -> None:
    """Outputs are part of the item only when they are asked for; the backend has them anyway."""
    async with served(python) as (client, _):
        response = await run_code(client, "1 + 1", AUTO, include=[])
    assert response.output[0].outputs is None
    assert response.output_text.startswith("2")


async def test_a_traceback_shows_the_code_and_nothing_of_the_kernel() -> None:
    """An exception is output, not a failure of the tool."""
    async with served(python) as (client, _):
        response = await run_code(client, "def f():\n    return 1 / 0\nf()", AUTO)
    assert response.output[0].status == "completed"
    assert "ZeroDivisionError: division by zero" in logs_of(response)
    assert "kernel" not in logs_of(response)


async def test_variables_stay_in_the_container_of_a_conversation() -> None:
    """The next response of a conversation works in the same container; another one does not."""
    async with served(python) as (client, _):
        first = await run_code(client, "x = 41", AUTO)
        second = await run_code(client, "x + 1", AUTO, previous_response_id=first.id)
        other = await run_code(client, "x + 1", AUTO)
    assert logs_of(second) == "42\n"
    assert "Python was restarted" not in second.output_text
    assert second.output[0].container_id == first.output[0].container_id
    assert "NameError" in logs_of(other)
    assert other.output[0].container_id != first.output[0].container_id


async def test_two_containers_share_nothing() -> None:
    """Neither files nor variables of one container are seen in another."""
    async with served(python) as (client, _):
        one = (await client.containers.create(name="one")).id
        two = (await client.containers.create(name="two")).id
        await run_code(client, "x = 1; open('x.txt', 'w').write('1')", one)
        seen = await run_code(client, "import os\nprint(os.listdir('.'), 'x' in globals())", two)
        back = await run_code(client, "print(os.listdir('.') if 'os' in globals() else x)", one)
    assert logs_of(seen) == "[] False\n"
    assert logs_of(back) == "1\n"


async def test_a_chart_and_a_table_are_files_of_the_container() -> None:
    """Matplotlib and pandas work; the figure is an image, and what was saved can be downloaded."""
    code = (
        "import pandas as pd, matplotlib.pyplot as plt\n"
        "frame = pd.DataFrame({'a': [1, 2, 3]})\n"
        "frame.to_csv('table.csv', index=False)\n"
        "frame.plot()\nprint(frame.a.sum())"
    )
    async with served(python) as (client, _):
        response = await run_code(client, code, AUTO)
        [call, message] = response.output
        [logs, image] = call.outputs
        cited = {each.filename: each for each in message.content[0].annotations}
        content: dict[str, bytes] = {}
        for name, each in cited.items():
            answer = await client.containers.files.content.retrieve(
                each.file_id, container_id=each.container_id
            )
            content[name] = answer.read()
    assert logs.logs == "6\n"
    data = base64.b64decode(image.url.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG")
    assert content.pop("table.csv") == b"a\n1\n2\n3\n"
    assert list(content.values()) == [data]


async def test_files_that_were_given_are_there() -> None:
    """`file_ids` of an automatic container are put where the code looks."""
    async with served(python) as (client, _):
        stored = await client.files.create(file=("n.csv", b"1\n2\n"), purpose="user_data")
        container = {"type": "auto", "file_ids": [stored.id]}
        response = await run_code(client, "import os\nprint(os.listdir('.'))", container)
        with pytest.raises(NotFoundError, match="file_nope"):
            await client.containers.create(name="x", file_ids=["file_nope"])
    assert logs_of(response) == f"['{stored.id}-n.csv']\n"


async def test_a_link_is_not_followed_out_of_the_container(tmp_path: Path) -> None:
    """A result that is a link to a file of the machine is not one: nothing of it is read."""
    outside = tmp_path / "outside"
    outside.write_text("the secret")
    code = (
        f"import os\nos.symlink({str(outside)!r}, 'result.txt')\nos.makedirs('.figures')\n"
        f"os.symlink({str(outside)!r}, '.figures/1-1.png')\nopen('real', 'w').write('r')"
    )
    async with served(python) as (client, _):
        response = await run_code(client, code, AUTO)
        container_id = response.output[0].container_id
        files = (await client.containers.files.list(container_id)).data
    assert [each.path for each in files] == ["/mnt/data/real"]
    assert "the secret" not in response.model_dump_json()


async def test_code_has_no_network() -> None:
    """There is nothing to connect to, not even this machine."""
    server = await asyncio.start_server(lambda r, w: w.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    code = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), timeout=2)"
    async with server, served(python) as (client, _):
        response = await run_code(client, code, AUTO)
    assert "Error" in logs_of(response)


async def test_a_network_is_refused_unless_the_provider_allows_it() -> None:
    """A policy that asks for a network, or for some domains, is refused before anything is made."""
    everything = {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["*"]}}
    some = {"type": "auto", "network_policy": {"type": "allowlist", "allowed_domains": ["a.com"]}}
    async with served(python) as (client, _):
        for wanted in (everything, some):
            with pytest.raises(BadRequestError, match="no network"):
                await run_code(client, "1", wanted)
    async with served(python, allow_network=True) as (client, _):
        response = await run_code(client, "1", everything)
        made = await client.containers.retrieve(response.output[0].container_id)
    assert made.network_policy is not None
    assert made.network_policy.type == "allowlist"


async def test_too_much_memory_and_too_many_processes_fail() -> None:
    """An allocation above the limit fails, and so does one process too many."""
    forks = (
        "import os, sys\ncount = 0\ntry:\n    while count < 500:\n        if os.fork() == 0:\n"
        "            __import__('time').sleep(30)\n        count += 1\nexcept OSError:\n"
        "    print('refused before', 100 if count < 100 else count)"
    )
    async with served(python) as (client, _):
        memory = await run_code(client, "x = bytearray(3 * 1024**3)", AUTO)
        processes = await run_code(client, forks, AUTO)
    assert "MemoryError" in logs_of(memory)
    assert "refused before 100" in logs_of(processes)


async def test_endless_output_is_cut() -> None:
    """The beginning is kept, and the backend is told that there was more."""
    async with served(python) as (client, _):
        response = await run_code(client, "print('x' * 3_000_000)", AUTO)
    assert len(logs_of(response)) == 1024 * 1024
    assert response.output_text.count("the output was longer and was cut") == 1


async def test_code_that_takes_too_long_is_ended_and_the_next_call_is_told() -> None:
    """Its variables are gone, which both the answer and the next one say."""
    async with EmbeddedProvider(Puppet(python)) as provider:
        ask = provider.client()
        first = await run_code(ask, "x = 1", AUTO)
        provider.containers.seconds = 0.5
        slow = await run_code(ask, "while True: pass", AUTO, previous_response_id=first.id)
        # A busy machine may need longer than that to start another one.
        provider.containers.seconds = 60.0
        after = await run_code(ask, "'x' in globals()", AUTO, previous_response_id=slow.id)
    assert "took more than 0.5 seconds" in logs_of(slow)
    assert logs_of(after) == "False\n"
    assert "Python was restarted" in after.output_text
    assert "Python was restarted" not in first.output_text


async def test_an_interpreter_that_dies_is_told_of() -> None:
    """The code may end its own process; the container goes on with a new one."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        died = await run_code(client, "import os; os._exit(3)", container)
        alive = await run_code(client, "1 + 1", container)
    assert "The interpreter was ended (exit code 3)" in logs_of(died)
    assert logs_of(alive) == "2\n"


@pytest.mark.parametrize(
    "said", ["b'{}\\n'", "b'[' * 100000 + b'\\n'", 'b\'{"run": 7, "logs": "", "figures": []}\\n\'']
)
async def test_an_answer_that_code_makes_up_is_not_taken(said: str) -> None:
    """The code can write to the pipe that answers go through, but not say what it likes there."""
    code = (
        "import os\nfor number in range(3, 12):\n    try:\n"
        f"        os.write(number, {said})\n    except OSError:\n        pass"
    )
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        response = await run_code(client, code, container)
        after = await run_code(client, "1 + 1", container)
    assert "its reply was invalid" in logs_of(response)
    assert logs_of(after) == "2\n"


async def test_a_container_that_expired_is_refused_before_a_response() -> None:
    """By its id: 400 with the words that clients know. Its files are gone."""
    clock = Clock()
    async with served(python, clock=clock) as (client, _):
        container = await client.containers.create(name="c")
        await run_code(client, "open('x', 'w').write('x')", container.id)
        clock.now += 19 * 60
        await run_code(client, "1", container.id)
        clock.now += 20 * 60
        with pytest.raises(BadRequestError, match=r"Container is expired\.") as caught:
            await run_code(client, "1", container.id)
        seen = await client.containers.retrieve(container.id)
        files = (await client.containers.files.list(container.id)).data
    assert caught.value.code is None
    assert seen.status == "expired"
    assert files == []


async def test_a_conversation_whose_container_expired_has_a_new_one() -> None:
    """An automatic container is made anew, and the backend learns that the variables are gone."""
    clock = Clock()
    async with served(python, clock=clock) as (client, _):
        first = await run_code(client, "x = 1", AUTO)
        clock.now += 21 * 60
        second = await run_code(client, "'x' in globals()", AUTO, previous_response_id=first.id)
    assert second.output[0].container_id != first.output[0].container_id
    assert logs_of(second) == "False\n"


async def test_a_container_that_there_is_not_is_refused() -> None:
    """404 before a response, and a configuration that is wrong is a 400 that names the place."""
    async with served(python) as (client, _):
        with pytest.raises(NotFoundError, match="cntr_nope"):
            await run_code(client, "1", "cntr_nope")
        with pytest.raises(BadRequestError) as caught:
            await run_code(client, "1", {"type": "auto", "memory_limit": "2g"})
    assert caught.value.param == "tools[0].container.memory_limit"


async def test_cancelling_a_response_ends_its_code() -> None:
    """Code does not go on for a client that is gone; the container can be used at once."""
    begun = asyncio.Event()

    class Busy:
        name, is_scripted = "puppet", False

        async def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
            begun.set()
            for piece in python(request):
                yield piece

        async def aclose(self) -> None: ...

    async with EmbeddedProvider(Busy()) as provider:
        client = provider.client()
        container = (await client.containers.create(name="c")).id
        await run_code(client, "open('count', 'w').write('0')", container)
        code = (
            "open('begun', 'w').write('1')\nimport time\n"
            "while True:\n    open('count', 'a').write('1'); time.sleep(0.001)"
        )
        running = await run_code(client, code, container, background=True)
        [made] = await provider.containers.list(None)
        folder = provider.containers.files.work(made).path
        await until((folder / "begun").exists)
        await client.responses.cancel(running.id)
        after = await run_code(client, "import os\nprint(os.path.getsize('count'))", container)
        size = (folder / "count").stat().st_size
    assert begun.is_set()
    assert logs_of(after) == f"{size}\n"


async def test_the_oldest_idle_interpreter_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many interpreters are kept; a container that lost its own is told so."""
    monkeypatch.setattr("toolcrib.embedded.containers.interpreter_pool.MAX_INTERPRETERS", 1)
    async with served(python) as (client, _):
        first = await run_code(client, "x = 1", AUTO)
        await run_code(client, "1", AUTO)
        back = await run_code(client, "'x' in globals()", AUTO, previous_response_id=first.id)
    assert logs_of(back) == "False\n"
    assert "Python was restarted" in back.output_text


async def test_events_tell_the_code_before_it_runs() -> None:
    """The official events of a code interpreter, in order."""
    async with served(python) as (client, _):
        tools: Any = [{"type": "code_interpreter", "container": AUTO}]
        stream: Any = await client.responses.create(
            model="puppet", input="1", tools=tools, stream=True
        )
        kinds = [event.type async for event in stream]
    assert kinds[2:9] == [
        "response.output_item.added",
        "response.code_interpreter_call.in_progress",
        "response.code_interpreter_call_code.delta",
        "response.code_interpreter_call_code.done",
        "response.code_interpreter_call.interpreting",
        "response.code_interpreter_call.completed",
        "response.output_item.done",
    ]


async def test_code_of_one_container_runs_one_after_the_other() -> None:
    """Two responses that use one container do not mix their output."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        code = "for _ in range(200): print({0}, flush=True)"
        both = await asyncio.gather(
            *(run_code(client, code.format(each), container) for each in (1, 2))
        )
    assert {logs_of(each) for each in both} == {"1\n" * 200, "2\n" * 200}


@pytest.mark.load
async def test_a_warm_call_is_fast(capsys: pytest.CaptureFixture[str]) -> None:
    """The next call of a warm container takes less than 50 ms in the median, all in all."""
    async with served(python) as (client, _):
        container = (await client.containers.create(name="c")).id
        began = time.perf_counter()
        await run_code(client, "1", container)
        cold = time.perf_counter() - began
        taken: list[float] = []
        for _ in range(31):
            began = time.perf_counter()
            await run_code(client, "1", container)
            taken.append(time.perf_counter() - began)
    with capsys.disabled():
        print(f"\nfirst call {cold * 1000:.0f} ms, warm {median(taken) * 1000:.1f} ms", end="")
    assert median(taken) < 0.050
