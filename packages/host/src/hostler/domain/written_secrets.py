"""Secrets that are written out in entries: they can be written, never read.

Whoever reads an entry gets HIDDEN in their place. Written back, HIDDEN stands for the stored secret, so that
the rest of an entry can be changed by those who do not know it. It stands for nothing else: not in a new
entry, and not where the secret would go to another place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.config_form import HIDDEN
from hostler.domain.config_mistakes import Mistake, key_place
from hostler.domain.model_entries import ModelEntry
from hostler.domain.secret_refs import is_reference

Forms = Callable[[str], Mapping[str, str] | None]
"""Return the kinds of the items in a runner's form by name, or None if the runner was never seen."""
T = TypeVar("T")

_NONE_STORED = f"{HIDDEN!r} stands for a stored secret, and none is stored here: write the secret"
_STAYS = f"{HIDDEN!r} keeps the stored secret where it is, which "
_OTHER_SERVICE = f"{_STAYS}is another provider or base_url: write the secret for this one"
_OTHER_RUNNER = f"{_STAYS}is another runner: write the secret for this one"
_OTHER_CONFIG = (
    f"{_STAYS}takes the rest of config as it is: write the secret again, or use a key with the right "
    "'installation'"
)


def without_secrets(entry: T, forms: Forms) -> T:
    """Return an entry of any kind as it may be read: without the secrets that are written out in it."""
    if isinstance(entry, ModelEntry) and is_written_out(entry.api_key):
        return msgspec.structs.replace(entry, api_key=HIDDEN)
    if isinstance(entry, AgentSpec) and (names := _secrets(entry.config, forms(entry.runner))):
        return msgspec.structs.replace(entry, config={**entry.config, **dict.fromkeys(names, HIDDEN)})
    return entry


def complete_model(entry: ModelEntry, stored: ModelEntry | None) -> tuple[ModelEntry, list[Mistake]]:
    """Return a model with its stored secret where HIDDEN stands for it, and the mistakes."""
    if entry.api_key != HIDDEN:
        return entry, []
    if stored is None or not is_written_out(stored.api_key):
        return entry, [Mistake("api_key", _NONE_STORED)]
    if (entry.provider, entry.base_url) != (stored.provider, stored.base_url):
        return entry, [Mistake("api_key", _OTHER_SERVICE)]
    return msgspec.structs.replace(entry, api_key=stored.api_key), []


def complete_agent(
    spec: AgentSpec, stored: AgentSpec | None, forms: Forms, *, same_config: bool = False
) -> tuple[AgentSpec, list[Mistake]]:
    """Return an agent with its stored secrets where HIDDEN stands for them, and the mistakes.

    `same_config`: they stay only if nothing else of the configuration changes. Another address next to a
    secret could obtain it.
    """
    marked = [name for name, value in spec.config.items() if value == HIDDEN]
    if not marked:
        return spec, []
    before = {} if stored is None else stored.config
    hidden = _secrets(before, None if stored is None else forms(stored.runner))
    form = forms(spec.runner) or {}
    kept = {name: before[name] for name in marked if name in hidden}
    mistakes = [
        Mistake(key_place("config", name), _NONE_STORED)
        for name in marked
        if name not in kept and form.get(name, "secret") == "secret"
    ]
    after = {**spec.config, **kept}
    why = None
    if stored is not None and spec.runner != stored.runner:
        why = _OTHER_RUNNER
    elif same_config and after != before:
        why = _OTHER_CONFIG
    if why is not None:
        mistakes += [Mistake(key_place("config", name), why) for name in kept]
    return msgspec.structs.replace(spec, config=after), mistakes


def _secrets(config: Mapping[str, Any], form: Mapping[str, str] | None) -> list[str]:
    """Return the keys of the secrets in a configuration.

    Text that no item of the form describes may be one: the form is not known, or is of another version.
    """
    kinds = form or {}
    return [
        name
        for name, value in config.items()
        if is_written_out(value) and kinds.get(name, "secret") == "secret"
    ]


def is_written_out(value: Any) -> bool:
    """Whether the value of a field for secrets is a secret itself."""
    return isinstance(value, str) and bool(value) and not is_reference(value)
