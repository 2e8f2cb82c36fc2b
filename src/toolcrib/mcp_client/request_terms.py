"""What a mounted server may ask of the clients whose calls run there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

SamplingTerm = Literal["deny", "ask", "allow"]
"""Whether a server may use the model of a client: never, when a person agrees, or always."""


@dataclass(frozen=True, slots=True)
class RequestTerms:
    """What a server may ask of the clients whose calls run there."""

    sampling: SamplingTerm = "ask"
    elicitation: Literal["deny", "allow"] = "allow"
    shares_roots: bool = True
    """Whether a server sees the roots of a client."""
    roots: tuple[str, ...] = ()
    """The roots that a server sees when the client has none: addresses like `file:///srv/data`."""

    @property
    def elicitation_is_allowed(self) -> bool:
        """Whether the server may ask people."""
        return self.elicitation == "allow"


DEFAULT_TERMS: Final = RequestTerms()
NO_REQUESTS: Final = RequestTerms(sampling="deny", elicitation="deny", shares_roots=False)
