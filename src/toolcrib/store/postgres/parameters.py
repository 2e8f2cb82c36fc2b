"""The parameters of a statement that is put together out of conditions."""

from __future__ import annotations


class Parameters:
    """Collects values; each stands in the statement as `$1`, `$2` and so on."""

    def __init__(self, *values: object) -> None:
        self.values = list(values)

    def __call__(self, value: object) -> str:
        self.values.append(value)
        return f"${len(self.values)}"
