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


def warning_headers(unknown: Sequence[str], others: Sequence[str] = ()) -> dict[str, str]:
    """Log the parameters that nobody here knows, and name them in a header with the other warnings.
    The client chose the names: they are cut, and hold no character that could end a line.
    """
    warnings = list(others)
    if unknown:
        names = ", ".join(_UNPRINTABLE.sub("?", name[:_LONGEST]) for name in unknown[:MAX_NAMES])
        warnings.insert(0, f"ignored parameters: {names}")
        logger.warning("%s", warnings[0])
    text = "; ".join(warnings).encode("ascii", "replace").decode()
    return {WARNING_HEADER: text} if text else {}
