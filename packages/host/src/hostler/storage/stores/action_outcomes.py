"""What becomes of platform actions in the outbox: audit facts, and actions that are given up."""

from __future__ import annotations

from hostler.domain.platform_actions import audited, split_arguments
from hostler.storage.port import Tx
from hostler.storage.stores import audit, outbox, outbox_upkeep, runs
from hostler.storage.stores.outbox_rows import Delivery, OutboundAction


def record_action_outcome(
    tx: Tx, delivery: Delivery, action: OutboundAction, outcome: str, reason: str | None = None
) -> None:
    """Record what became of an action, in the transaction that settles it."""
    body = audited(action.name, *split_arguments(action.arguments)) | {"delivery_id": delivery.delivery_id}
    if delivery.result_sequence is not None:
        body["sequence"] = delivery.result_sequence
    if reason:
        body["reason"] = reason
    run = None if delivery.run_id is None else runs.by_id(tx, delivery.run_id)
    audit.record(
        tx,
        delivery.workspace_id,
        actor=f"channel:{delivery.channel}" if run is None else run.runner_id,
        action=f"action.{outcome}",
        target=delivery.run_id or delivery.delivery_id,
        body=body,
    )


def give_up_channel(tx: Tx, workspace_id: str, channel: str, why: str) -> bool:
    """Give up the next messages and actions of a channel that is gone; return whether there were any."""
    given_up = outbox_upkeep.give_up_waiting(tx, workspace_id, channel, why)
    _record(tx, given_up)
    return bool(given_up)


def give_up_overdue(tx: Tx, workspace_id: str) -> int:
    """Give up the next messages and actions that could not be sent for a day; return their number."""
    number = 0
    for channel in outbox_upkeep.channels_waiting(tx, workspace_id):
        given_up = outbox_upkeep.give_up_overdue(tx, workspace_id, channel)
        _record(tx, given_up)
        number += len(given_up)
    return number


def withdraw_of_run(tx: Tx, run_id: str) -> None:
    """Take back what a run that ends has asked for and waited for, as far as it is surely not begun."""
    for delivery in outbox_upkeep.not_begun_of_run(tx, run_id):
        action = delivery.outbound.action
        if outbox.withdraw(tx, delivery.workspace_id, delivery.delivery_id) and action is not None:
            record_action_outcome(tx, delivery, action, "failed", "its run has ended")


def _record(tx: Tx, given_up: list[Delivery]) -> None:
    for delivery in given_up:
        if (action := delivery.outbound.action) is not None:
            record_action_outcome(tx, delivery, action, delivery.status, delivery.error)
