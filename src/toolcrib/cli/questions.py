"""`toolcrib questions`: what running calls of a server ask."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.output import fail, show_json, show_note
from toolcrib.cli.service import TokenFile, Url, chosen_url, open_service, plain
from toolcrib.cli.store_options import AnySession, Json
from toolcrib.cli.table import Row, moment_text, show_table

if TYPE_CHECKING:
    from pathlib import Path

    from toolcrib.runtime.blocking_operations import BlockingOperations

app = typer.Typer(help="List questions of running calls, and answer them.", no_args_is_help=True)

QuestionId = Annotated[str, typer.Argument(metavar="QUESTION", help="The question, as listed.")]


@app.command("list")
def list_command(
    session: AnySession = None, url: Url = None, token_file: TokenFile = None, json: Json = False
) -> None:
    """Print the questions that running calls of a server ask, oldest first.

    Example: toolcrib questions list --url http://127.0.0.1:8420
    """
    with _server(url, token_file) as service:
        questions = plain(service.list_questions(session_id=session))["questions"]
    if json:
        show_json(questions)
        return
    rows = [
        Row(
            (
                each["question_id"],
                each["tool"],
                each["caller"]["principal"] or "-",
                moment_text(each["created_at"]),
                each["text"],
            )
        )
        for each in questions
    ]
    show_table(("question", "tool", "call of", "asked", "text"), rows, widest=(0, 24, 16, 0, 0))


@app.command()
def answer(
    question: QuestionId,
    value: Annotated[
        str | None,
        typer.Argument(metavar="VALUE", help="The answer, read by its schema; else it is asked."),
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Answer a question; the call goes on with the value.

    Example: toolcrib questions answer qst_1 savings --url http://127.0.0.1:8420
    """
    with _server(url, token_file) as service:
        facts = _found(service, question)
        typed = _value(service, facts) if value is None else _read(value, facts["schema"])
        service.answer_question(question, typed)
    show_note(f"answered {question}")


@app.command()
def decline(
    question: QuestionId,
    reason: Annotated[str | None, typer.Option("--reason", help="What the tool is told.")] = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Do not answer a question; the tool is told so.

    Example: toolcrib questions decline qst_1 --reason "ask me tomorrow"
    """
    with _server(url, token_file) as service:
        service.answer_question(question, action="decline", reason=reason)
    show_note(f"declined {question}")


@contextmanager
def _server(url: str | None, token_file: Path | None) -> Generator[BlockingOperations]:
    if chosen_url(url) is None:
        raise typer.BadParameter("questions are open while a server runs calls; name it: --url URL")
    with open_service(None, url, token_file) as service:
        yield service


def _found(service: BlockingOperations, question: str) -> dict[str, Any]:
    listed = plain(service.list_questions())["questions"]
    facts = next((each for each in listed if each["question_id"] == question), None)
    if facts is None:
        fail(f"there is no open question {question}; `toolcrib questions list` prints them")
    return facts


def _read(text: str, schema: dict[str, Any]) -> Any:
    from toolcrib.cli.arguments import read_value
    from toolcrib.transports.question_form import choices_of

    choices = choices_of(schema)
    return choices[text] if choices and text in choices else read_value(text, schema)


def _value(service: BlockingOperations, facts: dict[str, Any]) -> Any:
    """The answer that a person types now."""
    import sys

    from toolcrib.approval.console import Console
    from toolcrib.cli.approver import is_terminal
    from toolcrib.cli.question_prompt import typed_value
    from toolcrib.errors import EndOfInput, QuestionDeclined

    if not is_terminal():
        raise typer.BadParameter("give VALUE: there is no terminal to ask at")
    show_note(f"{facts['tool']} asks: {facts['text']}")
    console = Console(sys.stdin, sys.stderr)
    try:
        return service.complete(typed_value(console, facts["schema"], is_secret=facts["is_secret"]))
    except (QuestionDeclined, EndOfInput):
        fail("nothing was answered; `toolcrib questions decline` declines")
