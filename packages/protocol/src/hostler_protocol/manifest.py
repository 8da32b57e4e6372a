"""Manifests of a plugin's runners and tools. Unknown keys are refused."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from hostler_protocol._base import Strict

Locale = str
Capability = Literal[
    "streaming",
    "tool_calling",
    "knowledge_retrieval",
    "multimodal_input",
    "skill_authoring",
    "interrupt",
    "steering",
    "resumable",
    "continuation",
]
FormItemType = Literal[
    "string",
    "text",
    "integer",
    "float",
    "boolean",
    "select",
    "multiselect",
    "secret",
    "file",
    "array[file]",
    "prompt-editor",
    "llm-model-selector",
    "model-fallback-selector",
    "rerank-model-selector",
    "knowledge-base-multi-selector",
    "tool-multi-selector",
    "json",
    "select-llm-model",
    "select-knowledge-bases",
]
ToolEffect = Literal["default", "pure", "idempotent", "reconcilable"]
"""How the host settles a call whose outcome it lost. `pure`: the tool has no effect, so call it again.
`idempotent`: call it again with the same effect key. `reconcilable`: look up the outcome by the effect key.
`default`: never call it again; a person says what happened."""
FORM_TYPE_ALIASES: dict[str, FormItemType] = {
    "select-llm-model": "llm-model-selector",
    "select-knowledge-bases": "knowledge-base-multi-selector",
}
NOT_CHOSEN = frozenset({"", "__none__", "__none"})
"""Values of a selector that mean: nothing is chosen."""


class Capabilities(Strict):
    """Features of the runner, for display and for the choice of resources; never a permission."""

    streaming: bool = False
    tool_calling: bool = False
    knowledge_retrieval: bool = False
    multimodal_input: bool = False
    skill_authoring: bool = False
    interrupt: bool = False
    steering: bool = False
    resumable: bool = False
    continuation: bool = False


class Permissions(Strict):
    """The most that a run of this runner can be granted."""

    models: list[Literal["invoke", "stream", "rerank", "embed", "count_tokens"]] = []
    tools: list[Literal["detail", "call"]] = []
    knowledge_bases: list[Literal["list", "retrieve"]] = []
    history: list[Literal["page", "search"]] = []
    events: list[Literal["get", "page"]] = []
    artifacts: list[Literal["metadata", "read"]] = []
    storage: list[Literal["plugin", "workspace"]] = []
    files: list[Literal["config", "knowledge"]] = []
    runs: list[Literal["get", "list", "events", "cancel", "create", "append", "finalize"]] = []
    actions: list[str] = []
    schedules: list[Literal["create", "list", "delete"]] = []


class FormItem(Strict):
    """One item of a runner's configuration form."""

    name: str
    type: FormItemType
    label: dict[Locale, str] | str | None = None
    required: bool = False
    default: Any = None
    options: list[Any] | None = None
    description: dict[Locale, str] | str | None = None
    show_if: dict[str, Any] | None = None

    @property
    def kind(self) -> FormItemType:
        """The type, with aliases resolved."""
        return FORM_TYPE_ALIASES.get(self.type, self.type)


class AgentRunnerManifest(Strict):
    """One runner of a plugin."""

    id: str
    name: str
    label: dict[Locale, str]
    description: dict[Locale, str] | str | None = None
    capabilities: Capabilities = Capabilities()
    permissions: Permissions = Permissions()
    config_schema: list[FormItem] = []
    metadata: dict[str, Any] = {}


class ToolManifest(Strict):
    """One tool of a plugin, which the host calls `<plugin name>.<name>`; `parameters` is JSON Schema.

    `client`: the plugin declares the tool and the client runs it. `approval: "required"` demands an approval
    even if the agent's policy does not.
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    output_schema: dict[str, Any] | None = None
    effect: ToolEffect = "default"
    client: bool = False
    approval: Literal["required"] | None = None


class ToolList(Strict):
    """The answer to `tools/list`. Entries are undecoded, so that an invalid one does not hide others."""

    tools: list[msgspec.Raw]


class RunnerList(Strict):
    """The answer to `runners/list`. Entries are undecoded, so that an invalid one does not hide others."""

    runners: list[msgspec.Raw]


def defaults_of(schema: list[FormItem]) -> dict[str, Any]:
    """Return the configuration that a form gives by its defaults alone."""
    return {item.name: item.default for item in schema if item.default is not None}
