"""Two workspaces with the same ids everywhere, and every route there is: neither ever sees the other's.

The table below names each route; a route that is added without a case fails the test.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from hostler.http import auth
from hostler.http.app import ENDPOINTS
from hostler.http.endpoint import ANY_KEY
from hostler.storage.stores import artifacts
from hostler.storage.stores.artifacts import NewArtifact
from support.dialects.mcp import stateless, stateless_headers
from support.http_host import OTHER, PUPPET_RUNNER, WORKSPACE, Served, serving
from support.two_workspaces import SECRET, THEIR_CRON, Things, fill, keep_secrets

pytestmark = pytest.mark.gate("tenancy", "installation-right")

Case = Callable[[httpx.AsyncClient, Things], Awaitable[httpx.Response]]


def get(path: str) -> Case:
    return lambda client, things: client.get(path.format(**vars(things)))


def send(method: str, path: str, **given: Any) -> Case:
    return lambda client, things: client.request(method, path.format(**vars(things)), **given)


# What a key of one workspace is answered about the other's things: a status, or "own" where both have such a
# thing and the answer must be that of the key's own workspace.
OWN = "own"
MCP_CALL = stateless("tools/call", {"name": "only-theirs", "arguments": {"message": "x"}})
DENIAL = {"call_id": "other-call", "type": "deny", "args_hash": "0" * 64}
A2A = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
CRON = {"schedule": "@daily", "input": "x"}
OLDER_DENIAL = {"call_id": "other-call", "decision": "denied"}
CASES: dict[str, tuple[Case, int | str]] = {
    "post_event": (
        send(
            "POST",
            "/v1/events",
            json={"event_type": "other.kind", "input": {}, "event_id": "e-new", "workspace_id": OTHER},
        ),
        403,
    ),
    "list_events": (get("/v1/events"), OWN),
    "receive_hook": (send("POST", "/v1/hooks/none-such", json={}), 404),
    "answer_challenge": (get("/v1/hooks/none-such?hub.mode=subscribe"), 404),
    "list_hooks": (get("/v1/hooks"), 403),
    "enter_widget": (send("POST", "/v1/widgets/none-such/visitors", json={}), 403),
    "stream_widget": (get("/v1/widgets/none-such/stream"), 404),
    "list_widgets": (get("/v1/widgets"), 403),
    "preview_hook": (send("POST", "/v1/hooks/none-such/preview", json={}), 403),
    "get_event": (get("/v1/events/same"), OWN),
    "list_runs": (get("/v1/runs"), OWN),
    "get_run_totals": (get(f"/v1/runs/totals?text=say%200{len(SECRET)}"), OWN),  # what theirs says
    "get_run": (get("/v1/runs/{run_id}"), 404),
    "get_journal": (get("/v1/runs/{run_id}/journal"), 404),
    "explain_call": (get("/v1/runs/{run_id}/calls/1/explanation"), 404),
    "stream_run": (get("/v1/runs/{run_id}/stream"), 404),
    "list_run_budgets": (get("/v1/runs/{run_id}/budgets"), 404),
    "list_steering": (get("/v1/runs/{run_id}/steering"), 404),
    "export_run": (get("/v1/runs/{run_id}/export"), 404),
    "retry_run": (send("POST", "/v1/runs/{run_id}/retry", json={}), 404),
    "fork_run": (send("POST", "/v1/runs/{run_id}/fork", json={}), 404),
    "replay_run": (send("POST", "/v1/runs/{run_id}/replay", json={}), 404),
    "list_pauses": (get("/v1/pauses"), OWN),
    "get_pause": (get("/v1/pauses/{pause_id}"), 404),
    "act_on_pause": (
        send("POST", "/v1/pauses/{pause_id}/actions", json={"revision": 0, "actions": [DENIAL]}),
        404,
    ),
    "act_on_conversation": (  # ours has a pause there too, but no such call
        send("POST", "/v1/pauses/actions", json={"conversation_id": "same", "tool_actions": [OLDER_DENIAL]}),
        422,
    ),
    "resolve_call": (
        send("POST", "/v1/pauses/{pause_id}/calls/other-call/resolve", json={"outcome": "happened"}),
        404,
    ),
    "cancel_pause": (send("POST", "/v1/pauses/{pause_id}/cancel", json={}), 404),
    "list_approval_rules": (get("/v1/approval-rules"), 200),  # shown by test_http_pauses.py
    "revoke_approval_rule": (send("DELETE", "/v1/approval-rules/none-such"), 404),
    "list_inbox": (get("/v1/inbox"), OWN),
    "list_deliveries": (get("/v1/webhooks/deliveries"), OWN),
    "resend_delivery": (send("POST", "/v1/webhooks/deliveries/{delivery_id}/resend"), 404),
    "list_tools": (get("/v1/tools"), 200),
    "get_tool": (get("/v1/tools/none.such"), 404),
    "approve_tool": (send("POST", "/v1/tools/none.such/approve", json={"digest": "0" * 64}), 403),
    "list_mcp_servers": (get("/v1/mcp-servers"), 200),
    "list_skills": (get("/v1/skills"), 200),
    "try_tool": (send("POST", "/v1/tools/none.such/test", json={"arguments": {}}), 404),
    "try_model": (send("POST", "/v1/models/none-such/test", json={"input": "x"}), 404),
    "reconnect_mcp_server": (send("POST", "/v1/mcp-servers/none-such/reconnect"), 403),
    "get_skill": (get("/v1/skills/none-such"), 404),
    "get_skill_file": (get("/v1/skills/none-such/file"), 404),
    "confirm_skill": (send("POST", "/v1/skills/none-such/confirm", json={"digest": "0" * 64}), 403),
    "cancel_run": (send("POST", "/v1/runs/{run_id}/cancel", json={}), 404),
    "stream_conversation": (get("/v1/conversations/same/stream?last_event_id=none"), 400),
    "stream_workspace": (get("/v1/stream?last_event_id=none"), 400),
    "open_websocket": (get("/v1/ws"), 426),
    "list_conversations": (get("/v1/conversations"), OWN),
    "get_history": (get("/v1/conversations/same/history"), OWN),
    "search_history": (get("/v1/conversations/same/search?q=say"), OWN),
    "search_conversations": (get("/v1/search?q=say"), OWN),
    "put_title": (send("PUT", "/v1/conversations/theirs/title", json={"title": "ours"}), 404),
    "fork_conversation": (send("POST", "/v1/conversations/theirs/fork", json={}), 404),
    "get_state": (get("/v1/conversations/same/state"), OWN),
    "delete_conversation": (send("DELETE", "/v1/conversations/theirs"), 404),
    "delete_actor": (send("DELETE", f"/v1/actors/{SECRET}"), 200),
    "explain_event": (
        send("POST", "/v1/events/explain", json={"event_type": "message.received", "input": {"text": "x"}}),
        OWN,
    ),
    "replay_event": (send("POST", "/v1/events/theirs/replay", json={}), 404),
    "receive_channel_request": (send("POST", "/v1/channels/theirs/webhook", json={}), 404),
    "receive_channel_challenge": (get("/v1/channels/theirs/webhook"), 404),
    "list_workers": (get("/v1/workers"), OWN),
    "connect_worker": (get("/v1/workers/connect"), 426),
    "get_worker": (get("/v1/workers/theirs"), 404),
    "drain_worker": (send("POST", "/v1/workers/theirs/drain"), 404),
    "cordon_worker": (send("POST", "/v1/workers/theirs/cordon"), 404),
    "uncordon_worker": (send("POST", "/v1/workers/theirs/uncordon"), 404),
    "remove_worker": (send("DELETE", "/v1/workers/theirs"), 404),
    "list_channels": (get("/v1/channels"), OWN),
    "get_channel": (get("/v1/channels/theirs"), 404),
    "restart_channel": (send("POST", "/v1/channels/theirs/restart"), 403),
    "list_people": (get("/v1/people"), OWN),
    "bind_person": (send("PUT", "/v1/people/theirs/ann", json={}), 404),
    "unbind_person": (send("DELETE", "/v1/people/theirs/ann"), 404),
    "list_pairings": (get("/v1/pairings"), OWN),
    "offer_pairing": (send("POST", "/v1/pairings", json={"subject": "somebody"}), 201),
    "confirm_pairing": (send("POST", "/v1/pairings/confirm", json={"code": "AAAA-AAAA"}), 404),
    "reject_pairing": (send("POST", "/v1/pairings/reject", json={"code": "AAAA-AAAA"}), 404),
    "list_outbox": (get("/v1/outbox"), OWN),
    "get_message": (get("/v1/outbox/theirs"), 404),
    "resend_message": (send("POST", "/v1/outbox/theirs/resend"), 404),
    "drop_message": (send("DELETE", "/v1/outbox/theirs"), 404),
    "list_knowledge_bases": (get("/v1/knowledge"), OWN),
    "create_knowledge_base": (send("POST", "/v1/knowledge", json={"kb_id": "theirs"}), 201),
    "get_knowledge_base": (get("/v1/knowledge/same"), OWN),
    "put_knowledge_base": (send("PUT", "/v1/knowledge/new", json={"kb_id": "new"}), 200),
    "delete_knowledge_base": (send("DELETE", "/v1/knowledge/of-theirs"), 404),
    "search_knowledge_base": (send("POST", "/v1/knowledge/same/search", json={"query": "about"}), OWN),
    "list_documents": (get("/v1/knowledge/same/documents"), OWN),
    "put_document": (send("PUT", "/v1/knowledge/of-theirs/documents/a.md", content=b"x"), 404),
    "get_document": (get("/v1/knowledge/same/documents/same.md"), OWN),
    "get_document_content": (get("/v1/knowledge/same/documents/same.md/content"), OWN),
    "reindex_document": (send("POST", "/v1/knowledge/same/documents/theirs.md/reindex"), 404),
    "delete_document": (send("DELETE", "/v1/knowledge/same/documents/theirs.md"), 404),
    "list_schedules": (get("/v1/schedules"), OWN),
    "create_schedule": (send("POST", "/v1/schedules", json={"name": "only-theirs", "every": 60}), 201),
    "get_schedule": (get("/v1/schedules/theirs"), 404),
    "put_schedule": (send("PUT", "/v1/schedules/new", json={"name": "new", "every": 60}), 200),
    "delete_schedule": (send("DELETE", "/v1/schedules/theirs"), 404),
    "pause_schedule": (send("POST", "/v1/schedules/theirs/pause"), 404),
    "resume_schedule": (send("POST", "/v1/schedules/theirs/resume"), 404),
    "run_schedule": (send("POST", "/v1/schedules/theirs/run"), 404),
    "list_upcoming": (get("/v1/schedules/theirs/next"), 404),
    "list_firings": (get("/v1/schedules/theirs/firings"), 404),
    "list_agents": (get("/v1/agents"), OWN),
    "create_agent": (send("POST", "/v1/agents", json={"name": "theirs", "runner": PUPPET_RUNNER}), 201),
    "get_agent": (get("/v1/agents/puppet"), OWN),
    "get_agent_entry": (get("/v1/agents/only-theirs/entry"), 404),
    "put_agent": (send("PUT", "/v1/agents/new", json={"name": "new", "runner": PUPPET_RUNNER}), 200),
    "list_agent_prompts": (get("/v1/agents/only-theirs/prompts"), 404),
    "list_agent_versions": (get("/v1/agents/puppet/versions"), OWN),
    "delete_agent": (send("DELETE", "/v1/agents/only-theirs"), 404),
    "list_plugins": (get("/v1/plugins"), 200),
    "connect_plugin": (get("/v1/plugins/connect"), 426),
    "get_plugin": (get("/v1/plugins/test%2Fpuppet"), 200),
    "get_plugin_logs": (get("/v1/plugins/test%2Fpuppet/logs"), 403),
    "restart_plugin": (send("POST", "/v1/plugins/test%2Fpuppet/restart"), 403),
    "confirm_plugin": (send("POST", "/v1/plugins/test%2Fpuppet/confirm", json={"digest": "x"}), 403),
    "get_catalogue": (get("/v1/catalogue"), 200),
    "list_runners": (get("/v1/runners"), 200),
    "get_runner": (get("/v1/runners/plugin%3Atest%2Fpuppet%2Fdefault"), 200),
    "list_models": (get("/v1/models"), OWN),
    "get_model": (get("/v1/models/only-theirs"), 404),
    "upload_artifact": (send("POST", "/v1/artifacts", content=b"mine"), 201),
    "list_artifacts": (get("/v1/artifacts?conversation_id=same"), OWN),
    "get_artifact": (get("/v1/artifacts/same"), OWN),
    "get_artifact_content": (get("/v1/artifacts/same/content"), OWN),
    "delete_artifact": (send("DELETE", "/v1/artifacts/theirs"), 404),
    "create_key": (
        send("POST", "/v1/keys", json={"name": "k", "rights": ["admin"], "workspace_id": OTHER}),
        403,
    ),
    "list_keys": (get("/v1/keys"), OWN),
    "revoke_key": (send("DELETE", "/v1/keys/{key_id}"), 404),
    "create_token": (send("POST", "/v1/tokens", json={"agent": "only-theirs"}), 404),
    "list_tokens": (get("/v1/tokens"), OWN),
    "revoke_token": (send("DELETE", "/v1/tokens/{token_id}"), 404),
    "list_secrets": (get("/v1/secrets"), OWN),
    "set_secret": (send("PUT", "/v1/secrets/theirs?existing=true", json={"value": "mine"}), 404),
    "remove_secret": (send("DELETE", "/v1/secrets/theirs"), 404),
    "move_secret": (send("PUT", "/v1/secrets/a/from", json={"kind": "models", "name": "m"}), 403),
    "list_master_keys": (get("/v1/master-keys"), 403),
    "rotate_workspace_keys": (send("POST", "/v1/workspace-keys/rotate", json={}), 403),
    "list_members": (get("/v1/members"), OWN),
    "add_member": (send("POST", "/v1/members", json={"email": "a@b.org", "role": "administrator"}), 403),
    "get_member": (get("/v1/members/{member_id}"), 404),
    "put_member": (send("PUT", "/v1/members/{member_id}", json={"role": "owner"}), 404),
    "remove_member": (send("DELETE", "/v1/members/{member_id}"), 404),
    "show_sign_in_page": (get("/sign-in"), 200),
    "begin_sign_in": (get("/v1/auth/sign-in"), 404),
    "finish_sign_in": (get("/v1/auth/callback"), 303),
    "list_providers": (get("/v1/auth/providers"), 200),
    "create_link": (send("POST", "/v1/auth/links", json={}), 201),
    "create_session": (send("POST", "/v1/auth/session", json={"code": "c"}), 403),
    "get_session": (get("/v1/auth/session"), 401),
    "list_sessions": (get("/v1/auth/sessions"), 401),
    "end_session": (send("DELETE", "/v1/auth/sessions/s"), 401),
    "enter_workspace": (send("POST", "/v1/auth/workspace", json={"workspace_id": OTHER}), 401),
    "sign_out": (send("POST", "/v1/auth/sign-out"), 401),
    "create_personal_key": (
        send("POST", "/v1/auth/keys", json={"name": "k", "rights": ["runs:read"]}),
        401,
    ),
    "list_personal_keys": (get("/v1/auth/keys"), 401),
    "revoke_personal_key": (send("DELETE", "/v1/auth/keys/{key_id}"), 401),
    "get_usage": (get("/v1/usage"), OWN),
    "get_usage_series": (get("/v1/usage/series"), OWN),
    "list_quotas": (get("/v1/quotas"), OWN),
    "list_budgets": (get("/v1/budgets"), OWN),
    "get_budget": (get("/v1/budgets/run.0.same"), OWN),
    "top_up_budget": (send("POST", "/v1/budgets/run.0.theirs/top-up", json={"calls": 1}), 404),
    "list_audit": (get("/v1/audit"), OWN),
    "verify_audit": (get("/v1/audit/verification"), OWN),
    "list_findings": (get("/v1/doctor"), 403),
    "get_last_backup": (get("/v1/backup"), 403),
    "apply_config": (send("POST", "/v1/config", json={}), 403),
    "export_config": (get("/v1/config"), 403),
    "list_problems": (get("/v1/problems"), 403),
    "list_entries": (get("/v1/config/models"), 403),
    "add_entry": (send("POST", "/v1/config/models", json={"id": "m"}), 403),
    "get_entry": (get("/v1/config/models/m"), 403),
    "put_entry": (send("PUT", "/v1/config/models/m", json={"id": "m"}), 403),
    "remove_entry": (send("DELETE", "/v1/config/models/m"), 403),
    "metrics": (get("/metrics"), 403),
    "healthz": (get("/healthz"), 200),
    "readyz": (get("/readyz"), 200),
    "openapi_document": (get("/v1/openapi.json"), 200),
    "docs": (get("/docs"), 200),
    "create_chat_completion": (
        send(
            "POST",
            "/v1/chat/completions",
            json={"model": "only-theirs", "messages": [{"role": "user", "content": "x"}]},
        ),
        404,
    ),
    "create_response": (
        send("POST", "/v1/responses", json={"model": "only-theirs", "input": "x"}),
        404,
    ),
    "get_response": (get("/v1/responses/resp_{run_id}"), 404),
    "cancel_response": (send("POST", "/v1/responses/resp_{run_id}/cancel"), 404),
    "delete_response": (send("DELETE", "/v1/responses/resp_{run_id}"), 404),
    "list_input_items": (get("/v1/responses/resp_{run_id}/input_items"), 404),
    "create_conversation": (send("POST", "/v1/conversations", json={}), 200),
    "get_conversation": (get("/v1/conversations/theirs"), 404),
    "update_conversation": (send("POST", "/v1/conversations/theirs", json={"metadata": {"a": "b"}}), 404),
    "list_items": (get("/v1/conversations/same/items"), OWN),
    "get_item": (get("/v1/conversations/theirs/items/item_1"), 404),
    "create_items": (send("POST", "/v1/conversations/theirs/items", json={"items": []}), 400),
    "delete_item": (send("DELETE", "/v1/conversations/theirs/items/item_1"), 400),
    "get_chat_completion": (get("/v1/chat/completions/chatcmpl_{run_id}"), 404),
    "send_to_chat": (
        send(
            "POST",
            "/ai-sdk/only-theirs",
            json={
                "id": "c",
                "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "x"}]}],
            },
        ),
        404,
    ),
    "run_agent": (
        send(
            "POST",
            "/ag-ui/only-theirs",
            json={
                "threadId": "same",
                "runId": "r1",
                "messages": [{"id": "m1", "role": "user", "content": "x"}],
            },
        ),
        404,
    ),
    "resume_chat": (get("/ai-sdk/only-theirs/c/stream?message_id=msg_{run_id}"), 404),
    "stop_chat": (send("POST", "/ai-sdk/only-theirs/c/stop"), 204),
    "connect_agent": (get("/ag-ui/only-theirs/same/connect"), 404),
    "stop_thread": (send("POST", "/ag-ui/only-theirs/same/stop", json={}), 404),
    "post_message": (
        send("POST", "/mcp", json=MCP_CALL, headers=stateless_headers(MCP_CALL["params"], "tools/call")),
        400,
    ),
    "resume_stream": (get("/mcp"), 405),
    "get_resource_metadata": (get("/.well-known/oauth-protected-resource"), 200),
    "get_mcp_metadata": (get("/.well-known/oauth-protected-resource/mcp"), 200),
    "search_assistants": (send("POST", "/langgraph/assistants/search", json={}), OWN),
    "count_assistants": (send("POST", "/langgraph/assistants/count", json={}), 200),
    **{
        name: (get(f"/langgraph/assistants/only-theirs{path}"), 404)
        for name, path in (
            ("get_assistant", ""),
            ("get_assistant_graph", "/graph"),
            ("get_assistant_schemas", "/schemas"),
            ("get_assistant_subgraphs", "/subgraphs"),
        )
    },
    "list_assistant_versions": (
        send("POST", "/langgraph/assistants/only-theirs/versions", json={}),
        404,
    ),
    "create_assistant": (send("POST", "/langgraph/assistants", json={"graph_id": "only-theirs"}), 400),
    "update_assistant": (send("PATCH", "/langgraph/assistants/only-theirs", json={}), 404),
    "get_langgraph_ok": (get("/langgraph/ok"), 200),
    "get_langgraph_info": (get("/langgraph/info"), 200),
    "create_thread": (send("POST", "/langgraph/threads", json={"thread_id": "theirs too"}), 200),
    "get_thread": (get("/langgraph/threads/theirs"), 404),
    "update_thread": (send("PATCH", "/langgraph/threads/theirs", json={}), 404),
    "delete_thread": (send("DELETE", "/langgraph/threads/theirs"), 404),
    "search_threads": (send("POST", "/langgraph/threads/search", json={}), OWN),
    "count_threads": (send("POST", "/langgraph/threads/count", json={}), 200),
    "get_thread_state": (get("/langgraph/threads/theirs/state"), 404),
    "get_thread_history": (send("POST", "/langgraph/threads/theirs/history", json={}), 404),
    "get_thread_state_at": (get("/langgraph/threads/theirs/state/1"), 404),
    "get_thread_state_of": (send("POST", "/langgraph/threads/theirs/state/checkpoint", json={}), 404),
    "list_thread_history": (get("/langgraph/threads/theirs/history"), 404),
    "update_thread_state": (send("POST", "/langgraph/threads/theirs/state", json={}), 404),
    "copy_thread": (send("POST", "/langgraph/threads/theirs/copy"), 404),
    **{
        name: (send("POST", f"/langgraph{path}", json={"assistant_id": "only-theirs", "input": "x"}), 404)
        for name, path in (
            ("create_thread_run", "/threads/same/runs"),
            ("stream_thread_run", "/threads/same/runs/stream"),
            ("wait_for_thread_run", "/threads/same/runs/wait"),
            ("create_stateless_run", "/runs"),
            ("stream_stateless_run", "/runs/stream"),
            ("wait_for_stateless_run", "/runs/wait"),
        )
    },
    "list_thread_runs": (get("/langgraph/threads/theirs/runs"), 404),
    "get_thread_run": (get("/langgraph/threads/same/runs/run_{run_id}"), 404),
    "join_thread_run": (get("/langgraph/threads/same/runs/run_{run_id}/join"), 404),
    "join_thread_run_stream": (get("/langgraph/threads/same/runs/run_{run_id}/stream"), 404),
    "cancel_thread_run": (send("POST", "/langgraph/threads/same/runs/run_{run_id}/cancel"), 404),
    "delete_thread_run": (send("DELETE", "/langgraph/threads/same/runs/run_{run_id}"), 404),
    "create_run_batch": (send("POST", "/langgraph/runs/batch", json={}), 400),
    "search_protocol_agents": (send("POST", "/langgraph/agents/search", json={}), OWN),
    "get_protocol_agent": (get("/langgraph/agents/only-theirs"), 404),
    "get_protocol_agent_schemas": (get("/langgraph/agents/only-theirs/schemas"), 404),
    "search_protocol_runs": (send("POST", "/langgraph/runs/search", json={}), OWN),
    **{
        name: (get(f"/langgraph{path}"), 404)
        for name, path in (
            ("get_protocol_run", "/runs/run_{run_id}"),
            ("wait_for_protocol_run", "/runs/run_{run_id}/wait"),
            ("stream_protocol_run", "/runs/run_{run_id}/stream"),
            ("wait_for_run_of_thread", "/threads/same/runs/run_{run_id}/wait"),
        )
    },
    "cancel_protocol_run": (send("POST", "/langgraph/runs/run_{run_id}/cancel"), 404),
    "delete_protocol_run": (send("DELETE", "/langgraph/runs/run_{run_id}"), 404),
    **{
        name: (send("PATCH", f"/langgraph/runs/resume{path}", json={"thread_id": "theirs", "input": 1}), 404)
        for name, path in (
            ("resume_protocol_run", ""),
            ("wait_for_resumed_run", "/wait"),
            ("stream_resumed_run", "/stream"),
        )
    },
    "put_store_item": (
        send("PUT", "/langgraph/store/items", json={"namespace": ["a"], "key": "k", "value": {}}),
        204,
    ),
    "get_store_item": (get("/langgraph/store/items?namespace=same&key=same"), OWN),
    "delete_store_item": (
        send("DELETE", "/langgraph/store/items", json={"namespace": ["theirs"], "key": "k"}),
        204,
    ),
    "search_store_items": (send("POST", "/langgraph/store/items/search", json={}), OWN),
    "list_store_namespaces": (send("POST", "/langgraph/store/namespaces", json={}), OWN),
    **{
        name: (send("POST", f"/langgraph{path}", json={**CRON, "assistant_id": agent}), 404)
        for name, path, agent in (
            ("create_cron", "/runs/crons", "only-theirs"),
            ("create_thread_cron", "/threads/theirs/runs/crons", "puppet"),
        )
    },
    "search_crons": (send("POST", "/langgraph/runs/crons/search", json={}), OWN),
    "count_crons": (send("POST", "/langgraph/runs/crons/count", json={}), 200),
    "get_cron": (get(f"/langgraph/runs/crons/{THEIR_CRON}"), 404),
    "update_cron": (send("PATCH", f"/langgraph/runs/crons/{THEIR_CRON}", json={"enabled": False}), 404),
    "delete_cron": (send("DELETE", f"/langgraph/runs/crons/{THEIR_CRON}"), 404),
    "get_agent_card": (get("/a2a/only-theirs/.well-known/agent-card.json"), 404),
    "get_card_keys": (get("/.well-known/jwks.json"), 200),
    "get_extended_agent_card": (get("/a2a/only-theirs/extendedAgentCard?A2A-Version=1.0"), 404),
    "call_a2a": (
        send(
            "POST",
            "/a2a/puppet?A2A-Version=1.0",
            json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "{run_id}"}},
        ),
        200,
    ),
    "send_a2a_message": (send("POST", "/a2a/only-theirs/message:send?A2A-Version=1.0", json=A2A), 404),
    "stream_a2a_message": (send("POST", "/a2a/only-theirs/message:stream?A2A-Version=1.0", json=A2A), 404),
    "list_a2a_tasks": (get("/a2a/only-theirs/tasks?A2A-Version=1.0"), 404),
    "get_a2a_task": (get("/a2a/puppet/tasks/{run_id}?A2A-Version=1.0"), 404),
    "add_push_config": (
        send(
            "POST",
            "/a2a/puppet/tasks/{run_id}/pushNotificationConfigs?A2A-Version=1.0",
            json={"url": "https://a.example"},
        ),
        404,
    ),
    "list_push_configs": (get("/a2a/puppet/tasks/{run_id}/pushNotificationConfigs?A2A-Version=1.0"), 404),
    "get_push_config": (get("/a2a/puppet/tasks/{run_id}/pushNotificationConfigs/x?A2A-Version=1.0"), 404),
    "delete_push_config": (
        send("DELETE", "/a2a/puppet/tasks/{run_id}/pushNotificationConfigs/x?A2A-Version=1.0"),
        404,
    ),
    "change_a2a_task": (send("POST", "/a2a/puppet/tasks/{run_id}:cancel?A2A-Version=1.0"), 404),
}


def test_every_route_has_a_case() -> None:
    assert {endpoint.name for endpoint in ENDPOINTS} == set(CASES)


async def test_no_route_shows_or_changes_what_belongs_to_another_workspace(tmp_path: Path) -> None:
    async def scenario(served: Served) -> None:
        ours, _ = await fill(served, WORKSPACE, "ours")
        theirs, foreign = await fill(served, OTHER, SECRET)
        await served.agent("only-theirs", OTHER)
        await keep_secrets(served)
        blob = await served.host.blobs.put(b"x")
        new = NewArtifact(artifact_type="file", blob=blob, source="upload", artifact_id="theirs")
        await served.host.db.write(lambda tx: artifacts.create(tx, OTHER, new))
        for event_id, conversation_id in (("x", "theirs"), ("y", "theirs too")):
            event = {"event_id": event_id, "conversation_id": conversation_id}
            await theirs.post("/v1/events", json={"event_type": "none", "input": {}, **event})
        before = await snapshot(theirs)
        for name, (case, expected) in CASES.items():
            answer = await case(ours, foreign)
            wanted = 200 if expected == OWN else expected
            assert answer.status_code == wanted, (name, answer.status_code, answer.text)
            assert SECRET not in answer.text, name
            assert foreign.run_id not in answer.text or wanted == 404, name
            if expected == OWN:
                other = await case(theirs, foreign)
                assert other.status_code == 200, name
                assert other.text != answer.text, f"{name}: the same answer in both workspaces"
        assert await snapshot(theirs) == before
        await ours.aclose()
        await theirs.aclose()

    await _with(tmp_path, scenario)


async def test_what_another_workspace_has_is_answered_like_what_nobody_has(tmp_path: Path) -> None:
    """Every route that reads or deletes by an id: a foreign one, and one that does not exist."""
    absent = Things(**dict.fromkeys(Things.__dataclass_fields__, "absent-from-everywhere"))

    async def scenario(served: Served) -> None:
        ours, _ = await fill(served, WORKSPACE, "ours")
        theirs, foreign = await fill(served, OTHER, SECRET)
        tried = set()
        for endpoint in ENDPOINTS:
            named = set(endpoint.parameters) & set(Things.__dataclass_fields__)
            if endpoint.method not in ("GET", "DELETE") or not named:
                continue
            answers = set()
            for things in (foreign, absent):
                path = endpoint.path.format(**{**dict.fromkeys(endpoint.parameters, "1"), **vars(things)})
                answer = await ours.request(endpoint.method, path)
                text = answer.text
                for name in named:
                    text = text.replace(getattr(things, name), "<it>")
                answers.add((answer.status_code, text))
            assert len(answers) == 1, (endpoint.name, answers)
            tried.add(endpoint.name)
        assert {"get_run", "get_pause", "revoke_key", "remove_member", "explain_call"} <= tried
        await ours.aclose()
        await theirs.aclose()

    await _with(tmp_path, scenario)


async def snapshot(client: httpx.AsyncClient) -> dict[str, str]:
    """All that a workspace can read of itself."""
    paths = [
        *("/v1/events", "/v1/runs", "/v1/agents", "/v1/conversations", "/v1/keys", "/v1/audit"),
        *("/v1/pauses", "/v1/inbox", "/v1/secrets", "/v1/members", "/v1/budgets"),
        *("/v1/conversations/same/history", "/v1/conversations/same/state", "/v1/artifacts/theirs"),
    ]
    return {path: (await client.get(path)).text for path in paths}


@pytest.mark.gate("http-authentication")
async def test_every_route_refuses_strangers_and_keys_without_its_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(auth, "FAILED_AUTH_BURST", 10.0 * len(ENDPOINTS))

    async def scenario(served: Served) -> None:
        things = Things("r", "k", "p", "d", "m", "t")
        async with served.as_key(None) as nobody, served.as_key("hostler_" + "x" * 43) as stranger:
            for endpoint in ENDPOINTS:
                case, _ = CASES[endpoint.name]
                for client in (nobody, stranger):
                    answer = await case(client, things)
                    if endpoint.right is None and not endpoint.signed_in:
                        assert answer.status_code == (CASES[endpoint.name][1]), endpoint.name
                    else:
                        assert answer.status_code == 401, endpoint.name
                        assert endpoint.dialect or answer.json()["code"] == "unauthorized"
                        assert answer.headers["www-authenticate"]
        weak = await served.key(WORKSPACE, "plugins:connect")
        async with served.as_key(weak) as client:
            for endpoint in ENDPOINTS:
                if endpoint.right == "plugins:connect" or (endpoint.right is None and not endpoint.signed_in):
                    continue
                answer = await CASES[endpoint.name][0](client, things)
                if endpoint.signed_in:
                    assert answer.status_code == 401, f"{endpoint.name} takes a key"
                    continue
                if endpoint.right == ANY_KEY:
                    assert answer.status_code < 500, endpoint.name
                    assert endpoint.name != "create_token" or answer.status_code == 403
                    continue
                assert answer.status_code == 403, endpoint.name
                if endpoint.dialect is not None:
                    assert f"right '{endpoint.right}'" in answer.text
                    continue
                assert answer.json()["details"] == {"right": endpoint.right}

    await _with(tmp_path, scenario)


async def _with(tmp_path: Path, scenario: Any, **settings: Any) -> None:
    async with serving(tmp_path, **settings) as served:
        await scenario(served)
