"""Carry platform actions out through the outbox: durable, in order with what is said, and once per key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hostler.domain.action_decisions import ChannelActions
from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import monotonic_clock, wall_clock
from hostler.domain.message_split import split_message
from hostler.domain.platform_actions import PlatformAction
from hostler.storage.port import Database, Tx
from hostler.storage.stores import outbox
from hostler.storage.stores.action_outcomes import record_action_outcome
from hostler.storage.stores.outbox_rows import Delivery, NewDelivery, Outbound, OutboundAction
from hostler.tools.errors import OutcomeUnknownError, ToolFailedError
from hostler.tools.port import Found, ToolInvocation
from hostler_protocol.channels import ChannelManifest, ChannelMessage, ChannelTarget
from hostler_protocol.content import ArtifactRef
from hostler_protocol.errors import HostlerError, InvalidArgumentError, UnavailableError
from hostler_protocol.ids import digest

WAIT_SECONDS = 90.0
"""How long a run waits for an action: longer than one try. After that it is withdrawn, or in doubt."""
FIRST_LOOK_SECONDS = 0.02
LAST_LOOK_SECONDS = 0.5
SENT_AS_MESSAGES = frozenset({"message.send", "message.reply", "file.send"})
"""Actions that every channel can do that does not do them in another way: it sends a message."""


class ChannelActor:
    """The `ActionExecutor` of a host. `channels_of` returns the channels of a plugin, as far as known."""

    def __init__(
        self,
        db: Database,
        workspace_id: str,
        channels_of: Callable[[str], Mapping[str, ChannelManifest]],
        wake: Callable[[], None],
    ) -> None:
        self._db = db
        self._workspace = workspace_id
        self._channels_of = channels_of
        self._wake = wake
        self._entries: dict[str, ChannelEntry] = {}
        self._known: dict[str, ChannelActions] = {}
        self._revision = 0
        self.wait_seconds = WAIT_SECONDS

    def configure(self, entries: Iterable[ChannelEntry]) -> None:
        """Use these entries from now on."""
        self._entries = {entry.name: entry for entry in entries if entry.enabled}

    @property
    def revision(self) -> int:
        """See `ActionExecutor`."""
        self.channels(self._workspace)
        return self._revision

    def channels(self, workspace_id: str) -> Mapping[str, ChannelActions]:
        """See `ActionExecutor`."""
        if workspace_id != self._workspace:
            return {}
        found = {
            name: ChannelActions(_supported(manifest), entry.actions)
            for name, entry in self._entries.items()
            if (manifest := self._manifest(entry)) is not None
        }
        if found != self._known:
            self._known = found
            self._revision += 1
        return found

    async def perform(self, invocation: ToolInvocation, action: PlatformAction) -> Any:
        """See `ActionExecutor`."""
        refs = []
        if action.name == "file.send":
            refs = [await _ref(invocation)]
        new = self._delivery(invocation, action, refs)
        if invocation.confirm is not None:
            await invocation.confirm()
        await self._db.write(lambda tx: outbox.add(tx, invocation.workspace_id, new))
        self._wake()
        return await self._outcome(invocation)

    async def lookup(self, invocation: ToolInvocation) -> Found | None:
        """See `ActionExecutor`. Of an action that is under way the outcome is waited for."""
        found = await self._find(invocation)
        if found is None or found.status == "failed":  # asked again, it says why
            return None
        return Found(await self._outcome(invocation))

    def delivery(
        self,
        key: str,
        action: PlatformAction,
        arguments: Mapping[str, Any],
        refs: list[ArtifactRef],
        *,
        run_id: str | None = None,
        conversation_id: str | None = None,
        result_sequence: int | None = None,
    ) -> NewDelivery:
        """Return the row of an action. InvalidArgumentError: the message is too long for the platform."""
        name = str(arguments["channel"])
        manifest = self._manifest(self._entries[name]) if name in self._entries else None
        speaks = action.name in SENT_AS_MESSAGES and (manifest is None or action.name not in manifest.actions)
        text = str(arguments.get("text", ""))
        if speaks and manifest is not None and text:
            can = manifest.abilities
            if len(split_message(text, can.max_message, can.message_unit, most=2)) > 1:
                said = f"text is too long for channel {name}: it takes {can.max_message:,} {can.message_unit}"
                raise InvalidArgumentError(said)
        target = ChannelTarget(
            chat_id=str(arguments.get("chat_id") or "-"),
            thread_id=arguments.get("thread_id"),
            reply_to=arguments.get("message_id") if speaks else None,
        )
        return NewDelivery(
            delivery_id=digest(["action", key])[:32],
            channel=name,
            outbound=Outbound(
                target,
                ChannelMessage(text=text, attachments=refs) if speaks else ChannelMessage(),
                OutboundAction(
                    action.name,
                    dict(arguments),
                    speaks=speaks,
                    repeatable=action.effect in {"pure", "idempotent"},
                    read=action.risk == "read",
                ),
            ),
            conversation_id=conversation_id,
            run_id=run_id,
            result_sequence=result_sequence,
        )

    def _delivery(
        self, invocation: ToolInvocation, action: PlatformAction, refs: list[ArtifactRef]
    ) -> NewDelivery:
        if invocation.parameters.get("channel") not in self._entries:
            raise UnavailableError("the channel is gone since the action was allowed: nothing was done")
        try:
            return self.delivery(
                invocation.effect_key,
                action,
                invocation.parameters,
                refs,
                run_id=invocation.run_id,
                conversation_id=invocation.place.conversation_id,
            )
        except InvalidArgumentError as error:
            raise ToolFailedError.of(error) from error

    def _manifest(self, entry: ChannelEntry) -> ChannelManifest | None:
        return self._channels_of(entry.plugin_key).get(entry.channel_name)

    async def _find(self, invocation: ToolInvocation) -> Delivery | None:
        id_ = digest(["action", invocation.effect_key])[:32]
        return await self._db.read(lambda tx: outbox.find(tx, invocation.workspace_id, id_))

    async def _outcome(self, invocation: ToolInvocation) -> Any:
        """Wait for the outcome of an action that is in the outbox, and return the platform's answer."""
        until, pause = monotonic_clock() + self._patience(invocation), FIRST_LOOK_SECONDS
        while True:
            found = await self._find(invocation)
            if found is None:
                raise OutcomeUnknownError("the action was taken out of the outbox")
            if found.status == "sent":
                return found.result
            if found.status == "failed":
                raise ToolFailedError.of(HostlerError(found.error or "the platform refused it"))
            if found.status == "in_doubt" and found.due_at is None:
                raise OutcomeUnknownError(found.error or "nobody knows whether the platform has done it")
            if monotonic_clock() >= until:
                await self._withdraw(invocation, found)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LAST_LOOK_SECONDS)

    def _patience(self, invocation: ToolInvocation) -> float:
        deadline = invocation.deadline
        return min(self.wait_seconds, self.wait_seconds if deadline is None else deadline - wall_clock() - 1)

    async def _withdraw(self, invocation: ToolInvocation, found: Delivery) -> None:
        ws, id_ = invocation.workspace_id, found.delivery_id
        why = found.error or f"channel {found.channel} is not connected"

        def withdraw(tx: Tx) -> bool:
            gone = outbox.withdraw(tx, ws, id_)
            if gone and found.outbound.action is not None:
                record_action_outcome(tx, found, found.outbound.action, "failed", why)
            return gone

        if await self._db.write(withdraw):
            raise UnavailableError(f"nothing was done: {why}")
        again = await self._find(invocation)
        if again is not None and again.status not in {"sent", "failed"}:
            raise OutcomeUnknownError(again.error or "the platform has not answered yet")


def _supported(manifest: ChannelManifest) -> frozenset[str]:
    found = {*manifest.actions, "message.send", "message.reply"}
    return frozenset(found | {"file.send"} if manifest.abilities.files else found)


async def _ref(invocation: ToolInvocation) -> ArtifactRef:
    """Return the file that an action sends. NotFoundError if the run may not read it."""
    if invocation.artifacts is None:
        raise InvalidArgumentError("files can be sent by runs alone")
    found = await invocation.artifacts.open(str(invocation.parameters["artifact_id"]))
    return ArtifactRef(
        artifact_id=found.artifact_id,
        name=found.name,
        mime_type=found.mime_type,
        size_bytes=found.size_bytes,
    )
