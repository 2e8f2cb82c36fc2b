"""The clock seam: code that needs the time of day takes a `Clock`, so that tests can set it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds since the epoch."""

SYSTEM_CLOCK: Clock = time.time
"""The time of this machine: the default wherever a clock is an option."""
