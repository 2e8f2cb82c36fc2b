"""The options of telemetry: what a command that hosts a runtime exports."""

from __future__ import annotations

from dataclasses import dataclass

from toolcrib.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryOptions:
    """What is exported, and to whom."""

    otlp: bool = True
    """Whether the OTEL_* variables are followed; they say where spans and metrics go, if anywhere.
    """
    metrics: bool = False
    """Whether the server has `/metrics`, for auditors and admins."""
    metrics_listen: str | None = None
    """ADDRESS:PORT where `/metrics` is served too; on loopback without a token."""
    metrics_by_principal: bool = False
    """Whether the metrics of calls say who asked. Every principal is then a series of its own."""

    def __post_init__(self) -> None:
        if self.metrics_listen is not None:
            _ = self.metrics_address

    @property
    def has_metrics(self) -> bool:
        """Whether anything is counted for Prometheus."""
        return self.metrics or self.metrics_listen is not None

    @property
    def metrics_address(self) -> tuple[str, int] | None:
        """The address and the port of `metrics_listen`. Raises `UsageError` when it is neither."""
        if self.metrics_listen is None:
            return None
        host, _, port = self.metrics_listen.rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise UsageError(
                f"metrics_listen {self.metrics_listen[:80]!r}: write ADDRESS:PORT, such as "
                "127.0.0.1:9464"
            )
        return host, int(port)
