"""Let the plugin's HTTP clients take the sandbox's proxy, which is the only way out of a sandbox.

Runs in the plugin's process, before the plugin. LangBot starts plugins with an open network, and many of
them tell their client to ignore the environment (`httpx.AsyncClient(trust_env=False)`), or use one that
ignores it by default (`aiohttp.ClientSession()`). In a sandbox such a client reaches nothing. There, and
only there, both read the environment. A client that was given a proxy or a transport of its own keeps it.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

SANDBOX_PROXY_VARIABLE = "HOSTLER_SANDBOX_PROXY"
"""Set in a sandbox that reaches endpoints through a proxy."""
CLIENTS = {"httpx": ("Client", "AsyncClient"), "aiohttp": ("ClientSession",)}
"""Modules, and their classes whose `trust_env` decides whether they use the proxy."""


def trust_environment(module: ModuleType) -> None:
    """Make the clients of a module use the proxy of the environment."""
    for name in CLIENTS[module.__name__]:
        client: Any = getattr(module, name)
        client.__init__ = _trusting(client.__init__)


def _trusting(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def init_with_proxy(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **{**kwargs, "trust_env": True})

    return init_with_proxy


class _Clients(MetaPathFinder):
    """Finds the modules of `CLIENTS` as the other finders do, and changes them once they are loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in CLIENTS:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                _after_loading(spec.loader, trust_environment)
                return spec
        return None


def _after_loading(loader: Any, change: Callable[[ModuleType], None]) -> None:
    load = loader.exec_module

    def load_and_change(module: ModuleType) -> None:
        load(module)
        change(module)

    loader.exec_module = load_and_change


def install() -> None:
    """Change clients that are imported from now on, if this is a sandbox with a proxy."""
    if os.environ.get(SANDBOX_PROXY_VARIABLE):
        sys.meta_path.insert(0, _Clients())
