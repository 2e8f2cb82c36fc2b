"""The model names that clients may send, and the backend behind each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from toolcrib.errors import ApiFault, UsageError

if TYPE_CHECKING:
    from toolcrib.embedded.backend import ModelBackend


@dataclass(frozen=True, slots=True)
class ChosenBackend:
    """The backend that answers a request. `warning` says that the client named another model."""

    backend: ModelBackend
    warning: str | None = None


class BackendNames:
    """Finds backends by their own names and by aliases.

    With `any_model` the first backend answers for every other name, and the client is warned.
    """

    def __init__(
        self,
        backends: Sequence[ModelBackend],
        aliases: Mapping[str, str] | None = None,
        *,
        any_model: bool = False,
    ) -> None:
        self._backends = {backend.name: backend for backend in backends}
        if len(self._backends) != len(backends) or not backends:
            raise UsageError("a provider needs at least one backend, and their names must differ")
        self._aliases = dict(aliases or {})
        self._any_model = any_model
        for alias, name in self._aliases.items():
            if name not in self._backends:
                have = ", ".join(self._backends)
                raise UsageError(f"the alias {alias!r} is for {name!r}; there is {have}")
            if alias in self._backends:
                raise UsageError(f"the alias {alias!r} is the name of a backend; choose another")

    @property
    def backends(self) -> Sequence[ModelBackend]:
        """All backends, each once."""
        return list(self._backends.values())

    def find(self, model: str) -> ChosenBackend:
        """The backend for the model of a request. Raises `ApiFault`."""
        backend = self._backends.get(self._aliases.get(model, model))
        if backend is not None:
            return ChosenBackend(backend)
        first = self.backends[0]
        if self._any_model:
            return ChosenBackend(first, f"the model {first.name!r} answers, under another name")
        have = ", ".join(sorted({*self._backends, *self._aliases}))
        raise ApiFault(
            404,
            f"The model '{model[:80]}' does not exist here; there is {have}. Its operator gives a "
            "model another name with an alias (--alias NAME=MODEL).",
            code="model_not_found",
            param="model",
        )

    def resources(self, created: int) -> list[dict[str, Any]]:
        """The names as `/v1/models` lists them; `root` is the model behind an alias."""
        base = {"object": "model", "created": created, "owned_by": "toolcrib"}
        names = [{"id": name, **base} for name in self._backends]
        return names + [{"id": alias, **base, "root": of} for alias, of in self._aliases.items()]
