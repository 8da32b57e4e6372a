"""The tools of a host: all their sources, and the catalog of resources that grants are made from."""

from __future__ import annotations

from hostler.domain.granted_resources import ResourceCatalog
from hostler.egress import Network
from hostler.host.apply_config import LiveModels
from hostler.host.config import Settings
from hostler.host.sandbox_audit import AuditedSandboxes
from hostler.host.workers import Workers
from hostler.plugins.supervisor import Supervisor
from hostler.plugins.tool_servers import McpProcesses
from hostler.storage.port import Database
from hostler.tools.builtin.exec import ExecTools
from hostler.tools.builtin.fetch import FetchTools
from hostler.tools.builtin.files import FilesTools
from hostler.tools.knowledge.port import KnowledgeService
from hostler.tools.mcp.port import McpContext
from hostler.tools.mcp.source import McpTools
from hostler.tools.openapi.source import OpenApiTools
from hostler.tools.pins import StoredPins
from hostler.tools.plugin_tools import PluginTools
from hostler.tools.skills.service import Skills
from hostler.tools.sources import ToolSources
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
    ) -> None:
        workspace, data_dir = settings.workspace, settings.data_dir
        self.skills = Skills(db, workspace)
        self.folders = WorkingFolders(data_dir / "workspaces")
        pins = StoredPins(db, workspace)
        mcp_context = McpContext(McpProcesses(data_dir, sandboxes.find), pins, workers, network=network)
        self.mcp = McpTools(workspace, mcp_context, running=not settings.passive)
        self.openapi = OpenApiTools(workspace, data_dir / "openapi", network=network)
        self.fetch = FetchTools(workspace, network=network)
        built_in = (ExecTools(self.folders, sandboxes.find), FilesTools(self.folders))
        self.configurable = (*built_in, self.mcp, self.fetch, self.openapi)
        plugin_tools = PluginTools(supervisor.catalog, supervisor.connection)
        self.sources = ToolSources([plugin_tools, self.skills, *self.configurable], on_refused=pins.refuse)

    def catalog(
        self, workspace_id: str, models: LiveModels, knowledge: KnowledgeService | None
    ) -> ResourceCatalog:
        """Return all resources that runs of a workspace may be granted now."""
        tools = self.sources.offered(workspace_id)
        return ResourceCatalog(
            models={model.model_id: model.resource() for model in models.list()},
            tools={name: tool.resource for name, tool in tools.items()},
            tool_pins={name: tool.pin for name, tool in tools.items()},
            skills=self.skills.resources(),
            knowledge_bases=knowledge.offered(workspace_id) if knowledge else {},
            interactions=True,
        )
