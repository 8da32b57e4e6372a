"""The card of an agent: where the agent is, and how it is authorized. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hostler_sdk.services import ServiceFailure, object_in, text_in

WELL_KNOWN = "/.well-known/agent-card.json"
BINDINGS = ("JSONRPC", "HTTP+JSON")
"""Of the protocol, as far as they are HTTP."""


def card_url(given: str) -> str:
    """Return the address of a card: `given`, with the usual path if it has none."""
    return given if urlsplit(given).path.strip("/") else given + WELL_KNOWN


def choose_endpoint(card: dict[str, Any], place: str, endpoint: str) -> dict[str, Any]:
    """Return the card with the interfaces that may be used. Raises ServiceFailure if there is none.

    A key must not follow a card to another server: interfaces count that are on the server `place` of the
    card, or at the address `endpoint` that the settings name.
    """
    interfaces = [one for one in _interfaces(card) if one["protocolBinding"] in BINDINGS]
    if not interfaces:
        raise ServiceFailure(
            "response_invalid",
            f"the agent's card names no address for {' or '.join(BINDINGS)}; check the agent",
        )
    if endpoint:
        named = next((one for one in interfaces if one["url"].rstrip("/") == endpoint), interfaces[0])
        usable = [named | {"url": endpoint}]
    else:
        usable = [one for one in interfaces if _server(one["url"]) == _server(place)]
    if not usable:
        elsewhere = interfaces[0]["url"]
        raise ServiceFailure(
            "config_invalid",
            f"the agent's card names another server than its own, {elsewhere:.200}; if that is right, put it "
            "into config `endpoint`",
        )
    rest = {name: value for name, value in card.items() if name not in _OLD_NAMES}
    return rest | {"supportedInterfaces": usable}


_OLD_NAMES = ("url", "preferredTransport", "protocolVersion", "additionalInterfaces")
"""Where a card of version 0.3 says where the agent is."""


def _interfaces(card: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the interfaces of a card of either version, in the form of version 1.0."""
    listed = card.get("supportedInterfaces")
    if isinstance(listed, list):
        found = [dict(one) for one in listed if isinstance(one, dict)]
    else:
        version = text_in(card, "protocolVersion") or "0.3.0"
        main = {"url": card.get("url"), "transport": card.get("preferredTransport") or "JSONRPC"}
        more = card.get("additionalInterfaces")
        others = [one for one in more if isinstance(one, dict)] if isinstance(more, list) else []
        found = [
            {"url": one.get("url"), "protocolBinding": one.get("transport"), "protocolVersion": version}
            for one in (main, *others)
        ]
    return [one for one in found if isinstance(one.get("url"), str) and one.get("protocolBinding")]


def _server(url: str) -> tuple[str, str, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return "", "", None
    return parts.scheme, parts.hostname or "", port


def key_header(card: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the header for a key: the one of the card's first scheme with a key, else a bearer token."""
    for scheme in object_in(card, "securitySchemes").values():
        if not isinstance(scheme, dict):
            continue
        named = object_in(scheme, "apiKeySecurityScheme") or (
            scheme if scheme.get("type") == "apiKey" else {}
        )
        if (text_in(named, "location") or text_in(named, "in")) == "header" and text_in(named, "name"):
            return {text_in(named, "name"): key}
    return {"authorization": f"Bearer {key}"}
