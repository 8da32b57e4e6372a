"""Platform actions of runs: whether they are allowed, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hostler.calls.scope import CallScope
from hostler.domain.action_decisions import ActionDecision, decide, refusal
from hostler.domain.envelopes import conversation_id_of
from hostler.domain.outcomes import ActionRequest
from hostler.domain.platform_actions import PLATFORM_ACTIONS, arguments_of, audited, split_arguments
from hostler.storage.port import Tx
from hostler.storage.stores import audit, conversations
from hostler.tools.action_schemas import check_action
from hostler_protocol.calls import ActionParams


def decide_action(
    tx: Tx, scope: CallScope, name: str, target: Mapping[str, Any] | str | None, payload: Mapping[str, Any]
) -> ActionDecision:
    """Decide on an action of a run. InvalidArgumentError if its arguments do not fit."""
    if name not in scope.grant.actions:
        return ActionDecision("refused", refusal(name, scope.grant.action_rules) or "it is not granted")
    return decide_arguments(tx, scope, name, arguments_of(PLATFORM_ACTIONS[name], target, payload))


def decide_arguments(tx: Tx, scope: CallScope, name: str, arguments: dict[str, Any]) -> ActionDecision:
    """Decide on an action whose target and payload are one object."""
    grant, executor = scope.grant, scope.services.actions
    if name not in grant.actions:
        return ActionDecision("refused", refusal(name, grant.action_rules) or "it is not granted")
    check_action(name, arguments)
    channels = {} if executor is None else executor.channels(scope.workspace_id)
    decision = decide(name, arguments, grant.action_rules, grant.tool_approvals, channels)
    if decision.verdict not in {"allowed", "needs_approval"} or not decision.elsewhere:
        return decision
    if PLATFORM_ACTIONS[name].speaks and not _is_known(tx, scope, decision):
        text = "the bot has had no conversation in that chat, and begins none by itself"
        return ActionDecision("refused", text, decision.arguments, True)
    return decision


def _is_known(tx: Tx, scope: CallScope, decision: ActionDecision) -> bool:
    whole = decision.arguments
    chats = {whole.get("to_chat_id", whole.get("chat_id"))} - {None}
    return all(
        conversations.known(tx, scope.workspace_id, conversation_id_of(whole["channel"], str(chat)))
        for chat in chats
    )


def record_action(
    tx: Tx,
    scope: CallScope,
    outcome: str,
    asked: ActionParams | ActionRequest | tuple[str, Mapping[str, Any]],
    reason: str | None = None,
    *,
    sequence: int | None = None,
) -> None:
    """Record in the audit log what became of an action, or of one with target and payload in one object.

    `sequence`: of the result that asked for it.
    """
    if isinstance(asked, tuple):
        body = audited(asked[0], *split_arguments(asked[1]))
    else:
        body = audited(asked.action, asked.target, asked.payload)
    if reason:
        body["reason"] = reason
    if sequence is not None:
        body["sequence"] = sequence
    audit.record(
        tx,
        scope.workspace_id,
        actor=scope.grant.runner_id,
        action=f"action.{outcome}",
        target=scope.run_id,
        body=body,
    )
