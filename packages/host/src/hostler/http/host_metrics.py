"""The metrics of the host, as samples for `/metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hostler.domain.deferral import MAX_COUNTED
from hostler.domain.quotas import NOTHING, QUANTITIES
from hostler.host.worker_places import OUTCOMES
from hostler.http.metrics import Sample
from hostler.http.streams import Streams
from hostler.plugins.remote_workers.wire import STATES
from hostler.storage.stores import channel_connections, deferred, outbox_upkeep, quotas, usage

if TYPE_CHECKING:
    from hostler.host.host import Host


async def samples_of(host: Host, streams: Streams) -> list[Sample]:
    """Read the samples of one scrape: a few numbers, no scan of any table."""
    waiting = await host.db.read(usage.open_runs)
    stored = NOTHING
    for of_workspace in (await host.db.read(quotas.of_workspaces)).values():
        stored = stored.plus(of_workspace)
    workspace = host.settings.workspace
    channels = await host.db.read(lambda tx: channel_connections.page(tx, workspace))
    outbox_counts = await host.db.read(lambda tx: outbox_upkeep.counts(tx, workspace))
    dispatcher = host.dispatcher.snapshot()
    plugins = host.supervisor.status()
    workers = host.workers.all()
    remote = host.remote_workers.places.workers()
    return [
        Sample(
            "hostler_runs_open",
            "Runs that are not over, by status.",
            {(status,): waiting.get(status, 0) for status in ("queued", "claimed", "running", "paused")},
            ("status",),
        ),
        Sample("hostler_runs_active", "Runs this process is executing.", {(): dispatcher["active"]}),
        Sample(
            "hostler_runs_finished_total",
            "Executions that this process has ended.",
            {(): dispatcher["finished"]},
        ),
        Sample(
            "hostler_host_calls_total",
            "Host calls by method and outcome: ok, or the code of the refusal.",
            {key: float(count) for key, count in host.gate.counts.items()},
            ("method", "outcome"),
        ),
        Sample(
            "hostler_database_groups_total",
            "Group commits of the writer.",
            {(): float(host.db.groups_committed)},
        ),
        Sample(
            "hostler_runs_waiting",
            "Runs that wait in the queues of the database, whichever process will take them.",
            {(): waiting.get("queued", 0)},
        ),
        Sample(
            "hostler_events_deferred",
            "Events whose filters could not be evaluated and are tried again.",
            {(): await host.db.read(lambda tx: deferred.count(tx, MAX_COUNTED))},
        ),
        Sample(
            "hostler_events_failed_total",
            "Events that this process gave to no agent because filters could never be evaluated.",
            {(): host.rerouter.failed},
        ),
        Sample(
            "hostler_hook_requests_total",
            "Requests to hooks of this process, by what became of them.",
            {key: float(count) for key, count in host.hooks.counts.items()},
            ("hook", "outcome"),
        ),
        Sample(
            "hostler_widget_requests_total",
            "Visitors and messages of widgets of this process, by what became of them.",
            {key: float(count) for key, count in host.widgets.counts.items()},
            ("widget", "outcome"),
        ),
        Sample(
            "hostler_worker_failures_total",
            "Unexpected failures of a background worker of this process.",
            {(worker.name,): float(worker.failures) for worker in workers},
            ("worker",),
        ),
        Sample(
            "hostler_worker_running",
            "1 while a background worker runs, 0 while it waits to be started again.",
            {(worker.name,): float(worker.running) for worker in workers},
            ("worker",),
        ),
        Sample(
            "hostler_stored",
            "What quotas count, of all workspaces together: artifacts, values in storage, and bytes.",
            {(what,): float(amount) for what, amount in zip(QUANTITIES, stored, strict=True)},
            ("quantity",),
        ),
        Sample(
            "hostler_budget_waits_total",
            "How often calls of this process waited for what other calls had reserved of a budget.",
            {(): float(host.freed.waited)},
        ),
        Sample(
            "hostler_budget_overruns_total",
            "Calls of models in this process that used more than was reserved for them.",
            {(): float(host.freed.overruns)},
        ),
        Sample(
            "hostler_channel_connected",
            "1 while a configured channel is connected to its platform, by any host of the database.",
            {(row.channel,): float(row.health == "connected" and row.lease_until > 0) for row in channels},
            ("channel",),
        ),
        Sample(
            "hostler_channel_requests_total",
            "Requests of platforms to channels of this process, by what became of them.",
            {key: float(count) for key, count in host.channel_requests.counts.items()},
            ("channel", "outcome"),
        ),
        Sample(
            "hostler_channel_requests_forwarded_total",
            "Requests of platforms to this process that the host which has the channel was asked to answer.",
            {(name,): float(count) for name, count in host.channel_requests.forwarding.counts.items()},
            ("channel",),
        ),
        Sample(
            "hostler_outbox",
            "Messages for channels that are not sent: they wait, are in doubt, or were given up.",
            {(one.channel, one.status): float(one.number) for one in outbox_counts},
            ("channel", "status"),
        ),
        Sample(
            "hostler_remote_workers",
            "Remote workers that are connected to this process, by state.",
            {(state,): float(sum(one.state == state for one in remote)) for state in STATES},
            ("state",),
        ),
        Sample(
            "hostler_remote_worker_slots",
            "Runs that the remote workers of this process may have at once.",
            {(): float(sum(one.hello.slots for one in remote))},
        ),
        Sample(
            "hostler_remote_worker_runs",
            "Runs that the remote workers of this process have.",
            {(): float(sum(len(one.held) for one in remote))},
        ),
        Sample(
            "hostler_remote_worker_attempts_total",
            "Attempts that ended on remote workers of this process, by what became of them.",
            {(outcome,): float(host.remote_workers.places.counts[outcome]) for outcome in OUTCOMES},
            ("outcome",),
        ),
        Sample("hostler_stream_readers", "Event streams that are open.", {(): streams.count}),
        Sample(
            "hostler_stream_subscriptions",
            "Readers of conversations and workspaces: event streams, and subscriptions of WebSockets.",
            {(): host.runs.timelines.watchers},
        ),
        Sample("hostler_feed_watchers", "Watchers of live runs.", {(): host.feed.watchers}),
        Sample(
            "hostler_plugin_restarts_total",
            "Restarts of a plugin's process.",
            {(status.key,): status.restarts for status in plugins},
            ("plugin",),
        ),
        Sample(
            "hostler_plugin_ready",
            "1 while a plugin can take runs.",
            {(status.key,): float(status.state == "ready") for status in plugins},
            ("plugin",),
        ),
    ]
