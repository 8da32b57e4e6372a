"""The run as an adapter sees it: input, earlier turns, tools, steering, pauses, session, output."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from hostler_adapters.conversation import Turn, earlier_turns, turn_of_input
from hostler_adapters.host_tools import HostTool, open_tools, reported
from hostler_adapters.questions import Verdict, ask_approval, ask_interrupt
from hostler_adapters.sessions import Sessions, merged
from hostler_sdk import RunContext, delta, message, tool_completed, tool_started

_current: ContextVar[ActiveRun] = ContextVar("hostler_adapters.run")


def current_run() -> ActiveRun:
    """Return the run in whose code this is called. Raises RuntimeError outside of one."""
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError(
            "no run is active here: this is for code that an agent's run calls, in its tasks or its threads"
        ) from None


class ActiveRun:
    """One attempt of a run. `ctx` is the SDK's context; the rest is what every adapter needs of it.

    All that reaches the host goes through its calls, in an order that follows from what the host answered: so
    a resumed or replayed run asks the same again.
    """

    def __init__(self, ctx: RunContext, *, history: int = 50, session_format: str = "none/1") -> None:
        self.ctx = ctx
        self.loop = asyncio.get_running_loop()
        self.history = history
        self._sessions = Sessions(ctx, session_format)
        self._seen: list[str] = []
        self._tools: list[HostTool] | None = None
        self.over = False
        self.requests: set[Future[Any]] = set()
        """Requests of blocking clients, in threads; given up when the run ends."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Make this the current run within a block, also for the tasks and threads that are begun there."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)
            self.over = True
            for request in list(self.requests):
                request.cancel()

    @property
    def began_at(self) -> float:
        """The time of the run's event, in UTC epoch seconds: the same in every attempt."""
        return float(self.ctx.trigger.timestamp or 0)

    # -- what is there before the agent begins -------------------------------------------------------

    async def input(self) -> Turn:
        """Return the message that began the run."""
        return await turn_of_input(self.ctx, self.ctx.input)

    async def earlier(self) -> tuple[Any, list[Turn]]:
        """Return the stored session, or None, and the earlier messages it does not know, oldest first."""
        stored = await self._sessions.load()
        self._seen = merged(stored.events if stored else (), [])
        turns = await earlier_turns(self.ctx, known=self._seen, limit=self.history)
        return (stored.data if stored else None), turns

    async def keep(self, session: Any, *, with_messages: bool = True) -> None:
        """Store the session, as JSON values, for the next run of the conversation.

        `with_messages`: the session holds the messages of this run, so that the next one need not read them.
        """
        seen = merged(self._seen, [self.ctx.event.event_id]) if with_messages else []
        await self._sessions.save(session, seen)

    async def tools(self) -> list[HostTool]:
        """Return the tools of the host that this run may call."""
        if self._tools is None:
            self._tools = await open_tools(self.ctx)
        return self._tools

    # -- while it works ------------------------------------------------------------------------------

    async def steers(self) -> list[Turn]:
        """Return the messages that arrived since the last time, in order. Call it between two model calls."""
        if not self.ctx.context.available_apis.steering_pull:
            return []
        if self.ctx.event.event_id not in self._seen:
            self._seen = merged(self._seen, [self.ctx.event.event_id])
        turns = []
        for item in await self.ctx.steering.pull():
            self._seen = merged(self._seen, [item.event.event_id])
            turns.append(await turn_of_input(self.ctx, item.input))
        return [turn for turn in turns if turn.text or turn.images]

    async def approve(
        self, tool: str, arguments: Any, *, description: str = "", expires_in: float | None = None
    ) -> Verdict:
        """Ask people whether the agent may call a tool of its own. The run waits, and may be parked."""
        return await ask_approval(self.ctx, tool, arguments, description=description, expires_in=expires_in)

    async def ask(self, value: Any, *, expires_in: float | None = None) -> Any:
        """Ask people what a framework was interrupted for, and return the answer. Raises Unanswered."""
        return await ask_interrupt(self.ctx, value, expires_in=expires_in)

    async def say(self, text: str) -> None:
        """Send a piece of the answer."""
        if text:
            await self.ctx.emit(delta(text))

    async def answer(self, text: str) -> None:
        """Send a complete message. An empty text is no message."""
        if text:
            await self.ctx.emit(message(text))

    async def tool_began(self, call_id: str, name: str, arguments: Any) -> None:
        """Report the start of a call of the framework's own tool. Host tools report theirs themselves."""
        await self.ctx.emit(tool_started(call_id, name, reported(arguments)))

    async def tool_ended(self, call_id: str, name: str, result: Any = None, error: str | None = None) -> None:
        """Report the end of such a call."""
        problem = None if error is None else {"code": "runtime_error", "message": error}
        await self.ctx.emit(tool_completed(call_id, name, None if problem else reported(result), problem))
