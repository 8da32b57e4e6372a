"""Every place of a body of a request and of a configuration: what a reference there names, and its bound.

The places are those of the types (`planting.py`). Each is decided here; one that is added and not decided
fails the test.
"""

from __future__ import annotations

from hostler.domain.agents import AgentSpec
from hostler.domain.hooks import HookMapping
from hostler.host.config_entries import ENTRY_KINDS
from hostler.http.app import ENDPOINTS
from support.planting import planted
from support.reference_walk import SHARED, WORKSPACE, Bound

CONFIGURES = frozenset({"apply_config", "add_entry", "put_entry"})
"""Routes whose bodies are entries of a configuration; they take the right `installation`."""
INSTALLATION = "the installation's, which alone writes it"
PEOPLE = "people of the workspace as their sign-in or key says, not as anybody claims"

IN_AGENTS: dict[str, Bound] = {
    "name": Bound("agent", WORKSPACE),
    "runner": Bound("runner", SHARED),
    "config{}": Bound(
        "secret, model, tool, knowledge base, file",
        f"the form of its runner; {SHARED}; files of the workspace; secrets as below",
    ),
    "resource_policy.allowed_model_ids[]": Bound("model", SHARED),
    "resource_policy.allowed_tool_names[]": Bound("tool", SHARED),
    "resource_policy.allowed_kb_ids[]": Bound("knowledge base", SHARED),
    "resource_policy.allowed_skill_names[]": Bound("skill", SHARED),
    "resource_policy.allowed_agents[]": Bound("agent", WORKSPACE),
    **{
        f"resource_policy.{name}": Bound("platform action", "actions that the channel carries out")
        for name in ("allowed_actions[]", "actions_without_approval[]", "action_actors{key}")
    },
    "resource_policy.action_actors{}[]": Bound("person", "who sent the event, as key or channel says"),
    "resource_policy.tool_approval{key}": Bound("tool", "tools of the grant"),
    "resource_policy.tool_approval{}.subjects[]": Bound("approver", PEOPLE),
    "resource_policy.tool_approval{}.locked[]": Bound("argument", "arguments of the call"),
    "resource_policy.budget.approvers[]": Bound("approver", PEOPLE),
    **{
        f"delivery_policy.ask_in[]{name}": Bound("channel", f"channels and chats of {WORKSPACE}")
        for name in ("", ".channel", ".chat_id", ".thread_id")
    },
    "worker_labels[]": Bound("remote worker", f"workers that connect with a key of {WORKSPACE}"),
    "scope.id": Bound("bot, channel, conversation or workspace", f"events of {WORKSPACE}"),
}
"""Places of an agent, in a configuration and in bodies of routes."""
AGENT_TEXT = frozenset(
    {
        *("config{key}", "event_types[]", "filters[]", "metadata{}", "metadata{key}"),
        *(f"prompts[].{name}" for name in ("name", "text", "title", "description")),
        *(f"prompts[].arguments[].{name}" for name in ("name", "description")),
    }
)

