"""The tree of errors is whole: a reader of one file knows what to catch."""

import importlib
import pkgutil
from collections.abc import Iterator

import toolcrib
from toolcrib import errors
from toolcrib.errors import ControlFlow, ToolcribError


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
