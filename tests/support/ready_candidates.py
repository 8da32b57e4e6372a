"""Plugin folders, and the conformance suite over them, forked from a process that imported what they import.

The suite starts a plugin for nearly each of its checks, tests of a channel start one for each module and each
death, and most of what that costs is to import its libraries. The first start of the suite is an interpreter
of its own, as `check_plugin` starts each.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import importlib
import os
import random
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from hostler_sdk.conformance import check_plugin, check_started
from hostler_sdk.conformance.process import Candidate, CheckResult, PluginProcess, start_command
from support.child_plugins import SERVE, STEP_SECONDS, environment, folder_plugin
from support.forking import (
    CAN_FORK,
    OwnSource,
    end_with,
    fork_piped,
    take_on,
    take_orders,
)


async def check_folder(folder: Path, given: Mapping[str, str]) -> list[CheckResult]:
    """Run all checks on a plugin folder that the SDK serves."""
    if not CAN_FORK:
        return await check_plugin(SERVE, folder, given)
    with contextlib.closing(OwnSource("ready_candidates", str(folder))) as source:
        return await check_started(_Starts(folder, dict(given), source).start)


def forked_plugin(folder: Path) -> Candidate:
    """A plugin folder served by the SDK, as `folder_plugin` is."""
    if not CAN_FORK:
        return folder_plugin(folder)
    order = {"environment": environment(), "cwd": str(folder)}
    return Candidate(partial(fork_piped, _source_of(folder), order), STEP_SECONDS)


@functools.cache
def _source_of(folder: Path) -> OwnSource:
    """The one of this test process, which ends with it."""
    return OwnSource("ready_candidates", str(folder))


@dataclass
class _Starts:
    folder: Path
    environment: dict[str, str]
    source: OwnSource
    count: int = 0

    async def start(self) -> PluginProcess:
        """Start the plugin: an interpreter of its own at first, then forks."""
        self.count += 1
        if self.count == 1:
            return await start_command(SERVE, self.folder, self.environment)
        order = {"environment": self.environment, "cwd": str(self.folder)}
        return await fork_piped(self.source, order)


# -- in the process that the others are forked from ---------------------------------------------------------


def serve_forks(orders: socket.socket) -> None:
    """Fork a process for each order, which goes on as the plugin."""
    from hostler_sdk import serve

    _import_libraries(Path(sys.argv[4]))
    gc.collect()
    gc.freeze()
    order, files = take_orders(orders)
    os.setsid()
    take_on(order, files)
    sys.argv = [serve.__file__]
    sys.path.insert(0, order["cwd"])
    time.tzset()
    random.seed()
    end_with(serve.main)


def _import_libraries(folder: Path) -> None:
    """Import what the files of a plugin import, but none of the plugin's own modules."""
    for name in sorted(_imported_by(folder)):
        if not (folder / name.partition(".")[0]).exists() and not (folder / f"{name}.py").exists():
            with contextlib.suppress(ImportError):  # the plugin does without it, or its first start says so
                importlib.import_module(name)


def _imported_by(folder: Path) -> set[str]:
    found = set()
    for path in folder.rglob("*.py"):
        if "tests" not in path.relative_to(folder).parts:
            for node in ast.walk(ast.parse(path.read_bytes())):
                if isinstance(node, ast.Import):
                    found |= {one.name for one in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    found.add(node.module)
    return found
