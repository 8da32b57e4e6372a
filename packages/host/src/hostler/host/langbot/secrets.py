"""Secrets of a LangBot configuration: recognised, taken out, and referred to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, urlsplit

from hostler.domain.config_mistakes import key_place
from hostler.domain.secret_refs import is_reference
from hostler.domain.stored_secrets import SecretOwner, reference_to, value_mistake
from hostler.host.langbot.naming import MAX_SLUG_CHARS, slug

Keeping = Literal["env", "store"]
"""Where secrets go: into variables that the operator sets, or into the host's store."""

_SECRET_NAME = re.compile(
    r"authorization|cookie|token|secret|passw|pwd|passphrase|credential|signature|bearer|private"
    r"|(^|[^a-z])(auth|key|ak|sk|sid|appkey|apikey)([^a-z]|$)|api[-_ ]?key|access[-_ ]?key|[a-z]key$",
    re.IGNORECASE,
)
_NO_SECRET_NAME = re.compile(
    r"tokens$|tokeni[sz]|^output[-_]key$"
    r"|^(header|basic)[-_](name|username)$|primary[-_]?key|^public[-_]?key$",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=]{32,}")
_KNOWN_KEY = re.compile(
    r"\s*(Bearer\s+\S{8,}|Basic\s+\S{8,}|[spr]k[-_](?=\S*[0-9])[A-Za-z0-9_-]{8,}|app-[A-Za-z0-9]{16,}"
    r"|pat_[A-Za-z0-9]{16,}|gh[opsu]_[A-Za-z0-9]{16,}|xox[abp]-\S{8,}|AKIA[0-9A-Z]{12,})"
)
"""Keys of services, by how they begin."""
_OF_A_PLACE = re.compile(r"[-_](file|path|dir|env|type)$", re.IGNORECASE)
"""Options of commands that say where a secret is."""


def is_secret_name(name: str) -> bool:
    """Whether what has this name is probably a secret, like `api_key`; `max_tokens` is not."""
    return _SECRET_NAME.search(name) is not None and _NO_SECRET_NAME.search(name) is None


def is_secret(name: str, value: str) -> bool:
    """Whether a value is probably a secret, by its name or by how it looks.

    So is one that looks like a reference to a secret of this host, since it was written for another program.
    """
    if not value.strip():
        return False
    looks = _RANDOM.fullmatch(value.strip()) or _KNOWN_KEY.match(value)
    return is_secret_name(name) or is_reference(value) or bool(looks)


def without_secrets(value: Any, place: str = "") -> tuple[Any, list[str]]:
    """Return a JSON value without what are probably secrets, and the places where they were.

    All text below a name of a secret is one, like `api_key: {value: ...}`.
    """
    found: list[str] = []
    kept = _without(value, place, found, named=False)
    return (None if kept is _NOTHING else kept), found


_NOTHING: Any = object()


def _without(value: Any, place: str, found: list[str], *, named: bool) -> Any:
    if isinstance(value, list):
        inner = [_without(one, f"{place}[{number}]", found, named=named) for number, one in enumerate(value)]
        return [one for one in inner if one is not _NOTHING]
    if isinstance(value, dict):
        return {
            name: kept
            for name, one in value.items()
            if (kept := _without(one, key_place(place, name), found, named=named or is_secret_name(name)))
            is not _NOTHING
        }
    if isinstance(value, str) and value.strip() and (named or is_secret("", value)):
        found.append(place)
        return _NOTHING
    return value


def url_secret(url: str) -> str | None:
    """Return what of an address is a secret, without its value; None: nothing, or it is no address."""
    try:
        parts = urlsplit(url)
        if parts.password:
            return "a password"
        if parts.username and is_secret("", parts.username):
            return "a user that looks like a key"
        pairs = parse_qsl(parts.query, max_num_fields=100)
    except ValueError:
        return None
    for name, value in pairs:
        if value and is_secret(name, value):
            return f"a secret, in `{name}`"
    return None


def argument_secret(arguments: list[str]) -> str | None:
    """Return which argument of a command is probably a secret, without its value; None: none."""
    before = ""
    for number, one in enumerate(arguments, 1):
        name, equals, value = one.lstrip("-").partition("=")
        if equals and not _OF_A_PLACE.search(name) and is_secret(name, value):
            return f"argument {number}, `{name}=...`"
        if _takes_secret(before) and not one.startswith("-"):
            return f"argument {number}, after `{before}`"
        if _KNOWN_KEY.match(one) or is_reference(one) or (url_secret(one) is not None):
            return f"argument {number}"
        before = one
    return None


def _takes_secret(option: str) -> bool:
    return option.startswith("-") and is_secret_name(option) and _OF_A_PLACE.search(option) is None


@dataclass(slots=True)
class WantedSecret:
    """A secret that the imported configuration refers to. Its value is in no text of it."""

    reference: str
    name: str
    """Of the variable, or of the stored secret."""
    owner: SecretOwner
    value: str = field(repr=False)
    places: list[str] = field(default_factory=list)
    """Where LangBot has it."""


class Secrets:
    """The secrets that were taken out so far, by reference."""

    def __init__(self, keeping: Keeping = "env") -> None:
        self.keeping = keeping
        self._found: dict[tuple[SecretOwner | None, str], WantedSecret] = {}

    def reference(
        self, about: str, field_name: str, value: str, place: str, owner: SecretOwner
    ) -> str | None:
        """Take a secret, and return the reference to it. None if the value can be no secret.

        `about` and `field_name` make its name, `place` is where LangBot has it. One value under one name
        becomes one secret.
        """
        if value_mistake(value) is not None or "\x00" in value:
            return None
        for name in self._names(about, field_name):
            reference = reference_to(name) if self.keeping == "store" else f"env:{name}"
            key = (owner if self.keeping == "store" else None, reference)  # one environment has them all
            known = self._found.setdefault(key, WantedSecret(reference, name, owner, value))
            if known.value == value:
                if place not in known.places:
                    known.places.append(place)
                return reference
        raise AssertionError("names do not end")

    def used_in(self, value: Any) -> list[WantedSecret]:
        """Return those that an entry refers to."""
        texts = set(_texts(value))
        return [one for one in self._found.values() if one.reference in texts]

    def _names(self, about: str, field_name: str) -> Iterator[str]:
        base = "-".join(filter(None, ["langbot", slug(about), slug(field_name)]))[: MAX_SLUG_CHARS + 30]
        number = 1
        while True:
            name = base if number == 1 else f"{base}-{number}"
            yield name if self.keeping == "store" else name.replace("-", "_").upper()
            number += 1


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)