IN_BODIES: dict[str, Bound] = {
    "input.contents[].artifact_id": Bound("artifact", WORKSPACE),
    "input.attachments[].artifact_id": Bound("artifact", WORKSPACE),
    "event_id": Bound("event", WORKSPACE),
    "agent": Bound("agent", WORKSPACE),
    "workspace_id": Bound(
        "workspace", f"{WORKSPACE}, or memberships of the person; a key for another one takes `installation`"
    ),
    **{
        name: Bound(name.removesuffix("_id"), WORKSPACE)
        for name in ("bot_id", "conversation_id", "thread_id")
    },
    **{
        f"{who}.{who}_{part}": Bound(who, f"whom the key speaks for, in {WORKSPACE}; no approver")
        for who in ("actor", "subject")
        for part in ("type", "id")
    },
    "kb_id": Bound("knowledge base", WORKSPACE),
    "actions[].call_id": Bound("call", "calls of the pause"),
    "tool_actions[].call_id": Bound("call", "calls that wait in the conversation"),
    "resume[].interruptId": Bound("call", "calls that wait in the conversation"),
    "messages[].tool_call_id": Bound("call", "calls that wait in the conversation"),
    "messages[].toolCallId": Bound("call", "calls that wait in the thread"),
    **{
        name: Bound("conversation", WORKSPACE)
        for name in ("threadId", "id", "conversation", "conversation.id")
    },
    **{name: Bound("agent", WORKSPACE) for name in ("model", "assistant_id", "agent_id", "graph_id")},
    "ids[]": Bound("conversation", WORKSPACE),
    **{
        f"{name}[]": Bound("item", WORKSPACE)
        for name in ("namespace", "namespace_prefix", "prefix", "suffix")
    },
    "command.resume": Bound("call", "calls that wait in the thread"),
    "messageId": Bound("message, and its run", f"runs of the agent in the path, in {WORKSPACE}"),
    "previous_response_id": Bound("response, and its run", WORKSPACE),
    "messages[].content[].file.file_id": Bound("artifact", WORKSPACE),
    **{
        name: Bound("file, or a call that waits", f"{WORKSPACE}; calls of the run that it names")
        for name in ("messages[].parts[]{}", "input[]{}", "items[]{}")
    },
    "taskId": Bound("run", f"is the one in the path, of {WORKSPACE}"),
    "message.contextId": Bound("conversation", WORKSPACE),
    "message.taskId": Bound("run", f"runs of the agent in the path, in {WORKSPACE}"),
    **{
        name: Bound("file, or a call that waits", f"{WORKSPACE}; calls of the task that it names")
        for name in ("message.parts[].url", "message.parts[].data", "params")
    },
    "runId": Bound("event, and its run", f"the thread, in {WORKSPACE}"),
    "subject": Bound("holder of a key", "no person who signs in"),
    "roles[]": Bound("role", "of keys; those of people come from their membership"),
    "plugin": Bound("plugin", "takes `installation`"),
    "name": Bound(
        "agent, key or member, or the entry with a secret", f"{WORKSPACE}; entries take `installation`"
    ),
    "config{}": Bound("model, tool, knowledge base, file", "as in agents; no secrets, nor where those go"),
    "at": Bound("message, or the number of a step", "the conversation or run in the path"),
    "field": Bound("field with a written-out secret", "of that entry"),
    **{name: Bound("credential", "opens what its holder has") for name in ("key", "code")},
    "email": Bound("person", "an address that the provider says is verified"),
}
"""Places in bodies of routes that name something, but for those of agents."""
_OF_OPENAI = (
    *("access_programs", "audio", "background_options", "context_management", "function_call", "functions"),
    *("image", "include[]", "instructions", "max_output_tokens", "max_tool_calls", "moderation", "prompt"),
    *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort", "user"),
    *("safety_identifier", "service_tier", "stop", "stop[]", "tool_choice", "top_logprobs", "verbosity"),
    *("web_search_options", "logit_bias{key}", "modalities[]"),
    *(f"{name}{{}}" for name in ("reasoning", "response_format", "stream_options", "text")),
    *(f"{name}{{key}}" for name in ("reasoning", "response_format", "stream_options", "text")),
    *("input[]{key}", "items[]{key}", "tools[]{}", "tools[]{key}"),
    *(f"messages[].{name}" for name in ("name", "refusal", "content[].refusal", "content[].text")),
    *(f"messages[].content[].{name}" for name in ("image_url.url", "image_url.detail")),
    *(f"messages[].content[].{name}" for name in ("file.file_data", "file.filename")),
    *(f"messages[].content[].input_audio.{name}" for name in ("data", "format")),
    *(f"messages[].tool_calls[].{name}" for name in ("id", "function.name", "function.arguments")),
    *(f"tools[].function.{name}" for name in ("name", "description", "parameters{}", "parameters{key}")),
)
_OF_AI_SDK = (
    "messages[].metadata",
    "messages[].parts[]{key}",
    "tools[].inputSchema{}",
    "tools[].inputSchema{key}",
)
_OF_AG_UI = tuple(f"messages[].toolCalls[].{name}" for name in ("id", "function.name", "function.arguments"))
_OF_LANGGRAPH = (
    *("before", "checkpoint", "checkpoint_id", "command.goto", "command.update", "interrupt_after"),
    "messages[]",
    *(
        "end_time",
        "interrupt_before",
        "schedule",
        "select[]",
        "stream_mode",
        "stream_mode[]",
        "supersteps[]",
        "webhook",
    ),
    *(f"{name}{{{key}}}" for name in ("config.configurable", "context", "values") for key in ("", "key")),
    *("as_node", "extract", "index", "query", "ttl", "filter{}", "filter{key}", "value{}", "value{key}"),
)
_OF_A2A = (
    *("method", "url", "token", "authentication.scheme", "authentication.credentials"),
    *(f"message.{name}" for name in ("messageId", "role", "metadata{}", "metadata{key}")),
    *(f"message.parts[].{name}" for name in ("text", "raw", "filename", "mediaType")),
    *(f"message.parts[].{name}" for name in ("metadata{}", "metadata{key}")),
    *(f"configuration.taskPushNotificationConfig.{name}" for name in ("url", "id", "taskId", "token")),
    *(
        f"configuration.taskPushNotificationConfig.authentication.{name}"
        for name in ("scheme", "credentials")
    ),
)
"""Texts of standard interfaces; ids of calls in a history that clients bring are their own."""
BODY_TEXT = frozenset(
    {
        *_OF_OPENAI,
        *_OF_AI_SDK,
        *_OF_AG_UI,
        *_OF_LANGGRAPH,
        *_OF_A2A,
        "visitor",
        *("description", "filters{}", "filters{key}"),  # of knowledge bases and searches
        *("headers{}", "headers{key}", "query", "query{}", "query{key}", "body"),
        *("arguments{}", "arguments{key}", "config{key}", "documents[]", "title", "values"),
        *("event_type", "source", "source_event_type", "source_event_id", "raw_ref", "session_id"),
        *("launcher_type", "launcher_id", "sender_id", "input", "input.text"),
        *(f"input.contents[].{name}" for name in ("text", "image_base64", "mime_type", "file_name")),
        *(f"input.contents[].{name}" for name in ("file_base64", "file_url", "image_url.url")),
        "input.contents[].image_url.detail",
        *(f"input.attachments[].{name}" for name in ("artifact_type", "mime_type", "name")),
        *(f"input.tools[].{name}" for name in ("name", "description", "parameters{}", "parameters{key}")),
        *(
            "actor.actor_name",
            "actor.metadata{}",
            "actor.metadata{key}",
            "subject.data{}",
            "subject.data{key}",
        ),
        *(
            "delivery.surface",
            "delivery.reply_target",
            "delivery.reply_target{}",
            "delivery.reply_target{key}",
        ),
        *("delivery.platform_capabilities{}", "delivery.platform_capabilities{key}"),
        *(
            "data{}",
            "data{key}",
            "metadata{}",
            "metadata{key}",
            "reason",
            "comment",
            "result",
            "digest",
            "value",
        ),
        *(f"actions[].{name}" for name in ("args_hash", "comment", "result", "error", "action")),
        *(f"actions[].{name}" for name in ("edited_args{}", "edited_args{key}", "values{}", "values{key}")),
        "actions[].similar.arguments[]",
        *(f"tool_actions[].{name}" for name in ("args_hash", "comment", "result", "edited_args{}")),
        *(f"tool_actions[].{name}" for name in ("edited_args{key}", "values{}", "values{key}")),
        *("resume[].payload", "messages[].content"),
        *("protocolVersion", "parentRunId", "state", "forwardedProps"),  # of AG-UI
        *("messages[].id", "messages[].role", "messages[].error", "context[].description", "context[].value"),
        *(f"tools[].{name}" for name in ("name", "description", "parameters{}", "parameters{key}")),
        *("rights[]", "origins[]"),  # of tokens
        *("cron", "timezone", "start", "end", "text"),  # of schedules
    }
)
"""Places in bodies that are texts: nothing is looked up by them. What an event says of its sender, its
surface and its payload elsewhere goes to the runner as it is."""

