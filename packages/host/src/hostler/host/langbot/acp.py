"""Settings of LangBot's runners of coding agents as settings of the runner `acp`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from hostler.host.langbot.items import Item
from hostler.host.langbot.naming import plain_name
from hostler.host.langbot.runners import Target

_PLATFORM = ("api-mode", "base-url", "api-key", "agent-id", "model", "title", "poll-interval")
_KEPT = ("timeout",)


def acp_section(given: Mapping[str, Any], target: Target, item: Item) -> dict[str, Any]:
    """Return the settings under the names of `acp`. What ran elsewhere is noted."""
    found = _from_platform(given, item) if target.from_litellm_platform else _from_plugin(given, target, item)
    _choose(found, target, item)
    if target.form is not None:
        item.change(
            "the coding agent's program, network and key are for this host to give: docs/runners/acp.md"
        )
    return found


def _from_plugin(given: Mapping[str, Any], target: Target, item: Item) -> dict[str, Any]:
    found = dict(given)
    if target.provider is not None:
        found.setdefault("provider", target.provider)
    if (offered := found.pop("langbot-assets-enabled", None)) is not None:
        found.setdefault("offer-tools", offered)
    location = found.pop("location", "local")
    if location not in ("local", "", None):
        item.disable(
            f"ran on another machine ({plain_name(str(location)):.40}): here the coding agent runs on the "
            "host's; set `workspace`, then `enabled: true`"
        )
    env = found.get("env-json")
    if isinstance(env, str) and env.strip():
        try:
            found["env-json"] = msgspec.json.decode(env)
        except (msgspec.DecodeError, RecursionError):
            del found["env-json"]
            item.change("env-json: is no JSON, and is left out")
    return found


def _choose(found: dict[str, Any], target: Target, item: Item) -> None:
    """Name a coding agent that the runner does not know by itself as `custom`, which needs its command."""
    field = None if target.form is None else target.form.item("provider")
    provider = found.get("provider")
    if field is None or not isinstance(provider, str) or provider in (field.options or []):
        return
    found["provider"] = "custom"
    shown = plain_name(provider)
    if found.get("acp-command") or found.get("command"):
        item.change(f"provider: {shown!r:.60} is `custom` here")
    else:
        item.disable(
            f"provider: {shown!r:.60} is `custom` here: set `command` to the program that starts it, then "
            "`enabled: true`"
        )


def _from_platform(given: Mapping[str, Any], item: Item) -> dict[str, Any]:
    """Return settings for the coding agent that the platform ran."""
    found = {name: given[name] for name in _KEPT if name in given}
    harness = given.get("harness")
    found["provider"] = harness if isinstance(harness, str) and harness.strip() else "claude-code"
    if (ready := given.get("session-ready-timeout")) is not None:
        found["startup-timeout"] = ready
    lost = [name for name in _PLATFORM if given.get(name) not in (None, "")]
    item.change(
        "went through the LiteLLM Agent Platform, which its makers ended in June 2026: it is mapped to the "
        f"runner `acp`, which starts {plain_name(found['provider']):.60} on this host"
        + (f"; left out: {', '.join(lost)}" if lost else "")
    )
    return found
