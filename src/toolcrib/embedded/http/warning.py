"""The header of a response that names the parameters which had no effect."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Final

logger = logging.getLogger(__name__)

WARNING_HEADER: Final = "Toolcrib-Warning"
MAX_NAMES: Final = 20
_LONGEST: Final = 60
_UNPRINTABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")


def warning_headers(unknown: Sequence[str]) -> dict[str, str]:
    """Log the parameters that nobody here knows, and name them in a header. The client chose the
    names: they are cut, and hold no character that could end a line.
    """
    if not unknown:
        return {}
    names = ", ".join(_UNPRINTABLE.sub("?", name[:_LONGEST]) for name in unknown[:MAX_NAMES])
    message = f"unknown parameters without effect: {names}"
    logger.warning("%s", message)
    return {WARNING_HEADER: message}
