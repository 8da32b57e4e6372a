"""The agents of `hostler demo`, as a configuration, and its widget."""

from __future__ import annotations

from typing import Any

from hostler.host.bundled import bundled

TALKER = "assistant"
WIDGET: dict[str, Any] = {
    "name": "demo",
    "agent": "guide",
    "origins": ["http://localhost:3000"],
    "title": "Hostler",
    "greeting": "Say `hello`, tell me your name, or ask me to `count to 20`. Then reload the page.",
    "try_page": True,
}
"""Shown on the server's own page, and for a page of one's own at port 3000 (docs/widget.md)."""


def demo_config(*, model: bool = False) -> dict[str, Any]:
    """Return the demo's configuration. HostlerError if a part is not installed.

    `model`: with an agent on a small real model that runs offline.
    """
    plugins = [bundled("examples", "guide"), bundled("examples", "echo")]
    agents: list[dict[str, Any]] = [
        {"name": "guide", "runner": "plugin:hostler/guide/default", "config": {"pace": 0.02}},
        {"name": "echo", "runner": "plugin:acme/echo/default", "event_types": []},
    ]
    config: dict[str, Any] = {}
    if model:
        plugins.append(bundled("runners", "local-agent"))
        config["models"] = [{"id": "small", "provider": "demo"}]
        agents.append(
            {
                "name": TALKER,
                "runner": "plugin:hostler/local-agent/default",
                "config": {"model": "small"},
                "event_types": [],
            }
        )
    return config | {"plugins": [str(plugin) for plugin in plugins], "agents": agents}
