"""Names of LangBot's June 2026 SDK on the published one, for plugins written against them.

Runs in the plugin's process, before the plugin: modules of the earlier names are made of those of the
published SDK, where the same things have the same names without `Agent`; component files of the kind
`AgentRunner` are read as `Runner`, and `spec.usages` is `[agent]` where it is not stated. An SDK that has
the earlier modules itself keeps them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_API = "langbot_plugin.api"
MODULES = {
    f"{_API}.definition.components.agent_runner": f"{_API}.definition.components.runner",
    f"{_API}.entities.builtin.agent_runner": f"{_API}.entities.builtin.runner",
    f"{_API}.proxies.agent_run": f"{_API}.proxies.runner",
    f"{_API}.proxies.agent_run_api": f"{_API}.proxies.runner",
}
"""Packages of the earlier SDK, and where their modules are now."""
TOOLS = f"{_API}.agent_tools"
GATEWAY = f"{TOOLS}.asset_gateway"
GATEWAY_NAMES = frozenset(
    {
        "AgentAssetGateway",
        "AgentAssetGatewayRegistration",
        "LANGBOT_AGENT_GATEWAY_SERVER_NAME",
        "get_default_agent_asset_gateway",
    }
)
"""Names of the package `agent_tools` that only its module `asset_gateway` has now."""
NAMES = {"Runner": "AgentRunner", "RunnerContext": "AgentRunContext", "RunnerResult": "AgentRunResult"}
"""The names that are not just the new one with `Agent` in front of it."""


def earlier_names(name: str) -> tuple[str, ...]:
    """Return the earlier names of a name of the published SDK, which may be used as well."""
    found = {NAMES[name]} if name in NAMES else set()
    if name.startswith("Runner"):
        rest = name.removeprefix("Runner")
        found |= {f"AgentRunner{rest}", f"AgentRun{rest}"}
    return tuple(sorted(found))


class _EarlierModule(Loader):
    def __init__(self, now: str) -> None:
        self._now = now

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        source = importlib.import_module(self._now)
        for name, value in vars(source).items():
            if name.startswith("__"):
                continue
            vars(module).setdefault(name, value)
            for earlier in earlier_names(name):
                vars(module).setdefault(earlier, value)
        if hasattr(source, "__all__"):
            names = [one for name in source.__all__ for one in (name, *earlier_names(name))]
            vars(module)["__all__"] = names


class _EarlierModules(MetaPathFinder):
    """Finds the modules that only the earlier SDK has."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        for earlier, now in MODULES.items():
            if fullname == earlier or fullname.startswith(f"{earlier}."):
                name = now + fullname.removeprefix(earlier)
                if importlib.util.find_spec(name) is None:
                    return None
                return ModuleSpec(fullname, _EarlierModule(name), is_package=fullname == earlier)
        return None


def upgraded(manifest: Any) -> Any:
    """Return a component's manifest as the published SDK accepts it."""
    if not isinstance(manifest, dict) or manifest.get("kind") not in ("AgentRunner", "Runner"):
        return manifest
    spec = manifest.get("spec")
    spec = dict(spec) if isinstance(spec, dict) else {}
    spec.setdefault("usages", ["agent"])
    return {**manifest, "kind": "Runner", "spec": spec}


def _of_gateway(name: str) -> Any:
    if name not in GATEWAY_NAMES:
        raise AttributeError(f"module {TOOLS!r} has no attribute {name!r}")
    return getattr(importlib.import_module(GATEWAY), name)


def install() -> None:
    """Make the earlier names known. Imports LangBot's SDK."""
    sys.meta_path.append(_EarlierModules())  # the last one: a module that is there is not replaced
    vars(importlib.import_module(TOOLS)).setdefault("__getattr__", _of_gateway)
    manifests: Any = importlib.import_module("langbot_plugin.api.definition.components.manifest")
    read = manifests.ComponentManifest.__init__

    def read_upgraded(self: Any, owner: str, manifest: Any, rel_path: str) -> None:
        read(self, owner=owner, manifest=upgraded(manifest), rel_path=rel_path)

    manifests.ComponentManifest.__init__ = read_upgraded
