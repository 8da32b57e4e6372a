"""The answer that a run is making, shown in its chat as it grows: its pieces are collected, and stored.

What is stored goes through the run's journal, in order with what completes the answer, and is fenced with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from hostler.calls.scope import CallScope
from hostler.domain.growing import MAX_GROWING_CHARS, wait_seconds
from hostler.domain.outbound import ReplyTarget, reply_target_of, targets, text_messages
from hostler.journal.run_log import Item, RunLog
from hostler.secrets.known_values import redact
from hostler.storage.port import Tx
from hostler.storage.stores import agents, outbox_growth, runs
from hostler.storage.stores.channel_entries import entry_of
from hostler_protocol.content import text_of
from hostler_protocol.errors import HostlerError
from hostler_protocol.incoming import ResultArrived
from hostler_protocol.results import MessageDelta

_deltas = msgspec.json.Decoder(MessageDelta)


class _Said(msgspec.Struct):
    """What is needed of `message.completed`."""

    message_id: str | None = None


class _Completed(msgspec.Struct):
    message: _Said


_completed = msgspec.json.Decoder(_Completed)


@dataclass(slots=True, eq=False)
class GrowingReply:
    """Collects the pieces of one answer at a time. `is_live`: the runner makes new ones, and repeats none."""

    scope: CallScope
    to: ReplyTarget
    edit_seconds: float
    journal: RunLog
    stored: Callable[[], None]
    """Called after a newer text was put into the outbox."""
    is_live: bool = True
    _pieces: list[str] = field(default_factory=list)
    _chars: int = 0
    _key: str | None = None
    """The id of the pieces, "" if they have none; None: no answer is being made."""
    _timer: asyncio.TimerHandle | None = None
    _over: bool = False
    """Nothing grows any more: its agent or channel does not want it, or the attempt has ended."""

    def see(self, arrived: Sequence[ResultArrived]) -> None:
        """Look at results as they arrive, also at those that are repeated."""
        if self._over:
            return
        for one in arrived:
            try:
                if one.result.type == "message.delta":
                    self._add(_deltas.decode(one.result.data))
                elif one.result.type == "message.completed":
                    self._completed(_completed.decode(one.result.data).message.message_id)
            except msgspec.DecodeError:
                pass  # the stream of results refuses it

    def close(self) -> None:
        """Store nothing more."""
        self._over = True
        self._forget()

    def _add(self, delta: MessageDelta) -> None:
        chunk = delta.chunk
        key = chunk.message_id or ""
        if chunk.role != "assistant" or (self._key is not None and key != self._key):
            return
        text = text_of(chunk.content)
        if not text or self._chars >= MAX_GROWING_CHARS:
            return
        self._key = key
        self._pieces.append(text)
        self._chars += len(text)
        if self._timer is None:
            self._store_later()

    def _completed(self, message_id: str | None) -> None:
        if self._key is not None and (not self._key or message_id in (None, self._key)):
            self._forget()

    def _forget(self) -> None:
        self._pieces, self._chars, self._key = [], 0, None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _store_later(self) -> None:
        wait = wait_seconds(self.edit_seconds, self._chars)
        self._timer = asyncio.get_running_loop().call_later(wait, self._store)

    def _store(self) -> None:
        """Have the text so far stored. What is repeated is not, for it may have been completed before."""
        self._timer = None
        if self._over or self._key is None:
            return
        if not self.is_live:
            self._store_later()
            return
        text, key = redact("".join(self._pieces)), self._key
        self._pieces = ["".join(self._pieces)]
        changed: list[bool] = []

        def write(tx: Tx) -> None:
            changed[:] = [self._write(tx, key, text)]

        def done(_: object, error: HostlerError | None) -> None:
            if error is not None:
                self.close()
            elif changed and changed[-1]:
                self.stored()

        self.journal.add(Item(after=write, synced=False, done=done))

    def _write(self, tx: Tx, key: str, text: str) -> bool:
        run = runs.by_id(tx, self.scope.run_id)
        if run is None or run.attempt != self.scope.attempt or run.status not in {"claimed", "running"}:
            return False  # claimed: it is written as running with the rest of this batch
        agent = agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
        entry = entry_of(tx, run.workspace_id, self.to.channel)
        if agent is None or entry is None or entry.streaming == "whole":
            return False
        policy = agent.spec.delivery_policy
        if not (policy.enable_reply and policy.enable_streaming):
            return False
        said = text_messages(text, self.to, policy.max_message_size)
        places = targets(self.to, len(said))
        parts = [(target, one.text) for target, one in zip(places, said, strict=False)]
        return outbox_growth.grow(tx, run, self.to, key, parts)


def growing_reply_of(
    scope: CallScope, journal: RunLog, stored: Callable[[], None], *, is_first: bool, resumes: bool
) -> GrowingReply | None:
    """Return what shows the answers of an attempt as they grow; None if its chat shows none so.

    An attempt that begins anew shows none either: it may make again what was said before.
    """
    to = reply_target_of(scope.event) if scope.effects and (is_first or resumes) else None
    if to is None or to.edit_seconds is None:
        return None
    return GrowingReply(scope, to, to.edit_seconds, journal, stored, is_live=not resumes)
