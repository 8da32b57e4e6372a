"""What is said in a chat where a run has failed: the channel's own text, put into the outbox as it ends."""

from __future__ import annotations

from hostler.domain.channels import channel_of_subject
from hostler.domain.outbound import reply_target_of, targets, text_messages
from hostler.storage.port import Tx
from hostler.storage.stores import agents, events, outbox, runs
from hostler.storage.stores.channel_entries import entry_of
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler_protocol.ids import digest


def queue(tx: Tx, run_id: str) -> None:
    """Put the text for a failed run into the outbox, if it was a channel's and the channel has one."""
    run = runs.by_id(tx, run_id)
    if run is None or channel_of_subject(run.requester) is None or run.event_id is None:
        return
    record = events.find(tx, run.workspace_id, run.event_id)
    event = None if record is None else record.event()
    to = None if event is None else reply_target_of(event)
    entry = None if to is None else entry_of(tx, run.workspace_id, to.channel)
    if event is None or to is None or entry is None or not entry.failure_text:
        return
    agent = agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    if agent is None or not agent.spec.delivery_policy.enable_reply:
        return
    said = text_messages(entry.failure_text, to, plain=True)
    for number, (message, target) in enumerate(zip(said, targets(to, len(said)), strict=True)):
        outbox.add(
            tx,
            run.workspace_id,
            NewDelivery(
                delivery_id=digest({"run": run_id, "failed": number})[:32],
                channel=to.channel,
                outbound=Outbound(target, message),
                conversation_id=run.conversation_id,
                event_id=run.event_id,
                run_id=run_id,
            ),
        )
