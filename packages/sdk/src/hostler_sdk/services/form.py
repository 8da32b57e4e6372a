"""A runner's settings, checked and typed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from hostler_sdk.services.failures import ServiceFailure


class Form:
    """The configuration of a run. Each method raises ServiceFailure with the key and what it must be."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def text(self, key: str, default: str = "", *, exact: bool = False) -> str:
        """Return a text, which may be empty. `exact`: with the blanks at its ends."""
        value = self._config.get(key, default)
        if value is None:
            return default
        if not isinstance(value, str):
            raise _wrong(key, value, "a text")
        return value if exact else value.strip()

    def required(self, key: str, where: str) -> str:
        """Return a text that must be there; `where` says where to find it."""
        value = self.text(key)
        if not value:
            raise ServiceFailure("config_invalid", f"config `{key}` is empty; {where}")
        return value

    def header(self, key: str, where: str = "") -> str:
        """Return a text that is sent in a header: printable ASCII. Its value is never shown."""
        value = self.required(key, where) if where else self.text(key)
        if not value.isascii() or not (value or "x").isprintable():
            raise ServiceFailure(
                "config_invalid", f"config `{key}` has characters that no HTTP header carries; copy it again"
            )
        return value

    def flag(self, key: str, default: bool = False) -> bool:
        """Return a boolean."""
        value = self._config.get(key, default)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise _wrong(key, value, "true or false")
        return value

    def choice(self, key: str, options: Sequence[str], default: str) -> str:
        """Return one of the options."""
        value = self._config.get(key) or default
        if value not in options:
            raise _wrong(key, value, " or ".join(options))
        return str(value)

    def whole(self, key: str, default: int, least: int, most: int) -> int:
        """Return a whole number within bounds."""
        value = self._config.get(key, default)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _wrong(key, value, f"from {least} to {most}")
        return value

    def texts(self, key: str) -> list[str]:
        """Return a list of texts; a single text is a list of one."""
        value = self._config.get(key) or []
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list) or not all(isinstance(one, str) for one in listed):
            raise _wrong(key, value, "a list of ids")
        return [one.strip() for one in listed if one.strip()]

    def objects(self, key: str) -> list[dict[str, Any]]:
        """Return a list of JSON objects, which may be empty."""
        value = self._config.get(key) or []
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise _wrong(key, value, "a list of JSON objects")
        return [dict(one) for one in value]

    def object(self, key: str) -> dict[str, Any]:
        """Return a JSON object, which may be empty."""
        value = self._config.get(key)
        if value is None or value == "":
            return {}
        if not isinstance(value, dict):
            raise _wrong(key, value, "a JSON object")
        return dict(value)

    def url(self, key: str, default: str = "") -> str:
        """Return an http(s) address without user, query and fragment, without a slash at its end."""
        value = (self.text(key) or default).rstrip("/")
        if not value:
            raise ServiceFailure(
                "config_invalid", f"config `{key}` is empty; it must be an address like {_LIKE}"
            )
        return _checked(key, value, query=False)

    def webhook(self, key: str) -> str:
        """Return an http(s) address that may have a query."""
        value = self.text(key)
        if not value:
            raise ServiceFailure("config_invalid", f"config `{key}` is empty; copy the webhook's address")
        return _checked(key, value, query=True)


_LIKE = "https://service.example.com/v1"


def _checked(key: str, value: str, *, query: bool) -> str:
    mistake = None
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError as error:
        raise ServiceFailure("config_invalid", f"config `{key}` is not an address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        mistake = f"must begin with http:// or https:// and a host, like {_LIKE}"
    elif parts.username is not None or parts.password is not None:
        mistake = "has a user name or password, which belongs into the settings for authentication"
    elif parts.fragment or (parts.query and not query):
        mistake = "has a part behind `?` or `#`, which it must not have"
    elif not value.isascii() or not value.isprintable() or " " in value:
        mistake = "has spaces or characters that an address cannot have"
    if mistake is not None:
        raise ServiceFailure("config_invalid", f"config `{key}` {mistake}")
    return value


def _wrong(key: str, value: Any, right: str) -> ServiceFailure:
    return ServiceFailure("config_invalid", f"config `{key}` is {value!r:.80}; it must be {right}")
