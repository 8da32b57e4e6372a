"""The parts of a host below its runs: database, plugins, tools and configuration, built in order."""

from __future__ import annotations

from functools import partial

from hostler.calls.cursors import Cursors
from hostler.domain.quotas import quotas_of
from hostler.host.apply_config import Configurator, LiveModels
from hostler.host.config import Settings
from hostler.host.content_sealing import ContentSealing, named_files
from hostler.host.diagnosis import Diagnosis, silent_sources
from hostler.host.entry_sealing import EntrySealing
from hostler.host.host_tools import HostTools
from hostler.host.identity_providers import IdentityProviders
from hostler.host.inventory import Inventories
from hostler.host.lease import host_id_of
from hostler.host.lock import RemovalGate
from hostler.host.machine import Machine
from hostler.host.maintenance import HostData
from hostler.host.master_key import MasterKey
from hostler.host.plugin_entries import trial_plugin
from hostler.host.plugin_pins import StoredPins
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.sealing_upkeep import SealingUpkeep
from hostler.host.secret_store import SecretStore
from hostler.host.secret_users import secret_users
from hostler.host.workers import Workers
from hostler.plugins.supervisor import Supervisor
from hostler.runs.routing import EventRouter
from hostler.sandbox.users import SandboxUsers
from hostler.storage.sql.database import SqlDatabase
from hostler.storage.stores.blobs import BlobFolder
from hostler.tools.knowledge.bases import KnowledgeBases
from hostler.tools.knowledge.indexer import Indexer
from hostler.tools.knowledge.port import KnowledgeService


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
        self.settings, self.db, self.cursors = settings, db, cursors
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
        self.bases: KnowledgeBases | None = None
        self.indexer: Indexer | None = None
        if knowledge is None:
            knowledge = self.bases = KnowledgeBases(
                db, blobs, lambda ws: quotas_of(tools.allowances.of(ws).quota)
            )
            host_id = host_id_of(settings.data_dir)
            self.indexer = Indexer(db, blobs, self.bases, host_id, self.data.gate.open)
        self.knowledge: KnowledgeService = knowledge
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
            self.knowledge,
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