IN_CONFIG: dict[str, Bound] = {
    "plugins.path": Bound("folder", "of the host's machine; homes and the host's own data are refused"),
    "plugins.network[]": Bound("address", "those that the plugin's manifest names"),
    "plugins.allow_requires[]": Bound("wheel", "this path or address"),
    "cors.origins[]": Bound("origin", "pages of it may call the host from browsers"),
    "models.id": Bound("model", INSTALLATION),
    "models.provider": Bound("kind of service", "those of the host"),
    "models.base_url": Bound("address", INSTALLATION),
    **{
        f"tools.{kind}.name": Bound("entry", INSTALLATION)
        for kind in ("exec", "files", "mcp", "openapi", "fetch")
    },
    **{
        f"tools.{kind}.network[]": Bound(
            "address", "what the guard of addresses lets through besides public ones"
        )
        for kind in ("mcp", "openapi", "fetch")
    },
    "tools.exec.network[]": Bound("address", "commands reach these and no other"),
    "tools.mcp.command[]": Bound("program", "the sandbox, unless the entry trusts it"),
    "tools.mcp.url": Bound("address", "the guard of addresses"),
    **{
        f"tools.mcp.{name}": Bound("folder", "homes and the host's own data are refused")
        for name in ("read[]", "write[]", "cwd")
    },
    **{
        f"tools.{kind}.{name}": Bound("tool", "those of the server or document")
        for kind in ("mcp", "openapi")
        for name in ("allow[]", "deny[]", "approval{key}", "effects{key}")
    },
    "tools.openapi.document": Bound("file or address", "an address is used by its digest alone"),
    "tools.openapi.base_url": Bound("address", "the guard of addresses"),
    "tools.openapi.auth{key}": Bound("security scheme", "those of the document"),
    "tools.fetch.only[]": Bound("host", "the guard of addresses"),
    "tools.fetch.deny[]": Bound("host", "none of them is reached"),
    "skills.path": Bound("folder", "of the host's machine"),
    "workspaces.name": Bound("workspace", INSTALLATION),
    **{
        f"workspaces.{name}[]": Bound(name.removesuffix("s").replace("_", " "), "what its agents may use")
        for name in ("plugins", "runners", "models", "tools", "skills", "knowledge_bases", "secrets")
    },
    **{f"agents.{place}": bound for place, bound in IN_AGENTS.items()},
    "schedules.name": Bound("schedule", WORKSPACE),
    "schedules.agent": Bound("agent", WORKSPACE),
    **{f"schedules.{name}_id": Bound(name, WORKSPACE) for name in ("bot", "conversation", "thread")},
    **{
        f"schedules.actor.actor_{name}": Bound("actor", f"whom its author speaks for, in {WORKSPACE}")
        for name in ("id", "type")
    },
    "channels.actions[]": Bound("platform action", "actions that the channel carries out"),
    "channels.name": Bound("channel", INSTALLATION),
    "channels.channel": Bound("channel of a plugin", INSTALLATION),
    "channels.agent": Bound("agent", WORKSPACE),
    "channels.roles{key}": Bound("role", "roles that `action_actors` of agents name; they are no rights"),
    "channels.roles{}[]": Bound("people", "what the platform says of an event, and nothing else"),
    **{
        f"channels.{listed}.{kind}[]": Bound(kind, "what the platform says of an event, and nothing else")
        for listed in ("allow", "block")
        for kind in ("people", "chats")
    },
    "webhooks.name": Bound("webhook", INSTALLATION),
    "webhooks.url": Bound("address", "the guard of addresses"),
    "webhooks.network[]": Bound("address", "what the guard of addresses lets through besides public ones"),
    "hooks.name": Bound("hook", INSTALLATION),
    "hooks.workspace": Bound("workspace", INSTALLATION),
    "hooks.agent": Bound("agent", "the workspace of the hook"),
    "widgets.name": Bound("widget", INSTALLATION),
    "widgets.workspace": Bound("workspace", INSTALLATION),
    "widgets.agent": Bound("agent", "the workspace of the widget"),
    "widgets.origins[]": Bound("origin", "the pages that may show it"),
    "sign_in.name": Bound("identity provider", INSTALLATION),
    "sign_in.issuer": Bound("address", "https, by the guard of addresses"),
    "sign_in.redirect_url": Bound("address", "the callback of this host"),
    **{
        f"sign_in.members[].{name}": Bound("person", "what the provider vouches for")
        for name in ("group", "email", "email_domain")
    },
    "sign_in.members[].workspace": Bound("workspace", INSTALLATION),
    "sign_in.network[]": Bound("address", "what the guard of addresses lets through besides public ones"),
    "retention.workspaces{key}": Bound("workspace", INSTALLATION),
    **{
        f"audit_anchors.{name}": Bound("file or address", INSTALLATION)
        for name in ("file", "syslog", "webhook")
    },
    **{
        place: Bound("secret", "the table below")
        for place in (
            *("models.api_key", "webhooks.secret", "sign_in.client_secret", "master_key.keys[]"),
            *("tools.mcp.environment{}", "tools.mcp.headers{}", "tools.mcp.token", "tools.openapi.auth{}"),
            *("audit_anchors.key", "audit_anchors.earlier_keys[]", "pause_key.keys[]"),
            *("hooks.secrets[]", "hooks.challenge_token", "channels.config{}"),
        )
    },
}
"""Places in a configuration that name something."""
SCHEDULE_TEXT = (
    *("cron", "at", "timezone", "start", "end", "text", "actor.actor_name"),
    *("data{}", "data{key}", "actor.metadata{}", "actor.metadata{key}"),
)
CONFIG_TEXT = frozenset(
    {
        *("models.model", "models.extra_args{}", "models.extra_args{key}", "tools.openapi.digest"),
        *("tools.exec.description", "tools.exec.environment{}", "tools.exec.environment{key}"),
        *("tools.mcp.environment{key}", "tools.mcp.headers{key}", "tools.fetch.description"),
        *(f"agents.{place}" for place in AGENT_TEXT),
        *(f"schedules.{name}" for name in SCHEDULE_TEXT),
        *("sign_in.client_id", "sign_in.scopes[]", "sign_in.groups_claim"),
        *("hooks.username", "hooks.url"),
        *("channels.config{key}", "channels.failure_text", "channels.file_types[]"),
        "channels.agent_events[]",
        *("widgets.title", "widgets.title{}", "widgets.greeting", "widgets.greeting{}", "widgets.colour"),
        *(f"hooks.hmac.{name}" for name in ("header", "prefix", "timestamp_header", "signed")),
        *(f"hooks.map.{name}" for name in HookMapping.__struct_fields__),
    }
)
"""Places in a configuration that are texts."""


def body_places() -> dict[str, list[str]]:
    """Return every place in bodies of routes, with their names, but for agents and configurations."""
    found: dict[str, list[str]] = {}
    for endpoint in ENDPOINTS:
        if endpoint.body is None or endpoint.body is AgentSpec or endpoint.name in CONFIGURES:
            continue
        for place in planted(endpoint.body):
            found.setdefault(place.name, []).append(endpoint.name)
    return found


def agent_places() -> list[str]:
    """Return every place of an agent."""
    return [place.name for place in planted(AgentSpec)]


def entry_places() -> list[str]:
    """Return every place in every kind of entry of a configuration."""
    return [f"{kind.field}.{place.name}" for kind in ENTRY_KINDS.values() for place in planted(kind.type)]
