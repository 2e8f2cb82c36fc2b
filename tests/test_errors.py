"""The tree of errors is whole: a reader of one file knows what to catch."""

import ast
import builtins
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import toolcrib
from toolcrib import errors
from toolcrib.errors import ControlFlow, ToolcribError

PRIVATE = {
    "CallSuspended": "the gate's signal to the path of the same call; nothing else sees it",
    "InvalidLine": "carries an MCP error reply to the reader of the same stream",
    "KeysUnavailable": "an issuer that cannot be asked; the login turns it into a refusal",
    "LoginFailed": "a login that is refused; the middleware turns it into a refusal",
    "SignInDenied": "a `LoginFailed`: the page of the browser is told that its person said no",
    "MisdirectedRequest": "a request for another replica; the endpoint answers that it is not here",
    "MissingFact": "a scenario's lookup; the scripted backend turns it into BackendFailed",
    "NotAccepted": "a webhook that did not take a notice; its delivery tries again",
    "NotStrict": "decides whether a schema is sent in strict mode; caught in the same module",
    "_Fault": "a fault on its way to the reader of the same file, which names the line",
}
"""Exceptions that are no `ToolcribError`: nobody sees them but their own module or package."""


def exceptions_outside_the_tree() -> Iterator[str]:
    """The name of every exception class of the package that is not below `ToolcribError`."""
    bases: dict[str, set[str]] = {}
    for file in Path(errors.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                names = {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}
                bases.setdefault(node.name, set()).update(names)

    def ancestors(name: str) -> set[str]:
        own = bases.get(name, set())
        return own.union(*(ancestors(base) for base in own if base != name))

    builtin = {
        name
        for name, value in vars(builtins).items()
        if isinstance(value, type) and issubclass(value, BaseException)
    }
    for name in sorted(bases):
        above = ancestors(name)
        if above & builtin and "ToolcribError" not in {name, *above}:
            yield name


def below(error: type[ToolcribError]) -> Iterator[type[ToolcribError]]:
    yield error
    for each in error.__subclasses__():
        yield from below(each)


def test_every_error_of_the_package_is_drawn_in_the_tree() -> None:
    """No module keeps an error of its own that users could not find where all others are. A signal
    within the package is no error: nobody catches it but who sent it.
    """
    for module in pkgutil.walk_packages(toolcrib.__path__, "toolcrib."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)

    found = [each for each in below(ToolcribError) if each.__module__.startswith("toolcrib.")]
    here = [each for each in found if each.__module__ == errors.__name__]
    elsewhere = [each for each in found if each not in here and not issubclass(each, ControlFlow)]

    assert elsewhere == []
    assert [each.__name__ for each in here if f" {each.__name__}" not in f"{errors.__doc__}"] == []


def test_every_exception_of_the_package_is_below_one_class() -> None:
    """Whoever catches `ToolcribError` catches all; each exception to that has a reason here."""
    assert list(exceptions_outside_the_tree()) == sorted(PRIVATE)
