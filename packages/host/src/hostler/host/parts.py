"""The parts of a host, built in the order in which they depend on each other."""

from __future__ import annotations

import socket
from functools import partial

from hostler.calls.cursors import Cursors
from hostler.calls.gate import Gate
from hostler.calls.run_tokens import RunTokens
from hostler.calls.scope import Services
from hostler.domain.budgets import accounts_of_workspace
from hostler.domain.clock import wall_clock
from hostler.host.apply_config import Configurator, LiveModels
from hostler.host.audit_anchors import AnchorWriter
from hostler.host.audit_heads import AuditHeads
from hostler.host.config import Settings
from hostler.host.content_sealing import ContentSealing, named_files
from hostler.host.diagnosis import Diagnosis, silent_sources
from hostler.host.entry_sealing import EntrySealing
from hostler.host.host_tools import HostTools
from hostler.host.identity_providers import IdentityProviders
from hostler.host.inventory import Inventories
from hostler.host.lease import LeaseHeartbeat, host_id_of
from hostler.host.lock import RemovalGate
from hostler.host.machine import Machine
from hostler.host.maintenance import HostData
from hostler.host.master_key import MasterKey
from hostler.host.plugin_entries import add_shipped_runner, trial_plugin
from hostler.host.plugin_pins import StoredPins
from hostler.host.push_sender import PushSender
from hostler.host.replays import Replays
from hostler.host.run_reader import RunReader
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.sealing_upkeep import SealingUpkeep
from hostler.host.secret_store import SecretStore
from hostler.host.secret_users import secret_users
from hostler.host.webhooks import WebhookSender
from hostler.host.workers import Workers
from hostler.pauses.explicit import ExplicitPauses
from hostler.pauses.service import PauseService
from hostler.plugins.connection import PluginConnection
from hostler.plugins.supervisor import Supervisor
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
from hostler.runs.routing import EventRouter
from hostler.runs.snapshot import Offer
from hostler.runs.trials import Trials
from hostler.sandbox.users import SandboxUsers
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import budgets, hosts, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import end_waiting
from hostler.storage.stores.run_rows import NewRun, Run
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.port import present_tool
from hostler.version import NAME, VERSION
from hostler_protocol.calls import HostInfo
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from hostler_protocol.runs import TERMINAL_STATUSES


class Installation:
    """The parts that exist before the first run, around an open database. No configuration is active yet."""

    def __init__(
        self,
        settings: Settings,
        db: SqlDatabase,
        cursors: Cursors,
        knowledge: KnowledgeService | None,
        machine: Machine,
    ) -> None:
        workspace = settings.workspace
        self.machine = machine
        self.settings, self.db, self.cursors, self.knowledge = settings, db, cursors, knowledge
        users = SandboxUsers(settings.data_dir / "sandbox-users.json")
        self.sandboxes = AuditedSandboxes(db, workspace, users=users)
        self.pins = StoredPins(db, workspace)
        self.supervisor = Supervisor(
            settings.data_dir,
            sandbox=self.sandboxes.find,
            start=machine.start_plugin,
            pins=self.pins,
            on_demand=trial_plugin,
        )
        self.workers = Workers()
        self.master_key = MasterKey(db)
        self.secrets = SecretStore(db, workspace, self.master_key.key_ring, secret_users)
        self.entry_sealing = EntrySealing(
            db, workspace, self.master_key.key_ring, self.supervisor.catalog.form_of, db.truncate_log
        )
        self.tools = tools = HostTools(
            settings,
            db,
            self.supervisor,
            self.sandboxes,
            self.workers,
            network=machine.network,
            resolve=self.secrets.own.resolve,
        )
        blobs = BlobFolder(settings.data_dir / "blobs")
        self.data = HostData(
            db, blobs, tools.folders, RemovalGate(settings.data_dir), lambda: self.sealing.eraser
        )
        self.models = LiveModels(self.secrets.own)
        self.providers = IdentityProviders(machine.network, self.secrets.own.resolve)
        files = settings.erasure_key or named_files()
        self.sealing = ContentSealing(db, blobs, self.master_key.key_ring, settings.data_dir, files)
        self.master_key.on_changed = self.sealing.follow
        self.master_key.movers = (self.secrets.rewrap, self.entry_sealing.rewrap, self.sealing.rewrap)
        self.sealing_upkeep = SealingUpkeep(db, blobs, self.sealing)
        self.filters = machine.open_filters()
        self.event_router = EventRouter(db, self.filters)
        self.inventories = Inventories(
            db,
            workspace,
            self.supervisor,
            tools.sources,
            tools.skills,
            partial(silent_sources, tools.mcp, tools.openapi, workspace),
            tools.allowances,
            not settings.passive,
            knowledge,
            self.secrets,
            self.entry_sealing.secrets,
        )
        self.configurator = Configurator(
            db,
            workspace,
            self.supervisor,
            self.models,
            self.event_router,
            skills=tools.skills,
            tools=tools.configurable,
            working_folders=tools.folders.configure,
            inventories=self.inventories,
            model_providers=machine.model_providers,
            allowances=tools.allowances,
            master_key=self.master_key,
            secrets=self.secrets,
            entry_sealing=self.entry_sealing,
            on_secrets=tools.mcp.renew,
            providers=self.providers,
            data_dir=settings.data_dir,
            config_file=settings.config,
        )
        self.diagnosis = Diagnosis(
            workspace,
            self.configurator,
            self.inventories,
            self.event_router,
            tools.mcp,
            tools.openapi,
            tools.allowances,
        )


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
            inst, host_id, self.reader, self.gate, self.tokens, controller
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
        self.replays = Replays(db, blobs, settings.data_dir, inst.supervisor, inst.pins)
        self.webhook_sender = WebhookSender(
            db, settings.workspace, network=inst.machine.network, resolve=inst.secrets.own.resolve
        )
        self.push_sender = PushSender(db, network=inst.machine.network)
        self.audit_heads = AuditHeads(db, settings.data_dir)
        self.audit_anchors = AnchorWriter(db, host_id, self.webhook_sender.post)
        inst.configurator.on_anchors = self.audit_anchors.configure

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
        await self._inst.supervisor.wait_free(await self.dispatcher.end_all(reason))


def _attempt_services(  # noqa: PLR0917
    inst: Installation,
    host_id: str,
    reader: RunReader,
    gate: Gate,
    tokens: RunTokens,
    controller: RunController,
) -> AttemptServices:
    """Build what every attempt works with."""
    settings, blobs, sources = inst.settings, inst.data.blobs, inst.tools.sources

    async def connect(runner_id: str) -> PluginConnection:
        add_shipped_runner(inst.supervisor, runner_id)
        return await inst.supervisor.connection(split_runner_id(runner_id)[0])

    services = Services(
        db=inst.db,
        blobs=blobs,
        cursors=inst.cursors,
        models=inst.models,
        runs=controller,
        info=HostInfo(name=NAME, version=VERSION, protocol=PROTOCOL_VERSION, limits=Limits()),
        clock=wall_clock,
        tools=sources,
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
        replace=inst.supervisor.replace,
        prepare=preparer.prepare,
        projector=Projector(inst.db, blobs),
        blobs=blobs,
        host_id=host_id,
        cancel_grace_seconds=settings.cancel_grace_seconds,
        hold_seconds=settings.hold_seconds,
        explicit_pauses=explicit_pauses,
        look_at_end=reader.look_at_end,
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
