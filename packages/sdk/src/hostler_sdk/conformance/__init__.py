"""The conformance suite: does a plugin, in whatever language, speak the protocol?

It starts the plugin's command anew for each check, plays the host over standard input and output, and
needs no host, no database and no network.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from hostler_sdk.conformance.checks import CHECKS, INITIALIZE
from hostler_sdk.conformance.process import Candidate, CheckResult, perform

__all__ = ["CHECKS", "CheckResult", "check_plugin"]


async def check_plugin(
    command: Sequence[str],
    cwd: str | os.PathLike[str] | None = None,
    env: Mapping[str, str] | None = None,
) -> list[CheckResult]:
    """Put a plugin through every check; gives one result per check, in a fixed order.

    `command` starts the plugin, in folder `cwd`, with the environment `env` (default: this process's).
    Where the plugin cannot even be initialized, the checks that need it are left out.
    """
    candidate = Candidate(
        list(command), Path.cwd() if cwd is None else Path(cwd), dict(os.environ if env is None else env)
    )
    results: list[CheckResult] = []
    for name, check in CHECKS.items():
        result = await perform(name, check, candidate)
        results.append(result)
        if name == INITIALIZE and not result.ok:
            break
    return results
