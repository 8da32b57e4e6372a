"""Every place where a reference can stand: which kind it names there, and what bounds it. For docs/gates.md.

The places are read from the code: parameters of host calls and of routes here, entries of a configuration and
bodies of routes in `reference_bodies.py`. Each is decided; one that is added and not decided
fails the test.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

import hostler
from hostler.http.app import ENDPOINTS
from hostler_protocol.calls import CALLS
from support.planting import planted


class Bound(NamedTuple):
    """What a reference at a place names, and what it can reach."""

    kind: str
    by: str


# -- host calls ---------------------------------------------------------------------------------------

GRANT = "the grant: another one is not found, whether or not it exists"
REACH = "the run's reach: its own, its event's, its conversation's"
IN_CALLS: dict[str, Bound] = {
    "run_id": Bound("run", "the connection: another run is not found"),
    "target_run_id": Bound(
        "run", "the run's reach: itself, its children, its agent's runs in its conversation"
    ),
    "model_id": Bound("model", GRANT),
    "tool_name": Bound("tool", GRANT),
    "kb_id": Bound("knowledge base", GRANT),
    "file_id": Bound("file", GRANT),
    "agent": Bound("agent", "`allowed_agents` of the run's agent, and of all runs above it"),
    "action": Bound("platform action", "the grant: another one is refused"),
    **{
        place: Bound("chat, message or person of a platform", "the run's own chat, or `actions_anywhere`")
        for place in ("target", "target{}")
    },
    "conversation_id": Bound(
        "conversation", "the run's own, or all if the policy allows it; to write in: its own"
    ),
    "filters.conversation_id": Bound("conversation", "the run's own, or all if the policy allows it"),
    "event_id": Bound("event", "the run's conversation, before its own event"),
    "artifact_id": Bound("artifact", REACH),
    "messages[].content[].artifact_id": Bound("artifact", REACH),
    "input.contents[].artifact_id": Bound("artifact", REACH),
    "input.attachments[].artifact_id": Bound("artifact", REACH),
    "upload_id": Bound("upload", "uploads of the run"),
    "name": Bound("schedule", "the run's agent, conversation and thread; to other calls it is text"),
    "scope": Bound("state scope", "`state_policy` of the agent and identities of the event"),
    "actor.actor_id": Bound("person", "the run's own actor, or none"),
    "actor.actor_type": Bound("person", "the run's own actor, or none"),
    **{
        place: Bound("cursor", "its signature: one list of one tenant")
        for place in ("before_cursor", "after_cursor", "cursor")
    },
}
"""Places in parameters of host calls that name something, by their path."""
CALL_TEXT = frozenset(
    {
        *(f"messages[].content[].{name}" for name in ("text", "image_base64", "mime_type", "file_name")),
        *(f"messages[].content[].{name}" for name in ("file_base64", "image_url.url", "image_url.detail")),
        "messages[].content[].file_url",
        *(f"messages[].{name}" for name in ("content", "name", "tool_call_id", "reasoning")),
        *(f"messages[].tool_calls[].{name}" for name in ("id", "function.name", "function.arguments")),
        *(
            f"messages[].{owner}provider_data.{name}"
            for owner in ("", "tool_calls[].")
            for name in ("source", "fields{}", "reasoning_as[]")
        ),
        *(f"input.contents[].{name}" for name in ("text", "image_base64", "mime_type", "file_name")),
        *(f"input.contents[].{name}" for name in ("file_base64", "image_url.url", "image_url.detail")),
        "input.contents[].file_url",
        *(f"input.attachments[].{name}" for name in ("artifact_type", "mime_type", "name")),
        *(f"input.tools[].{name}" for name in ("name", "description", "parameters{}", "parameters{key}")),
        *("input.text", "actor.actor_name", "actor.metadata{}", "data{}", "result", "status", "statuses[]"),
        *("tools[].name", "tools[].description", "tools[].parameters{}", "extra_args{}"),
        *("query", "documents[]", "inputs[]", "query_text", "filters{}", "filters.role", "event_types[]"),
        *("tool_call_id", "parameters{}", "key", "prefix", "value", "content_base64"),
        *("artifact_type", "mime_type", "sha256", "metadata{}", "reason"),
        *("text", "at", "cron", "timezone", "start", "end"),
        *("title", "description", "fallback_text"),
        *("payload{}", "payload{key}", "target{key}"),
        *(f"{name}{{key}}" for name in ("parameters", "filters", "metadata", "data", "actor.metadata")),
        *("tools[].parameters{key}", "extra_args{key}"),
        *(f"messages[].{owner}provider_data.fields{{key}}" for owner in ("", "tool_calls[].")),
        *(f"fields[].{name}" for name in ("name", "label", "default", "options[]", "description")),
        *(f"actions[].{name}" for name in ("name", "label", "style")),
    }
)
"""Places in parameters of host calls that are text: nothing is looked up by them. Addresses in messages go to
the service of the model as they are."""


def call_places() -> dict[str, list[str]]:
    """Return every place in parameters of host calls, with its calls."""
    found: dict[str, list[str]] = {}
    for method, call in CALLS.items():
        for place in planted(call.params):
            found.setdefault(place.name, []).append(method)
    return found


# -- references to secrets ----------------------------------------------------------------------------

PLAIN = ("env:", "file:", "secret://")
SECRET_PLACES: dict[str, tuple[str, ...]] = {
    "models.api_key": PLAIN,
    "webhooks.url": PLAIN,
    "webhooks.secret": PLAIN,
    "hooks.secrets[]": PLAIN,
    "hooks.challenge_token": PLAIN,
    "channels.config{}": PLAIN,
    "sign_in.client_secret": PLAIN,
    "tools.mcp.environment{}": PLAIN,
    "tools.mcp.headers{}": PLAIN,
    "tools.mcp.token": PLAIN,
    "tools.openapi.auth{}": PLAIN,
    "agents.config{}": PLAIN,
    "audit_anchors.key": ("env:", "file:"),
    "audit_anchors.earlier_keys[]": ("env:", "file:"),
    "pause_key.keys[]": ("env:", "file:"),
    "master_key.keys[]": ("env:", "file:", "command:"),
}
"""Places of a configuration where a reference is looked up, by kind. In `config` of an agent it is a field of
the type `secret`, written by somebody with the right, within the list of the workspace. Everywhere else such
a text is a text: in other entries, defaults of forms, events, arguments, results, and what models say."""
LOOKUPS = frozenset(
    {"resolve_secret", "StoredSecrets", "Resolve", "read_keys", "run_key_command", "open_key_ring"}
)
"""What of the room `secrets` looks a reference up."""
LOOKING_UP: Mapping[str, tuple[str, ...]] = {
    "channels/open_channel.py": ("channels.config{}",),
    "channels/hooks.py": ("hooks.secrets[]", "hooks.challenge_token"),
    "cli/hooks.py": ("hooks.secrets[]",),
    "host/apply_config.py": ("models.api_key",),
    "host/audit_anchors.py": ("audit_anchors.key", "audit_anchors.earlier_keys[]"),
    "host/config_review.py": (),
    "host/host_tools.py": (),
    "host/identity_providers.py": ("sign_in.client_secret",),
    "host/content_sealing.py": ("master_key.keys[]",),
    "host/master_key.py": ("master_key.keys[]",),
    "host/secret_store.py": (),
    "host/webhooks.py": ("webhooks.url", "webhooks.secret"),
    "models/catalog.py": ("models.api_key",),
    "pauses/encryption.py": ("pause_key.keys[]",),
    "runs/preparation.py": ("agents.config{}",),
    "tools/mcp/port.py": ("tools.mcp.environment{}", "tools.mcp.headers{}", "tools.mcp.token"),
    "tools/openapi/source.py": ("tools.openapi.auth{}",),
}
"""Modules that can look a reference up, and the places whose references they are given."""


def modules_that_look_up() -> set[str]:
    """Return the modules outside of the room `secrets` that import something that looks a reference up."""
    root = Path(hostler.__file__).parent
    found = set()
    for path in root.rglob("*.py"):
        if path.is_relative_to(root / "secrets"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_of_room = isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "hostler.secrets"
            )
            if is_of_room and LOOKUPS & {name.name for name in node.names}:  # type: ignore[attr-defined]
                found.add(path.relative_to(root).as_posix())
    return found


# -- routes -------------------------------------------------------------------------------------------

WORKSPACE = "the workspace of the key"
OWN = "the person of the session"
SHARED = "the installation's, as far as the workspace may use it"
IN_ROUTES: dict[str, Bound] = {
    **{
        name: Bound(name.removesuffix("_id").replace("_", " "), WORKSPACE)
        for name in (
            *("run_id", "event_id", "conversation_id", "thread_id", "artifact_id", "pause_id", "call_id"),
            *("delivery_id", "key_id", "member_id", "actor_id", "bot_id", "agent", "run", "call"),
            "budget_id",
        )
    },
    "name": Bound("agent, schedule, secret or entry", f"{WORKSPACE}; entries take `installation`"),
    "token_id": Bound("token", f"{WORKSPACE}, made by the key unless it is an administrator's"),
    "assistant": Bound("agent", WORKSPACE),
    "webhook": Bound("webhook", WORKSPACE),
    "channel": Bound("channel", WORKSPACE),
    **{
        name: Bound("account of a person on a channel", f"bindings of {WORKSPACE}")
        for name in ("person", "subject")
    },
    "worker": Bound("remote worker", WORKSPACE),
    **{name: Bound("conversation", WORKSPACE) for name in ("thread", "chat")},
    "cron": Bound("cron", WORKSPACE),
    "task": Bound("run", f"runs of the agent in the path, in {WORKSPACE}"),
    "push_config": Bound("receiver of a run", f"receivers of the run in the path, in {WORKSPACE}"),
    "contextId": Bound("conversation", WORKSPACE),
    "model_id": Bound("agent or model", f"{WORKSPACE}; {SHARED}"),
    **{
        name: Bound("response, and its run", WORKSPACE)
        for name in ("completion_id", "message_id", "response_id", "answer")
    },
    "item_id": Bound("message", "the conversation in the path"),
    "session_id": Bound("session", OWN),
    "workspace_id": Bound("workspace", f"{WORKSPACE}; another one takes `installation`"),
    "workspace": Bound("workspace", "memberships of the person who signs in"),
    "plugin": Bound("plugin", SHARED),
    "runner_id": Bound("runner", SHARED),
    "tool": Bound("tool", SHARED),
    "skill": Bound("skill", SHARED),
    "kb_id": Bound("knowledge base", WORKSPACE),
    "document": Bound("document", f"the knowledge base in the path, in {WORKSPACE}"),
    "provider": Bound("identity provider", "entries of `sign_in`"),
    "hook": Bound("hook", "entries of `hooks`; a request is taken by its signature, not by a key"),
    "widget": Bound("widget", "entries of `widgets`; the origin of the page, or the agent of the token"),
    "owner": Bound("owner of secrets", f"{WORKSPACE}; the installation's take `installation`"),
    "kind": Bound("kind of entry", "takes `installation`"),
    **{
        name: Bound("cursor", "its signature: one list of one tenant")
        for name in ("cursor", "after", "before")
    },
    "last_event_id": Bound("result", "the run of the stream"),
    "next": Bound("address", "a path of this host"),
    "checkpoint": Bound("message", "the thread in the path"),
    **{name: Bound("item", WORKSPACE) for name in ("namespace", "key")},
    **{name: Bound("who or what a fact is about", f"facts of {WORKSPACE}") for name in ("actor", "target")},
    "requester": Bound("who sent an event", f"events of {WORKSPACE}"),
    "rule_id": Bound("approval of similar calls", f"{WORKSPACE}, as far as the caller may see its pause"),
    "path": Bound("file", "files of the skill in the path"),
    "server": Bound("MCP server", SHARED),
}
"""Parameters of paths and queries that name something."""
ROUTE_TEXT = frozenset(
    {
        *("actor_type", "artifact_type", "code", "dead", "dry_run", "error", "event_type", "existing"),
        *("expires_at", "force", "from", "iss", "limit", "lines", "outcome", "problem", "prune", "q", "role"),
        "count",
        *("historyLength", "includeArtifacts", "pageSize", "pageToken", "statusTimestampAfter"),
        *("brief", "by", "contains", "everywhere", "from_now", "min_cost", "most", "skip", "step", "text"),
        "metadata",
        *("sha256", "since", "span", "state", "status", "type", "until", "version", "wait"),
        *(
            "include",
            "include[]",
            "include_obfuscation",
            "include_usage",
            "order",
            "starting_after",
            "stream",
            *("subgraphs", "xray", "stream_mode", "cancel_on_disconnect", "offset", "action", "refresh_ttl"),
        ),
    }
)
"""Parameters that are no names of things: numbers, choices, times and texts."""


def route_parameters() -> dict[str, list[str]]:
    """Return every parameter of paths and queries, with the names of its routes."""
    found: dict[str, list[str]] = {}
    for endpoint in ENDPOINTS:
        fields = () if endpoint.query is None else msgspec.structs.fields(endpoint.query)
        for name in (*endpoint.parameters, *(field.encode_name for field in fields)):
            found.setdefault(name, []).append(endpoint.name)
    return found
