"""The whole configuration as one document."""

from __future__ import annotations

from pathlib import Path

from hostler.config import ConfigFile
from hostler.domain.changes import ConfigDiff, Problem
from hostler.http.answers import Listing
from hostler.http.ask import Ask
from hostler.http.endpoint import endpoint
from hostler_protocol._base import Strict
from hostler_protocol.errors import InvalidArgumentError


class ApplyQuery(Strict):
    """`dry_run`: only say what would change."""

    dry_run: bool = False


@endpoint("POST", "/v1/config", right="installation", tag="configuration")
async def apply_config(ask: Ask, query: ApplyQuery, body: ConfigFile) -> ConfigDiff:
    """Apply a configuration: what it names is made or changed, what it does not name stays."""
    plugins = [entry if isinstance(entry, str) else entry.path for entry in body.plugins]
    for what, paths in (("plugins", plugins), ("skills", body.skills)):
        for path in paths:
            if not Path(path).is_absolute():
                raise InvalidArgumentError(f"{what}: {path!r} is a relative path: send the absolute one")
    return await ask.surface.host.apply(body, actor=ask.caller.subject, dry_run=query.dry_run)


@endpoint("GET", "/v1/problems", right="installation", tag="configuration")
async def list_problems(ask: Ask) -> Listing[Problem]:
    """List what does not work of the configuration now: entries, plugins, skills, servers, and why."""
    await ask.surface.host.skills.look()
    return Listing(items=await ask.surface.host.problems())


@endpoint("GET", "/v1/config", right="installation", tag="configuration")
async def export_config(ask: Ask) -> ConfigFile:
    """Export the configuration as it stands. Secrets are references, as they were given."""
    return await ask.surface.host.export()
