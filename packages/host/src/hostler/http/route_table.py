"""All route modules, in the order of the documentation."""

from __future__ import annotations

from types import ModuleType

from hostler.http.a2a import http_json as a2a_http_json
from hostler.http.a2a import json_rpc as a2a_json_rpc
from hostler.http.ag_ui import routes as ag_ui
from hostler.http.ai_sdk import routes as ai_sdk
from hostler.http.langgraph import assistants as langgraph_assistants
from hostler.http.langgraph import crons as langgraph_crons
from hostler.http.langgraph import protocol_routes as langgraph_protocol
from hostler.http.langgraph import run_routes as langgraph_runs
from hostler.http.langgraph import state_routes as langgraph_states
from hostler.http.langgraph import store as langgraph_store
from hostler.http.langgraph import thread_routes as langgraph_threads
from hostler.http.langgraph import thread_search as langgraph_search
from hostler.http.mcp import routes as mcp
from hostler.http.openai import chat, responses
from hostler.http.openai import conversations as openai_conversations
from hostler.http.routes import (
    agents,
    approval_rules,
    artifacts,
    audit,
    backup,
    budgets,
    catalogue,
    channel_requests,
    channels,
    config,
    conversation_changes,
    conversation_search,
    conversations,
    doctor,
    events,
    health,
    hooks,
    key_sessions,
    keys,
    knowledge,
    members,
    models,
    notices,
    pauses,
    people,
    personal_keys,
    plugins,
    quotas,
    reruns,
    runs,
    schedules,
    secrets,
    sessions,
    sign_in,
    skills,
    streams,
    tokens,
    tools,
    usage,
    usage_series,
    widgets,
    workers,
)

ROUTE_MODULES: tuple[ModuleType, ...] = (
    events,
    hooks,
    schedules,
    widgets,
    runs,
    reruns,
    pauses,
    approval_rules,
    notices,
    conversations,
    conversation_search,
    conversation_changes,
    streams,
    agents,
    plugins,
    workers,
    channels,
    channel_requests,
    people,
    catalogue,
    tools,
    skills,
    models,
    knowledge,
    artifacts,
    keys,
    tokens,
    secrets,
    members,
    sign_in,
    key_sessions,
    sessions,
    personal_keys,
    usage,
    usage_series,
    quotas,
    budgets,
    audit,
    config,
    backup,
    doctor,
    health,
    chat,
    ai_sdk,
    ag_ui,
    responses,
    openai_conversations,
    mcp,
    langgraph_assistants,
    langgraph_threads,
    langgraph_search,
    langgraph_states,
    langgraph_runs,
    langgraph_protocol,
    langgraph_store,
    langgraph_crons,
    a2a_json_rpc,
    a2a_http_json,
)
"""In the order of the documentation."""
