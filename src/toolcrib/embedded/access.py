"""Whose a resource of the provider is, and which resources the principal of a request may reach."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from toolcrib.errors import ApiFault
from toolcrib.runtime.principal import OWNER

if TYPE_CHECKING:
    from toolcrib.runtime.principal import Principal

EVERYBODY: Final = "*"
"""The value of `owner` in a query that lists the resources of all principals."""


@dataclass(frozen=True, slots=True)
class ResourceAccess:
    """What one request may reach: the resources of its principal, `owner`, who also owns what the
    request makes. An admin reaches all of them; an auditor reads all and changes none.
    """

    owner: str
    is_admin: bool
    is_auditor: bool
    is_change: bool = True

    @classmethod
    def of(cls, principal: Principal, *, is_change: bool = True) -> ResourceAccess:
        """The access of a principal's request."""
        return cls(
            principal.name,
            is_admin=principal.may("admin"),
            is_auditor=principal.may("auditor"),
            is_change=is_change,
        )

    def sees(self, owner: str) -> bool:
        """Whether a resource of this owner exists for the principal."""
        return self.is_admin or self.is_auditor or self.owner == owner

    def check(self, owner: str, missing: ApiFault) -> None:
        """Raise `missing` for a resource that the principal may not see, and a fault of status 403
        for one that it may only read.
        """
        if not self.sees(owner):
            raise missing
        if self.is_change and not self.is_admin and self.owner != owner:
            raise ApiFault(403, "An auditor reads what belongs to others and cannot change it.")

    def listed_owner(self, wanted: str | None) -> str | None:
        """Whose resources a list shows: the principal's own unless it may see and wants those of
        another principal, or of everybody (None). Raises `ApiFault`.
        """
        if wanted in (None, self.owner):
            return self.owner
        if not (self.is_admin or self.is_auditor):
            raise ApiFault(
                403, "Only an admin or an auditor may list what belongs to others.", param="owner"
            )
        return None if wanted == EVERYBODY else wanted


PROCESS_ACCESS: Final = ResourceAccess.of(OWNER)
"""The access of the process itself, which its owner's token shares."""
