"""The sender of one open channel: takes its messages from the outbox, in order per chat, chats in parallel.

Each try is claimed durably before anything is sent, and its outcome is stored after. A host that dies in
between leaves a lease that ends: the message is in doubt then, and settled as the platform allows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec

from hostler.channels.files import ChannelFiles
from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import chance, monotonic_clock, wall_clock
from hostler.domain.outbox_steps import (
    Outcome,
    after_doubt,
    after_doubtful_action,
    after_failed_look,
    after_refusal,
    too_late,
)
from hostler.domain.platform_actions import split_arguments
from hostler.plugins.channels import PluginChannels
from hostler.secrets.known_values import redact
from hostler.storage.port import Database, Tx
from hostler.storage.stores import outbox, outbox_edits
from hostler.storage.stores.action_outcomes import record_action_outcome
from hostler.storage.stores.channel_connections import Hold
from hostler.storage.stores.outbox_rows import Claimed, Delivery, Head, OutboundAction
from hostler.tools.errors import OutcomeUnknownError
from hostler_protocol.channels import (
    ChannelActed,
    ChannelActParams,
    ChannelEditParams,
    ChannelFindParams,
    ChannelFound,
    ChannelManifest,
    ChannelSendParams,
    ChannelSent,
)
from hostler_protocol.errors import HostlerError, StorageError, UnavailableError
from hostler_protocol.limits import MAX_REASON_CHARS, MAX_RESULT_BYTES

log = logging.getLogger(__name__)

SEND_SECONDS = 60.0
"""How long a plugin may take to send one message: platforms take files of some MiB in it."""
LEASE_SECONDS = 3 * SEND_SECONDS
"""Longer than a try, with the time to store its outcome."""
MAX_CHATS = 16
"""Chats that one channel sends to at once."""
POLL_SECONDS = 0.5
"""Interval of the search: one look-up in an index of messages that wait."""
UNAVAILABLE_SECONDS = 1.0
STORAGE_SECONDS = 0.5


@dataclass(eq=False)
class OutboxSender:
    """Sends what is due while `work` runs. `pace` scales the waits, `send_seconds` bounds a try."""

    db: Database
    hold: Hold
    host_id: str
    entry: ChannelEntry
    manifest: ChannelManifest
    channels: PluginChannels
    files: ChannelFiles
    spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]
    may_send: Callable[[], bool]
    """Whether the plugin is connected to the platform: a try before that would be in vain, and count."""
    pace: float = 1.0
    send_seconds: float = SEND_SECONDS
    now: Callable[[], float] = wall_clock
    jitter: Callable[[], float] = chance
    clock: Callable[[], float] = monotonic_clock
    _lanes: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _wake: asyncio.Event = field(default_factory=asyncio.Event)
    _paused_until: float = 0.0
    """By `clock`: the platform limits the rate of the whole account."""
    _stopping: bool = False

    def wake(self) -> None:
        """Look for messages at once."""
        self._wake.set()

    async def work(self) -> None:
        """Send what is due, until `stop`."""
        while not self._stopping:
            self._wake.clear()
            try:
                await self._start_lanes()
            except StorageError as error:
                log.warning("channel %s: the outbox cannot be read: %s", self.entry.name, error)
            wait = max(POLL_SECONDS, self._paused_until - self.clock())
            try:
                async with asyncio.timeout(min(wait, 60.0)):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def stop(self, seconds: float) -> None:
        """Begin no further try, and wait until those under way are settled, at most `seconds`."""
        self._stopping = True
        self.wake()
        if self._lanes:
            await asyncio.wait(list(self._lanes.values()), timeout=seconds)

    async def _start_lanes(self) -> None:
        room = MAX_CHATS - len(self._lanes)
        if room <= 0 or self.clock() < self._paused_until or not self.may_send():
            return
        ws, limit = self.hold.workspace_id, MAX_CHATS + len(self._lanes)
        found = await self.db.read(lambda tx: outbox.heads(tx, ws, self.entry.name, limit=limit))
        for head in [one for one in found if one.chat not in self._lanes][:room]:
            lane = self.spawn(self._lane(head))
            self._lanes[head.chat] = lane
            lane.add_done_callback(partial(self._lane_ended, head.chat))

    def _lane_ended(self, chat: str, _: asyncio.Task[None]) -> None:
        del self._lanes[chat]
        self.wake()

    async def _lane(self, head: Head) -> None:
        """Do the next step of one message."""
        repeat = self.manifest.abilities.repeat

        def claim(tx: Tx) -> tuple[Claimed | None, Delivery | None]:
            found = outbox.claim(
                tx,
                self.hold.workspace_id,
                head,
                host_id=self.host_id,
                lease_ms=int(max(LEASE_SECONDS, 3 * self.send_seconds) * 1000),
                repeats=repeat == "client_id",
                looks_up=repeat == "look_up",
                send_again=repeat == "unknown" and self.entry.on_doubt == "send_again",
            )
            return found, None if found is None else outbox_edits.edited(tx, found)

        try:
            claimed, original = await self.db.write(claim)
        except StorageError as error:
            log.warning("channel %s: a message cannot be claimed: %s", self.entry.name, error)
            await asyncio.sleep(STORAGE_SECONDS)
            return
        if claimed is None:
            return
        delivery = claimed.delivery
        age = self.now() - (delivery.resent_at or delivery.created_at) / 1000
        if claimed.step == "settle":
            await self._find_out(claimed)
        elif (late := too_late(age, perhaps_sent=delivery.perhaps_sent)) is not None:
            await self._record(claimed, late)
        else:
            await self._send(claimed, original)

    async def _send(self, claimed: Claimed, original: Delivery | None) -> None:
        delivery = claimed.delivery
        message = delivery.outbound.message
        if delivery.outbound.action is not None and delivery.outbound.is_act:
            await self._act(claimed, delivery.outbound.action)
            return
        if delivery.edits_itself and delivery.message_id is not None:
            await self._edit(claimed, delivery.message_id)
            return
        if delivery.outbound.edit is not None:
            await self._edit_other(claimed, original)
            return
        params = ChannelSendParams(
            channel_id=self.entry.name,
            key=delivery.send_key,
            target=delivery.outbound.target,
            message=message,
            attempt=delivery.attempts,
        )
        with self.files.readable(message.attachments):
            sent: ChannelSent | None = await self._ask(claimed, "channel/send", params)
        if sent is not None and sent.in_doubt:
            why = _unknown("the plugin cannot tell whether the platform has got it", sent.reason)
            await self._record(claimed, self._doubt(claimed, why))
        elif sent is not None:
            await self._done(claimed, sent.message_id)

    async def _edit_other(self, claimed: Claimed, original: Delivery | None) -> None:
        """Edit a message that was sent; where that is not possible, say what is new in one of its own."""
        if original is None or (original.status == "failed" and not original.perhaps_sent):
            await self._write(lambda tx: outbox_edits.drop_claimed(tx, claimed))
        elif original.message_id is None:
            await self._write(lambda tx: outbox_edits.send_instead(tx, claimed))
        else:
            await self._edit(claimed, original.message_id)

    async def _edit(self, claimed: Claimed, message_id: str) -> None:
        if not self.manifest.abilities.edit:
            await self._write(lambda tx: outbox_edits.send_instead(tx, claimed))
            return
        delivery = claimed.delivery
        params = ChannelEditParams(
            channel_id=self.entry.name,
            target=delivery.outbound.target,
            message_id=message_id,
            message=delivery.outbound.message,
            last=delivery.growing != 1,
        )
        if await self._ask(claimed, "channel/edit", params) is not None:
            await self._done(claimed, message_id)

    async def _act(self, claimed: Claimed, action: OutboundAction) -> None:
        """Have a platform action carried out."""
        target, payload = split_arguments(action.arguments)
        params = ChannelActParams(
            channel_id=self.entry.name,
            action=action.name,
            key=claimed.delivery.send_key,
            target={name: value for name, value in target.items() if name != "channel"},
            payload=payload,
        )
        acted: ChannelActed | None = await self._ask(claimed, "channel/act", params)
        if acted is not None and acted.in_doubt:
            why = _unknown("the plugin cannot tell whether the platform has done it", acted.reason)
            await self._record(claimed, self._doubt(claimed, why))
        elif acted is not None:
            await self._done(claimed, None, acted.result)

    async def _ask(self, claimed: Claimed, method: str, params: Any) -> Any:
        """Make a request of the plugin and return its answer; None if what came of it is recorded."""
        try:
            return await self.channels.ask(method, params, self.send_seconds)
        except OutcomeUnknownError as error:
            await self._record(claimed, self._doubt(claimed, error.message))
        except UnavailableError as error:
            outcome = Outcome("pending", error.message, UNAVAILABLE_SECONDS, counts=False)
            await self._record(claimed, outcome)
        except HostlerError as error:
            delivery = claimed.delivery
            age = self.now() - (delivery.resent_at or delivery.created_at) / 1000
            outcome = after_refusal(error, delivery.attempts, age, self.jitter())
            is_edit = delivery.outbound.edit is not None or delivery.edits_itself
            if not is_edit or outcome.status != "failed":
                await self._record(claimed, outcome)
                return None
            log.info("channel %s: a message cannot be edited: %s", self.entry.name, error.message)
            if delivery.growing == 1:  # the next text may be taken
                await self._done(claimed, delivery.message_id)
            else:
                await self._write(lambda tx: outbox_edits.send_instead(tx, claimed))
        return None

    async def _done(self, claimed: Claimed, message_id: str | None, result: Any = None) -> None:
        action = claimed.delivery.outbound.action
        if action is not None and action.speaks:
            result = {"message_id": message_id}
        elif (size := len(msgspec.json.encode(result))) > MAX_RESULT_BYTES:
            result = {
                "left_out": f"the platform's answer has {size:,} bytes; at most {MAX_RESULT_BYTES:,} are kept"
            }

        def write(tx: Tx) -> bool:
            told = outbox.mark_sent(tx, claimed, message_id, result)
            if told and action is not None:
                record_action_outcome(tx, claimed.delivery, action, "done")
            return told

        await self._write(write)

    def _doubt(self, claimed: Claimed, why: str, *, looked: bool = False) -> Outcome:
        action, attempts = claimed.delivery.outbound.action, claimed.delivery.attempts
        if action is not None and claimed.delivery.outbound.is_act:
            again = action.repeatable
            return after_doubtful_action(why, repeatable=again, attempts=attempts, random=self.jitter())
        delivery = claimed.delivery
        # the same edit once more changes nothing
        is_edit = delivery.outbound.edit is not None or delivery.edits_itself
        return after_doubt(
            why,
            repeat="client_id" if is_edit else self.manifest.abilities.repeat,
            on_doubt="send_again" if delivery.growing == 2 else self.entry.on_doubt,
            attempts=claimed.delivery.attempts,
            random=self.jitter(),
            looked=looked,
        )

    async def _find_out(self, claimed: Claimed) -> None:
        """Find out whether a message was sent, if the plugin can look."""
        delivery = claimed.delivery
        why = delivery.error or "the host ended while it was being sent"
        if self.manifest.abilities.repeat != "look_up" or delivery.outbound.is_act:
            await self._record(claimed, self._doubt(claimed, why))
            return
        since = (delivery.first_sent_at or delivery.created_at) / 1000
        params = ChannelFindParams(
            channel_id=self.entry.name,
            key=delivery.send_key,
            target=delivery.outbound.target,
            message=delivery.outbound.message,
            since=since,
        )
        try:
            found: ChannelFound = await self.channels.ask("channel/find", params, self.send_seconds)
        except (HostlerError, OutcomeUnknownError) as error:
            text = f"{why}; it could not be looked for: {error}"
            await self._record(claimed, after_failed_look(text, self.now() - since))
            return
        if found.found:
            await self._done(claimed, found.message_id)
        elif found.found is None:
            await self._record(claimed, self._doubt(claimed, why, looked=True))
        else:
            await self._record(claimed, Outcome("pending", f"{why}; the platform has not got it", 0.0))

    async def _record(self, claimed: Claimed, outcome: Outcome) -> None:
        error, again_in = redact(outcome.error), outcome.again_in
        if again_in is not None:
            again_in *= self.pace
        if outcome.pause:
            self._paused_until = self.clock() + outcome.pause * self.pace
        level = logging.INFO if again_in is not None else logging.WARNING
        log.log(
            level,
            "channel %s: message %s is %s: %s",
            self.entry.name,
            claimed.delivery.delivery_id,
            outcome.status,
            error,
        )

        def write(tx: Tx) -> bool:
            action = claimed.delivery.outbound.action
            if not note(tx):
                return False
            if action is not None and outcome.status != "pending" and again_in is None:
                record_action_outcome(tx, claimed.delivery, action, outcome.status, error)
            return True

        def note(tx: Tx) -> bool:
            match outcome.status:
                case "failed":
                    return outbox.mark_failed(tx, claimed, error)
                case "in_doubt":
                    return outbox.mark_in_doubt(tx, claimed, error, again_in)
                case "pending":
                    return outbox.mark_pending(
                        tx,
                        claimed,
                        error,
                        again_in or 0.0,
                        counts=outcome.counts,
                        twice=outcome.twice,
                        doubt=outcome.doubt,
                    )

        await self._write(write)

    async def _write(self, work: Callable[[Tx], bool]) -> None:
        """Store an outcome; while the database fails it is tried again, as long as the lease lasts."""
        until = self.clock() + self.send_seconds
        while True:
            try:
                await self.db.write(work)
            except StorageError as error:
                log.warning("channel %s: an outcome cannot be stored: %s", self.entry.name, error)
                if self.clock() >= until:
                    return
                await asyncio.sleep(STORAGE_SECONDS)
            else:
                return


def _unknown(text: str, reason: str) -> str:
    return f"{text}: {reason[:MAX_REASON_CHARS]}" if reason else text
