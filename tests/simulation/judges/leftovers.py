"""Nothing is left over at rest: no task, slot, watcher, token, process, file or row of what has ended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from simulation.life import Life
from simulation.standing import MCP_TASKS, Standing
from simulation.workloads import calls, strikes
from simulation.workloads.faults import COMMITS, KINDS, MOMENTS

STANDING_TASKS = frozenset(
    {
        "SimulatedHost._main",
        "Workers._keep",
        "ConnectionMonitor._watch",
        "PluginLifecycle._start",  # of a plugin whose process ended: it waits for its back-off
        "PluginLifecycle._start_quietly",
    }
)
"""Tasks that a host has at rest: its workers, and what watches and starts plugins."""
CHANNEL_TASKS = {"ChannelService._keep": 1, "OpenChannel._watch": 1, "OutboxSender.work": 1}
"""Tasks of a host with a channel: it keeps the connection open, or looks whether it may."""
PLUGIN_TASKS = frozenset({"PluginLife._until_closed"})
CHANNEL_PLUGIN_TASKS = frozenset({"OpenChannel._keep"})
"""The task of the SDK that receives from a platform."""
ROGUE = "/test/rogue/"
"""The plugin that keeps to no rule."""
AT_ZERO = (
    "hostler_runs_open",
    "hostler_runs_active",
    "hostler_runs_waiting",
    "hostler_events_deferred",
    "hostler_feed_watchers",
    "hostler_stream_readers",
    "hostler_stream_subscriptions",
)
FILES = re.compile(
    r"^(anchors|erasure\.key|\.erasure\.key\.lock|"
    r"(shared|backup [\d.]+)\.db(-wal|-shm)?|(blobs|(copy|replay) [\d.]+)/.*|"
    r"[\w-]+/(hostler\.yaml|hostler\.db(-wal|-shm)?|host_id|lock|maintenance\.lock|"
    r"database\.json|audit-heads\.json|plugins/(runners|forms)\.json|openapi/[0-9a-f]{64}|logs/.*|blobs/.*))$"
)
"""What may be in the folder of a life."""
ENDED = "('completed', 'failed', 'cancelled', 'timeout')"
ROWS = {
    "an upload of an ended run": "SELECT upload_id FROM uploads u JOIN runs r ON r.run_id = u.run_id"
    f" WHERE r.status IN {ENDED}",
    "a part of no upload": "SELECT p.upload_id FROM upload_parts p WHERE NOT EXISTS"
    " (SELECT 1 FROM uploads u WHERE u.workspace_id = p.workspace_id AND u.upload_id = p.upload_id)",
    "a deferred event that has been routed": "SELECT d.event_id FROM deferred_events d JOIN events e"
    " ON e.workspace_id = d.workspace_id AND e.event_id = d.event_id WHERE e.outcome <> 'deferred'",
    "an unread steer that its run still counts": "SELECT run_id FROM runs"
    f" WHERE status IN {ENDED} AND steers <> 0",
    "a lane that is held": f"SELECT run_id FROM runs WHERE status IN {ENDED} AND active_lane IS NOT NULL",
    "a message of a run that has begun": "SELECT w.event_id FROM waiting_messages w JOIN events e"
    " ON e.workspace_id = w.workspace_id AND e.event_id = w.event_id JOIN runs r ON r.run_id = e.run_id"
    f" WHERE r.status IN {ENDED}",
    "a delivery that is leased": "SELECT delivery_id FROM deliveries WHERE status <> 'pending'"
    " AND lease_token IS NOT NULL",
    "a request that was never answered": "SELECT key FROM idempotency WHERE status = 0",
    "a reservation of a call that is over": "SELECT reservation_id FROM budget_reservations",
    "something reserved in a budget": "SELECT owner_id FROM budget_use"
    " WHERE reserved_tokens <> 0 OR reserved_cost <> 0",
    "a blob that counts no reference, and since when": "SELECT sha256 FROM blobs WHERE refs < 0"
    " OR (refs = 0 AND unreferenced_at IS NULL)",
}


def judge(life: Life) -> list[str]:
    """All of it."""
    session = MCP_TASKS if any("mcp" in tool for tool in life.plan.tools) else {}
    if life.plan.channels:
        session = {**session, **CHANNEL_TASKS}
    found = [finding for host in life.standing for finding in [*_held(host, session), *_metrics(life, host)]]
    found += [f"{what} is left: {row[0]}" for what, query in ROWS.items() for row in life.rows(query)]
    if life.standing:
        found += [*_hosts(life), *_processes(life), *_files(life)]
    return found


def _held(host: Standing, session: Mapping[str, int]) -> list[str]:
    found = [
        f"{host.host} still has the task {name} ({count} of it)"
        for name, count in sorted(host.tasks.items())
        if name not in STANDING_TASKS and count > session.get(name, 0)
    ]
    if host.locked:
        found.append(f"{host.host} still holds the lock of its removals")
    held = {what: getattr(host, what) for what in ("active", "slots", "places", "tokens")}
    found += [f"{host.host} still holds {count} {what}" for what, count in held.items() if count]
    found += [f"{host.host} still keeps results of run {run} for readers" for run in host.channels]
    allowed = PLUGIN_TASKS | (CHANNEL_PLUGIN_TASKS if CHANNEL_TASKS.keys() <= session.keys() else set())
    for plugin, tasks in host.plugins.items():
        if ROGUE in plugin:  # some of its runs never end
            continue
        found += [f"{plugin} still has the task {name}" for name in sorted(tasks.keys() - allowed)]
    return found


def _metrics(life: Life, host: Standing) -> list[str]:
    """What the metrics of a host say is what the facts say."""
    metrics = host.metrics
    found = [
        f"{host.host}: {name} is {value} at rest"
        for name in AT_ZERO
        for value in metrics[name].values()
        if value
    ]
    for (worker,), running in metrics["hostler_worker_running"].items():
        if not running:
            found.append(f"{host.host}: its worker {worker} does not run")
    if host.starts == 1 and all(action.what != "erase" for action in life.plan.actions):
        ((claimed,),) = life.rows(
            "SELECT count(*) FROM journal WHERE kind = 'lifecycle' AND type = 'claimed'"
            f' AND data LIKE \'%"actor":"{host.id}"%\''
        )
        finished = sum(metrics["hostler_runs_finished_total"].values())
        # what a host claims while it loses its lease, it does not begin
        if finished > claimed or (finished < claimed and not faulty(life)):
            found.append(f"{host.host} says that it finished {finished} attempts, and claimed {claimed}")
    return found


def faulty(life: Life) -> bool:
    """Whether something goes wrong in it that may end processes."""
    faults = {*KINDS, *MOMENTS, *COMMITS, *calls.KINDS, *strikes.KINDS}
    return any(action.what in faults for action in life.plan.actions)


def _hosts(life: Life) -> list[str]:
    """The table of hosts has those that live."""
    living = {host.id for host in life.standing}
    return [
        f"host {host} is left in the table of hosts"
        for (host,) in life.rows("SELECT host_id FROM hosts")
        if host not in living
    ]


def _processes(life: Life) -> list[str]:
    """The hosts, one process of each of their plugins, and nothing else of them."""
    hosts = {host.process.name for host in life.hosts if host.process is not None}
    alive = Counter(
        life.process.name.rsplit("/", 1)[0] for life in life.world.plugins.lives if life.process.alive
    )
    found = [f"{count} processes of {plugin} live" for plugin, count in alive.items() if count > 1]
    found += [
        f"a process of {plugin} outlived its host" for plugin in alive if plugin.split("/")[0] not in hosts
    ]
    return found


def _files(life: Life) -> list[str]:
    """No temporary file, and no lock but those of the hosts that live."""
    found = []
    for path in sorted(life.folder.glob("**/*")):
        name = path.relative_to(life.folder).as_posix()
        if path.is_file() and not FILES.match(name):
            found.append(f"the file {name} is left")
    known = {sha for (sha,) in life.rows("SELECT sha256 FROM blobs")}
    # what a crash leaves, or a row that another host removes, the host of the file removes an hour later
    whole = len(life.hosts) == 1 and not faulty(life)
    found += [
        f"the blob {path.name} is in no table"
        for path in sorted(life.folder.glob("h?/blobs/??/??/*"))
        if whole and path.name not in known
    ]
    if all(host.starts == 1 for host in life.hosts):  # files of killed processes stay open in this process
        found += [f"the file {name} is open" for name in _open_files(life.folder)]
    return found


def _open_files(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            name = entry.readlink()
        except OSError:
            continue
        if name.is_relative_to(folder) and not re.search(
            r"(\.db(-wal|-shm)?|/lock|maintenance\.lock|/blobs/pins/[\w-]+/alive)$", str(name)
        ):
            found.append(name.relative_to(folder).as_posix())
    return sorted(found)
