"""The conformance suite: checks whether a plugin, in any language, keeps to the protocol.

It starts the plugin's command anew for each check and plays the host over standard input and output. It needs
no host, no database and no network.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path

from hostler_sdk.conformance.checks import CHECKS, INITIALIZE
from hostler_sdk.conformance.process import (
    STEP_SECONDS,
    Candidate,
    CheckResult,
    PluginProcess,
    StartPlugin,
    perform,
    start_command,
)

__all__ = ["CHECKS", "CheckResult", "PluginProcess", "StartPlugin", "check_plugin", "check_started"]


async def check_plugin(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    only: Collection[str] = tuple(CHECKS),
    step_seconds: float = STEP_SECONDS,
) -> list[CheckResult]:
    """Run the conformance checks on a plugin, and return one result per check, in the order of `CHECKS`.

    `command` starts the plugin in folder `cwd` with the environment `env` (default: this process's). `only`
    names the checks to run. `step_seconds` is the time allowed for each awaited message. If the plugin cannot
    be initialized, the later checks are skipped and have no result. Raises ValueError for an unknown check.

        results = await check_plugin([sys.executable, "-m", "hostler_sdk.serve"], "my_plugin")
        assert all(result.ok for result in results), results
    """
    environment = dict(os.environ if env is None else env)
    folder = Path.cwd() if cwd is None else Path(cwd)
    start = partial(start_command, list(command), folder, environment)
    return await check_started(start, only=only, step_seconds=step_seconds)


async def check_started(
    start: StartPlugin, *, only: Collection[str] = tuple(CHECKS), step_seconds: float = STEP_SECONDS
) -> list[CheckResult]:
    """Run the conformance checks on a plugin that `start` starts, in a sandbox say; see `check_plugin`."""
    if unknown := sorted(set(only) - CHECKS.keys()):
        raise ValueError(f"no check is named {unknown[0]!r}; there are {', '.join(CHECKS)}")
    candidate = Candidate(start, step_seconds)
    results: list[CheckResult] = []
    for name, check in CHECKS.items():
        if name in only:
            result = await perform(name, check, candidate)
            results.append(result)
            if name == INITIALIZE and not result.ok:
                break
    return results
