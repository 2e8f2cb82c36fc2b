"""`transform`: a tool under another name, with other words and other arguments."""

from __future__ import annotations

from typing import Annotated, Any

import pytest

from toolcrib import Executor, Policy, Session, tool
from toolcrib.approval import Rule
from toolcrib.approval.decision import Approve
from toolcrib.approval.pattern import Glob
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import HostToolDefinition
from toolcrib.ledger.events import ToolInvoked
from toolcrib.tools import Audience, Secret, prepare, transform
from toolcrib.tools.identity import changes_between

CANARY = "canary-5b1f0c7e-transform"


@tool
def read(path: str, root: str, limit: int = 10) -> str:
    """Read a file.

    Args:
        path: Which file.
    """
    return f"{root}/{path} to {limit}"


def docs_reader() -> Any:
    return transform(
        read,
        name="read_docs",
        description="Reads the documentation.",
        fixed={"root": "/docs"},
        hidden=("limit",),
        renamed={"path": "page"},
        described={"path": "Which page."},
    )


def test_callers_see_the_other_words_and_arguments() -> None:
    """Name, description and schema are those of the transform; the first tool stays as it is."""
    shown = prepare(docs_reader()).declaration

    assert (shown.name, shown.description) == ("read_docs", "Reads the documentation.")
    assert shown.parameters["properties"] == {
        "page": {"type": "string", "description": "Which page."}
    }
    assert shown.parameters["required"] == ["page"]
    assert set(prepare(read).declaration.parameters["properties"]) == {"path", "root", "limit"}


async def test_the_handler_gets_and_the_record_has_its_own_arguments() -> None:
    """Fixed values are filled in before anything is decided or written down."""
    session = Session()
    executor = Executor(session, [docs_reader()])

    done = await executor.call("read_docs", {"page": "start"})

    assert done.value == "/docs/start to 10"
    [invoked] = [event for event in session.events() if isinstance(event, ToolInvoked)]
    assert invoked.params == {"path": "start", "root": "/docs", "limit": 10}


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"page": "a", "root": "/etc"}, "- /: There is no argument 'root'."),
        ({"page": "a", "limit": 9}, "- /: There is no argument 'limit'."),
        ({"page": "a", "path": "b"}, "- /: There is no argument 'path'."),
        ({"page": 5}, "- /page: Input should be a valid string"),
        ({}, "- /page: Field required"),
    ],
)
async def test_nobody_chooses_what_is_fixed(arguments: dict[str, Any], line: str) -> None:
    """An argument that is not shown is refused, and faults have the names that callers know."""
    outcome = await Executor(Session(), [docs_reader()]).call("read_docs", arguments)

    assert outcome.failure is not None
    assert outcome.failure.kind == "invalid_arguments"
    assert line in outcome.text


async def test_rules_are_about_the_arguments_of_the_handler() -> None:
    """A policy that knows the tool's own arguments still sees them, also the fixed ones."""
    deny = Policy((Rule("deny", "read_docs", arguments={"/root": Glob("/docs/**")}),))
    outcome = await Executor(Session(), [docs_reader()], policy=deny).call(
        "read_docs", {"page": "start"}
    )

    assert outcome.failure is not None
    assert outcome.failure.kind == "not_permitted"


async def test_a_waiting_call_goes_on_with_what_was_approved() -> None:
    """The frozen arguments, which have the fixed ones, are taken again after the approval."""
    session = Session()
    executor = Executor(session, [docs_reader()], policy=Policy((Rule("ask", "*"),)))
    waiting = await executor.call("read_docs", {"page": "start"})
    assert waiting.approval is not None
    assert waiting.approval.arguments == {"path": "start", "root": "/docs", "limit": 10}

    await session.approvals.decide(waiting.call_id, Approve(), by="ada")
    [done] = await executor.resume()

    assert done.value == "/docs/start to 10"


async def test_a_fixed_secret_is_in_no_record() -> None:
    """The fixed value of a secret argument is redacted as if a caller had given it."""

    @tool
    def fetch(url: str, token: Annotated[str, Secret()]) -> str:
        """Fetch."""
        return f"{url} with {token}"

    session = Session()
    fetcher = transform(fetch, fixed={"token": CANARY})
    done = await Executor(session, [fetcher]).call("fetch", {"url": "here"})

    assert done.value == f"here with {CANARY}"
    assert CANARY not in repr(list(session.records()))
    assert CANARY not in repr(prepare(fetcher).identity)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"fixed": {"rot": "/"}}, "there is no argument 'rot' to transform"),
        ({"fixed": {"root": 5}}, "the fixed value of the argument 'root' does not fit"),
        ({"hidden": ("path",)}, "'path' is required; give it a fixed value"),
        ({"renamed": {"path": "root"}}, "there are two arguments 'root'"),
        ({"renamed": {"root": "r"}, "fixed": {"root": "/"}}, "'root' is not shown"),
        ({"hidden": ("limit",), "fixed": {"limit": 1}}, "'limit' is fixed"),
    ],
)
def test_a_transform_that_does_not_fit_is_refused(changes: Any, fault: str) -> None:
    """When it is declared, not when somebody calls."""
    with pytest.raises(InvalidTool, match=fault):
        transform(read, **changes)


def test_a_tool_is_transformed_once() -> None:
    """The second transform would speak of names that the first one made."""
    with pytest.raises(InvalidTool, match="transformed already"):
        transform(docs_reader(), name="again")


def test_other_fixed_values_make_another_tool() -> None:
    """A grant for the one does not cover the other, and people are told what changed."""
    old = prepare(transform(read, fixed={"root": "/docs"})).identity
    new = prepare(transform(read, fixed={"root": "/etc"})).identity

    assert old.digest != new.digest
    assert "argument_transform.fixed.root: /docs -> /etc" in changes_between(old.parts, new.parts)


def test_host_tools_keep_it() -> None:
    """A transformed tool can be registered like any other."""
    definition = HostToolDefinition.of(
        transform(read, fixed={"root": "/docs"}, visible_to=Audience(groups=("ops",)))
    )

    assert set(definition.parameters["properties"]) == {"path", "limit"}
    assert definition.declared.visible_to == Audience(groups=("ops",))


@pytest.mark.parametrize(
    ("audience", "is_seen"),
    [
        (Audience(principals=("ann",)), True),
        (Audience(principals=("a*",)), True),
        (Audience(principals=("bob",), groups=("ops-?",)), True),
        (Audience(principals=("an",)), False),
        (Audience(groups=("ann",)), False),
    ],
)
def test_audiences(audience: Audience, is_seen: bool) -> None:
    """One name or one group is enough; nobody in particular is in no audience."""
    assert audience.includes("ann", {"ops-1"}) is is_seen
    assert not audience.includes(None, {"ops-1"})


def test_an_audience_of_nobody_is_a_mistake() -> None:
    """A tool that nobody could see is refused."""
    with pytest.raises(InvalidTool, match="principals or groups"):
        Audience()
