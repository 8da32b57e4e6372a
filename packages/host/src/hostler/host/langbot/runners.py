"""Which runner of this host carries out what a runner of LangBot did, and its form."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from hostler.domain.endpoints import ANY
from hostler.domain.record import Record
from hostler.host.bundled import shipped_plugin
from hostler.plugins.manifest import read_manifest
from hostler_protocol.errors import PluginError
from hostler_protocol.manifest import FormItem

LEGACY: Mapping[str, str] = {
    "local-agent": "local-agent",
    "dify-service-api": "dify",
    "n8n-service-api": "n8n",
    "coze-api": "coze",
    "dashscope-app-api": "dashscope",
    "langflow-api": "langflow",
    "tbox-app-api": "tbox",
    "deerflow-api": "deerflow",
    "weknora-api": "weknora",
}
"""`ai.runner.runner` of LangBot -> name of the shipped runner."""
_OFFICIAL_AUTHORS = ("langbot", "langbot-team")
_OFFICIAL: Mapping[str, str] = {
    **{f"{name.replace('-', '')}agent".replace("agentagent", "agent"): name for name in LEGACY.values()},
    "acprunner": "acp",
    "acpagentrunner": "acp",
    "claudecodeagent": "acp",
    "codexagent": "acp",
    "litellmagentplatformagent": "acp",
    "litellmagentplatform": "acp",
}
"""Plugins of LangBot's makers in lower case without `-` and `_` -> name of the shipped runner."""
_PLUGIN_ID = re.compile(r"plugin:([^/\s]+)/([^/\s]+)/([^/\s]+)")
_USES_TOOLS = frozenset({"local-agent", "acp"})
"""The runners that call tools of the host themselves."""


class Form(Record):
    """What a shipped runner offers: its form, and the endpoints that it reaches without an entry."""

    items: Sequence[FormItem]
    network: frozenset[str]
    any_network: bool

    def item(self, name: str) -> FormItem | None:
        """Return the item of this name, or None."""
        return next((item for item in self.items if item.name == name), None)


class Target(Record):
    """A runner of this host. `plugin`: its key, like `hostler/dify`. `form` None: this host does not have it.

    `foreign`: the plugin of LangBot that is run by its own code, None for a runner of this host.
    """

    plugin: str
    runner: str
    form: Form | None
    foreign: str | None = None
    from_litellm_platform: bool = False
    provider: str | None = None
    """Of `acp`: the coding agent that the plugin of LangBot stood for."""

    @property
    def name(self) -> str:
        """The name of the shipped runner; "" if it is a plugin of LangBot."""
        return "" if self.foreign else self.plugin.partition("/")[2]

    @property
    def uses_tools(self) -> bool:
        """Whether its runs call tools of the host."""
        return self.name in _USES_TOOLS


def target_of(runner: str) -> Target | None:
    """Return the runner for `ai.runner.runner` or `ai.runner.id` of LangBot; None if it is unknown."""
    if runner in LEGACY:
        return _shipped(LEGACY[runner])
    match = _PLUGIN_ID.fullmatch(runner)
    if match is None:
        return None
    author, plugin, name = match.groups()
    plain = re.sub(r"[-_]", "", plugin).lower()
    if author.lower() in _OFFICIAL_AUTHORS and plain in _OFFICIAL and name == "default":
        provider = {"claudecodeagent": "claude-code", "codexagent": "codex"}.get(plain)
        return _shipped(_OFFICIAL[plain], from_litellm_platform="litellm" in plain, provider=provider)
    return Target(
        f"{author}/{plugin}", f"plugin:{author}/{plugin}/{name}", None, foreign=f"{author}/{plugin}"
    )


def _shipped(name: str, *, from_litellm_platform: bool = False, provider: str | None = None) -> Target:
    key = f"hostler/{name}"
    return Target(
        key,
        f"plugin:{key}/default",
        form_of(key),
        from_litellm_platform=from_litellm_platform,
        provider=provider,
    )


@cache
def form_of(plugin: str) -> Form | None:
    """Return the form of a shipped runner from its manifest; None if it did not come with this host."""
    folder = shipped_plugin(plugin)
    if folder is None:
        return None
    try:
        file = read_manifest(folder).file
        stated = next((one for one in file.runners if one.name == "default"), None)
        items = msgspec.convert(stated.config if stated else [], list[FormItem])
    except (PluginError, msgspec.ValidationError):
        return None
    return Form(items, frozenset(file.network) - {ANY}, ANY in file.network)
