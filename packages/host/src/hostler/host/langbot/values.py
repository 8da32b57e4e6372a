"""Values of LangBot's runners in the form of a runner of this host."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hostler.domain.config_checks import config_mistakes, is_shown, with_defaults
from hostler.domain.endpoints import HostPort
from hostler.domain.json_data import json_mistakes
from hostler.domain.record import Record
from hostler.host.langbot.items import Item
from hostler.host.langbot.naming import plain_name
from hostler.host.langbot.runners import Form
from hostler.host.langbot.secrets import Secrets, is_secret, url_secret, without_secrets
from hostler_protocol.manifest import FormItem

ALIASES: Mapping[str, str] = {
    "auto_save_history": "auto-save-history",
    "references-quote": "references_quote",
    "input_type": "input-type",
    "output_type": "output-type",
    "langbot-assets-enabled": "assets-enabled",
    "acp-command": "command",
    "env-json": "env",
}
"""Other names that LangBot has used for fields -> the name in the form."""
WITHOUT_EFFECT = frozenset({"advanced-settings"})
"""Fields that only arrange LangBot's own form."""
ADDRESSES = ("base-url", "webhook-url", "api-base")
"""Fields that say where a service is."""
_UNSET: tuple[Any, ...] = (None, "", [], {})


class About(Record):
    """Whose values these are: the agent's name, and the place of the values in LangBot."""

    agent: str
    place: str


def fitted(
    section: Mapping[str, Any], form: Form | None, about: About, secrets: Secrets, item: Item
) -> dict[str, Any]:
    """Return the values that the form has, with references for secrets. The notes name all others.

    Without a form all values are kept. What is required and missing disables the agent.
    """
    fitting = _Fitting(form, about, secrets, item)
    left_out: list[str] = []
    unused = _unused(section, form)
    for given, value in section.items():
        name = ALIASES.get(given, given)
        if name in WITHOUT_EFFECT or value in _UNSET or (name in fitting.values and given in ALIASES):
            continue
        if name in unused:
            item.note(f"{name}: left out, since it is not used with the other settings")
        elif form is None or form.item(name) is not None:
            fitting.take(name, value)
        elif value is not False:
            left_out.append(plain_name(given)[:80])
    if left_out:
        item.change(f"left out, since the runner has no such setting: {', '.join(left_out)}")
    if form is not None:
        _check(fitting.values, form, item)
    return fitting.values


def _unused(section: Mapping[str, Any], form: Form | None) -> frozenset[str]:
    """Return the names of secrets that the other settings make unused. A run would wait for their values."""
    if form is None:
        return frozenset()
    items = {item.name: item for item in form.items}
    values = with_defaults(form.items, {ALIASES.get(name, name): value for name, value in section.items()})
    return frozenset(
        name for name, item in items.items() if item.kind == "secret" and not is_shown(item, values, items)
    )


class _Fitting:
    """Takes values one by one."""

    def __init__(self, form: Form | None, about: About, secrets: Secrets, item: Item) -> None:
        self.values: dict[str, Any] = {}
        self._form = form
        self._about = about
        self._secrets = secrets
        self._item = item

    def take(self, name: str, value: Any) -> None:
        """Take a value: a secret as a reference, another one without what are secrets in it."""
        field = None if self._form is None else self._form.item(name)
        if self._is_secret(name, value, field):
            self._take_secret(name, value)
        elif isinstance(value, str) and (name in ADDRESSES or "://" in value) and (held := url_secret(value)):
            self._item.disable(f"{name}: the address holds {held}, and is left out; give it one without")
        else:
            self._take_plain(name, value, field)

    def _is_secret(self, name: str, value: Any, field: FormItem | None) -> bool:
        if field is not None:
            return field.kind == "secret"
        return not isinstance(value, dict | list | bool) and is_secret(name, str(value))

    def _take_secret(self, name: str, value: Any) -> None:
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        reference = None
        if isinstance(text, str):
            place = f"{self._about.place}.{name}"
            reference = self._secrets.reference(self._about.agent, name, text, place, "workspace")
        if reference is not None:
            self.values[name] = reference
        else:
            self._item.disable(
                f"{name}: what LangBot has there is no text that can be a secret: give it a value"
            )

    def _take_plain(self, name: str, value: Any, field: FormItem | None) -> None:
        note = None
        if field is not None:
            value, note = _shaped(value, field)
        if note is not None:
            self._item.change(f"{name}: {note}")
        if isinstance(value, dict | list) and name != "prompt":
            value, lost = without_secrets({name: value})
            value = value.get(name)
            if lost:
                self._item.change(
                    "left out, since they look like secrets, and this field is no place for one: "
                    f"{', '.join(map(plain_name, lost))}"
                )
        if value is not None:
            self.values[name] = value


def _shaped(value: Any, field: FormItem) -> tuple[Any, str | None]:
    """Return a value in the type of its field where that is certain, and a note if it was another one."""
    shape = _SHAPES.get(field.kind)
    shaped = None if shape is None else shape(value)
    if shaped is not None:
        return shaped
    if field.kind == "select" and value == "chatflow":
        return "chat", "`chatflow` is `chat` here"
    return value, None


def _integer(value: Any) -> tuple[Any, str | None] | None:
    if isinstance(value, float) and value.is_integer():
        return int(value), None
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) <= 18:
        return int(value), "was a text, and is a number now"
    return None


def _boolean(value: Any) -> tuple[Any, str | None] | None:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true", "was a text, and is true or false now"
    return None


def _text(value: Any) -> tuple[Any, str | None] | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value), "was a number, and is a text now"
    return None


def _json(value: Any) -> tuple[Any, str | None] | None:
    """LangBot keeps JSON of its forms as text."""
    if not isinstance(value, str):
        return None
    try:
        parsed = msgspec.json.decode(value)
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if json_mistakes(parsed) else (parsed, None)


_SHAPES: Mapping[str, Callable[[Any], tuple[Any, str | None] | None]] = {
    "integer": _integer,
    "boolean": _boolean,
    "json": _json,
    "string": _text,
    "text": _text,
}


def _check(values: dict[str, Any], form: Form, item: Item) -> None:
    """Take out the values that do not fit, so that the form's defaults hold; disable what then is missing."""
    for mistake in config_mistakes(form.items, values):
        name = next((one.name for one in form.items if _is_at(mistake.place, one.name)), "")
        field = form.item(name)
        if field is None or name not in values:
            continue
        plain = isinstance(values[name], str | int | float) and not is_secret(name, str(values[name]))
        why = mistake.text if plain else mistake.text.partition(", not ")[0]
        del values[name]
        default = "" if field.default is None else f"; the default holds: {field.default!r:.60}"
        item.change(f"{name}: left out, {why}{default}")
    for mistake in config_mistakes(form.items, values):
        item.disable(f"{mistake.place} {mistake.text}")


def _is_at(place: str, name: str) -> bool:
    return place == name or place.startswith((f"{name}.", f"{name}["))


def endpoint_of(url: str) -> HostPort | None:
    """Return the endpoint of an address of HTTP, or None if it is none."""
    try:
        parts = urlsplit(url.strip())
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or port is None:
        return None
    if any(char in parts.hostname for char in "/@*? ") or not parts.hostname.isprintable():
        return None
    return HostPort(parts.hostname.rstrip("."), port)
