"""The sign in a chat that somebody writes, while a run makes an answer to what was said there.

It is no fact: it is not stored, not tried again, and not shown any more once its host was started anew.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from hostler.domain.channels import ChannelEntry
from hostler.domain.clock import monotonic_clock
from hostler.domain.name_patterns import matches
from hostler.plugins.channels import PluginChannels
from hostler.storage.port import Database, Tx
from hostler.storage.stores import agents, outbox_growth, runs
from hostler.tools.errors import OutcomeUnknownError
from hostler_protocol.channels import ChannelActParams, ChannelEvent, ChannelManifest
from hostler_protocol.errors import HostlerError, RateLimitedError
from hostler_protocol.ids import new_id

log = logging.getLogger(__name__)

ACTION = "typing.start"
REFRESH_SECONDS = 4.0
"""Platforms show the sign for five to ten seconds."""
LOOK_SECONDS = 0.5
"""Between looks whether a run that waits has begun: one look-up of its row."""
ASK_SECONDS = 5.0
MAX_SECONDS = 600.0
"""For how long it is shown for one message: who waits for longer does not look any more."""
MAX_CHATS = 32
"""Chats of one channel that show it at once."""
MAX_RUNS = 16
"""Runs of one chat that are looked at."""


@dataclass(eq=False)
class TypingSign:
    """Shows in the chats of one channel that answers are being made. `spawn` starts a task of the channel."""

    db: Database
    entry: ChannelEntry
    manifest: ChannelManifest
    channels: PluginChannels
    spawn: Callable[[Coroutine[Any, Any, None]], object]
    is_connected: Callable[[], bool]
    pace: float = 1.0
    clock: Callable[[], float] = monotonic_clock
    _chats: dict[tuple[str, str | None], dict[str, float]] = field(default_factory=dict)
    """By chat and thread: the runs that make answers, with the time until which it is shown for them."""

    @property
    def is_possible(self) -> bool:
        """Whether the plugin can show it, and its entry allows it."""
        allowed = self.entry.actions is None or any(matches(one, ACTION) for one in self.entry.actions)
        return allowed and self.manifest.abilities.typing and ACTION in self.manifest.actions

    def begin(self, event: ChannelEvent, run_id: str) -> None:
        """Show it while a run answers an event, as long as there is room for its chat."""
        if event.chat is None or not self.is_possible:
            return
        place = (event.chat.chat_id, event.chat.thread_id)
        answering = self._chats.get(place)
        if answering is not None and len(answering) < MAX_RUNS:
            answering[run_id] = self.clock() + MAX_SECONDS
        elif answering is None and len(self._chats) < MAX_CHATS:
            self._chats[place] = {run_id: self.clock() + MAX_SECONDS}
            self.spawn(self._show(place, self._chats[place]))

    async def _show(self, place: tuple[str, str | None], answering: dict[str, float]) -> None:
        try:
            while answering:
                wait = LOOK_SECONDS
                try:
                    if await self._is_writing(answering) and self.is_connected():
                        wait = REFRESH_SECONDS
                        await self._tell(place)
                except RateLimitedError as error:
                    wait = max(wait, error.retry_after)
                except (HostlerError, OutcomeUnknownError) as error:
                    log.debug("channel %s: nothing is shown of writing: %s", self.entry.name, error)
                await asyncio.sleep(wait * self.pace)
        finally:
            del self._chats[place]

    async def _is_writing(self, answering: dict[str, float]) -> bool:
        """Forget the runs that are over, and return whether one of the others makes an answer."""
        look = list(answering)
        found = await self.db.read(lambda tx: {run_id: _state(tx, run_id) for run_id in look})
        for run_id, state in found.items():
            if state == "over" or answering[run_id] < self.clock():
                del answering[run_id]
        return any(found[run_id] == "writes" for run_id in answering if run_id in found)

    async def _tell(self, place: tuple[str, str | None]) -> None:
        chat_id, thread_id = place
        target = {"chat_id": chat_id} if thread_id is None else {"chat_id": chat_id, "thread_id": thread_id}
        params = ChannelActParams(
            channel_id=self.entry.name, action=ACTION, key=f"typing-{new_id()}", target=target
        )
        await self.channels.ask("channel/act", params, ASK_SECONDS)


def _state(tx: Tx, run_id: str) -> str:
    """Return whether a run `writes` an answer that is not seen yet, `waits`, or is `over`."""
    run = runs.by_id(tx, run_id)
    if run is None or run.finished_at is not None:
        return "over"
    agent = agents.version(tx, run.workspace_id, run.agent_id, run.agent_version)
    if agent is None or not agent.spec.delivery_policy.enable_reply:
        return "over"
    is_at_work = run.status in {"claimed", "running"}
    return "writes" if is_at_work and not outbox_growth.grows(tx, run_id) else "waits"
