"""Secrets that are written out in entries: they can be written, never read.

Whoever reads an entry gets HIDDEN in their place. Written back, HIDDEN stands for the stored secret, so that
the rest of an entry can be changed by those who do not know it. It stands for nothing else: not in a new
entry, and not where the secret would go to another place.

Where a master key is configured they are stored sealed (`secrets.written`): an entry then has a text that
begins with `SEALED` in their place, until it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

from hostler.domain.agents import AgentSpec
from hostler.domain.config_form import HIDDEN
from hostler.domain.config_mistakes import Mistake, key_place
from hostler.domain.model_entries import ModelEntry
from hostler.domain.secret_refs import SEALED, is_reference, is_sealed

Forms = Callable[[str], Mapping[str, str] | None]
"""Return the kinds of the items in a runner's form by name, or None if the runner was never seen."""
T = TypeVar("T")

_NONE_STORED = f"{HIDDEN!r} stands for a stored secret, and none is stored here: write the secret"
_STAYS = f"{HIDDEN!r} keeps the stored secret where it is, which "
_OTHER_SERVICE = f"{_STAYS}is another provider or base_url: write the secret for this one"
_OTHER_RUNNER = f"{_STAYS}is another runner: write the secret for this one"
_SEALED = f"a text that begins with {SEALED!r} stands for a stored secret: write the secret itself"
_OTHER_CONFIG = (
    f"{_STAYS}takes the rest of config as it is: write the secret again, or use a key with the right "
    "'installation'"
)


def without_secrets(entry: T, forms: Forms) -> T:
    """Return an entry of any kind as it may be read: without the secrets that are written out in it."""
    if isinstance(entry, ModelEntry) and is_written_out(entry.api_key):
        return msgspec.structs.replace(entry, api_key=HIDDEN)
    if isinstance(entry, AgentSpec) and (names := secret_names(entry.config, forms(entry.runner))):
        return msgspec.structs.replace(entry, config={**entry.config, **dict.fromkeys(names, HIDDEN)})
    return entry


def _as_given(entry: T, _stored: T | None) -> T:
    return entry


def complete_model(
    entry: ModelEntry,
    stored: ModelEntry | None,
    kept: Callable[[ModelEntry, ModelEntry | None], ModelEntry] = _as_given,
) -> tuple[ModelEntry, list[Mistake]]:
    """Return a model with its stored secret where HIDDEN stands for it, and the mistakes.

    `kept` returns an entry with the stored, sealed text in place of a secret that is still the same.
    """
    if is_sealed(entry.api_key):
        return entry, [Mistake("api_key", _SEALED)]
    entry = kept(entry, stored)
    if entry.api_key != HIDDEN:
        return entry, []
    if stored is None or not is_written_out(stored.api_key):
        return entry, [Mistake("api_key", _NONE_STORED)]
    if (entry.provider, entry.base_url) != (stored.provider, stored.base_url):
        return entry, [Mistake("api_key", _OTHER_SERVICE)]
    return msgspec.structs.replace(entry, api_key=stored.api_key), []


def complete_agent(
    spec: AgentSpec,
    stored: AgentSpec | None,
    forms: Forms,
    *,
    kept: Callable[[AgentSpec, AgentSpec | None], AgentSpec] = _as_given,
    same_config: bool = False,
) -> tuple[AgentSpec, list[Mistake]]:
    """Return an agent with its stored secrets where HIDDEN stands for them, and the mistakes.

    `same_config`: they stay only if nothing else of the configuration changes. Another address next to a
    secret could obtain it. `kept`: as for `complete_model`.
    """
    sealed = [name for name, value in spec.config.items() if is_sealed(value)]
    if sealed:
        return spec, [Mistake(key_place("config", name), _SEALED) for name in sealed]
    spec = kept(spec, stored)
    marked = [name for name, value in spec.config.items() if value == HIDDEN]
    if not marked:
        return spec, []
    before = {} if stored is None else stored.config
    hidden = secret_names(before, None if stored is None else forms(stored.runner))
    form = forms(spec.runner) or {}
    filled = {name: before[name] for name in marked if name in hidden}
    mistakes = [
        Mistake(key_place("config", name), _NONE_STORED)
        for name in marked
        if name not in filled and form.get(name, "secret") == "secret"
    ]
    after = {**spec.config, **filled}
    why = None
    if stored is not None and spec.runner != stored.runner:
        why = _OTHER_RUNNER
    elif same_config and after != before:
        why = _OTHER_CONFIG
    if why is not None:
        mistakes += [Mistake(key_place("config", name), why) for name in filled]
    return msgspec.structs.replace(spec, config=after), mistakes


def secret_names(config: Mapping[str, Any], form: Mapping[str, str] | None) -> list[str]:
    """Return the keys of the secrets in a configuration.

    Text that no item of the form describes may be one: the form is not known, or is of another version.
    """
    kinds = form or {}
    return [
        name
        for name, value in config.items()
        if is_sealed(value) or (is_written_out(value) and kinds.get(name, "secret") == "secret")
    ]


def written_in(entry: Any, forms: Forms) -> dict[str, str]:
    """Return the secrets that are certainly written out in an entry, sealed or not, by field.

    Those of an agent are in fields that its runner's form calls secrets; without the form there are none.
    """
    if isinstance(entry, ModelEntry):
        return {"api_key": entry.api_key} if entry.api_key and is_written_out(entry.api_key) else {}
    if not isinstance(entry, AgentSpec):
        return {}
    form = forms(entry.runner) or {}
    return {
        name: value
        for name, value in entry.config.items()
        if is_written_out(value) and value != HIDDEN and form.get(name) == "secret"
    }


def has_unknown_form(entry: Any, forms: Forms) -> bool:
    """Whether a text of an agent may be a secret, which is known once its runner was seen."""
    return (
        isinstance(entry, AgentSpec)
        and forms(entry.runner) is None
        and any(is_written_out(value) and not is_sealed(value) for value in entry.config.values())
    )


def with_values(entry: T, values: Mapping[str, str]) -> T:
    """Return an entry with these values in its fields for secrets."""
    if isinstance(entry, ModelEntry) and values:
        return msgspec.structs.replace(entry, **values)
    if isinstance(entry, AgentSpec) and values:
        return msgspec.structs.replace(entry, config={**entry.config, **values})
    return entry


def sealed_in(entry: Any) -> dict[str, str]:
    """Return the sealed secrets of an entry by field."""
    fields: Mapping[str, Any] = {"api_key": entry.api_key} if isinstance(entry, ModelEntry) else {}
    if isinstance(entry, AgentSpec):
        fields = entry.config
    return {name: value for name, value in fields.items() if is_sealed(value)}


def is_written_out(value: Any) -> bool:
    """Whether the value of a field for secrets is a secret itself."""
    return isinstance(value, str) and bool(value) and not is_reference(value)
