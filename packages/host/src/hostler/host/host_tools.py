"""The tools of a host: all their sources, and the catalog of resources that grants are made from."""

from __future__ import annotations

from dataclasses import dataclass

from hostler.domain.grants import Catalog
from hostler.domain.tool_entries import ToolKind
from hostler.host.apply_config import LiveModels
from hostler.host.config import Settings
from hostler.host.sandbox_audit import AuditedSandboxes
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


@dataclass(frozen=True, slots=True)
class HostTools:
    """The sources of tools. `configurable`: those with entries in the configuration."""

    sources: ToolSources
    skills: Skills
    folders: WorkingFolders
    mcp: McpTools
    openapi: OpenApiTools
    fetch: FetchTools
    configurable: tuple[ToolKind, ...]

    def catalog(self, workspace_id: str, models: LiveModels, knowledge: KnowledgeService | None) -> Catalog:
        """Return all resources that runs of a workspace may be granted now."""
        tools = self.sources.offered(workspace_id)
        return Catalog(
            models={model.model_id: model.resource() for model in models.list()},
            tools={name: tool.resource for name, tool in tools.items()},
            tool_pins={name: tool.pin for name, tool in tools.items()},
            skills=self.skills.resources(),
            knowledge_bases=knowledge.offered(workspace_id) if knowledge else {},
            interactions=True,
        )


def build_tools(
    settings: Settings, db: Database, supervisor: Supervisor, sandboxes: AuditedSandboxes
) -> HostTools:
    """Build the sources of tools. None is configured or connected yet."""
    workspace, data_dir = settings.workspace, settings.data_dir
    skills = Skills(db, workspace)
    folders = WorkingFolders(data_dir / "workspaces")
    pins = StoredPins(db, workspace)
    mcp_context = McpContext(McpProcesses(data_dir, sandboxes.find), pins)
    mcp = McpTools(workspace, mcp_context, running=not settings.passive)
    openapi = OpenApiTools(workspace, data_dir / "openapi")
    fetch = FetchTools(workspace)
    configurable = (ExecTools(folders, sandboxes.find), FilesTools(folders), mcp, fetch, openapi)
    plugin_tools = PluginTools(supervisor.catalog, supervisor.connection)
    sources = ToolSources([plugin_tools, skills, *configurable], on_refused=pins.refuse)
    return HostTools(sources, skills, folders, mcp, openapi, fetch, configurable)
