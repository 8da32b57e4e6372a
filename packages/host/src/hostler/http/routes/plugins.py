"""Plugins and their runners: status, manifests and logs."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Annotated, Literal

import msgspec

from hostler.domain.epoch import seconds
from hostler.domain.plugin_pins import LockedPackage
from hostler.domain.same_fields import with_fields_of
from hostler.host.plugin_entries import stated_shipped_runner
from hostler.http.auth import has_right
from hostler.http.endpoint import endpoint
from hostler.http.limits import MAX_LOG_TAIL_LINES
from hostler.http.log_tail import read_log
from hostler.http.problems import UpgradeRequiredError
from hostler.http.request import ApiRequest
from hostler.http.responses import Empty, Listing
from hostler.plugins.source import Folder, SingleFile
from hostler.plugins.status import PluginStatus
from hostler.storage.stores import audit
from hostler_protocol._base import Strict
from hostler_protocol.errors import NotFoundError
from hostler_protocol.ids import split_runner_id
from hostler_protocol.manifest import AgentRunnerManifest

PluginConfinement = Literal["trusted", "sandboxed", "remote"]


class PinRecord(Strict):
    """How a plugin that the configuration names was confirmed. Only in the answer about one plugin.

    `digest`: of the folder as it is now; `changed` says what keeps it from starting, null for nothing.
    `requires`, `version` and `packages` (with the digests of their files) are those that are used.
    `confirmed_by` null: it is as it was first started. `files`: whether all files of the folder are pinned.
    """

    digest: str
    changed: str | None
    version: str
    requires: list[str]
    packages: list[LockedPackage]
    files: bool
    recorded_at: float
    confirmed_at: float | None
    confirmed_by: str | None


class PluginRecord(Strict):
    """The status of a plugin. `plugin` is `author/name`; `reason` says why it is not ready.

    `warnings`: defects that do not stop it, such as a sandbox that hides less than it should.
    `level`: how its process is confined; `remote`: it runs elsewhere. `network`: the places (`name:port`,
    `*`) that a sandboxed one may reach.
    `state`: stopped, starting, ready, waiting (for its next start), failed, disconnected (remote).
    """

    plugin: str
    source: str
    state: str
    version: str
    pid: int | None
    runners: list[str]
    tools: list[str]
    active_runs: int
    restarts: int
    reason: str | None
    retry_in_seconds: float | None
    containment: str | None
    started_at: float | None
    warnings: list[str] = []
    pin: PinRecord | None = None
    level: PluginConfinement = "sandboxed"
    network: list[str] = []


class ConfirmPlugin(Strict):
    """`digest`: of the folder that was reviewed, as `pin` has it. `upgrade`: resolve requirements anew."""

    digest: str
    upgrade: bool = False


class LogsQuery(Strict):
    """`lines`: the number of lines, from the end of the log. `after`: only what was written since then, the
    `next` of an earlier answer.
    """

    lines: Annotated[int, msgspec.Meta(ge=1, le=MAX_LOG_TAIL_LINES)] = 100
    after: str | None = None


class LogTail(Strict):
    """The last lines of a plugin's log, oldest first. `next`: where the following ones will begin; empty if
    the host keeps no log of the plugin. Without `after` the last line may be unfinished: it comes again when
    it is complete.

    `skipped`: lines between `after` and these were left out, since there were more than `lines`, or another
    file was begun.
    """

    plugin: str
    lines: list[str]
    next: str = ""
    skipped: bool = False


@endpoint("GET", "/v1/plugins", right="plugins:read", tag="plugins")
async def list_plugins(request: ApiRequest) -> Listing[PluginRecord]:
    """List the plugins by name, with their status.

    A key without the right `installation` sees those that its workspace may use.
    """
    statuses = request.state.host.supervisor.status()
    return Listing(items=[_record(status) for status in statuses if _may_see(request, status.key)])


@endpoint("GET", "/v1/plugins/connect", right="plugins:connect", tag="plugins", answers={101: None})
async def connect_plugin(request: ApiRequest) -> Empty:
    """Connect a remote plugin process: a WebSocket, with the token of that plugin."""
    raise UpgradeRequiredError(
        "this path accepts WebSocket connections only: connect with the plugin's token"
    )


@endpoint("GET", "/v1/plugins/{plugin}", right="plugins:read", tag="plugins")
async def get_plugin(request: ApiRequest) -> PluginRecord:
    """Get one plugin; `author/name` is written `author%2Fname` in the path."""
    return await _with_pin(request, _status(request))


@endpoint("GET", "/v1/plugins/{plugin}/logs", right="installation", tag="plugins")
async def get_plugin_logs(request: ApiRequest, query: LogsQuery) -> LogTail:
    """Read the last lines that a plugin wrote to stderr, or with `after` those that followed."""
    status = _status(request)
    if status.log_path is None:
        return LogTail(plugin=status.key, lines=[])
    part = await asyncio.to_thread(read_log, status.log_path, query.lines, query.after)
    return LogTail(plugin=status.key, lines=part.lines, next=part.next, skipped=part.skipped)


@endpoint("POST", "/v1/plugins/{plugin}/restart", right="installation", tag="plugins")
async def restart_plugin(request: ApiRequest) -> PluginRecord:
    """Replace a plugin's process by one with the current files.

    Active runs finish on the old process.
    """
    host, key = request.state.host, _status(request).key
    actor, workspace = request.caller.subject, request.workspace_id
    await host.db.write(lambda tx: audit.record(tx, workspace, actor, "plugin.restarted", key, {}))
    await host.supervisor.restart(key)
    return _record(_status(request))


@endpoint("POST", "/v1/plugins/{plugin}/confirm", right="installation", tag="plugins")
async def confirm_plugin(request: ApiRequest, body: ConfirmPlugin) -> PluginRecord:
    """Confirm the current folder of a plugin, and start it. 409 if the digest is not that of the folder.

    Other requirements, or all with `upgrade`, are resolved anew. Active runs finish on the old process.
    """
    host, status = request.state.host, _status(request)
    if not isinstance(status.source, Folder) or status.source.pin is None:
        raise NotFoundError(f"plugin {status.key!r} has no entry in the configuration: it is not pinned")
    known = await host.pins.status(status.key, status.source)
    if known is None or known.pin is None:
        raise NotFoundError(f"plugin {status.key!r} was never started, or its folder cannot be read")
    is_other = sorted(known.facts.requires) != sorted(known.pin.facts.requires)
    resolve = partial(host.supervisor.resolve, status.source) if body.upgrade or is_other else None
    actor = request.caller.subject
    await host.pins.confirm(status.key, status.source, seen=body.digest, actor=actor, resolve=resolve)
    await host.supervisor.restart(status.key)
    return await _with_pin(request, _status(request))


@endpoint("GET", "/v1/runners", right="plugins:read", tag="plugins")
async def list_runners(request: ApiRequest) -> Listing[AgentRunnerManifest]:
    """List the known runners that the workspace may use, with their forms, capabilities and permissions."""
    host = request.state.host
    may = host.allowances.of(request.workspace_id)
    return Listing(items=[runner for runner in host.supervisor.catalog.all() if may.runner(runner.id)])


@endpoint("GET", "/v1/runners/{runner_id}", right="plugins:read", tag="plugins")
async def get_runner(request: ApiRequest) -> AgentRunnerManifest:
    """Get one runner. Slashes of the id are written `%2F`.

    The plugin of an entry is started if it was never seen. One that comes with the host and that no agent
    uses yet is not: the answer is what it states.
    """
    host, runner_id = request.state.host, request.parameters["runner_id"]
    may = host.allowances.of(request.workspace_id)
    if not may.runner(runner_id):
        raise NotFoundError(may.refused("runner", runner_id))
    if _plugin_of(runner_id) not in host.supervisor:
        stated = await asyncio.to_thread(stated_shipped_runner, runner_id)
        if stated is None:
            raise NotFoundError(f"there is no runner {runner_id[:200]!r}")
        return stated
    return await host.supervisor.manifest(runner_id)


def _plugin_of(runner_id: str) -> str:
    try:
        return split_runner_id(runner_id)[0]
    except ValueError as error:
        raise NotFoundError(str(error)) from error


def _status(request: ApiRequest) -> PluginStatus:
    key = request.parameters["plugin"]
    for status in request.state.host.supervisor.status():
        if status.key == key and _may_see(request, key):
            return status
    raise NotFoundError(f"there is no plugin {key!r}")


def _may_see(request: ApiRequest, plugin_key: str) -> bool:
    may = request.state.host.allowances.of(request.workspace_id)
    return may.plugin(plugin_key) or has_right(request.caller, "installation")


async def _with_pin(request: ApiRequest, status: PluginStatus) -> PluginRecord:
    record = _record(status)
    if not isinstance(status.source, Folder) or status.source.pin is None:
        return record
    found = await request.state.host.pins.status(status.key, status.source)
    if found is None or found.pin is None:
        return record
    pin = found.pin
    shown = PinRecord(
        digest=found.facts.digest,
        changed=found.changed,
        version=pin.facts.version,
        requires=list(pin.facts.requires),
        packages=found.packages,
        files=status.source.pin == "files",
        recorded_at=pin.recorded_at / 1000,
        confirmed_at=seconds(pin.confirmed_at),
        confirmed_by=pin.confirmed_by,
    )
    return msgspec.structs.replace(record, pin=shown)


def _record(status: PluginStatus) -> PluginRecord:
    level: PluginConfinement
    network: list[str] = []
    match status.source:
        case Folder(level=level, network=allowed):
            source, network = "folder", list(allowed)
        case SingleFile():
            source, level = "file", "trusted"
        case _:
            source, level = "remote", "remote"
    return with_fields_of(
        status,
        PluginRecord,
        plugin=status.key,
        source=source,
        runners=list(status.runners),
        tools=list(status.tools),
        warnings=list(status.warnings),
        pin=None,
        level=level,
        network=network,
    )
