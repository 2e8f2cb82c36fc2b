"""The private names of other libraries: each exists, and all of them are used in one module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.models import Model
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.groq import GroqModel, GroqStreamedResponse
from pydantic_ai.models.test import TestModel
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.providers.groq import GroqProvider

import toolcrib
from toolcrib.adapters.pydantic_ai.models import keys_of
from toolcrib.adapters.pydantic_ai.patched_models import patch_model, private_api
from toolcrib.adapters.pydantic_ai.patched_models.private_api import (
    PRIVATE_NAMES,
    ModelCopy,
    PrivateName,
    check_private_names,
    refresh_connections,
)
from toolcrib.errors import UsageError

SOURCE = Path(toolcrib.__file__).parent
NAMES = [(module, private) for module, names in PRIVATE_NAMES.items() for private in names]


@pytest.fixture(autouse=True)
def unchecked() -> Iterator[None]:
    """Nothing of earlier checks is remembered, here or by later tests."""
    check_private_names.cache_clear()
    yield
    check_private_names.cache_clear()


@pytest.mark.parametrize(
    ("module", "private"),
    NAMES,
    ids=[f"{module} {private.owner}.{private.name}" for module, private in NAMES],
)
def test_the_installed_library_has_the_name(module: str, private: PrivateName) -> None:
    """A release of pydantic-ai that renamed it fails here under the name that it lacks."""
    path, _, class_name = private.owner.partition(":")
    owner: Any = getattr(import_module(path), class_name)

    assert hasattr(owner, private.name) or private.name in owner.__dataclass_fields__
    assert private.reason


@pytest.mark.parametrize("module", PRIVATE_NAMES)
def test_the_check_passes_and_is_made_once(module: str) -> None:
    """The installed library has every name, and a second model of a kind looks for none again."""
    check_private_names(module)
    check_private_names(module)

    lookups = check_private_names.cache_info()
    assert (lookups.misses, lookups.hits) == (1, 1)


def test_a_missing_name_is_reported_before_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says which library, which version, which name and what it was for."""
    monkeypatch.delattr(GroqModel, "_process_streamed_response")
    model = type("OwnGroqModel", (GroqModel,), {})("m", provider=GroqProvider(api_key="x"))

    with pytest.raises(
        UsageError,
        match=r"pydantic-ai-slim \S+ has no pydantic_ai\.models\.groq\.GroqModel"
        r"\._process_streamed_response, which Toolcrib needs to read a stream before",
    ):
        patch_model(model)


def test_a_missing_field_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of a dataclass count, although they are no attributes of the class."""
    fields: dict[str, Any] = dict(GroqStreamedResponse.__dataclass_fields__)
    del fields["_response"]
    monkeypatch.setattr(GroqStreamedResponse, "__dataclass_fields__", fields)

    with pytest.raises(UsageError, match=r"has no \S+GroqStreamedResponse\._response, which"):
        check_private_names("groq")


def test_a_missing_class_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that moved is named as well."""
    gone = PrivateName("pydantic_ai.models.groq:NoSuchModel", "_x", "test")
    monkeypatch.setattr(private_api, "PRIVATE_NAMES", {"gone": (gone,)})

    with pytest.raises(UsageError, match=r"has no pydantic_ai\.models\.groq\.NoSuchModel, which"):
        check_private_names("gone")


def test_connections_that_cannot_be_renewed_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model would keep connections of a closed loop otherwise."""
    monkeypatch.delattr(Model, "_refresh_http_client")

    with pytest.raises(UsageError, match=r"has no \S+\.Model\._refresh_http_client, which"):
        refresh_connections(TestModel())


def bedrock() -> Any:
    provider = BedrockProvider(
        region_name="us-east-1",
        aws_access_key_id="id",
        aws_secret_access_key="secret-key",
        aws_session_token="session-token",
    )
    return BedrockConverseModel("m", provider=provider)


def test_the_keys_of_botocore_are_known() -> None:
    """They are kept out of errors, and botocore has no public name for them."""
    assert {"secret-key", "session-token"} <= set(keys_of(bedrock()))


def test_a_botocore_without_its_names_is_reported() -> None:
    """Keys that nobody finds would not be redacted, so the adapter does not go on."""
    model = bedrock()
    del model.client._request_signer._credentials

    with pytest.raises(UsageError, match=r"botocore \S+ has no _request_signer\._credentials"):
        keys_of(model)


def test_a_copy_shares_the_attributes_of_the_original() -> None:
    """Whatever the constructor of the original's class takes."""

    class Own:
        def __init__(self, first: int, second: int) -> None:
            self.first, self.second = first, second

    class OwnCopy(ModelCopy, Own):
        pass

    original = Own(1, 2)
    copy = OwnCopy(original, second=3)

    assert (copy.first, copy.second) == (1, 3)
    assert (original.first, original.second) == (1, 2)


FENCED = [
    path
    for package in ("adapters/pydantic_ai", "toolsets")
    for path in sorted((SOURCE / package).rglob("*.py"))
    if path.name != "private_api.py"
]


@pytest.mark.parametrize("path", FENCED, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_other_module_reaches_for_private_names(path: Path) -> None:
    """Attributes and imports with an underscore are of the module's own classes, `__class__` is
    never assigned, and nothing is made around its constructor.
    """
    faults = [
        f"{path.name}:{getattr(node, 'lineno', 0)}: {name}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in _private_names(node)
    ]

    assert faults == []


def _private_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Attribute(value=ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super"))):
            return
        case ast.Attribute(attr="__class__", ctx=ast.Store()):
            yield "assigns __class__"
        case ast.Attribute(value=ast.Name(id="object"), attr="__new__"):
            yield "object.__new__"
        case ast.Attribute(attr=attribute) if _is_private(attribute) and attribute not in _OWN:
            yield attribute
        case ast.ImportFrom(module=str(module)) if not module.startswith("toolcrib"):
            yield from filter(_is_private, module.split("."))
            yield from (alias.name for alias in node.names if _is_private(alias.name))
        case _:
            return


_OWN = frozenset({"_call_tool_func", "_replace"})
"""Toolcrib's own seam for overrides, and the public method of named tuples."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")
