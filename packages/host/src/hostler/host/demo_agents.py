"""The agents of `hostler demo`, as a configuration."""

from __future__ import annotations

from typing import Any

from hostler.host.bundled import bundled

TALKER = "assistant"


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
