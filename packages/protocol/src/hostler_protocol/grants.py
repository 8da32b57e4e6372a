"""The resources that a run may use, as its context lists them: a projection of its frozen grant."""

from __future__ import annotations

from typing import Any, Literal

from hostler_protocol._base import Lenient

StateScope = Literal["conversation", "actor", "subject", "runner"]
STATE_SCOPES: tuple[StateScope, ...] = ("conversation", "actor", "subject", "runner")
ToolApproval = Literal["never", "required", "policy"]


class ModelResource(Lenient):
    """A model the run may call."""

    model_id: str
    model_type: str = "llm"
    provider: str = ""
    operations: list[str] = []
    context_window_tokens: int | None = None


class ToolResource(Lenient):
    """A tool the run may call."""

    tool_name: str
    tool_type: str = "plugin"
    description: str = ""
    operations: list[str] = []
    approval: ToolApproval = "never"


class KnowledgeBaseResource(Lenient):
    """A knowledge base the run may search."""

    kb_id: str
    kb_name: str = ""
    kb_type: str = ""
    operations: list[str] = []


class SkillResource(Lenient):
    """A skill the run may activate."""

    skill_name: str
    display_name: str = ""
    description: str = ""


class FileResource(Lenient):
    """A file of the run's configuration or knowledge."""

    file_id: str
    file_name: str = ""
    mime_type: str | None = None
    source: str = "config"
    operations: list[str] = []


class StorageResource(Lenient):
    """The storage areas that the run may use."""

    plugin_storage: bool = False
    workspace_storage: bool = False


class Resources(Lenient):
    """All resources of a run. One that is not listed cannot be called; ids are opaque."""

    models: list[ModelResource] = []
    tools: list[ToolResource] = []
    knowledge_bases: list[KnowledgeBaseResource] = []
    skills: list[SkillResource] = []
    files: list[FileResource] = []
    storage: StorageResource = StorageResource()
    platform_capabilities: dict[str, Any] = {}
