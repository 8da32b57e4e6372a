"""Which models a name in a request stands for. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from hostler_protocol.grants import ModelResource
from hostler_sdk.model_door.reading import Json

DEFAULT = "default"
"""The name of the model that the configuration chooses, with its fallbacks."""


class GrantedModels:
    """The models of a run by name. `config` is the runner's configuration."""

    def __init__(self, granted: Sequence[ModelResource], config: Mapping[str, Any]) -> None:
        self._granted = {model.model_id: model for model in granted}
        self._config = config

    def candidates(self, name: str, operations: Sequence[str]) -> list[str]:
        """Return the models to ask, in order, each with one of the operations.

        A name that is not granted is returned as it is: the host refuses it.
        """
        if name in self._granted or name != DEFAULT:
            return [name]
        able = [m.model_id for m in self._granted.values() if set(operations) & set(m.operations)]
        chosen = [model_id for model_id in _chosen(self._config) if model_id in able]
        return chosen or able[:1] or [name]

    def operation(self, name: str, wanted: Sequence[str]) -> str:
        """Return the first of the operations that a model has; if none, the first: the host refuses it."""
        model = self._granted.get(name)
        return next((one for one in wanted if model is not None and one in model.operations), wanted[0])

    @property
    def names(self) -> list[str]:
        """All names that a request may use."""
        return [*self._granted, *([DEFAULT] if self._granted and DEFAULT not in self._granted else [])]

    def listed(self, created: int) -> list[Json]:
        """Return the models as `/models` lists them."""
        owners = {name: model.provider or "hostler" for name, model in self._granted.items()}
        return [
            {"id": name, "object": "model", "created": created, "owned_by": owners.get(name, "hostler")}
            for name in self.names
        ]

    def listed_for_anthropic(self, created: int) -> list[Json]:
        """Return the models as Anthropic's `/models` lists them."""
        at = datetime.fromtimestamp(created, UTC).isoformat().replace("+00:00", "Z")
        return [{"type": "model", "id": name, "display_name": name, "created_at": at} for name in self.names]


def _chosen(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models that the configuration chooses: first the one of `model`, then its fallbacks.

    A form may call its selector anything; without an item `model`, the first value counts that has the form
    of a selection with fallbacks.
    """
    selections = [value for value in config.values() if isinstance(value, dict) and "primary" in value]
    chosen = config.get("model") or next(iter(selections), None)
    if isinstance(chosen, str):
        yield chosen
    elif isinstance(chosen, dict):
        fallbacks = chosen.get("fallbacks")
        for name in (chosen.get("primary"), *(fallbacks if isinstance(fallbacks, list) else ())):
            if isinstance(name, str):
                yield name
