"""Logs of a server: one line per record, as text or as JSON, without credentials.

Whatever a record holds, it cannot look like another line: control characters are escaped, and the
lines of a traceback are indented.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Literal, TextIO, get_args

from toolcrib.errors import UsageError

LogLevel = Literal["debug", "info", "warning", "error"]
LogFormat = Literal["text", "json"]
LogFacts = Mapping[str, str | int | float | None]

LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
FORMATS: Final[tuple[str, ...]] = get_args(LogFormat)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """What a server logs, and in which form."""

    level: LogLevel = "info"
    format: LogFormat = "text"
    access: bool = True
    """Whether every request is logged. Health checks are logged only when they fail."""

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise UsageError(f"unknown log level {self.level!r}; write one of {', '.join(LEVELS)}")
        if self.format not in FORMATS:
            raise UsageError(f"unknown log format {self.format!r}; write text or json")


no_facts: Final[Callable[[], LogFacts]] = dict[str, "str | int | float | None"]
request_facts: ContextVar[Callable[[], LogFacts]] = ContextVar("log-facts", default=no_facts)
"""Facts of the request that the running code is part of, such as `request_id`."""


def log_facts(
    logger: logging.Logger, level: int, message: str, *args: object, facts: LogFacts
) -> None:
    """Log a message with facts. As text they follow the message; in JSON each has its own key."""
    if logger.isEnabledFor(level):
        logger.log(level, message, *args, extra={_FACTS: facts})


_FACTS: Final = "toolcrib_facts"
_FIRST_KEYS: Final = ("request_id", "principal", "session_id", "call_id")
_MAX_TEXT: Final = 20_000


class LineFormatter(logging.Formatter):
    """Writes a record as one line of text, and the lines of a traceback indented below it. Below
    warnings there are tracebacks only with `all_tracebacks`: what a tool raised may quote its
    arguments.
    """

    def __init__(
        self, context: Callable[[], LogFacts] = no_facts, *, all_tracebacks: bool = False
    ) -> None:
        super().__init__()
        self._context = context
        self._all_tracebacks = all_tracebacks

    def format(self, record: logging.LogRecord) -> str:
        facts = self._facts(record)
        words = [f"{key}={_word(value)}" for key, value in facts.items() if value is not None]
        level = record.levelname.lower()
        text = f"{_time_of(record)} {level} {record.name}: {one_line(_message(record))}"
        line = " ".join((text, *words))
        traceback = self._traceback(record)
        return "\n".join((line, *(f"    | {one_line(each)}" for each in traceback)))

    def _facts(self, record: logging.LogRecord) -> dict[str, str | int | float | None]:
        own: LogFacts = getattr(record, _FACTS, {})
        facts = {**request_facts.get()(), **self._context(), **own}
        first = {key: facts.pop(key) for key in _FIRST_KEYS if key in facts}
        return {**first, **facts}

    def _traceback(self, record: logging.LogRecord) -> list[str]:
        if not record.exc_info or record.exc_info[0] is None:
            return []
        if record.levelno < logging.WARNING and not self._all_tracebacks:
            return []
        return without_credentials(self.formatException(record.exc_info))[-_MAX_TEXT:].split("\n")


class JsonFormatter(LineFormatter):
    """Writes a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time_of(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for key, value in self._facts(record).items():
            if value is not None:
                line.setdefault(key, value)
        if traceback := self._traceback(record):
            line["exception"] = "\n".join(traceback)
        # ASCII: no line separator and no character that turns the direction gets through.
        return json.dumps(line, ensure_ascii=True, allow_nan=True, default=str)


def one_line(text: str) -> str:
    """The text with everything escaped that is not printable."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in text
    )


def _word(value: str | int | float | None) -> str:
    text = one_line(str(value))
    return text if text and not set(text) & {" ", '"', "="} else json.dumps(text)


def _message(record: logging.LogRecord) -> str:
    return without_credentials(record.getMessage())[:_MAX_TEXT]


def _time_of(record: logging.LogRecord) -> str:
    seconds = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{seconds}.{int(record.msecs):03d}Z"


def write_logs(
    options: LogOptions,
    out: TextIO | None = None,
    *,
    context: Callable[[], LogFacts] = no_facts,
    all_tracebacks: bool = False,
) -> logging.Handler:
    """Write the logs of this process to `out`, from now on: ours from the level of the options,
    those of libraries from warnings on, unless the level is debug. `context` has the facts of the
    running code. What tools raised is shown with `all_tracebacks`, or at the level debug. Handlers
    that this function added before are replaced.
    """
    kind = JsonFormatter if options.format == "json" else LineFormatter
    formatter = kind(context, all_tracebacks=all_tracebacks or options.level == "debug")
    handler = _LogHandler(out or sys.stderr)
    handler.setFormatter(formatter)
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _LogHandler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    level = logging.getLevelNamesMapping()[options.level.upper()]
    root.setLevel(level if level == logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger("toolcrib").setLevel(level)
    return handler


@contextmanager
def restored_logs() -> Generator[None]:
    """Undo at the end of the block what `write_logs` has set up in it."""
    root, own = logging.getLogger(), logging.getLogger("toolcrib")
    handlers, levels = root.handlers[:], (root.level, own.level)
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        own.setLevel(levels[1])


class _LogHandler(logging.StreamHandler[TextIO]):
    """The handler of `write_logs`."""


_CREDENTIALS: Final = re.compile(
    r"""
    (?P<kept>
        (?:(?:proxy-)?authorization|toolcrib-csrf)["']?\s*[:=,]\s*(?:b?["'])?(?:bearer\s+|basic\s+)?
      | \bbearer\s+
      | toolcrib\.bearer\.
      | \b(?:access_token|token|id_token|refresh_token|code|client_secret)=
    )
    [^\s"'&,)\]]+
  | (?P<cookie>(?:set-)?cookie["']?\s*[:=,]\s*(?:b?["'])?)[^\r\n"']+
  | (?P<name>tc_[a-z2-7]{12}_|\bs[cs]_)[A-Za-z0-9_-]{20,}
  | eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*
    """,
    re.IGNORECASE | re.VERBOSE,
)
_HINTS: Final = re.compile(
    r"authorization|bearer|cookie|csrf|token=|code=|secret=|tc_|s[cs]_|eyJ", re.IGNORECASE
)


def without_credentials(text: str) -> str:
    """The text with each credential replaced by `***`."""
    if _HINTS.search(text) is None:
        return text
    return _CREDENTIALS.sub(lambda m: f"{m['kept'] or m['cookie'] or m['name'] or ''}***", text)


class CredentialFilter(logging.Filter):
    """Replaces credentials in log records, whatever their level."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the record, without its credentials."""
        text = record.getMessage()
        clean = without_credentials(text)
        if clean != text:
            record.msg, record.args = clean, ()
        return True


_FILTER: Final = CredentialFilter()
_LIBRARIES: Final = (
    "asyncio",
    "h11",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "mcp",
    "sse_starlette",
    "starlette",
    "uvicorn",
    "websockets",
)
"""Their loggers write headers, addresses and scopes of requests at DEBUG."""


def redact_logs() -> None:
    """Filter the logs of the libraries under a server from now on, whoever writes them. A logger
    does not filter what its children log, so each child is filtered too; call this again after a
    library was imported.
    """
    known = [name for name in logging.root.manager.loggerDict if name.startswith(_LIBRARIES)]
    for name in {*_LIBRARIES, "uvicorn.error", "uvicorn.access", "uvicorn.asgi", *known}:
        logging.getLogger(name).addFilter(_FILTER)
