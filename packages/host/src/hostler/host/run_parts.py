"""The parts of a host that work on runs, built in the order in which they depend on each other."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable
from functools import partial

from hostler.calls.gate import Gate
from hostler.calls.run_tokens import RunTokens
from hostler.calls.scope import Services
from hostler.channels.actions import ChannelActor
from hostler.channels.channel_requests import ChannelRequests
from hostler.channels.channel_service import ChannelService
from hostler.channels.hooks import Hooks
from hostler.channels.open_channel import ChannelParts
from hostler.channels.request_forwarding import RequestForwarding
from hostler.channels.schedules import Scheduler
from hostler.channels.widgets import Widgets
from hostler.domain.budgets import accounts_of_workspace
from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import wall_clock
from hostler.host.audit_anchors import AnchorWriter
from hostler.host.audit_heads import AuditHeads
from hostler.host.lease import LeaseHeartbeat, host_id_of
from hostler.host.parts import Installation
from hostler.host.plugin_entries import add_shipped_plugin, add_shipped_runner
from hostler.host.push_sender import PushSender
from hostler.host.remote_workers import RemoteWorkers
from hostler.host.replays import Replays
from hostler.host.run_reader import RunReader
from hostler.host.webhooks import WebhookSender
from hostler.pauses.explicit import ExplicitPauses
from hostler.pauses.service import PauseService
from hostler.plugins.connection import PluginConnection
from hostler.runs.attempt import Attempt
from hostler.runs.attempt_parts import AttemptServices
from hostler.runs.child_runs import RunController
from hostler.runs.dispatch import Dispatcher
from hostler.runs.orchestrator import Orchestrator
from hostler.runs.preparation import Preparer
from hostler.runs.projections import Projector
from hostler.runs.recovery import recover, settle_lost
from hostler.runs.rerouting import Rerouter
from hostler.runs.reruns import Reruns
from hostler.runs.snapshot import Offer
from hostler.runs.trials import Trials
from hostler.storage.port import Tx
from hostler.storage.stores import budgets, hosts, runs
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import end_waiting
from hostler.storage.stores.run_rows import NewRun, Run
from hostler.tools.port import present_tool
from hostler.version import NAME, VERSION
from hostler_protocol.calls import HostInfo
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import LEAVE_SECONDS, PROTOCOL_VERSION, Limits
from hostler_protocol.runs import TERMINAL_STATUSES


class RunParts:
    """The parts that work on runs. None is active before the host starts it.

    Attempts make calls, calls open child runs, and child runs start attempts. Callbacks close this circle:
    they are called only after all parts exist.
    """

    def __init__(self, inst: Installation) -> None:
        settings, db, blobs = inst.settings, inst.db, inst.data.blobs
        is_resumable = inst.supervisor.catalog.is_resumable
        host_id = host_id_of(settings.data_dir)
        self._inst = inst
        self.reader, self.gate, self.tokens = RunReader(db, db.listen), Gate(), RunTokens(settings.assets_url)
        self.remote_workers = RemoteWorkers(
            db,
            host_id,
            inst.supervisor,
            prepare=partial(add_shipped_runner, inst.supervisor),
            look=lambda: self.dispatcher.look(),  # noqa: PLW0108  it is built below
        )
        inst.supervisor.on_restart = self.remote_workers.retire
        self.dispatcher = Dispatcher(
            db,
            lambda: self.lease.member,
            lambda run, ahead: Attempt(self.attempt_services, run, ahead),
            self._fail,
            lambda lost: settle_lost(db, lost, is_resumable),
            max_active=settings.max_active_runs,
            max_queued=settings.max_queued_runs,
            max_per_workspace=settings.max_runs_per_workspace,
            max_per_plugin=settings.max_runs_per_plugin,
            places=self.remote_workers.places,
        )
        self.orchestrator = Orchestrator(
            db,
            blobs,
            inst.event_router,
            self.dispatcher,
            self.reader.feed,
            can_steer=self._can_steer,
            quota_of=lambda workspace_id: inst.tools.allowances.of(workspace_id).quota,
            offer=self._offer,
            on_deferred=lambda: self.rerouter.wake(),  # noqa: PLW0108  it is built below
        )
        self.rerouter = Rerouter(db, inst.event_router, self.orchestrator)
        self.lease = LeaseHeartbeat(
            db,
            host_id,
            f"{socket.gethostname()}:{settings.port}",
            settings.lease_seconds,
            lambda: recover(db, is_resumable),
            self._end_work,
            self.dispatcher.look,
            member=None if db.shared else Membership(host_id),
        )
        controller = RunController(db, self.orchestrator, self.reader.wait)
        self.attempt_services = _attempt_services(
            inst, host_id, self.reader, self.gate, self.tokens, controller, self.remote_workers
        )
        self.pauses = PauseService(
            db,
            on_changed=self.dispatcher.pause_changed,
            on_cancelled=self.orchestrator.cancelled,
            tool=partial(present_tool, inst.tools.sources),
            write_and_claim=self.dispatcher.write_and_claim,
            limits=lambda ws: accounts_of_workspace(ws, inst.tools.allowances.of(ws).budget),
        )
        self.trials = Trials(self.orchestrator)
        self.reruns = Reruns(
            db,
            blobs,
            self.dispatcher,
            lambda: self.orchestrator.accepting,
            VERSION,
            form_of=inst.supervisor.catalog.form_of,
        )
        self.replays = Replays(
            db,
            blobs,
            settings.data_dir,
            inst.supervisor,
            inst.pins,
            inst.tools.allowances,
            inst.sandboxes.find,
        )
        self.webhook_sender = WebhookSender(
            db, settings.workspace, network=inst.machine.network, resolve=inst.secrets.own.resolve
        )
        self.scheduler = Scheduler(db, self.orchestrator)
        self.push_sender = PushSender(db, network=inst.machine.network)
        self.hooks = Hooks(
            db, settings.workspace, self.orchestrator.accept, inst.filters, secrets=inst.secrets.own
        )
        inst.configurator.on_hooks = self.hooks.configure
        self.widgets = Widgets(db, settings.workspace, inst.cursors)
        inst.configurator.on_widgets = self.widgets.configure
        self.orchestrator.on_front_end = self.widgets.check_message
        self.audit_heads = AuditHeads(db, settings.data_dir)
        self.audit_anchors = AnchorWriter(db, host_id, self.webhook_sender.post)
        inst.configurator.on_schedules = inst.tools.schedules.on_changed = self.scheduler.wake
        inst.configurator.on_anchors = self.audit_anchors.configure
        self.channels = ChannelService(
            ChannelParts(
                db=db,
                blobs=blobs,
                workspace_id=settings.workspace,
                host_id=host_id,
                connect=partial(_connect, inst),
                accept=self.orchestrator.accept,
                decide=self.pauses.decide,
                resolve=inst.secrets.own.resolve,
                quota_of=lambda workspace_id: inst.tools.allowances.of(workspace_id).quota,
                lease_seconds=settings.lease_seconds,
            )
        )
        forwarding = RequestForwarding(db, settings.workspace, host_id, self.channels)
        self.channel_requests = ChannelRequests(db, settings.workspace, self.channels, forwarding)
        actor = ChannelActor(
            db, settings.workspace, inst.supervisor.catalog.channels_of, self.channels.wake_outbox
        )
        inst.tools.platform.executor = actor

        def configure_channels(entries: Iterable[ChannelEntry]) -> None:
            entries = list(entries)
            self.channels.configure(entries)
            actor.configure(entries)

        inst.configurator.on_channels = configure_channels
        self.attempt_services.projector.actor = actor
        inst.configurator.on_secrets_changed = self.channels.renew
        self.attempt_services.projector.on_queued = self.channels.wake_outbox

    def _can_steer(self, runner_id: str) -> bool:
        manifest = self._inst.supervisor.catalog.find(runner_id)
        return manifest is not None and manifest.capabilities.steering

    def _offer(self, run: NewRun) -> Offer | None:
        """Return what the grant of a run is built from, if it is read with the claim."""
        inst = self._inst
        manifest = None if inst.db.shared else inst.supervisor.ready_runner(run.runner_id)
        if manifest is None:
            return None
        return Offer(manifest, inst.tools.catalog(inst.models, inst.knowledge, run.workspace_id))

    async def _fail(self, run: Run) -> None:
        """Fail a run that this host could not execute; its watchers were sent to the journal before."""
        await self._inst.db.write(lambda tx: _fail(tx, run))
        self.reader.feed.wake(run.run_id)

    async def _end_work(self, reason: str) -> None:
        """End every attempt, and wait until the plugins work on none of them any more."""
        ended = await self.dispatcher.end_all(reason)
        await asyncio.gather(
            self._inst.supervisor.wait_free(ended), self.remote_workers.wait_free(ended, LEAVE_SECONDS)
        )


async def _connect(inst: Installation, plugin_key: str) -> PluginConnection:
    """Return the connection to a plugin, which may be one that comes with the host."""
    add_shipped_plugin(inst.supervisor, plugin_key)
    return await inst.supervisor.connection(plugin_key)


def _attempt_services(  # noqa: PLR0917
    inst: Installation,
    host_id: str,
    reader: RunReader,
    gate: Gate,
    tokens: RunTokens,
    controller: RunController,
    remote_workers: RemoteWorkers,
) -> AttemptServices:
    """Build what every attempt works with."""
    settings, blobs, sources = inst.settings, inst.data.blobs, inst.tools.sources

    async def connect(run: Run) -> PluginConnection:
        if (placed := await remote_workers.connection(run)) is not None:
            return placed
        add_shipped_runner(inst.supervisor, run.runner_id)
        return await inst.supervisor.connection(split_runner_id(run.runner_id)[0])

    def replace(connection: PluginConnection, why: str) -> None:
        inst.supervisor.replace(connection, why)
        remote_workers.replace(connection, why)

    services = Services(
        db=inst.db,
        blobs=blobs,
        cursors=inst.cursors,
        models=inst.models,
        runs=controller,
        info=HostInfo(name=NAME, version=VERSION, protocol=PROTOCOL_VERSION, limits=Limits()),
        clock=wall_clock,
        tools=sources,
        actions=inst.tools.platform,
        schedules=inst.tools.schedules,
        knowledge=inst.knowledge,
        allowance_of=inst.tools.allowances.of,
    )
    explicit_pauses = ExplicitPauses(inst.db, blobs, sources, inst.configurator.vault)
    catalog = partial(inst.tools.catalog, inst.models, inst.knowledge)
    allowances = inst.tools.allowances
    preparer = Preparer(
        services,
        blobs,
        catalog,
        allowances,
        VERSION,
        explicit_pauses,
        inst.secrets.for_run,
        inst.entry_sealing.for_run,
    )
    return AttemptServices(
        db=inst.db,
        feed=reader.feed,
        gate=gate,
        connect=connect,
        replace=replace,
        prepare=preparer.prepare,
        projector=Projector(inst.db, blobs),
        blobs=blobs,
        host_id=host_id,
        cancel_grace_seconds=settings.cancel_grace_seconds,
        hold_seconds=settings.hold_seconds,
        explicit_pauses=explicit_pauses,
        look_at_end=reader.look_at_end,
        ended=remote_workers.places.ended,
        assets=tokens,
        stall_seconds=settings.stall_seconds,
        workspace_accounts=lambda ws: accounts_of_workspace(ws, allowances.of(ws).budget),
    )


def _fail(tx: Tx, run: Run) -> None:
    """Fail a run that this host could not execute, unless another host or attempt has it by now."""
    current = runs.by_id(tx, run.run_id)
    if current is None or current.attempt != run.attempt or not hosts.holds(tx, run.member):
        return
    if current.status not in TERMINAL_STATUSES:
        budgets.settle_run(tx, current.workspace_id, current.run_id)
        error = "the host failed to carry this run through; its log says why"
        end_waiting(tx, current, "failed", "host.error", error, actor="host")
