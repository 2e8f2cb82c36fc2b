"""What drives turns, as a project and the flags of a command say."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.engines.temporal.options import TemporalOptions, TemporalTls
    from toolcrib.project.project import EngineTls
    from toolcrib.project.runtime import RuntimeOptions
    from toolcrib.runtime.turn_engine import TurnEngine


def temporal_engine(options: RuntimeOptions, *, lease_seconds: float) -> TurnEngine:
    """The engine that asks a Temporal server. Raises `UsageError`, also without the extra."""
    if find_spec("temporalio") is None:
        from toolcrib.extras import install_command

        raise UsageError(
            f"--engine temporal needs temporalio; install it with: {install_command('temporal')}"
        )
    from toolcrib.engines.temporal.engine import TemporalEngine

    return TemporalEngine(temporal_options(options, lease_seconds=lease_seconds))


def temporal_options(options: RuntimeOptions, *, lease_seconds: float) -> TemporalOptions:
    """How the Temporal server is reached. Raises `UsageError` for a file that cannot be read, or
    that others can read although it holds a secret.
    """
    from toolcrib.engines.temporal.options import TemporalOptions

    section = None if options.project is None else options.project.engine
    api_key_file = None if section is None else section.api_key_file
    heartbeat_seconds = None if section is None else section.heartbeat_seconds
    return TemporalOptions(
        address=options.engine_address,
        namespace=options.engine_namespace,
        task_queue=options.engine_queue,
        api_key=None if api_key_file is None else _secret(api_key_file, "API key of Temporal"),
        tls=None if section is None or section.tls is None else _tls(section.tls),
        runs_turns=options.advance_turns,
        max_turns=options.max_turns,
        heartbeat_seconds=heartbeat_seconds or lease_seconds,
    )


def _tls(files: EngineTls) -> TemporalTls:
    from toolcrib.engines.temporal.options import TemporalTls

    key = None if files.key is None else _secret(files.key, "key for Temporal").encode()
    return TemporalTls(
        server_ca=_bytes(files.server_ca),
        cert=_bytes(files.cert),
        key=key,
        server_name=files.server_name,
    )


def _secret(path: Path, what: str) -> str:
    from toolcrib.serving.private_file import private_text

    return private_text(path, what).strip()


def _bytes(path: Path | None) -> bytes | None:
    try:
        return None if path is None else path.read_bytes()
    except OSError as error:
        raise UsageError(f"the certificate {path} cannot be read: {error.strerror}") from None
