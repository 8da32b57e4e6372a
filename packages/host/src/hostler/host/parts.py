"""The parts of a host, built in the order in which they depend on each other."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from functools import partial

from hostler.calls.cursors import Cursors
from hostler.calls.gate import Gate
from hostler.calls.run_tokens import RunDoors
from hostler.calls.scope import Services
from hostler.host.apply_config import Configurator, LiveModels
from hostler.host.audit_heads import AuditHeads
from hostler.host.config import Settings
from hostler.host.diagnosis import Diagnosis, silent_sources
from hostler.host.host_tools import HostTools, build_tools
from hostler.host.inventory import Inventories
from hostler.host.lease import HostLease, host_id_of
from hostler.host.lock import RemovalGate
from hostler.host.maintenance import HostData
from hostler.host.plugin_entries import add_shipped_runner
from hostler.host.run_reader import RunReader
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.webhooks import WebhookSender
from hostler.pauses.explicit import ExplicitPauses
from hostler.pauses.service import PauseService
from hostler.plugins.connection import PluginConnection
from hostler.plugins.supervisor import Supervisor
from hostler.runs.attempt import ActiveRun
from hostler.runs.attempt_parts import Equipment
from hostler.runs.child_runs import RunController
from hostler.runs.dispatch import Dispatcher
from hostler.runs.filters import FilterProcesses
from hostler.runs.orchestrator import Orchestrator
from hostler.runs.preparation import Preparer
from hostler.runs.projections import Projector
from hostler.runs.recovery import recover, settle_lost
from hostler.runs.rerouting import Rerouter
from hostler.runs.reruns import Reruns
from hostler.runs.routing import EventRouter
from hostler.storage.port import Tx
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores import hosts, runs
from hostler.storage.stores.blobs import BlobFolder
from hostler.storage.stores.hosts import Membership
from hostler.storage.stores.run_endings import end_waiting
from hostler.storage.stores.run_rows import Run
from hostler.tools.knowledge.port import KnowledgeService
from hostler.version import NAME, VERSION
from hostler_protocol.calls import HostInfo
from hostler_protocol.ids import split_runner_id
from hostler_protocol.limits import PROTOCOL_VERSION, Limits
from hostler_protocol.runs import TERMINAL_STATUSES


@dataclass(frozen=True, slots=True)
class Installation:
    """Everything that exists before the first run: data, plugins, tools, and their configuration."""

    settings: Settings
    db: SqlDatabase
    cursors: Cursors
    knowledge: KnowledgeService | None
    data: HostData
    sandboxes: AuditedSandboxes
    supervisor: Supervisor
    tools: HostTools
    models: LiveModels
    filters: FilterProcesses
    event_router: EventRouter
    inventories: Inventories
    configurator: Configurator
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class RunParts:
    """Everything that accepts, executes, pauses and reports runs."""

    reader: RunReader
    gate: Gate
    tokens: RunDoors
    lease: HostLease
    dispatcher: Dispatcher
    orchestrator: Orchestrator
    rerouter: Rerouter
    pauses: PauseService
    reruns: Reruns
    equipment: Equipment
    webhook_sender: WebhookSender
    audit_heads: AuditHeads


def build_installation(
    settings: Settings, db: SqlDatabase, cursors: Cursors, knowledge: KnowledgeService | None
) -> Installation:
    """Build the parts around an open database. The stored configuration is not active yet."""
    workspace = settings.workspace
    sandboxes = AuditedSandboxes(db, workspace)
    supervisor = Supervisor(settings.data_dir, sandbox=sandboxes.find)
    tools = build_tools(settings, db, supervisor, sandboxes)
    models = LiveModels()
    filters = FilterProcesses()
    event_router = EventRouter(db, filters)
    inventories = Inventories(
        db,
        workspace,
        supervisor,
        tools.sources,
        tools.skills,
        partial(silent_sources, tools.mcp, tools.openapi, workspace),
        not settings.passive,
        knowledge,
    )
    configurator = Configurator(
        db,
        workspace,
        supervisor,
        models,
        event_router,
        skills=tools.skills,
        tools=tools.configurable,
        working_folders=tools.folders.configure,
        inventories=inventories,
    )
    blobs = BlobFolder(settings.data_dir / "blobs")
    return Installation(
        settings=settings,
        db=db,
        cursors=cursors,
        knowledge=knowledge,
        data=HostData(db, blobs, tools.folders, RemovalGate(settings.data_dir)),
        sandboxes=sandboxes,
        supervisor=supervisor,
        tools=tools,
        models=models,
        filters=filters,
        event_router=event_router,
        inventories=inventories,
        configurator=configurator,
        diagnosis=Diagnosis(workspace, configurator, inventories, event_router, tools.mcp, tools.openapi),
    )


def build_runs(inst: Installation) -> RunParts:
    """Build the parts that work on runs. None works before the host starts them.

    Attempts make calls, calls open child runs, and child runs start attempts. The inner functions close this
    circle: they are called only after all parts exist.
    """
    settings, db, catalog = inst.settings, inst.db, inst.supervisor.catalog
    host_id = host_id_of(settings.data_dir)
    reader, gate, tokens = RunReader(db), Gate(), RunDoors(settings.assets_url)

    def make_attempt(run: Run) -> ActiveRun:
        return ActiveRun(equipment, run)

    def member() -> Membership | None:
        return lease.member

    def can_steer(runner_id: str) -> bool:
        manifest = catalog.find(runner_id)
        return manifest is not None and manifest.capabilities.steering

    def wake_rerouter() -> None:
        rerouter.wake()

    async def end_work(reason: str) -> None:
        """End every attempt, and wait until the plugins work on none of them any more."""
        await inst.supervisor.wait_free(await dispatcher.end_all(reason))

    dispatcher = Dispatcher(
        db,
        member,
        make_attempt,
        _fail,
        lambda lost: settle_lost(db, lost, catalog.is_resumable),
        max_active=settings.max_active_runs,
        max_queued=settings.max_queued_runs,
        max_per_workspace=settings.max_runs_per_workspace,
        max_per_plugin=settings.max_runs_per_plugin,
    )
    orchestrator = Orchestrator(
        db,
        inst.data.blobs,
        inst.event_router,
        dispatcher,
        reader.feed,
        can_steer=can_steer,
        on_deferred=wake_rerouter,
    )
    rerouter = Rerouter(db, inst.event_router, orchestrator)
    lease = HostLease(
        db,
        host_id,
        f"{socket.gethostname()}:{settings.port}",
        settings.lease_seconds,
        lambda: recover(db, catalog.is_resumable),
        end_work,
        dispatcher.look,
        member=Membership(host_id) if db.dialect == "sqlite" else None,
    )
    controller = RunController(db, orchestrator, reader.wait)
    equipment = _equipment(inst, host_id, reader, gate, tokens, controller)
    return RunParts(
        reader=reader,
        gate=gate,
        tokens=tokens,
        lease=lease,
        dispatcher=dispatcher,
        orchestrator=orchestrator,
        rerouter=rerouter,
        pauses=PauseService(
            db,
            on_changed=dispatcher.pause_changed,
            on_cancelled=orchestrator.cancelled,
            pin=inst.tools.sources.pin,
        ),
        reruns=Reruns(db, inst.data.blobs, dispatcher, lambda: orchestrator.accepting, VERSION),
        equipment=equipment,
        webhook_sender=WebhookSender(db, settings.workspace),
        audit_heads=AuditHeads(db, settings.data_dir),
    )


def _equipment(  # noqa: PLR0917
    inst: Installation,
    host_id: str,
    reader: RunReader,
    gate: Gate,
    tokens: RunDoors,
    controller: RunController,
) -> Equipment:
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
        clock=time.time,
        tools=sources,
        knowledge=inst.knowledge,
    )
    explicit_pauses = ExplicitPauses(inst.db, blobs, sources, inst.configurator.vault)
    catalog = partial(inst.tools.catalog, settings.workspace, inst.models, inst.knowledge)
    preparer = Preparer(services, blobs, catalog, VERSION, explicit_pauses)
    return Equipment(
        db=inst.db,
        feed=reader.feed,
        gate=gate,
        connect=connect,
        replace=inst.supervisor.replace,
        prepare=preparer.prepare,
        projector=Projector(blobs),
        blobs=blobs,
        host_id=host_id,
        cancel_grace_seconds=settings.cancel_grace_seconds,
        hold_seconds=settings.hold_seconds,
        explicit_pauses=explicit_pauses,
        assets=tokens,
        stall_seconds=settings.stall_seconds,
    )


def _fail(tx: Tx, run: Run) -> None:
    """Fail a run that this host could not execute, unless another host or attempt has it by now."""
    current = runs.by_id(tx, run.run_id)
    if current is None or current.attempt != run.attempt or not hosts.holds(tx, run.member):
        return
    if current.status not in TERMINAL_STATUSES:
        error = "the host failed to carry this run through; its log says why"
        end_waiting(tx, current, "failed", "host.error", error, actor="host")
