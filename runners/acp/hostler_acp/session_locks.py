"""One turn at a time in each session of an agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from weakref import WeakValueDictionary

from hostler_sdk import RunContext
from hostler_sdk.services import Turn

SESSION = "session_id"
KEY = f"external.{SESSION}"
"""The state of the conversation that has the id of the agent's session."""


def place_of(ctx: RunContext) -> str:
    """Return a name of the run's conversation that no other workspace has; without one, of the run."""
    conversation = ctx.conversation
    if conversation is None or conversation.conversation_id is None:
        return f"run {ctx.run_id}"
    return f"conversation {conversation.conversation_id} of {conversation.workspace_id or ''}"


class SessionLocks:
    """The locks of the sessions that runs of this process use."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def session_of(self, turn: Turn) -> AsyncIterator[str | None]:
        """Wait until no other run uses the conversation's session, and return its id; None: a new one.

        The first runs of a conversation wait for the one that makes the session.
        """
        if not turn.has_state:
            yield None
            return
        async with AsyncExitStack() as stack:
            known = turn.session(SESSION)
            while True:
                name = f"session {known}" if known else place_of(turn.ctx)
                lock = self._locks.setdefault(name, asyncio.Lock())
                await stack.enter_async_context(lock)
                found = await turn.ctx.states.get("conversation", KEY)
                found = found if isinstance(found, str) and found else None
                if found == known:
                    break
                known = found
                if known is None:  # forgotten meanwhile: what is held keeps others out
                    break
            yield known

    @asynccontextmanager
    async def session(self, id_: str) -> AsyncIterator[None]:
        """Wait until no other run uses a session."""
        lock = self._locks.setdefault(f"session {id_}", asyncio.Lock())
        async with lock:
            yield
