"""The embedded provider: a Responses API in the process, with hosted tools really executed."""

from toolcrib.embedded.backend import (
    Answered,
    Brain,
    BrainFailed,
    Called,
    Cut,
    Offer,
    OutputFormat,
    Piece,
    Proposed,
    Question,
    Said,
    Spent,
    Text,
    Thought,
    Turn,
)
from toolcrib.embedded.provider import LocalProvider

__all__ = [
    "Answered",
    "Brain",
    "BrainFailed",
    "Called",
    "Cut",
    "LocalProvider",
    "Offer",
    "OutputFormat",
    "Piece",
    "Proposed",
    "Question",
    "Said",
    "Spent",
    "Text",
    "Thought",
    "Turn",
]
