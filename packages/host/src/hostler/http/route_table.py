"""All route modules, in the order of the documentation."""

from __future__ import annotations

from types import ModuleType

from hostler.http.a2a import http_json as a2a_http_json
from hostler.http.a2a import json_rpc as a2a_json_rpc
from hostler.http.ag_ui import routes as ag_ui
from hostler.http.ai_sdk import routes as ai_sdk
from hostler.http.langgraph import absent as langgraph_absent
from hostler.http.langgraph import assistants as langgraph_assistants
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
    artifacts,
    audit,
    budgets,
    catalogue,
    config,
    conversation_changes,
    conversation_search,
    conversations,
    doctor,
    events,
    health,
    key_sessions,
    keys,
    members,
    models,
    notices,
    pauses,
    personal_keys,
    plugins,
    quotas,
    reruns,
    runs,
    secrets,
    sessions,
    sign_in,
    skills,
    streams,
    tokens,
    tools,
    usage,
    usage_series,
)

ROUTE_MODULES: tuple[ModuleType, ...] = (
    events,
    runs,
    reruns,
    pauses,
    notices,
    conversations,
    conversation_search,
    conversation_changes,
    streams,
    agents,
    plugins,
    catalogue,
    tools,
    skills,
    models,
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
    langgraph_store,
    langgraph_absent,
    a2a_json_rpc,
    a2a_http_json,
)
"""In the order of the documentation."""
