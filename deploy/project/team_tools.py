"""The tools of the team; replace them with yours."""

from typing import Literal

from toolcrib import tool


@tool(is_read_only=True)
def service_status(service: str) -> str:
    """Whether a service runs.

    Args:
        service: Its name.
    """
    return f"{service} runs"


@tool(requires_approval=True)
def restart_service(service: str, stage: Literal["staging", "production"] = "staging") -> str:
    """Restart a service.

    Args:
        service: Its name.
        stage: Where.
    """
    return f"{service} was restarted in {stage}"
