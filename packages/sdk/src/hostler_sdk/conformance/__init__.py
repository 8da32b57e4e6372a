"""The conformance suite: does a plugin, in whatever language, speak the protocol?

It starts the plugin's command anew for each check, plays the host over standard input and output, and
needs no host, no database and no network.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from hostler_sdk.conformance.checks import CHECKS, INITIALIZE
from hostler_sdk.conformance.process import STEP_SECONDS, Candidate, CheckResult, perform

__all__ = ["CHECKS", "CheckResult", "check_plugin"]


async def check_plugin(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
    *,
    only: Collection[str] = tuple(CHECKS),
    step_seconds: float = STEP_SECONDS,
) -> list[CheckResult]:
    """Put a plugin through every check; gives one result per check, in a fixed order.

    `command` starts the plugin, in folder `cwd`, with the environment `env` (default: this process's).
    `only` names the checks to make, `step_seconds` how long each awaited message may take. Where the plugin
    cannot even be initialized, the checks after that one are left out. ValueError for an unknown check.
    """
    if unknown := sorted(set(only) - CHECKS.keys()):
        raise ValueError(f"no check is named {unknown[0]!r}; there are {', '.join(CHECKS)}")
    environment = dict(os.environ if env is None else env)
    candidate = Candidate(list(command), Path.cwd() if cwd is None else Path(cwd), environment, step_seconds)
    results: list[CheckResult] = []
    for name, check in CHECKS.items():
        if name in only:
            result = await perform(name, check, candidate)
            results.append(result)
            if name == INITIALIZE and not result.ok:
                break
    return results
