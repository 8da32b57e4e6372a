"""The tools of a host: all their sources, and the catalog of resources that grants are made from."""

from __future__ import annotations

from hostler.domain.allowances import Allowances
from hostler.domain.granted_resources import ResourceCatalog
from hostler.egress import Network
from hostler.host.apply_config import LiveModels
from hostler.host.config import Settings
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.workers import Workers
from hostler.plugins.supervisor import Supervisor
from hostler.plugins.tool_servers import McpProcesses
from hostler.secrets.stored import Resolve
from hostler.storage.port import Database
from hostler.tools.builtin.exec import ExecTools
from hostler.tools.builtin.fetch import FetchTools
from hostler.tools.builtin.files import FilesTools
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiTools
from hostler.tools.pins import StoredPins
from hostler.tools.platform import PlatformTools
from hostler.tools.plugin_tools import PluginTools
from hostler.tools.schedules import RunSchedules, ScheduleTools
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSource, ToolSources
from hostler.tools.workspaces.folders import WorkingFolders


class HostTools:
    """All sources of tools. `configurable`: those with entries in the configuration; none is active yet."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        supervisor: Supervisor,
        sandboxes: AuditedSandboxes,
        workers: Workers,
        *,
        network: Network,
        resolve: Resolve,
    ) -> None:
        workspace, data_dir = settings.workspace, settings.data_dir
        self.allowances = Allowances(workspace)
        self.skills = Skills(db, workspace)
        self.folders = WorkingFolders(data_dir / "workspaces")
        pins = StoredPins(db, workspace)
        processes = McpProcesses(data_dir, sandboxes.find)
        mcp_context = McpContext(processes, pins, workers, network=network, resolve=resolve)
        self.mcp = McpTools(workspace, mcp_context, running=not settings.passive)
        self.openapi = OpenApiTools(workspace, data_dir / "openapi", network=network, resolve=resolve)
        self.fetch = FetchTools(network=network)
        built_in = (ExecTools(self.folders, sandboxes.find), FilesTools(self.folders))
        self.configurable = (*built_in, self.mcp, self.fetch, self.openapi)
        plugin_tools = PluginTools(supervisor.catalog, supervisor.connection)
        self.platform = PlatformTools()
        self.schedules = RunSchedules(db)
        own = (plugin_tools, self.skills, self.platform, ScheduleTools(db, self.schedules))
        sources: list[ToolSource] = [*own, *self.configurable]
        self.sources = ToolSources(sources, on_refused=pins.refuse, allowances=self.allowances)

    def catalog(
        self, models: LiveModels, knowledge: KnowledgeService | None, workspace_id: str
    ) -> ResourceCatalog:
        """Return all resources that runs of a workspace may be granted now."""
        (tools, pins), may = self.sources.granted_from(workspace_id), self.allowances.of(workspace_id)
        bases = knowledge.offered(workspace_id) if knowledge else {}
        return ResourceCatalog(
            models={model.model_id: model.resource() for model in models.list() if may.model(model.model_id)},
            tools=tools,
            tool_pins=pins,
            skills={name: skill for name, skill in self.skills.resources().items() if may.skill(name)},
            knowledge_bases={kb_id: base for kb_id, base in bases.items() if may.knowledge_base(kb_id)},
            interactions=True,
            bounded_by=may.bounds,
        )
