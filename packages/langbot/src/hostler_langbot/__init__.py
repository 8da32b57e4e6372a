"""Runner plugins of LangBot, unmodified, as plugins of a host.

Three parts. `manifest` and `form` translate a plugin's YAML for the host. `serve` is the plugin process: it
starts the plugin with LangBot's own SDK in a process of its own (`child`), and passes runs, results and calls
on between the wire of LangBot's runtime (`framing`, `peer`) and the AgentRunner Protocol (`context`,
`results`, `messages`, `actions`). Only `child`, which runs in the plugin's process, imports LangBot's SDK.
"""

from __future__ import annotations

SDK_REQUIREMENT = "langbot-plugin==0.7.18"
"""The release of LangBot's SDK that runs the plugins, of both generations."""
BRIDGE_REQUIREMENT = "hostler-langbot"
"""This package, as a plugin's environment requires it."""

__all__ = ["BRIDGE_REQUIREMENT", "SDK_REQUIREMENT"]
