"""Make tool entries of LangBot's MCP servers."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from typing import Any

from hostler.domain.mcp_entry import McpEntry, check_mcp_entry, needs_reference
from hostler.domain.type_fit import fit
from hostler.host.langbot.items import Item, Row
from hostler.host.langbot.naming import entry_name, plain_name
from hostler.host.langbot.secrets import Secrets, argument_secret, is_secret, url_secret
from hostler.host.langbot.values import endpoint_of
from hostler_protocol.errors import InvalidArgumentError

MAX_SHOWN_COMMAND = 160


def server_of(row: Row, item: Item, secrets: Secrets, taken: set[str]) -> dict[str, Any] | None:
    """Return the fields of an MCP server, or None if nothing can be made of it; the item says why."""
    if row.values.get("enable") in (0, False):
        item.skip("is switched off in LangBot")
        return None
    settings = row.values.get("extra_args")
    settings = {} if settings is None else settings
    if not isinstance(settings, Mapping):
        item.skip("its settings are no mapping")
        return None
    name = entry_name(row.name, row.uuid, taken)
    entry: dict[str, Any] = {"name": name}
    mode = row.values.get("mode")
    if mode == "stdio":
        _command(entry, settings, item, secrets)
    elif mode in ("http", "streamable-http", "streamable_http", "remote"):
        _url(entry, settings, item, secrets)
    elif mode == "sse":
        item.skip(
            "speaks the older transport of MCP, SSE, which this host does not: if the server has streamable "
            f"HTTP, too, add it with `hostler tools add mcp:{name} url=...`"
        )
    else:
        item.skip(f"its mode {plain_name(str(mode))!r:.60} is not known: stdio, http and sse are")
    if item.outcome == "skipped":
        return None
    fitted, mistakes = fit(entry, McpEntry)
    if fitted is None or mistakes:
        item.skip(
            "; ".join(f"{one.place}: {one.text}" for one in mistakes) or "it does not fit an MCP server"
        )
        return None
    try:
        check_mcp_entry(fitted)
    except InvalidArgumentError as error:
        item.skip(error.message.removeprefix("tools: "))
        return None
    taken.add(name)
    if name != row.name:
        item.change(f"is called {name!r} here: its tools are {name}.*")
    return entry


def _command(entry: dict[str, Any], settings: Mapping[str, Any], item: Item, secrets: Secrets) -> None:
    program, arguments = settings.get("command"), settings.get("args") or []
    if not isinstance(program, str) or not program.strip():
        item.skip("it has no command")
        return
    if not isinstance(arguments, list) or not all(isinstance(one, str) for one in arguments):
        item.skip("its args are no list of texts")
        return
    command = [program.strip(), *arguments]
    if held := argument_secret(command):
        item.skip(
            f"its command holds what looks like a secret ({held}): add the server with that in `environment`"
        )
        return
    entry["command"] = command
    _pairs(entry, "environment", settings.get("env"), item, secrets)
    shown = plain_name(" ".join(command))
    item.change(
        f"runs `{shown:.{MAX_SHOWN_COMMAND}}` in a sandbox without network: its entry's `network` lets it "
        "reach its service, `read` and `write` folders"
    )


def _url(entry: dict[str, Any], settings: Mapping[str, Any], item: Item, secrets: Secrets) -> None:
    url = settings.get("url")
    endpoint = endpoint_of(url) if isinstance(url, str) else None
    if endpoint is None or not isinstance(url, str):
        item.skip("it has no url, or one that is no address of HTTP")
        return
    if held := url_secret(url):
        item.skip(
            f"its address holds {held}, and addresses are stored in the clear: if the server takes it as a "
            "header, add the server with `headers`"
        )
        return
    entry["url"] = url.strip()
    if _is_private(endpoint.name):
        entry["network"] = [str(endpoint)]
    _pairs(entry, "headers", settings.get("headers"), item, secrets)
    timeout = settings.get("timeout")
    if isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout <= 3600:
        entry["connect_seconds"] = float(max(timeout, 10))


def _pairs(entry: dict[str, Any], key: str, found: Any, item: Item, secrets: Secrets) -> None:
    """Add variables or headers, with references for secrets."""
    if found in (None, {}, [], ""):
        return
    if not isinstance(found, Mapping):
        item.skip(f"its {key} is no mapping")
        return
    pairs: dict[str, str] = {}
    for name, value in found.items():
        text = str(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if not isinstance(text, str):
            item.change(f"{key}: {plain_name(str(name))} is no text, and is left out")
        elif is_secret(str(name), text) or (needs_reference(str(name)) and text):
            place = f"mcp server {plain_name(item.name)}: {key}.{name}"
            reference = secrets.reference(entry["name"], str(name), text, place, "installation")
            if reference is None:
                item.skip(f"{key}: {plain_name(str(name))} can be no secret")
                return
            pairs[str(name)] = reference
        else:
            pairs[str(name)] = text
    entry[key] = pairs


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
