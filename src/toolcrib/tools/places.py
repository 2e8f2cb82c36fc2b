"""Which country codes and time zones exist, from the data that the tzdata package maintains."""

from __future__ import annotations

import functools
from importlib.resources import files


@functools.cache
def country_codes() -> frozenset[str]:
    """Every ISO 3166-1 alpha-2 code."""
    table = files("tzdata").joinpath("zoneinfo", "iso3166.tab").read_text("utf-8")
    rows = (line for line in table.splitlines() if line and not line.startswith("#"))
    return frozenset(row.split("\t", 1)[0] for row in rows)


@functools.cache
def time_zones() -> frozenset[str]:
    """Every IANA time zone, also where the operating system has none or old ones."""
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())
