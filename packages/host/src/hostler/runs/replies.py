"""Answers that go out through a channel: put into the outbox with the journal entry of what was said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from hostler.calls.artifacts import find_in_reach_of
from hostler.calls.scope import CallScope
from hostler.domain.agents import DeliveryPolicy
from hostler.domain.outbound import ReplyTarget, files_of, messages_of, reply_target_of, size_of, targets
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, audit, outbox, outbox_growth, runs
from hostler.storage.stores.channel_entries import is_configured
from hostler.storage.stores.outbox_rows import NewDelivery, Outbound
from hostler_protocol.channels import ChannelMessage
from hostler_protocol.content import ArtifactRef, Message, text_of
from hostler_protocol.ids import digest


@dataclass(slots=True)
class Reply:
    """An answer of a run whose event came through a channel. `sequence`: of the result that says it."""

    scope: CallScope
    to: ReplyTarget
    message: Message
    sequence: int
    _prepared: tuple[list[ArtifactRef], list[ChannelMessage]] | None = None
    """Files, and the messages that it becomes with them."""

    @property
    def size(self) -> int:
        """How many characters are to be split."""
        return size_of(self.message)

    async def prepare(self, db: Database) -> None:
        """Split a long answer before the transaction: no other write waits for it."""
        found = await db.read(self._parts)
        if found is not None:
            policy, files = found
            said = await asyncio.to_thread(messages_of, self.message, files, self.to, policy)
            self._prepared = (files, said)

    def _parts(self, tx: Tx) -> tuple[DeliveryPolicy, list[ArtifactRef]] | None:
        run = runs.by_id(tx, self.scope.run_id)
        agent = None if run is None else agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
        if agent is None or not agent.spec.delivery_policy.enable_reply:
            return None
        refs = [one for ref in files_of(self.message) if (one := self._known(tx, ref)) is not None]
        return agent.spec.delivery_policy, refs

    def _messages(self, files: list[ArtifactRef], policy: DeliveryPolicy) -> list[ChannelMessage]:
        if self._prepared is not None and self._prepared[0] == files:
            return self._prepared[1]
        return messages_of(self.message, files, self.to, policy)

    def queue(self, tx: Tx) -> None:
        """Put its messages into the outbox, once, unless the agent does not answer or the channel is gone."""
        scope, ws = self.scope, self.scope.workspace_id
        run = runs.by_id(tx, scope.run_id)
        agent = None if run is None else agents.version(tx, ws, run.agent_id, run.agent_version)
        if run is None or agent is None or not agent.spec.delivery_policy.enable_reply:
            return
        if not is_configured(tx, ws, self.to.channel):
            return
        files = [one for ref in files_of(self.message) if (one := self._file(tx, ref)) is not None]
        said = self._messages(files, agent.spec.delivery_policy)
        whole = list(zip(targets(self.to, len(said)), said, strict=True))
        text, id_ = text_of(self.message.content), self.message.message_id
        whole = outbox_growth.complete(tx, run.run_id, id_, text, whole, self.sequence)
        for number, (target, message) in enumerate(whole):
            outbox.add(
                tx,
                ws,
                NewDelivery(
                    delivery_id=self._id(number),
                    channel=self.to.channel,
                    outbound=Outbound(target, message),
                    conversation_id=run.conversation_id,
                    event_id=run.event_id,
                    run_id=run.run_id,
                    result_sequence=self.sequence,
                ),
            )

    def _known(self, tx: Tx, ref: ArtifactRef) -> ArtifactRef | None:
        """Return a file as the host knows it; None if the run may not read it."""
        found = find_in_reach_of(tx, self.scope, ref.artifact_id)
        if found is None or found.registered is not None:
            return None
        return msgspec.structs.replace(
            ref, name=found.name, mime_type=found.mime_type, size_bytes=found.size_bytes
        )

    def _file(self, tx: Tx, ref: ArtifactRef) -> ArtifactRef | None:
        """Return a file as the host knows it; None, which is audited, if the run may not read it."""
        scope = self.scope
        if (known := self._known(tx, ref)) is not None:
            return known
        audit.record(
            tx,
            scope.workspace_id,
            actor=scope.grant.runner_id,
            action="channel.file_refused",
            target=scope.run_id,
            body={"artifact_id": ref.artifact_id[:512], "channel": self.to.channel},
        )
        return None

    def _id(self, number: int) -> str:
        parts = {"run": self.scope.run_id, "message": self.message.message_id, "part": number}
        return digest(parts)[:32]


def reply_of(scope: CallScope, message: Message, sequence: int) -> Reply | None:
    """Return the answer to be sent; None if the event came through no channel, or nothing may go out."""
    if message.role != "assistant" or not scope.effects:
        return None
    to = reply_target_of(scope.event)
    return None if to is None else Reply(scope, to, message, sequence)
