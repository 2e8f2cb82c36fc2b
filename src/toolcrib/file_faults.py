"""Faults in files that people write: what is wrong, on which line, and what to write instead.

The form of such a file is a published JSON Schema; `schema_faults` turns what violates it into
sentences. A sentence never has the value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.yaml_source import Located, NodePath, unknown_key

_KINDS: Final = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "nothing",
    "number": "a number",
    "object": "lines of key: value",
    "string": "text; put it in quotes",
}


@dataclass(frozen=True, slots=True, order=True)
class FileFault:
    """One fault. `subject` names what it concerns, such as a tool, if there is something."""

    line: int
    subject: str
    message: str

    def in_file(self, file: str) -> str:
        """The fault in one line, in the format of compilers: `file:line: message`."""
        subject = f"{self.subject}: " if self.subject else ""
        return f"{file}:{self.line}: {subject}{self.message}"


def faults_text(file: str, faults: Iterable[FileFault]) -> str:
    """All faults of a file, a line each, in the order of their lines."""
    return "\n".join(fault.in_file(file) for fault in sorted(faults))


@dataclass(frozen=True, slots=True)
class FileForm:
    """The form of a kind of file: its schema, and how its faults are worded."""

    schema: Mapping[str, Any]
    subject_of: Callable[[Located, NodePath], str]
    """What a path in a document is about; empty for the file as a whole."""
    key_in: Callable[[NodePath], str]
    """The part of a path that the sentence names, after the subject."""
    messages: Mapping[str, str]
    """Sentences in place of the schema's, by the keyword that is violated."""

    def faults(self, document: Located, validator: Any) -> list[FileFault]:
        """The faults of a document against the schema."""
        return [
            FileFault(document.line_at(path), self.subject_of(document, path), message)
            for error in validator.iter_errors(document.plain())
            for path, message in self._messages(error)
        ]

    def _messages(self, error: Any) -> Iterator[tuple[NodePath, str]]:
        kind, path = error.kind, cast("list[str | int]", error.instance_path)
        key = self.key_in(path)
        match kind.name:
            case "additionalProperties":
                known = list(self._rule_at(error)["properties"])
                for unknown in cast("list[str]", kind.unexpected):
                    yield [*path, unknown], unknown_key(unknown, known)
            case "required":
                yield path, f"{kind.property!r} is missing"
            case str(name) if name in self.messages:
                yield path, self.messages[name]
            case "type":
                expected = [_KINDS[name] for name in cast("list[str]", kind.types)]
                yield path, f"{key or 'this'} must be {' or '.join(expected)}"
            case "enum":
                yield path, f"{key} must be one of {', '.join(kind.options)}"
            case "pattern":
                yield path, f"{key} must be {self._rule_at(error)['$comment']}"
            case "propertyNames":
                inner = [*path, cast("str", kind.error.instance)]
                yield inner, f"the name {inner[-1]!r} must be {self._rule_at(error)['$comment']}"
            case _:
                yield path, f"{key}: {error.message}"

    def _rule_at(self, error: Any) -> dict[str, Any]:
        """The part of the schema that the error violates."""
        node: Any = self.schema
        for part in error.schema_path[:-1]:
            node = node[part]
        return node
