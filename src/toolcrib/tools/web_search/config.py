"""The options of a web search, in words that no provider owns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from toolcrib.errors import InvalidTool
from toolcrib.tools.domains import check_domains


@dataclass(frozen=True, slots=True)
class DomainFilter:
    """Where to search. Whether both lists may be used at once is for the provider to say."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_domains("DomainFilter.allowed", self.allowed)
        check_domains("DomainFilter.blocked", self.blocked)


@dataclass(frozen=True, slots=True)
class GeoHint:
    """Roughly where the user is: an ISO 3166-1 alpha-2 country, a city, an IANA time zone."""

    country_code: str | None = None
    city: str | None = None
    region: str | None = None
    timezone: str | None = None

    def __post_init__(self) -> None:
        _check_text("city", self.city)
        _check_text("region", self.region)
        if self.country_code is not None:
            _check_country(self.country_code)
        if self.timezone is not None:
            _check_timezone(self.timezone)


@dataclass(frozen=True, slots=True)
class WebSearchConfig:
    """The options of a web search. Without live access, only the provider's index is searched."""

    kind: ClassVar[str] = "web_search"
    domain_filter: DomainFilter | None = None
    geo_hint: GeoHint | None = None
    allow_live_access: bool = True

    def __post_init__(self) -> None:
        _check_type("domain_filter", self.domain_filter, DomainFilter | None)
        _check_type("geo_hint", self.geo_hint, GeoHint | None)
        _check_type("allow_live_access", self.allow_live_access, bool)


def _check_country(code: object) -> None:
    from toolcrib.tools.places import country_codes

    if code not in country_codes():
        raise InvalidTool(
            f"GeoHint.country_code: {code!r} is not an ISO 3166-1 alpha-2 code; "
            "write two capital letters, like 'GB'"
        )


def _check_timezone(zone: object) -> None:
    from toolcrib.tools.places import time_zones

    if zone not in time_zones():
        raise InvalidTool(
            f"GeoHint.timezone: {zone!r} is not an IANA time zone; write one like 'Europe/London'"
        )


def _check_text(field: str, text: object) -> None:
    if text is not None and (not isinstance(text, str) or not text.strip()):
        raise InvalidTool(f"GeoHint.{field} must be None or a name, not {text!r}")


def _check_type(field: str, value: object, expected: object) -> None:
    if not isinstance(value, expected):  # pyright: ignore[reportArgumentType]
        name = getattr(expected, "__name__", str(expected))
        raise InvalidTool(f"WebSearchConfig.{field} must be {name}, not {value!r}")
