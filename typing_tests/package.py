"""The package is typed for its users, and misuse is an error."""

from typing import assert_type

import toolcrib

assert_type(toolcrib.__version__, str)

wrong: int = toolcrib.__version__  # pyright: ignore[reportAssignmentType]
