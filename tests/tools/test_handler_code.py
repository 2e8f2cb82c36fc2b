"""What is known of a handler's code: its byte code, its module, the values it was made with."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache, partial, wraps
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from toolcrib.context import AgentContext
from toolcrib.tools.handler_code import code_of
from toolcrib.tools.prepared_tool import prepare
from toolcrib.toolsets import BaseTool, Toolset

MODULE = """
LIMIT = {limit}


def helper(amount):
    return amount {operator} LIMIT


def handler(amount):
    return helper(amount)


class Desk:
    def pay(self, amount):
        return helper(amount)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    sys.modules.pop("paying", None)


def load(folder: Path, *, limit: int = 1, operator: str = "+") -> ModuleType:
    """The module with this source, loaded anew."""
    (folder / "paying.py").write_text(MODULE.format(limit=limit, operator=operator))
    sys.modules.pop("paying", None)
    importlib.invalidate_caches()
    return importlib.import_module("paying")


@pytest.mark.parametrize("change", [{"limit": 2}, {"operator": "-"}])
@pytest.mark.parametrize("handler", ["handler", "Desk"])
def test_the_whole_module_counts(folder: Path, change: dict[str, Any], handler: str) -> None:
    """Finding 3: a helper or a constant of the handler's module that changed is another code."""

    def known(module: ModuleType) -> str:
        found = getattr(module, handler)
        return code_of(found if handler == "handler" else found().pay).digest

    first = known(load(folder))

    assert known(load(folder)) == first
    assert known(load(folder, **change)) != first


def test_a_file_that_was_edited_and_not_loaded_is_not_what_runs(folder: Path) -> None:
    """What runs is what was loaded; the edit counts when it is loaded."""
    module = load(folder)
    first = code_of(module.handler)
    (folder / "paying.py").write_text(MODULE.format(limit=5, operator="*"))

    assert code_of(module.handler) == first
    assert code_of(importlib.reload(module).handler) != first


def run(source: str, **scope: Any) -> dict[str, Any]:
    """The names that a source without a file defines."""
    names: dict[str, Any] = {"__name__": "typed_in", **scope}
    exec(source, names)
    return names


def test_without_a_file_what_the_code_names_counts() -> None:
    """In a REPL there is no source: helpers and constants that the handler names are looked at."""
    first = code_of(run(MODULE.format(limit=1, operator="+"))["handler"])

    assert code_of(run(MODULE.format(limit=1, operator="+"))["handler"]) == first
    assert code_of(run(MODULE.format(limit=1, operator="-"))["handler"]) != first
    assert code_of(run(MODULE.format(limit=2, operator="+"))["handler"]) != first
    assert code_of(run(MODULE.format(limit=1, operator="-"))["Desk"]().pay) != code_of(
        run(MODULE.format(limit=1, operator="+"))["Desk"]().pay
    )


def test_a_lambda_is_told_from_its_neighbour() -> None:
    """Two functions of one line of one file are two codes."""
    first, second = (lambda: 1), (lambda: 2)

    assert code_of(first).digest != code_of(second).digest


def test_a_function_under_a_decorator_counts() -> None:
    """The wrapper is the same; what it wraps is not."""

    def logged(function: Callable[[], object]) -> Callable[[], object]:
        @wraps(function)
        def call() -> object:
            return function()

        return call

    def one() -> int:
        return 1

    def two() -> int:
        return 2

    assert code_of(logged(one)).digest != code_of(logged(two)).digest
    assert code_of(lru_cache(one)).digest != code_of(lru_cache(two)).digest


def test_a_function_in_a_tuple_counts() -> None:
    """A chain of steps that a handler was made with is part of what runs."""

    def chained(*steps: Any) -> Any:
        def handler(x: str) -> str:
            return steps[0](x)

        return handler

    assert code_of(chained(str.upper, _first)) != code_of(chained(str.upper, _second))
    assert code_of(chained(_first)) == code_of(chained(_first))


def _first(x: str) -> str:
    return x


def _second(x: str) -> str:
    return x


def test_a_function_that_names_itself_ends() -> None:
    """A circle of references is walked once."""

    def again(count: int) -> int:
        return again(count - 1) if count else 0

    assert code_of(again).is_whole


def test_state_is_not_code_but_makes_it_less_than_whole() -> None:
    """Lists and connections change while a tool is used: they are not in the digest, and the
    digest says that it is not the whole truth.
    """

    def noting(log: list[str]) -> Callable[[], None]:
        return lambda: log.append("x")

    empty, full = code_of(noting([])), code_of(noting(["x"]))

    assert empty == full
    assert not full.is_whole
    assert not code_of(partial(print, "x")).is_whole
    assert not code_of("".join).is_whole


def test_a_value_that_is_filled_in_later_is_no_change() -> None:
    """A connection that is opened at the first call leaves the tool what it was."""

    class Desk:
        def __init__(self, connection: object = None) -> None:
            self._connection = connection

        def __call__(self) -> object:
            return self._connection

    assert code_of(Desk()).digest == code_of(Desk(object())).digest


def test_secrets_are_not_in_the_digest() -> None:
    """A password is rotated, and its digest could be guessed."""

    def login(password: str) -> Callable[[], str]:
        return lambda: password

    assert code_of(login("hunter2")) == code_of(login("hunter3"))


SCRIPT = """
import sys
from toolcrib.tools.handler_code import code_of

def check(word):
    return word in {"alpha", "beta", "gamma", "delta"}

print(code_of(check).digest)
"""


def test_the_digest_is_the_same_in_every_process(tmp_path: Path) -> None:
    """Sets have another order in each process; neither that nor the path of the file counts."""
    digests: set[str] = set()
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        script = tmp_path / seed / "script.py"
        script.write_text(SCRIPT)
        ran = subprocess.run(
            [sys.executable, str(script)],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(ran.stdout)

    assert len(digests) == 1


def test_a_module_of_the_application_may_have_the_name_of_one_of_pythons(folder: Path) -> None:
    """What counts as Python's own code is decided by where it is, not by its name."""
    known: list[str] = []
    for operator in "+-":
        names: dict[str, Any] = {"__name__": "calendar", "__file__": str(folder / "calendar.py")}
        source = MODULE.format(limit=1, operator=operator)
        (folder / "calendar.py").write_text(source)
        exec(compile(source, names["__file__"], "exec"), names)
        known.append(code_of(names["handler"]).digest)

    assert known[0] != known[1]


class Desk(BaseTool):
    """A tool as a class."""

    name = "desk"
    description = "Pay."

    def __init__(self, root: str) -> None:
        self.root = root

    async def call(self, ctx: Any, amount: int) -> str:
        return f"{self.root} {amount}"


class OtherDesk(Desk):
    async def call(self, ctx: Any, amount: int) -> str:
        return f"{self.root} {amount} twice"


def test_the_code_of_a_tool_class_counts_in_a_toolset() -> None:
    """The toolset wraps the method; the class and its settings are in the identity all the same."""
    digests = [
        prepare(toolset.served_tools()[0]).ref.digest
        for toolset in (
            Toolset(AgentContext(), [Desk("a")]),
            Toolset(AgentContext(), [Desk("a")]),
            Toolset(AgentContext(), [Desk("b")]),
            Toolset(AgentContext(), [OtherDesk("a")]),
        )
    ]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3
