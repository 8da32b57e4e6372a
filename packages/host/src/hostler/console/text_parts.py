"""Cuts the texts of a language into parts: one for all pages, and others that only some pages load."""

from __future__ import annotations

import msgspec

BASE = "base"
"""The part with all texts that are in no other part."""
_GROUPS = {
    "agents": "agents",
    "approvals": "approvals similar",
    "audit": "audit chain outcome",
    "chat": "chat content receipt",
    "first": "first",
    "knowledge": "document_count document_state knowledge",
    "plugins": """
        area capability entry_help level level_help log permission pin plugin_state plugins risk runner
    """,
    "resources": """
        approval approval_help effect effect_help mcp mcp_state models operation resources skills test
        tool_state tools trial waiting
    """,
    "run": "compare fork replay run",
    "runs": "period runs wait",
    "settings": """
        about backup delivery encryption keys member_source members once quota_level quota_of quotas
        retention role role_may secret_of secrets settings settings_tab theme tokens verdict webhooks
    """,
    "sign_in": "sign_in",
    "sources": """
        channel_state channels entry event_outcome hook_outcome hooks message_state messages misfire
        schedule_example schedule_state schedule_value schedule_way schedules source sources
    """,
    "usage": "budget_of budget_span budgets chart usage usage_by usage_period",
    "workers": "worker_state workers",
}
TEXT_PARTS = {part: frozenset(groups.split()) for part, groups in _GROUPS.items()}
"""Of each other part, how the keys of its texts begin. `components/shell.js` says which page loads which."""
_SHARED = """
    agents.bytes agents.discard agents.no_right agents.seconds audit.outcome audit.when first.title
    members.remove pin.by plugins.restarts plugins.retry run.address_is_link run.cached run.cancel
    run.cancelling run.child run.context run.cost run.fork run.id run.message run.position run.removed
    run.share run.shared run.the_pause run.the_tool run.tokens run.tokens_in_out run.version run.waits_for
    runs.agent runs.any runs.conversation runs.failures runs.none runs.status runs.tokens settings.name
    settings.no_right settings.no_right_text settings.workspace tools.state usage.budgets usage.read
    webhooks.change webhooks.resend webhooks.resent webhooks.store webhooks.tries
"""
SHARED = frozenset(_SHARED.split())
"""Texts that pages of other parts show too: they are in the base."""
_PART_OF = {group: part for part, groups in TEXT_PARTS.items() for group in groups}


def part_of(key: str) -> str:
    """Return the part that a text is in."""
    return BASE if key in SHARED else _PART_OF.get(key.partition(".")[0], BASE)


def split_texts(content: bytes) -> dict[str, bytes]:
    """Return the parts of a language's file, each as JSON."""
    parts: dict[str, dict[str, str]] = {name: {} for name in (BASE, *TEXT_PARTS)}
    for key, text in msgspec.json.decode(content, type=dict[str, str]).items():
        parts[part_of(key)][key] = text
    return {name: msgspec.json.encode(texts) for name, texts in parts.items()}
