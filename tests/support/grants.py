"""Agents, events, manifests and grants, as tests of the host's decisions need them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from hostler.domain.agents import Agent, AgentSpec, ResourcePolicy, Scope, StatePolicy
from hostler.domain.child_runs import ParentBounds
from hostler.domain.config_form import Configuration, configure
from hostler.domain.events import Event
from hostler.domain.granted_resources import ResourceCatalog
from hostler.domain.grants import Grant, grant_for
from hostler.domain.scopes import scopes_for
from hostler.domain.tool_pins import ToolPin
from hostler_protocol.events import Actor, EventEnvelope, Input
from hostler_protocol.grants import KnowledgeBaseResource, ModelResource, ToolResource
from hostler_protocol.manifest import AgentRunnerManifest, Capabilities, FormItem, Permissions

RUNNER = "plugin:acme/echo/default"
ALL_PERMISSIONS = Permissions(
    models=["invoke", "stream", "rerank", "embed", "count_tokens"],
    tools=["detail", "call"],
    knowledge_bases=["list", "retrieve"],
    history=["page", "search"],
    events=["get", "page"],
    artifacts=["metadata", "read"],
    storage=["plugin", "workspace"],
    files=["config", "knowledge"],
    runs=["get", "list", "events", "cancel", "create", "append", "finalize"],
    actions=["member.mute"],
    schedules=["create", "list", "delete"],
)
FORM = [
    FormItem(name="model", type="model-fallback-selector"),
    FormItem(name="reranker", type="rerank-model-selector"),
    FormItem(name="knowledge", type="knowledge-base-multi-selector"),
    FormItem(name="tools", type="tool-multi-selector"),
    FormItem(name="prompt", type="prompt-editor"),
]


def manifest_of(
    permissions: Permissions = ALL_PERMISSIONS,
    capabilities: Capabilities | None = None,
    form: list[FormItem] | None = None,
) -> AgentRunnerManifest:
    return AgentRunnerManifest(
        id=RUNNER,
        name="default",
        label={"en": "Echo"},
        permissions=permissions,
        capabilities=capabilities or Capabilities(),
        config_schema=FORM if form is None else form,
    )


def agent_of(
    name: str = "helper", *, workspace_id: str = "main", agent_id: str | None = None, **spec: Any
) -> Agent:
    return Agent(workspace_id, agent_id or f"id-{name}", 1, AgentSpec(name=name, runner=RUNNER, **spec))


def event_of(
    *,
    workspace_id: str = "main",
    event_id: str = "e1",
    event_type: str = "message.received",
    conversation_id: str | None = "c1",
    actor_id: str | None = "ada",
    given: dict[str, Any] | None = None,
    **fields: Any,
) -> Event:
    envelope = EventEnvelope(
        event_type=event_type,
        event_id=event_id,
        workspace_id=workspace_id,
        conversation_id=conversation_id,
        input=msgspec.convert({"text": "hello", **(given or {})}, Input),
        actor=None if actor_id is None else Actor(actor_id=actor_id),
        **fields,
    )
    return Event(
        workspace_id=workspace_id,
        event_id=event_id,
        envelope=envelope,
        request_digest=msgspec.json.encode(envelope).hex()[:64],
        content_redacted=False,
        created_at=1_700_000_000_000,
        requester="user:ada",
    )


def catalog_of(
    models: list[str] | None = None,
    tools: list[str] | None = None,
    knowledge_bases: list[str] | None = None,
    asking: Collection[str] = (),
) -> ResourceCatalog:
    """`asking`: tools that ask for approval themselves; those of the shop run on the client."""
    return ResourceCatalog(
        models={
            name: ModelResource(model_id=name, operations=["invoke", "stream", "count_tokens"])
            for name in models or []
        }
        | {"judge": ModelResource(model_id="judge", model_type="rerank", operations=["rerank"])}
        | {"vectors": ModelResource(model_id="vectors", model_type="embedding", operations=["embed"])},
        tools={
            name: ToolResource(
                tool_name=name,
                operations=["detail", "call"],
                approval="required" if name in asking else "never",
            )
            for name in tools or []
        },
        tool_pins={
            name: ToolPin(
                tool_id=f"plugin:acme/any#{name}",
                owner="acme/any",
                schema_digest="0",
                client=name.startswith("shop"),
            )
            for name in tools or []
        },
        knowledge_bases={
            name: KnowledgeBaseResource(kb_id=name, operations=["list", "retrieve"])
            for name in knowledge_bases or []
        },
    )


def grant_of(
    *,
    manifest: AgentRunnerManifest | None = None,
    agent: Agent | None = None,
    event: Event | None = None,
    config: dict[str, Any] | None = None,
    catalog: ResourceCatalog | None = None,
    above: ParentBounds | None = None,
) -> Grant:
    manifest = manifest or manifest_of()
    agent = agent or agent_of()
    event = event or event_of()
    configuration: Configuration = configure(manifest.config_schema, config or {})
    scopes = scopes_for(
        workspace_id=event.workspace_id,
        runner_id=manifest.id,
        agent_id=agent.agent_id,
        envelope=event.envelope,
    )
    return grant_for(
        manifest=manifest,
        agent=agent,
        event=event,
        configuration=configuration,
        catalog=catalog or catalog_of(),
        state_keys=scopes.keys,
        state_closed=scopes.missing,
        above=above,
    )


__all__ = [
    "ALL_PERMISSIONS",
    "FORM",
    "RUNNER",
    "ResourcePolicy",
    "Scope",
    "StatePolicy",
    "agent_of",
    "catalog_of",
    "event_of",
    "grant_of",
    "manifest_of",
]
